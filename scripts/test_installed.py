"""Run the tests against the installed package, outside of the source: python test_installed.py SOURCE [PYTEST ...].

The tests and the files they read (docs, scripts, benchmarks) are copied to an empty folder without src/, so that only
the installed longtail can be imported. Browser and cluster tests are left out: they need more than the package.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_NEEDED = (
    "tests",
    "docs",
    "scripts",
    "benchmarks",
    "examples",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "CMakeLists.txt",
    ".dockerignore",
    "packaging",
    "cpp",
    "cmake",
    "pyproject.toml",
    "mkdocs.yml",
)
_LEFT_OUT = ("tests/web", "tests/serve")

source = Path(sys.argv[1]).resolve()
with tempfile.TemporaryDirectory() as folder:
    for name in _NEEDED:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, Path(folder) / name)
    where = "import longtail, pathlib; print(pathlib.Path(longtail.__file__).parent)"
    place = subprocess.run([sys.executable, "-c", where], cwd=folder, check=True, capture_output=True, text=True)
    print(f"testing {place.stdout.strip()}", flush=True)
    if Path(place.stdout.strip()).is_relative_to(source):
        sys.exit("longtail is imported from the source; install a wheel first")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not web and not cluster and not slow"]
    command += [f"--ignore={name}" for name in _LEFT_OUT] + sys.argv[2:]
    sys.exit(subprocess.run(command, cwd=folder, check=False).returncode)
