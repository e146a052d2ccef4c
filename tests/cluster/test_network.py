"""Two nodes with networks of their own, joined by a virtual cable: data and results really go over it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import drive_network

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
NAMES = (f"longtail-{os.getpid()}-a", f"longtail-{os.getpid()}-b")
CABLE = (f"lt{os.getpid() % 10**7}a", f"lt{os.getpid() % 10**7}b")
ADDRESSES = ("10.199.7.1", "10.199.7.2")
PORT = 6399
# Nodes and drivers of this cluster know each other by a token of its own.
ENVIRONMENT = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
ENVIRONMENT["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "1"  # these two do have addresses of their own


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip())
    return done.stdout


@contextlib.contextmanager
def two_networks() -> Iterator[None]:
    """Make two network namespaces and a cable between them, or skip the test."""
    if shutil.which("ip") is None:
        pytest.skip("no network namespaces: the command `ip` is missing")
    try:
        try:
            for name in NAMES:
                ip("netns", "add", name)
            ip("link", "add", CABLE[0], "netns", NAMES[0], "type", "veth", "peer", "name", CABLE[1], "netns", NAMES[1])
            for name, end, address in zip(NAMES, CABLE, ADDRESSES, strict=True):
                ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
                ip("-n", name, "link", "set", end, "up")
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "route", "add", "default", "dev", end)  # by which Ray finds out its own address
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield
    finally:
        for name in NAMES:
            with contextlib.suppress(OSError):
                ip("netns", "delete", name)


def received_bytes(place: int) -> int:
    [link] = json.loads(ip("-n", NAMES[place], "-s", "-j", "link", "show", CABLE[place]))
    return int(link["stats64"]["rx"]["bytes"])


@contextlib.contextmanager
def node(place: int, *arguments: str) -> Iterator[None]:
    """Run a Ray node in one of the networks; ends with the test."""
    ray = Path(sys.executable).with_name("ray")
    command = ["ip", "netns", "exec", NAMES[place], str(ray), "start", "--block", "--num-cpus=1", *arguments]
    settings = [f"--node-ip-address={ADDRESSES[place]}", "--object-store-memory=100000000", "--disable-usage-stats"]
    process = subprocess.Popen(
        [*command, *settings],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_head() -> None:
    """Wait until the head listens: Ray itself takes minutes to find out that it does not yet."""
    program = f"import socket; socket.create_connection(('{ADDRESSES[0]}', {PORT}), 1)"
    command = ["ip", "netns", "exec", NAMES[0], sys.executable, "-S", "-c", program]
    until = time.monotonic() + 90
    while subprocess.run(command, capture_output=True, check=False).returncode:
        assert time.monotonic() < until, "the head does not listen"
        time.sleep(0.2)


def test_two_nodes_that_talk_over_a_network_give_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'longtail[ray]'")
    with contextlib.ExitStack() as stack:
        stack.enter_context(two_networks())
        stack.enter_context(node(0, "--head", f"--port={PORT}", "--include-dashboard=false"))
        wait_for_head()
        stack.enter_context(node(1, f"--address={ADDRESSES[0]}:{PORT}"))
        before = received_bytes(1)
        command = ["ip", "netns", "exec", NAMES[0], sys.executable, "-m", "tests.cluster.drive_network"]
        done = subprocess.run(
            [*command, f"{ADDRESSES[0]}:{PORT}"],
            cwd=ROOT,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert len(found["networks"]) == 2, "both nodes ran tasks"
        assert found["right"]
        assert found["prints"][0] == found["prints"][1]
        assert received_bytes(1) - before > drive_network.N_BYTES, "the data went over the cable"
