"""Print requirements of pyproject.toml, one per line: list_requirements.py GROUP...

A group is "build" (what a build without isolation needs), "runtime" or an extra.
"""

import sys
import tomllib
from pathlib import Path

table = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
groups = table["project"]["optional-dependencies"] | {"runtime": table["project"]["dependencies"]}
groups["build"] = [*table["build-system"]["requires"], "cmake>=3.26,<4", "ninja"]
for name in sys.argv[1:]:
    for requirement in groups[name]:
        print(requirement.replace(" ", ""))
