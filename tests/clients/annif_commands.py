"""Run commands of Annif in one process, with the Python of its environment: importing Annif takes seconds.

Reads a JSON list of {"arguments", "input"} from standard input; prints a list of {"code", "output", "errors"}.
"""

import json
import sys

import annif.cli
from click.testing import CliRunner


def run(command):
    done = CliRunner().invoke(annif.cli.cli, command["arguments"], input=command["input"])
    errors = done.stderr if done.exception is None else f"{done.stderr}{done.exception!r}"
    return {"code": done.exit_code, "output": done.stdout, "errors": errors}


print(json.dumps([run(command) for command in json.load(sys.stdin)]), file=sys.stdout)
