"""How fast does a service answer, how much memory do its workers take, how soon does it serve after a start?

Trains a Tagger on the shipped sample (Debian packages) and runs `longtail serve`. Four questions, one line each:
`start` (from the start of the process to the first answer), `latency` (one client, one request after the other),
`load` (64 connections for `--seconds`, by wrk when it is there, else by a Python client), `memory` (proportional set
size of all processes, for each number of `--workers`). The baseline is what one would write with scikit-learn: tf-idf
and one linear SVM a label, unpickled by a FastAPI application that uvicorn runs.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from measure import emit, make_parser

import longtail as lt

PEER_APP = """
import joblib, numpy as np
from fastapi import FastAPI
from pydantic import BaseModel

model, names = joblib.load({path!r})
app = FastAPI()

class Request(BaseModel):
    text: str
    top_k: int = 5

@app.post("/api/tag")
def tag(body: Request):
    scores = model.decision_function([body.text])[0]
    best = np.argsort(-scores)[: body.top_k]
    return {{"labels": [{{"label": names[i], "score": float(scores[i])}} for i in best]}}
"""
HEAD = b"POST /api/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
WRK_SCRIPT = """
local texts = {%s}
local i = 0
request = function()
  i = i %% #texts + 1
  return wrk.format("POST", "/api/tag", {["Content-Type"] = "application/json"}, texts[i])
end
"""


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=["start", "latency", "load", "memory"])
    parser.add_argument("--seconds", type=int, default=60, help="how long the load lasts (default 60)")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--requests", type=int, default=2000, help="requests of the single client (default 2000)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4], help="processes (default 1 4)")
    parser.add_argument("--estimator", default="DiSMEC")
    parser.add_argument("--no-baseline", action="store_true", help="measure longtail only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sample = lt.datasets.load_sample()
        bodies = [json.dumps({"text": text, "top_k": 5}).encode() for text in sample.test_texts[:1000]]
        systems = {"longtail": train_longtail(sample, options.estimator, Path(folder))}
        if not options.no_baseline:
            systems["scikit-learn"] = train_peer(sample, Path(folder))
        for system, command in systems.items():
            record = {"question": "serving", "system": system, "dataset": "debtags sample", "n_texts": len(bodies)}
            record |= {"estimator": options.estimator if system == "longtail" else "tf-idf + LinearSVC a label"}
            for part in options.only or ["start", "latency", "load", "memory"]:
                for result in PARTS[part](command, bodies, options):
                    emit(record | {"part": part} | result, save="serving" if options.save else None)


def train_longtail(sample, estimator, folder):
    """Save a Tagger and give the command that serves it on a port with the given number of workers."""
    tagger = lt.Tagger(getattr(lt, estimator)()).fit(sample.train_texts, sample.train_labels)
    lt.save(tagger, folder / "tags.model")
    serve = [sys.executable, "-m", "longtail.cli.app", "serve", str(folder / "tags.model")]
    return lambda port, n_workers: [*serve, "--port", str(port), "--workers", str(n_workers)]


def train_peer(sample, folder):
    import joblib
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    binarizer = MultiLabelBinarizer(sparse_output=True)
    Y = binarizer.fit_transform(sample.train_labels)
    model = make_pipeline(TfidfVectorizer(min_df=2, sublinear_tf=True), OneVsRestClassifier(LinearSVC(), n_jobs=2))
    model.fit(sample.train_texts, Y)
    joblib.dump((model, binarizer.classes_.tolist()), folder / "model.joblib")
    (folder / "peer_app.py").write_text(PEER_APP.format(path=str(folder / "model.joblib")))
    serve = [sys.executable, "-m", "uvicorn", "peer_app:app", "--app-dir", str(folder), "--no-access-log"]
    return lambda port, n_workers: [*serve, "--port", str(port), "--workers", str(n_workers)]


@contextmanager
def running(command, n_workers, first_body):
    """Start a service, wait for its first answer, and give its port, process and the seconds that took."""
    port = free_port()
    begin = time.perf_counter()
    process = subprocess.Popen(command(port, n_workers), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                asyncio.run(send(port, [first_body]))
                break
            except (OSError, asyncio.IncompleteReadError):
                time.sleep(0.005)
        yield port, process, time.perf_counter() - begin
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


async def send(port, bodies, until=None):
    """Send requests one after the other on one connection; give the seconds of each, and of the server alone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seconds, server_seconds = [], []
    while True:
        for body in bodies:
            begin = time.perf_counter()
            writer.write(HEAD % len(body) + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer)[1]))
            seconds.append(time.perf_counter() - begin)
            if b" 200 " not in answer[:16]:
                raise RuntimeError(answer.decode())
            if timing := re.search(rb"dur=([\d.]+)", answer):
                server_seconds.append(float(timing[1]) / 1e3)
            if until is not None and time.perf_counter() > until:
                break
        if until is None or time.perf_counter() > until:
            break
    writer.close()
    return seconds, server_seconds


