"""How fast does the main pass of the solver read memory, against a plain copy on the same machine?

Builds benchmarks/pass_bandwidth.cpp as our AVX-512 build is (needs g++) and runs it on one set. `x_gb_s` are the bytes
of X a second, `weights_gb_s` the bytes of the lanes' weights (from the second-level cache), `copy_gb_s` what a copy of
64 MB reads and writes a second.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from dismec_data import SETS, describe, load
from measure import emit, make_parser

ROOT = Path(__file__).resolve().parent


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dataset", default="eurlex", choices=[name for name in SETS if name != "mediamill"])
    parser.add_argument("--flags", nargs="*", default=["-march=x86-64-v4", "-mprefer-vector-width=512"])
    options = parser.parse_args()
    X, Y = load(options.dataset, "train")
    with tempfile.TemporaryDirectory() as folder:
        parts = {"indptr": X.indptr.astype("i8"), "indices": X.indices.astype("i4"), "values": X.data.astype("f4")}
        for name, part in parts.items():
            part.tofile(Path(folder) / name)
        program = Path(folder) / "pass_bandwidth"
        source = ROOT / "pass_bandwidth.cpp"
        command = ["g++", "-O3", "-std=c++20", *options.flags, f"-I{ROOT.parent / 'cpp'}", str(source)]
        subprocess.run([*command, "-o", str(program)], check=True)
        for _ in range(options.repeats):
            done = subprocess.run([str(program), folder], check=True, capture_output=True, text=True)
            record = {"question": "bandwidth of the pass", "threads": 1} | describe(options.dataset, X, Y)
            emit(record | json.loads(done.stdout), "dismec_bandwidth" if options.save else None)


if __name__ == "__main__":
    main()
