"""Loss scaling: the factor on the loss that keeps small gradients inside FP16, static or dynamic.

The dynamic rule is that of ``torch.amp.GradScaler``, whose scale is one FP32 number: any infinity or NaN among the
gradients backs off at once and skips the step, a row of ``interval`` good steps grows. Micikevicius et al., Mixed
Precision Training, ICLR 2018, sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import Problem, UsageError


@dataclass
class LossScaler:
    """State of loss scaling; ``scale`` multiplies the loss, ``tracker`` counts good steps since the last change.

    ``LossScaler(1024, dynamic=False)`` keeps its scale. Growth that would overflow FP32 is not applied; nothing
    keeps the scale from falling to 0. Raises UsageError for parameters that make no sense.
    """

    init: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    dynamic: bool = True
    scale: np.float32 = field(init=False)
    tracker: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        UsageError.raise_for(
            Problem(f"{name} of loss scaling is {value}", expected=expected)
            for name, value, holds, expected in (
                ("init", self.init, 0 < self.init <= np.finfo(np.float32).max, "a positive FP32 number"),
                ("growth", self.growth, self.growth > 1, "more than 1"),
                ("backoff", self.backoff, 0 < self.backoff < 1, "between 0 and 1"),
                ("interval", self.interval, self.interval >= 1, "1 or more"),
            )
            if not holds
        )
        self.scale = np.float32(self.init)

    def update(self, found_inf: bool) -> None:
        """One step is over; ``found_inf`` says that a gradient was infinite or NaN (its step must be skipped)."""
        if not self.dynamic:
            return
        if found_inf:
            self.scale, self.tracker = _times(self.scale, self.backoff), 0
            return
        self.tracker += 1
        if self.tracker == self.interval:
            grown = _times(self.scale, self.growth)
            self.scale, self.tracker = grown if np.isfinite(grown) else self.scale, 0


def found_inf(gradients: Iterable[NDArray[np.floating]]) -> bool:
    """Return whether any gradient holds an infinity or a NaN."""
    return not all(bool(np.isfinite(gradient).all()) for gradient in gradients)


def _times(scale: np.float32, factor: float) -> np.float32:
    """The product as FP32; infinite where it overflows."""
    with np.errstate(over="ignore"):
        return np.float32(np.float64(scale) * factor)
