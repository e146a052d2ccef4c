"""What does Ray cost beside local threads on the same cores, and what does it take to start, retry and broadcast?

Lines: `start-up` (a cluster on this machine, the first task, the end), `overhead` (the same fit on threads and on Ray),
`retry` (a worker is killed in the middle), `memory` (private memory of workers that read a large data set), `broadcast`
(the same bytes to 1, 2, … nodes) and `nodes` (one fit on 1, 2, … nodes of one CPU, beside what docs/scaling.md's model
says). Nodes are raylets on this machine: beyond its cores, more of them are not faster.
"""

import contextlib
import logging
import os
import signal
import statistics
import threading
import time
from pathlib import Path

import numpy as np
from measure import emit, make_parser

import longtail as lt
from longtail.execution import Plan, Run

QUESTIONS = ("start-up", "overhead", "retry", "memory", "broadcast", "nodes")
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # listen on 127.0.0.1 only
os.environ["OMP_NUM_THREADS"] = "1"


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/eurlex/eurlex_train.txt.gz"))
    parser.add_argument("--seconds", type=float, default=60, help="length of the fit on threads (default 60)")
    parser.add_argument("--data-bytes", type=int, default=1 << 30, help="size of the large data set (default 1 GiB)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    for question in options.questions:
        for record in globals()["ask_" + question.replace("-", "_")](options):
            emit({"question": question, **record}, "ray" if options.save else None)


def ask_start_up(options):
    rounds = [start_once(options.workers) for _ in range(options.repeats)]
    for name in rounds[0]:
        yield {"step": name, **spread([found[name] for found in rounds])}


def start_once(n_workers):
    found = {}
    with timed(found, "start"):
        executor = lt.RayExecutor(n_local_cpus=n_workers)
        executor.connect()
    for step in ("first fit", "second fit"):
        with timed(found, step):
            fit_constant(executor)
    with timed(found, "end"):
        executor.close()
    return found


def fit_constant(executor):
    return lt.Popularity().fit(np.eye(4), np.eye(4), executor=executor)


def ask_overhead(options):
    X, Y = lt.datasets.read(options.data)
    n_trees = trees_for(X, Y, options.seconds, options.workers)
    record = {"dataset": options.data.name, "estimator": "FastXML", "n_trees": n_trees, "threads": options.workers}
    threads, on_ray = [], []
    with lt.RayExecutor(n_local_cpus=options.workers) as executor:
        fit_constant(executor)  # workers are up
        for _ in range(options.repeats):  # by turns, so that both see the same machine
            threads.append(seconds_of(fit_trees, X, Y, n_trees, options.workers, None))
            on_ray.append(seconds_of(fit_trees, X, Y, n_trees, options.workers, executor))
    share = statistics.median(on_ray) / statistics.median(threads) - 1
    yield record | {"system": "threads"} | spread(threads)
    yield record | {"system": "ray"} | spread(on_ray) | {"overhead_percent": round(100 * share, 2)}


def ask_retry(options):
    X, Y = lt.datasets.read(options.data)
    n_trees = trees_for(X, Y, options.seconds / 4, options.workers)
    record = {"dataset": options.data.name, "n_trees": n_trees, "threads": options.workers}
    calm, killed = [], []
    with lt.RayExecutor(n_local_cpus=options.workers) as executor:
        fit_constant(executor)
        for _ in range(options.repeats):
            calm.append(seconds_of(fit_trees, X, Y, n_trees, options.workers, executor))
            timer = threading.Timer(calm[0] / 2, kill_a_worker)
            timer.start()
            killed.append(seconds_of(fit_trees, X, Y, n_trees, options.workers, executor))
            timer.join()
    tree_seconds = statistics.median(calm) * options.workers / n_trees
    yield record | {"system": "undisturbed", "seconds_one_task": round(tree_seconds, 3)} | spread(calm)
    yield record | {"system": "one worker killed"} | spread(killed)


def kill_a_worker():
    """Kill a process of this cluster that runs tasks."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::FastXML") and is_ours(int(path.parent.name)):
                os.kill(int(path.parent.name), signal.SIGKILL)
                return


def is_ours(process_id):
    """Whether a process descends from this one: others may use Ray on this machine."""
    while process_id > 1:
        if process_id == os.getpid():
            return True
        process_id = int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def ask_memory(options):
    arrays = large_arrays(options.data_bytes)
    with lt.RayExecutor(n_local_cpus=options.workers, group_seconds=0) as executor:
        fit_constant(executor)
        before = [found["bytes"] for found in run(executor, read_nothing, arrays, 2 * options.workers)]
        after = [found["bytes"] for found in run(executor, read_everything, arrays, 4 * options.workers)]
    for name, found in (("before", before), ("after reading all", after)):
        private, shared, process_ids = np.array(found).T
        yield {
            "step": name,
            "data_bytes": options.data_bytes,
            "workers": len(set(process_ids.tolist())),
            "private_bytes_most": int(private.max()),
            "shared_bytes_least": int(shared.min()),
        }


def read_nothing(arrays, params, task_id, control):
    time.sleep(0.3)
    return {"bytes": own_memory()}


def read_everything(arrays, params, task_id, control):
    for name in arrays:
        assert arrays[name].sum() > 0
    time.sleep(0.3)
    return {"bytes": own_memory()}


def own_memory():
    """Private and shared bytes of this process, and its id."""
    sums = {"Private": 0, "Shared": 0}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        kind = line.partition("_")[0]
        if kind in sums and "Hugetlb" not in line:
            sums[kind] += int(line.split()[1]) * 1024
    return np.array([*sums.values(), os.getpid()], dtype=np.int64)


def ask_broadcast(options):
    arrays = large_arrays(options.data_bytes)
    for n_nodes in options.nodes:
        with cluster_of(n_nodes, 2 * options.data_bytes) as address:
            executor = lt.RayExecutor(address=address, group_seconds=0)
            found = {}
            with timed(found, "put_seconds"):
                places = executor.share(arrays)
            plan = Plan(owner="Reader", unit="", task=read_everything, arrays=arrays, params={}, n_tasks=n_nodes)
            run_plan = Run("Reader", 1, executor=executor)
            with timed(found, "first_read_seconds"):
                list(executor.map(plan, places, range(n_nodes), run_plan.control, lambda: None))
            with timed(found, "second_read_seconds"):
                list(executor.map(plan, places, range(n_nodes), run_plan.control, lambda: None))
            executor.close()
        yield {"nodes": n_nodes, "data_bytes": options.data_bytes, **{k: round(v, 3) for k, v in found.items()}}


def ask_nodes(options):
    X, Y = lt.datasets.read(options.data)
    seconds = options.seconds / 2
    n_trees = trees_for(X, Y, seconds, 1)
    work = seconds_of(fit_trees, X, Y, n_trees, 1, None)
    record = {"dataset": options.data.name, "n_trees": n_trees, "seconds_one_thread": round(work, 3)}
    n_cores = len(os.sched_getaffinity(0))
    for n_nodes in options.nodes:
        with cluster_of(n_nodes, 1 << 28) as address, lt.RayExecutor(address=address) as executor:
            fit_constant(executor)
            found = [seconds_of(fit_trees, X, Y, n_trees, 1, executor) for _ in range(options.repeats)]
        # The longest chain of trees on one slot (docs/scaling.md); nodes beyond the cores take turns.
        turns = max(1, min(n_nodes, n_trees) / n_cores)
        expected = -(-n_trees // n_nodes) * (work / n_trees) * turns
        yield record | {"nodes": n_nodes, "cores": n_cores, "expected_seconds": round(expected, 3)} | spread(found)


def fit_trees(X, Y, n_trees, n_jobs, executor):
    lt.FastXML(n_trees=n_trees, n_jobs=n_jobs).fit(X, Y, executor=executor)


def trees_for(X, Y, seconds, n_jobs):
    """Count the trees that take about so long on threads."""
    fit_trees(X, Y, n_jobs, n_jobs, None)
    return max(n_jobs, round(seconds * n_jobs / seconds_of(fit_trees, X, Y, n_jobs, n_jobs, None)))


def run(executor, task, arrays, n_tasks):
    plan = Plan(owner="Reader", unit="", task=task, arrays=arrays, params={}, n_tasks=n_tasks)
    return Run("Reader", 1, executor=executor).map(plan)


def large_arrays(n_bytes):
    """The parts of a CSR matrix, about so large."""
    n_entries = n_bytes // 8
    return {"indices": np.ones(n_entries, dtype=np.int32), "values": np.ones(n_entries, dtype=np.float32)}


@contextlib.contextmanager
def cluster_of(n_nodes, store_bytes):
    """Several raylets of one CPU each on this machine."""
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.WARNING)
    settings = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": store_bytes}
    cluster = Cluster()
    try:
        cluster.add_node(include_dashboard=False, **settings)
        for _ in range(n_nodes - 1):
            cluster.add_node(**settings)
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        import ray

        ray.shutdown()
        cluster.shutdown()


def seconds_of(function, *arguments):
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


@contextlib.contextmanager
def timed(found, name):
    begin = time.perf_counter()
    yield
    found[name] = time.perf_counter() - begin


def spread(seconds):
    numbers = (statistics.median(seconds), min(seconds), max(seconds))
    names = ("wall_seconds", "wall_seconds_min", "wall_seconds_max")
    return {"repeats": len(seconds)} | {name: round(value, 3) for name, value in zip(names, numbers, strict=True)}


if __name__ == "__main__":
    main()