def percentiles(name, seconds):
    cut = statistics.quantiles(seconds, n=100)
    return {f"{name}_p50_ms": round(cut[49] * 1e3, 3), f"{name}_p99_ms": round(cut[98] * 1e3, 3)}


def measure_start(command, bodies, options):
    walls, cpus = [], []
    for _ in range(options.repeats):
        with running(command, 1, bodies[0]) as (_, process, seconds):
            walls.append(seconds)
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            cpus.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    yield {
        "repeats": options.repeats,
        "first_answer_seconds": round(statistics.median(walls), 3),
        "first_answer_seconds_min": round(min(walls), 3),
        "first_answer_seconds_max": round(max(walls), 3),
        "cpu_seconds": round(statistics.median(cpus), 3),
    }


def measure_latency(command, bodies, options):
    with running(command, 1, bodies[0]) as (port, _, _):
        asyncio.run(send(port, bodies[:200]))
        repeats = -(-options.requests // len(bodies))
        seconds, server_seconds = asyncio.run(send(port, (bodies * repeats)[: options.requests]))
    record = {"n_requests": len(seconds)} | percentiles("client", seconds)
    yield record | (percentiles("server", server_seconds) if server_seconds else {})


def measure_load(command, bodies, options):
    for n_workers in options.workers[:1] if len(options.workers) == 1 else sorted({1, min(2, max(options.workers))}):
        with running(command, n_workers, bodies[0]) as (port, _, _):
            time.sleep(3)  # until every worker is up
            run = load_with_wrk if shutil.which("wrk") else load_with_python
            result = run(port, bodies, options)
        yield {"n_workers": n_workers, "n_connections": options.connections, "seconds": options.seconds} | result


def load_with_wrk(port, bodies, options):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK_SCRIPT % ",\n".join(f"[==[{body.decode()}]==]" for body in bodies))
        script.flush()
        command = ["wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s", "--timeout", "10s", "--latency"]
        done = subprocess.run(
            [*command, "-s", script.name, f"http://127.0.0.1:{port}"], check=True, capture_output=True, text=True
        )
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    latency = {
        f"client_p{p}_ms": float(value) * units[unit]
        for p, value, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)", done.stdout)
    }
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    socket_errors = re.search(r"Socket errors: (.*)", done.stdout)
    return {
        "client": "wrk",
        "n_requests": int(re.search(r"(\d+) requests in", done.stdout)[1]),
        "requests_per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1]),
        **latency,
        "failed_responses": int(failed[1]) if failed else 0,
        "socket_errors": socket_errors[1] if socket_errors else "none",
    }


def load_with_python(port, bodies, options):
    async def run():
        until = time.perf_counter() + options.seconds
        return await asyncio.gather(*(send(port, bodies[i:] + bodies[:i], until) for i in range(options.connections)))

    seconds = [value for part, _ in asyncio.run(run()) for value in part]
    rate = {"n_requests": len(seconds), "requests_per_second": round(len(seconds) / options.seconds, 1)}
    return {"client": "asyncio", "failed_responses": 0} | rate | percentiles("client", seconds)


def measure_memory(command, bodies, options):
    for n_workers in options.workers:
        with running(command, n_workers, bodies[0]) as (port, process, _):
            time.sleep(3)  # until every worker is up
            load_with_python(port, bodies, _Load(8 * n_workers, 3))
            members = family(process.pid)
            total, mapped = (sum(map(size, members)) / 1e6 for size in (proportional_bytes, mapped_bytes))
        yield {"n_workers": n_workers, "n_processes": len(members)} | {
            "pss_mb": round(total, 1),
            "mapped_model_pss_mb": round(mapped, 1),
        }


class _Load:
    def __init__(self, connections, seconds):
        self.connections, self.seconds = connections, seconds


def family(process_id):
    """List a process and all below it."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    return [process_id] + [member for child in children for member in family(int(child))]


def proportional_bytes(process_id):
    """Memory of a process, with shared pages divided by the number of those who share them."""
    text = Path(f"/proc/{process_id}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024


def mapped_bytes(process_id):
    """The part of it that is mapped from the arrays of a saved model."""
    n_kb, is_array = 0, False
    for line in Path(f"/proc/{process_id}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            is_array = line.endswith(".npy")
        elif is_array and first == "Pss:":
            n_kb += int(rest[0])
    return n_kb * 1024


PARTS = {"start": measure_start, "latency": measure_latency, "load": measure_load, "memory": measure_memory}

if __name__ == "__main__":
    main()
