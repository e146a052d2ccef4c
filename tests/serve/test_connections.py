"""Hostile clients: what they may send, how long they may take, and how many connections they may keep."""

import contextlib
import json
import os
import signal
import socket
import struct
import time
from pathlib import Path

import pytest

import longtail as lt
from longtail.serve.connections import client_network
from tests.serve.models import learnt_tagger
from tests.serve.service import Service, serving

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="uses POSIX signals and /proc")

CONTENT = json.dumps({"text": "a small web server"}).encode()
HEAD = b"POST /api/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
REQUEST = HEAD % len(CONTENT) + CONTENT
HALF_A_BODY = HEAD % len(CONTENT) + CONTENT[:-3]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tags.model"
    lt.save(learnt_tagger(), path)
    return path


@pytest.fixture(scope="module")
def service(model):
    limits = ["--header-timeout-seconds", "1", "--body-timeout-seconds", "1.5", "--queue-size", "4"]
    limits += ["--max-header-bytes", "8192", "--max-connections-per-address", "60"]
    with serving(model, *limits) as service:
        yield service


def connect(service: Service, content: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    connection.sendall(content)
    return connection


@contextlib.contextmanager
def serving_without_end(model: Path, *options: str):
    """A service whose explanations never end; killed if it does not stop."""
    service = Service(model, *options, program="tests.serve.slow_service")
    workers = service.worker_ids()
    try:
        yield service
        service.process.wait(20)
    finally:
        service.client.close()
        service.kill()
        for process_id in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)


