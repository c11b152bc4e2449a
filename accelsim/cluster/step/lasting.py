"""A whole training of a language model: so many tokens, one training step after the other."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from accelsim.cluster.step.result import StepResult
from accelsim.errors import Problem, UsageError

HOUR, DAY = 3600.0, 86400.0
KWH = 3.6e6
"""J."""


class Lasting(NamedTuple):
    """A training: its tokens, steps, seconds (with what nine of ten take no less and no more than, where that is known)
    and joules of devices and links, and at the wall where that is known. Nothing but steps: no evaluation, no
    checkpoints, no failures."""

    tokens: int
    steps: int
    seconds: float
    low_s: float | None
    high_s: float | None
    joules: float
    wall_J: float | None = None

    @property
    def days(self) -> float:
        """Days of 24 hours."""
        return self.seconds / DAY

    @property
    def kWh(self) -> float:
        """Energy of all devices and links."""
        return self.joules / KWH

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the facts for JSON."""
        return {**self._asdict(), "days": self.days, "kWh": self.kWh}


def lasting(step: StepResult, tokens: int) -> Lasting:
    """Return a training on so many tokens by steps like this one, the last of them whole. Raises UsageError for a
    model whose samples have no tokens."""
    each = step.batch * step.sample_tokens
    if not each:
        raise UsageError(Problem(f"samples of {step.model} have no tokens", "tokens", "a language model"))
    steps, interval = ceil(tokens / each), step.interval
    return Lasting(
        tokens, steps, steps * step.time_s,
        None if interval is None else steps * interval.low_s, None if interval is None else steps * interval.high_s,
        steps * step.total_J, None if step.wall_J is None else steps * step.wall_J,
    )  # fmt: skip
