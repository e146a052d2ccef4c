"""The loop over steps that follow one another: restore from the checkpoint, compute, store."""

from __future__ import annotations

from longtail import _core
from longtail.execution.checkpoint import Checkpoint
from longtail.execution.plan import Shard, Stepper, StepPlan


class StepLoop:
    """Runs the steps of a plan; another thread may read `n_done` meanwhile."""

    def __init__(self, plan: StepPlan, stepper: Stepper, checkpoint: Checkpoint | None, control: _core.Control) -> None:
        self._plan, self._stepper, self._checkpoint, self._control = plan, stepper, checkpoint, control
        self.n_done = 0
        self.shards: list[Shard] = []  # only the last one with plan.keep_last

    def run(self) -> None:
        """Run until the last step, or until the stepper is done."""
        if self._plan.keep_last:
            self._restore_last()
        while self.n_done < self._plan.n_steps and not self._stepper.is_done():
            if self._control.cancelled:
                raise _core.Cancelled("stopped")
            shard = self._restored(self.n_done)
            if shard is None:
                shard = self._stored(self.n_done, self._stepper.advance(self.n_done))
            if self._plan.keep_last:
                self._drop_all_but(self.n_done)
                self.shards.clear()
            self.shards.append(shard)
            self.n_done += 1

    def _restored(self, step_id: int) -> Shard | None:
        if self._checkpoint is None or self._plan.keep_last:
            return None
        shard = self._checkpoint.load(step_id)
        if shard is not None:
            self._stepper.restore(step_id, shard)
        return shard

    def _stored(self, step_id: int, shard: Shard) -> Shard:
        return shard if self._checkpoint is None else self._checkpoint.store(step_id, shard)

    def _restore_last(self) -> None:
        """Restore the newest intact step. A kill between writing it and deleting the one before leaves both."""
        step_ids = [] if self._checkpoint is None else self._checkpoint.shard_ids()
        for step_id in reversed(step_ids):
            shard = None if self._checkpoint is None else self._checkpoint.load(step_id)
            if shard is not None:
                self._stepper.restore(step_id, shard)
                self.n_done, self.shards = step_id + 1, [shard]
                return

    def _drop_all_but(self, step_id: int) -> None:
        if self._checkpoint is not None:
            for other in self._checkpoint.shard_ids():
                if other != step_id:
                    self._checkpoint.drop(other)
