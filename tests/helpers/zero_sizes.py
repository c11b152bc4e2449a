"""ZeRO: states of training cut over data-parallel devices; bytes per device, elements moved per step.

Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, sections 3, 5, 7.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from accelsim.errors import Problem, UsageError
from tests.helpers.closed_sizes import Exact, checked_split, whole

STAGES = {
    0: "nothing is cut: plain data parallelism",
    1: "the optimiser's states are cut",
    2: "the optimiser's states and the gradients are cut",
    3: "the optimiser's states, the gradients and the parameters are cut",
}
"""Stage of ZeRO -> what is cut over the devices."""


class StateBytes(NamedTuple):
    """Bytes per device by kind."""

    weights_B: Exact
    gradients_B: Exact
    optimiser_B: Exact

    @property
    def total_B(self) -> Exact:
        """All of it."""
        return self.weights_B + self.gradients_B + self.optimiser_B


def zero_B(
    parameters: int, devices: int, stage: int = 0, weight_B: int = 2, gradient_B: int = 2, optimiser_B: int = 12
) -> StateBytes:
    """Bytes per device: 16P, stage 1: 4P + 12P/N, stage 2: 2P + 14P/N, stage 3: 16P/N.

    With the bytes per parameter of mixed precision and Adam; others may be given.
    """
    _checked(parameters, devices, stage)
    shares = [Fraction(1, devices) if stage >= first else Fraction(1) for first in (3, 2, 1)]
    sizes = (weight_B, gradient_B, optimiser_B)
    return StateBytes(*(whole(parameters * each * share) for each, share in zip(sizes, shares, strict=True)))


def zero_traffic(parameters: int, devices: int, stage: int = 0) -> Exact:
    """Elements that each device sends per step: 2P(N - 1)/N, stage 3: 3P(N - 1)/N (section 7).

    Data parallelism: an all-reduce; stages 1 and 2: a reduce-scatter of gradients and an all-gather of parameters,
    which is the same; stage 3: two all-gathers, for forward and backward, and a reduce-scatter.
    """
    _checked(parameters, devices, stage)
    return whole(Fraction((3 if stage == 3 else 2) * parameters * (devices - 1), devices))


def _checked(parameters: int, devices: int, stage: int) -> None:
    if stage not in STAGES:
        raise UsageError(Problem(f"{stage}", "zero", f"one of {', '.join(map(str, STAGES))}"))
    checked_split(parameters=parameters, devices=devices)


def gathered_layers_fs(compute_fs: list[int], gather_fs: list[int]) -> int:
    """Time of a pass with parameters gathered one layer ahead: AG_1, then max(compute_l, AG_{l+1}) of each layer.

    Stage 3 with a prefetch depth of 1, on a stream of its own.
    """
    following = [*gather_fs[1:], 0]
    return gather_fs[0] + sum(max(pair) for pair in zip(compute_fs, following, strict=True))
