"""The service as a process: start, stop, reload, workers."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import uvicorn

import longtail as lt
from longtail.serve import Limits
from longtail.serve.connections import LimitedProtocol
from longtail.serve.server import _Server
from tests.serve.service import load, serving

TEXTS = ["a small web server", "a web browser", "a mail server", "a mail client"]
LABELS = [["web", "server"], ["web"], ["mail", "server"], ["mail"]]
BODY = {"text": "a tiny web server", "top_k": 2}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


def save_model(path: Path, *, extra: tuple[str, ...] = (), overwrite: bool = False) -> None:
    labels = [[*row, *extra] for row in LABELS]
    tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(TEXTS, labels)
    lt.save(tagger, path, overwrite=overwrite)


@pytest.fixture
def model(tmp_path):
    save_model(tmp_path / "tags.model")
    return tmp_path / "tags.model"


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def is_replaced(service, victim: int) -> bool:
    """Say whether another worker runs in the place of `victim`.

    The list is read once: between two reads, one worker is gone and the other not yet there.
    """
    workers = service.worker_ids()
    return len(workers) == 2 and victim not in workers


@pytest.mark.parametrize("n_workers", [1, 2])
def test_it_serves_and_stops_in_good_order(model, n_workers):
    with serving(model, "--workers", str(n_workers)) as service:
        assert {row["label"] for row in service.tag(top_k=3)} == {"mail", "server", "web"}
        assert service.client.get("/").text.startswith("<!doctype html>")
        # A request that has begun is answered, although the service is told to stop in between.
        content = json.dumps(BODY).encode()
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            head = ["POST /api/tag HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
            head += [f"Content-Length: {len(content)}", "", ""]
            connection.sendall("\r\n".join(head).encode() + content[:5])
            time.sleep(0.2)
            service.signal(signal.SIGTERM)
            time.sleep(0.2)
            connection.sendall(content[5:])
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert service.stop() == 0
        assert len(service.lines) == 1, "it says where it serves, and nothing else"


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_new_model_takes_over_without_a_dropped_request(model, n_workers):
    with serving(model, "--workers", str(n_workers)) as service:
        before = service.version()
        counts = load(
            service.port,
            n_connections=64,
            seconds=3,
            body=BODY,
            on_half=lambda: save_model(model, extra=("new",), overwrite=True),
        )
        assert set(counts) == {200}
        wait_for(lambda: service.version() != before)
        wait_for(lambda: all(service.tag()[0]["label"] == "new" for _ in range(10)))
        metrics = service.client.get("/metrics").text
        n_texts = float(re.search(r"^longtail_texts_total (\S+)", metrics, re.MULTILINE)[1])
        assert n_texts >= sum(counts.values()), "the texts of all workers are counted"
        assert service.stop() == 0


def test_a_broken_model_does_not_take_over(model):
    with serving(model) as service:
        before = service.version()
        (model / "manifest.json").write_text("{")
        service.signal(signal.SIGHUP)
        wait_for(lambda: service.client.get("/health").json()["last_reload_error"])
        assert service.version() == before
        assert service.tag()
        save_model(model, extra=("new",), overwrite=True)
        wait_for(lambda: service.version() != before)
        assert service.client.get("/health").json()["last_reload_error"] is None


def test_reload_over_http_reaches_every_worker(model):
    with serving(model, "--workers", "2", key="sesame") as service:
        before = service.client.get("/metrics").text
        assert "longtail_reloads_total 0.0" in before
        assert service.client.post("/api/reload").status_code == 200
        wait_for(lambda: "longtail_reloads_total 2.0" in service.client.get("/metrics").text)
        assert service.client.get("/api/model", headers={"x-api-key": "wrong"}).status_code == 401


def test_a_killed_worker_is_replaced(model):
    with serving(model, "--workers", "2") as service:
        victim = service.worker_ids()[0]
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: is_replaced(service, victim))
        service.client.close()
        counts = load(service.port, n_connections=8, seconds=0.3, body=BODY)
        assert set(counts) == {200}


def test_a_worker_that_is_killed_again_and_again_does_not_end_the_service(model):
    """After five deaths within a second of their start the supervisor stopped the healthy workers too."""
    with serving(model, "--workers", "2") as service:
        survivor, victim = service.worker_ids()
        for _ in range(8):
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda gone=victim: is_replaced(service, gone))
            victim = next(worker for worker in service.worker_ids() if worker != survivor)
        assert service.tag()
        assert survivor in service.worker_ids()
        assert service.stop() == 0


def test_workers_end_with_their_supervisor(model):
    with serving(model, "--workers", "2") as service:
        workers = service.worker_ids()
        service.kill()
        wait_for(lambda: not any(Path(f"/proc/{process_id}").exists() for process_id in workers))


def test_workers_map_the_model_and_none_has_a_copy(model):
    save_model(model, extra=tuple(f"label {i}" for i in range(20_000)), overwrite=True)  # small arrays are not mapped
    with serving(model, "--workers", "2") as service:
        load(service.port, n_connections=16, seconds=0.3, body=BODY)
        for process_id in service.worker_ids():
            mapped = _mappings(process_id, str(model))
            assert mapped, "arrays of the model are mapped from its files"
            assert sum(mapping["Private_Dirty"] for mapping in mapped) == 0


def _mappings(process_id: int, folder: str) -> list[dict[str, int]]:
    """Read the sizes of the mappings below a folder, in kB."""
    found: list[dict[str, int]] = []
    is_wanted = False
    for line in Path(f"/proc/{process_id}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            is_wanted = line.partition("/")[2] != "" and folder in line
            if is_wanted:
                found.append({})
        elif is_wanted and rest[-1] == "kB":
            found[-1][first[:-1]] = int(rest[0])
    return found


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "longtail.cli.app", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_wrong_host_is_not_blamed_on_the_port(model, host):
    done = run(str(model), "--host", host, "--port", "0")
    assert done.returncode == 2
    assert "--host must be a name or an address of this machine" in done.stderr
    assert "--port" not in done.stderr


def test_a_taken_port_is_one_line_and_exit_code_2(model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(str(model), "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "choose another --port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_model_of_vectors_is_refused(tmp_path):
    lt.save(lt.Popularity(n_jobs=1).fit(np.ones((2, 2)), np.ones((2, 2))), tmp_path / "vectors.model")
    done = run(str(tmp_path / "vectors.model"), "--port", "0")
    assert done.returncode == 2
    assert "the service takes texts" in done.stderr


def test_limits_of_the_command_line_are_checked(model):
    done = run(str(model), "--max-batch", "0")
    assert done.returncode == 2
    assert "--max-batch" in done.stderr


def test_stop_is_obeyed_where_no_thread_can_be_started(monkeypatch):
    """The watch over the stop started a thread in the signal handler; its error was the end of the signal."""

    def start(self):
        raise RuntimeError("can't start new thread")

    server = _Server(uvicorn.Config(lambda: None), socket.socket(), Limits(), lambda: None, None)
    monkeypatch.setattr(threading.Thread, "start", start)
    old = signal.getsignal(signal.SIGALRM)
    try:
        server.handle_exit(signal.SIGTERM, None)
        assert server.should_exit
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 11, "the kernel ends the process instead"
    finally:
        server.stop_watch.cancel()
        signal.signal(signal.SIGALRM, old)
        server._listener.close()


def test_connections_get_the_time_back_that_the_service_did_not_run(monkeypatch):
    postponed = []
    monkeypatch.setattr(LimitedProtocol, "postpone", lambda self, seconds: postponed.append(seconds))
    monkeypatch.setattr(LimitedProtocol, "expire", lambda self, now: None)

    async def main():
        server = _Server(uvicorn.Config(lambda: None), socket.socket(), Limits(), lambda: None, None)
        server.server_state.connections.add(LimitedProtocol.__new__(LimitedProtocol))
        await server.on_tick(5)
        await server.on_tick(15)
        assert postponed == []
        time.sleep(1.2)
        await server.on_tick(25)
        server._listener.close()

    asyncio.run(main())
    assert len(postponed) == 1
    assert postponed[0] > 0.6
