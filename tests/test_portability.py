"""System calls that Windows does not have are made in one module."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "longtail"
# These run on POSIX systems only: forked workers of the service, and the benchmark runner, which kills process groups.
POSIX_ONLY = {"_os.py", "serve/server.py", "bench/runner.py", "bench/worker.py"}
MODULES = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "ctypes"}
# Names that Python's documentation gives as not available on Windows, and that a library could be tempted to use.
LISTS = {
    "os": """O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK WNOHANG chown fork forkpty geteuid getgid getpgid getuid killpg
        mkfifo nice openpty posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev register_at_fork
        sched_getaffinity sched_setaffinity sendfile setsid statvfs sysconf uname wait waitid""",
    "signal": """SIGALRM SIGCHLD SIGHUP SIGKILL SIGQUIT SIGUSR1 SIGUSR2 alarm pthread_kill pthread_sigmask setitimer
        sigwait""",
    "mmap": "MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
}
NAMES = {module: set(names.split()) for module, names in LISTS.items()}


def posix_calls(source: str) -> list[str]:
    """List POSIX-only modules and names; those asked for with hasattr() are guarded, and fine."""
    tree = ast.parse(source)
    guarded = {
        f"{ast.unparse(node.args[0])}.{node.args[1].value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr" and isinstance(node.args[1], ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = NAMES.get(node.module or "", set())
            found += [node.module] if node.module in MODULES else [a.name for a in node.names if a.name in names]
        elif isinstance(node, ast.Attribute) and node.attr in NAMES.get(ast.unparse(node.value), ()):
            found += {ast.unparse(node)} - guarded
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_posix_calls_are_in_one_module(path):
    if path.relative_to(PACKAGE).as_posix() in POSIX_ONLY:
        assert posix_calls(path.read_text()), f"{path} is portable now; take it off the list"
    else:
        assert posix_calls(path.read_text()) == []


def test_the_check_finds_what_it_looks_for():
    assert posix_calls("import fcntl\nimport os\nos.fork()\nfrom os import uname") == ["fcntl", "uname", "os.fork"]
    assert posix_calls("import os\nif hasattr(os, 'fork'):\n    os.fork()") == []