def read_all(connection: socket.socket) -> bytes:
    """Read until the service closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def memory_mb(process_id: int) -> float:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def assert_refused(answer: bytes, status: int, words: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"default-src 'none'" in head
    assert words in json.loads(body)["error"]


def test_a_header_without_end_is_refused_and_not_kept(service):
    before = memory_mb(service.process.pid)
    with connect(service, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ") as connection:
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 50 << 20:
                connection.sendall(b"x" * 65536)
                sent += 65536
        assert sent < 50 << 20, "the service reads a little more so that the client sees the answer, then closes"
    assert memory_mb(service.process.pid) - before < 20


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-Short: 1\r\n" * 2000 + b"\r\n",
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 20_000,
    ],
    ids=["long", "many", "path", "unfinished"],
)
def test_large_heads_are_answered_with_431(service, head):
    with connect(service, head[:5000]) as connection:
        time.sleep(0.1)  # two parts: the limit holds for their sum
        connection.sendall(head[5000:])
        assert_refused(read_all(connection), 431, "at most 8,192 bytes")


def test_endless_trailers_after_a_body_are_refused(service):
    head = b"POST /api/tag HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = memory_mb(service.process.pid)
    with connect(service, head + b"2\r\n{}\r\n0\r\nX-Trailer: ") as connection, contextlib.suppress(ConnectionError):
        for _ in range(800):
            connection.sendall(b"x" * 65536)
        raise AssertionError("50 MB of trailer were read")
    assert memory_mb(service.process.pid) - before < 20


def test_half_a_head_is_answered_with_408(service):
    with connect(service, b"GET /health HTTP/1.1\r\nHost: loc") as connection:
        begin = time.monotonic()
        assert_refused(read_all(connection), 408, "took too long")
        assert time.monotonic() - begin < 5


def test_a_head_that_trickles_in_is_given_up(service):
    with connect(service, b"GET /health HTTP/1.1\r\nHost: localhost\r\n") as connection:
        begin = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begin < 8:
                connection.sendall(b"X-A: 1\r\n")
                time.sleep(0.2)
        assert time.monotonic() - begin < 6


@pytest.mark.parametrize("content", [b"", b"\r\n\r\n"])
def test_a_silent_connection_is_closed_without_an_answer(service, content):
    with connect(service, content) as connection:
        assert read_all(connection) == b""


def test_half_a_body_is_answered_with_408(service):
    with connect(service, HALF_A_BODY) as connection:
        assert_refused(read_all(connection), 408, "took too long")


def test_half_sent_bodies_take_no_place_in_the_queue(service):
    """They filled the queue: everyone else got 503."""
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connect(service, HALF_A_BODY))
        time.sleep(0.3)
        assert "longtail_in_flight 0.0" in service.client.get("/metrics").text
        for _ in range(5):
            assert service.tag()


def test_connections_per_address_are_limited(service):
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(service)) for _ in range(70)]
        answers = []
        for connection in connections[62:]:
            answers.append(read_all(connection))
        assert_refused(answers[-1], 503, "too many open connections from this address")
        assert b"retry-after: 1" in answers[-1]
        for connection in connections:
            connection.close()
    time.sleep(0.3)
    with connect(service, REQUEST) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_connections_in_all_are_limited(model):
    with serving(model, "--max-connections", "3") as service, contextlib.ExitStack() as stack:
        for _ in range(4):
            last = stack.enter_context(connect(service))
        assert_refused(read_all(last), 503, "too many open connections")


def test_a_body_that_is_declared_too_large_is_answered_before_it_is_sent(service):
    with connect(service, HEAD % (1 << 30)) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_client_that_sends_too_much_can_read_the_answer(service):
    size = 3 << 20
    with connect(service, HEAD % size) as connection:
        connection.sendall(b"x" * size)
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_what_is_not_http_is_answered_with_400(service):
    with connect(service, b"\x16\x03\x01 hello\r\n\r\n") as connection:
        assert_refused(read_all(connection), 400, "not valid HTTP")


def test_pipelined_requests_are_answered_but_not_hoarded(service):
    ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connect(service, ask * 5) as connection:
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 5:
            answers += connection.recv(65536)
    with connect(service, ask * 5000) as connection:
        assert read_all(connection).count(b"HTTP/1.1 200") < 100
    assert service.tag()


def test_a_client_that_takes_no_answer_is_given_up(service):
    """Requests whose answers fill all buffers; the connection must not stay for ever."""
    ask = b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.5)
        connection.connect(("127.0.0.1", service.port))
        begin = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begin < 15:
                with contextlib.suppress(TimeoutError):
                    connection.send(ask)
        assert time.monotonic() - begin < 12


def test_a_client_that_leaves_between_pipelined_answers_causes_no_error(service):
    """uvicorn went on writing to the closed connection and logged a traceback."""
    ask = b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
        connection.connect(("127.0.0.1", service.port))
        connection.settimeout(0.3)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(100_000):
                connection.sendall(ask)
                time.sleep(0.002)
    assert service.tag()
    assert len(service.lines) == 1, service.lines


def test_refusals_are_counted_and_not_logged(service):
    counter = 'longtail_requests_total{endpoint="other",status="431"}'

    def count() -> float:
        lines = service.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(counter))

    before = count()
    with connect(service, b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        assert_refused(read_all(connection), 431, "at most 8,192 bytes")
    assert count() == before + 1
    assert len(service.lines) == 1, service.lines


@pytest.mark.parametrize("n_workers", [1, 2])
def test_stop_is_obeyed_while_requests_never_end(model, n_workers):
    body = json.dumps({"text": "a web server", "label": "web::server"}).encode()
    head = (
        b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    options = ["--workers", str(n_workers), "--stop-timeout-seconds", "2"]
    with (
        serving_without_end(model, *options) as service,
        connect(service, head % len(body) + body),
        connect(service, head % len(body) + body),
    ):
        time.sleep(0.5)
        service.signal(signal.SIGTERM)
        begin = time.monotonic()
        assert service.process.wait(20) == 0
        assert time.monotonic() - begin < 6, "two seconds, and what a loaded machine adds"


def test_work_without_end_is_answered_in_time(model):
    options = ["--work-timeout-seconds", "1", "--stop-timeout-seconds", "1"]
    with serving_without_end(model, *options) as service:
        answer = service.client.post("/api/explain", json={"text": "a web server", "label": "web::server"})
        assert answer.status_code == 503
        assert "not finished within 1 seconds" in answer.json()["error"]
        assert service.tag()
        assert "longtail_in_flight 1.0" in service.client.get("/metrics").text, "its thread still runs"
        service.signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_an_ipv6_client_counts_by_its_network(host, network):
    assert client_network(host) == network


def test_a_service_refuses_a_damaged_model(model, tmp_path):
    lt.save(learnt_tagger(), tmp_path / "m.model")
    weights = max((tmp_path / "m.model").rglob("*weights*"), key=lambda path: path.stat().st_size)
    content = bytearray(weights.read_bytes())
    content[-1] ^= 0x80  # the sign of a weight
    weights.write_bytes(content)
    with pytest.raises(AssertionError, match="did not start"):
        Service(tmp_path / "m.model")
