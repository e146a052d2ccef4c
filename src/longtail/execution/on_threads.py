"""Run tasks on threads of this process; native code releases the GIL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from longtail import _core
from longtail.execution.executor import Tick
from longtail.execution.plan import Arrays, Plan, Shard

TICK_SECONDS = 0.05


class ThreadExecutor:
    """Runs tasks on `n_jobs` threads. The calling thread only waits, so that Ctrl-C and progress come through."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def share(self, arrays: Arrays) -> Arrays:
        return arrays

    def map(
        self, plan: Plan, shared: Arrays, task_ids: Sequence[int], control: _core.Control, tick: Tick
    ) -> Iterator[tuple[int, Shard]]:
        waiting = iter(task_ids)
        running: dict[Future[Shard], int] = {}
        pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix=f"longtail-{plan.owner}")
        try:
            # Only as many tasks as threads are handed out: finished shards never pile up behind a slow consumer.
            while True:
                while len(running) < self.n_jobs and (task_id := next(waiting, None)) is not None:
                    running[pool.submit(plan.task, shared, plan.params, task_id, control)] = task_id
                if not running:
                    return
                finished, _ = wait(running, timeout=TICK_SECONDS, return_when=FIRST_COMPLETED)
                tick()
                for future in finished:
                    task_id = running.pop(future)
                    try:
                        shard = future.result()
                    except Exception as error:
                        error.add_note(f"in task {task_id} of {plan.owner}")
                        raise
                    yield task_id, shard
        except BaseException:
            control.cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
