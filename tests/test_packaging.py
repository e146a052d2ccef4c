"""The recipes of other packagers, checked against pyproject.toml as far as that goes without their tools."""

import fnmatch
import re
import shlex
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTAINERFILE = ROOT / "packaging" / "Containerfile"


@pytest.fixture(scope="module")
def recipe():
    """The conda recipe, rendered as conda-build renders it on Linux."""
    jinja2 = pytest.importorskip("jinja2")
    text = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    made = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text)
    return yaml.safe_load(made.render(PYTHON="python", compiler="{}_compiler".format, stdlib="{}_stdlib".format))


def requirements(lines):
    """Requirements in one spelling."""
    return sorted(re.sub(r"\s+", "", line) for line in lines if line not in ("python", "pip"))


def test_the_conda_recipe_has_the_version_and_requirements_of_the_project(recipe):
    assert recipe["package"]["name"] == PROJECT["project"]["name"]
    assert recipe["package"]["version"] == PROJECT["project"]["version"]
    assert requirements(recipe["requirements"]["run"]) == requirements(PROJECT["project"]["dependencies"])
    assert requirements(recipe["requirements"]["host"]) == requirements(PROJECT["build-system"]["requires"])
    scripts = [f"{name} = {place}" for name, place in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["entry_points"] == scripts
    assert (ROOT / recipe["about"]["license_file"]).exists()


def test_the_citation_names_the_version_of_the_project():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["project"]["version"]


def instructions():
    """Instructions of the Containerfile: (name, rest) with continued lines joined."""
    text = re.sub(r"\\\n\s*", "", CONTAINERFILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_container_uses_a_supported_python():
    images = [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    supported = " ".join(PROJECT["project"]["classifiers"])
    for image in images:
        version = re.search(r"python:([\d.]+)-slim", image)[1]
        assert f"Programming Language :: Python :: {version}" in supported


def test_the_container_starts_the_service_with_options_that_exist():
    from longtail.cli.serve import serve

    command = yaml.safe_load(next(rest for name, rest in instructions() if name == "ENTRYPOINT"))
    assert command[:2] == ["longtail", "serve"]
    known = {option for parameter in serve.params for option in parameter.opts}
    assert {word for word in command if word.startswith("--")} <= known


def test_the_container_does_not_run_as_root_and_publishes_nothing_by_itself():
    names = [name for name, _ in instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert dict(instructions())["USER"] not in ("root", "0")
    shell = [shlex.split(rest) for name, rest in instructions() if name == "RUN"]
    assert shell, "the image is built by commands that a shell can read"


def test_the_build_context_holds_what_the_build_needs():
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*", "everything is left out but what is named"
    kept = {line[1:] for line in lines if line.startswith("!")}
    needed = {"pyproject.toml", "CMakeLists.txt", PROJECT["project"]["readme"], "LICENSE", "src", "cpp", "cmake"}
    assert needed <= kept
    assert all((ROOT / name).exists() for name in kept)
    used = re.findall(r"CMAKE_CURRENT_SOURCE_DIR\}/(\w+)", (ROOT / "CMakeLists.txt").read_text())
    assert set(used) <= kept
    assert not any(fnmatch.fnmatch("src/longtail/__init__.py", line) for line in lines if line.startswith("**"))
