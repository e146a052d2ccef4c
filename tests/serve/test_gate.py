"""Authentication, size limits, load shedding."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from fastapi.testclient import TestClient

from longtail.serve import Limits, create_app
from longtail.serve.board import Board
from longtail.serve.gate import Gate
from tests.serve.fakes import FakeTagger

TAG = {"text": "mail", "top_k": 1}


@pytest.fixture
def locked():
    with TestClient(create_app(FakeTagger(), api_key="open sesame")) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": "open sesame"},
        {"authorization": "Bearer open sesame"},
        {"authorization": "bearer open sesame"},
        {"authorization": "Basic YW55Om9wZW4gc2VzYW1l"},
    ],
)
def test_the_key_opens(locked, headers):
    assert locked.post("/api/tag", json=TAG, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers", [{}, {"x-api-key": "open"}, {"authorization": "Basic open sesame"}, {"authorization": "open sesame"}]
)
def test_without_the_key_nothing_is_told(locked, headers):
    for path in ("/api/model", "/api/labels", "/api/examples", "/metrics", "/openapi.json", "/nosuch"):
        answer = locked.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json() == {"error": "this service needs an API key"}
    assert locked.post("/api/tag", json=TAG, headers=headers).status_code == 401


def test_the_page_and_health_need_no_key(locked):
    assert locked.get("/").status_code == 200
    assert locked.get("/health").status_code == 200


def test_reload_over_http_is_off_without_a_key():
    with TestClient(create_app(FakeTagger())) as client:
        assert client.post("/api/reload").status_code == 403


def test_reload_of_a_model_in_memory_says_why_not(locked):
    answer = locked.post("/api/reload", headers={"x-api-key": "open sesame"})
    assert answer.status_code == 422
    assert "no file to reload" in answer.json()["error"]


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:8000", 200), ("[::1]:80", 200), ("evil.example", 403), ("", 403)]
)
def test_only_known_hosts_are_answered(host, status):
    with TestClient(create_app(FakeTagger(), allowed_hosts=["localhost", "[::1]"])) as client:
        assert client.get("/health", headers={"host": host}).status_code == status


def test_a_full_queue_is_answered_with_503_and_retry_after(monkeypatch):
    tagger = FakeTagger()
    app = create_app(tagger, limits=Limits(n_threads=1, queue_size=1))
    may_go, has_come = threading.Event(), threading.Event()
    original = tagger.tag

    def slow_tag(*args, **kwargs):
        has_come.set()
        assert may_go.wait(20)
        return original(*args, **kwargs)

    with TestClient(app) as client, ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(tagger, "tag", slow_tag)
        first = pool.submit(client.post, "/api/tag", json=TAG)
        assert has_come.wait(20)
        second = pool.submit(client.post, "/api/tag", json=TAG)
        while "longtail_in_flight 2.0" not in client.get("/metrics").text:
            assert not second.done()
        refused = client.post("/api/tag", json=TAG)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200  # still answered when the queue is full
        may_go.set()
        assert first.result().status_code == second.result().status_code == 200
        assert client.post("/api/tag", json=TAG).status_code == 200


def _run_gate(messages, **limits):
    """Send ASGI messages through a gate to an application that repeats the body."""
    sent = []

    async def repeat(scope, receive, send):
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def main():
        waiting = list(messages)

        async def receive():
            if not waiting:
                await anyio.sleep_forever()
            return waiting.pop(0)

        async def send(message):
            sent.append(message)

        gate = Gate(repeat, limits=Limits(**limits), board=Board())
        await gate({"type": "http", "method": "POST", "path": "/api/tag", "headers": []}, receive, send)

    anyio.run(main)
    return sent


def test_a_body_in_parts_arrives_whole():
    sent = _run_gate([_part(b"ab", more=True), _part(b"cd")])
    assert sent[1]["body"] == b"abcd"


def test_a_body_without_declared_length_is_cut_off_at_the_limit():
    sent = _run_gate([_part(b"x" * 800, more=True)] * 50, max_request_bytes=1024)
    assert sent[0]["status"] == 413
    assert b"at most 1,024 bytes" in sent[1]["body"]


def test_a_body_that_never_ends_is_given_up():
    sent = _run_gate([_part(b"x", more=True)], body_timeout_seconds=0.05)
    assert sent[0]["status"] == 408


def test_a_service_that_did_not_run_blames_no_client():
    """On a busy machine the deadline passed while the body waited in the kernel: honest clients got 408."""
    n_asked = 0

    async def main():
        sent = []

        async def receive():
            nonlocal n_asked
            n_asked += 1
            if n_asked == 1:
                time.sleep(0.4)  # the event loop stands still, past the deadline
                await anyio.sleep(0.01)
            return _part(b"here")

        async def repeat(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": (await receive())["body"]})

        async def send(message):
            sent.append(message)

        gate = Gate(repeat, limits=Limits(body_timeout_seconds=0.1), board=Board())
        await gate({"type": "http", "method": "POST", "path": "/api/tag", "headers": []}, receive, send)
        return sent

    sent = anyio.run(main)
    assert n_asked >= 2
    assert (sent[0]["status"], sent[1]["body"]) == (200, b"here")


def test_bodies_that_are_held_at_once_are_bounded(monkeypatch):
    monkeypatch.setattr("longtail.serve.gate._MAX_HELD_BODIES", 0)
    sent = _run_gate([_part(b"x")])
    assert sent[0]["status"] == 503


def test_half_sent_bodies_give_way_to_those_that_arrive(monkeypatch):
    """They filled the memory for bodies: everyone else got 503."""
    monkeypatch.setattr("longtail.serve.gate._MAX_HELD_BODIES", 4)

    async def repeat(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": (await receive())["body"]})

    async def main():
        gate = Gate(repeat, limits=Limits(max_request_bytes=1024), board=Board())
        answers = {}

        async def ask(name, messages):
            waiting = list(messages)

            async def receive():
                if not waiting:
                    await anyio.sleep_forever()
                await anyio.sleep(0)
                return waiting.pop(0)

            async def send(message):
                answers.setdefault(name, []).append(message)

            await gate({"type": "http", "method": "POST", "path": "/api/tag", "headers": []}, receive, send)

        async with anyio.create_task_group() as tasks:
            for i in range(4):
                tasks.start_soon(ask, i, [_part(b"x" * 1000, more=True)])
                await anyio.sleep(0.01)
            assert not answers
            for i in range(20):
                await ask(f"honest {i}", [_part(b"a" * 500, more=True), _part(b"b" * 500)])
            await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert sorted(answers, key=str) == [0, *sorted(f"honest {i}" for i in range(20))]
        assert answers[0][0]["status"] == 503
        assert (b"connection", b"close") in answers[0][0]["headers"]
        for i in range(20):
            assert answers[f"honest {i}"][0]["status"] == 200
            assert answers[f"honest {i}"][1]["body"] == b"a" * 500 + b"b" * 500
        assert gate._held_bytes == 0
        assert not gate._incomplete

    anyio.run(main)


def test_a_client_that_leaves_takes_no_thread():
    sent = _run_gate([_part(b"x", more=True), {"type": "http.disconnect"}])
    assert sent[0]["status"] == 400


def test_a_request_whose_client_leaves_gives_its_place_back():
    """Clients that asked and left without reading filled the queue."""

    async def main():
        board, worked = Board(), []

        async def slow(scope, receive, send):
            limiter = anyio.to_thread.current_default_thread_limiter()
            async with limiter:
                worked.append(scope["path"])
                await anyio.sleep_forever()

        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        gate = Gate(slow, limits=Limits(n_threads=1), board=board)
        leave = anyio.Event()

        async def ask():
            messages = [_part(b"{}")]

            async def receive():
                if messages:
                    return messages.pop()
                await leave.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                raise AssertionError("there is no one to answer")

            await gate({"type": "http", "method": "POST", "path": "/api/tag", "headers": []}, receive, send)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
            await anyio.sleep(0.1)
            assert board.rows["in_flight"].sum() == 10
            leave.set()
            await anyio.sleep(0.1)
            assert board.rows["in_flight"].sum() == 1, "the one that works goes on"
            assert len(worked) == 1
            tasks.cancel_scope.cancel()

    anyio.run(main)


def _part(body, *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}
