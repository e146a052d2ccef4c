"""System calls that Windows does not have are made in one module."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "longtail"
POSIX_ONLY = {"_os.py"}
MODULES = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "ctypes"}
# Names that Python's documentation gives as not available on Windows, and that a library could be tempted to use.
LISTS = {
    "os": """O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK WNOHANG chown fork forkpty geteuid getgid getpgid getuid killpg
        mkfifo nice openpty posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev register_at_fork
        sched_getaffinity sched_setaffinity sendfile setsid statvfs sysconf uname wait waitid waitpid""",
    "signal": """SIGALRM SIGCHLD SIGHUP SIGKILL SIGQUIT SIGUSR1 SIGUSR2 alarm pthread_kill pthread_sigmask setitimer
        sigtimedwait sigwait""",
    "mmap": "MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
}
NAMES = {module: set(names.split()) for module, names in LISTS.items()}


def posix_calls(source: str) -> list[str]:
    """List POSIX-only modules, names and arguments; what is asked for with hasattr() or tried is guarded, and fine."""
    tree = ast.parse(source)
    tried = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any("ImportError" in ast.unparse(h.type or node) for h in node.handlers)
        for name in node.body
    }
    guarded = {
        f"{ast.unparse(node.args[0])}.{node.args[1].value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr" and isinstance(node.args[1], ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in tried:
            found += [alias.name for alias in node.names if alias.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = NAMES.get(node.module or "", set())
            found += [node.module] if node.module in MODULES else [a.name for a in node.names if a.name in names]
        elif isinstance(node, ast.Attribute) and node.attr in NAMES.get(ast.unparse(node.value), ()):
            found += {ast.unparse(node)} - guarded
        elif isinstance(node, ast.keyword) and node.arg == "dir_fd":
            found.append("dir_fd")
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_posix_calls_are_in_one_module(path):
    if path.relative_to(PACKAGE).as_posix() in POSIX_ONLY:
        assert posix_calls(path.read_text()), f"{path} is portable now; take it off the list"
    else:
        assert posix_calls(path.read_text()) == []


def test_the_check_finds_what_it_looks_for():
    assert posix_calls("import fcntl\nimport os\nos.fork()\nfrom os import uname") == ["fcntl", "uname", "os.fork"]
    assert posix_calls("import os\nos.stat('a', dir_fd=3)") == ["dir_fd"]
    assert posix_calls("try:\n    import resource\nexcept ImportError:\n    pass") == []
    assert posix_calls("import os\nif hasattr(os, 'fork'):\n    os.fork()") == []
