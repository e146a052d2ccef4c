"""What a fit is expected to take."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Estimate:
    """What a fit is expected to take.

    Attributes
    ----------
    seconds : float, wall-clock time with the threads asked for
    cpu_seconds : float, over all threads
    memory_bytes : int, peak of what fit allocates, the model included, without X and Y
    model_bytes : int, size of the fitted arrays
    probe_seconds : float, what the probe took
    """

    seconds: float
    cpu_seconds: float
    memory_bytes: int
    model_bytes: int
    probe_seconds: float

    def with_calibration(self, held_out: float = 0.2) -> Estimate:
        """Return what the fit takes with ``calibrate=True``: a second fit, on the rows that are not held out."""
        times = 2 - held_out
        return replace(self, seconds=times * self.seconds, cpu_seconds=times * self.cpu_seconds)
