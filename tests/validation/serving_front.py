"""Fit of the site ``vllm-server``: the engine around the steps, by closed loops that others measured on vLLM.

Half of the loops on H100 and H200 (``serving_loops``), by their number, are for the fit; ``serving_loads`` measures the
rest. ``python -m tests.validation.serving_front`` prints the numbers of the site.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.spec.site import Front
from accelsim.spec.yaml.chips import load_site
from accelsim.types import Floats
from tests.validation.serving_loops import OSS, ROOM, SITE, Loop, Row, loops, predicted, rows

FITTED, CLIENTS = ("H100", "H200"), 64
"""GPUs and most clients of the fit."""
STEPS, SEQUENCES = (0.0, 0.3e-3, 0.6e-3, 0.9e-3), (0.0, 2e-5, 4e-5, 6e-5)
"""Seconds that the fit tries."""
FACTORS = np.arange(1.0, 5.0, 0.25)
"""Widths of the interval of the way that the fit tries."""
LEVEL = 0.9
"""Share of the times to the first token that intervals hold."""


def seen(row: Row) -> bool:
    """Return whether the fit may see a row."""
    alike = (
        row.engine == "vllm"
        and row.model != OSS
        and row.gpu in FITTED
        and row.clients <= CLIENTS
        and not row.tokens_per_s
    )
    return alike and row.draw % 2 == 0


def fitted(found: Sequence[Row]) -> Front:
    """Return the front with the least mean error of times per token, and then of times to the first one."""
    tried = [
        Front().model_copy(update={"step": step, "sequence": sequence}) for step in STEPS for sequence in SEQUENCES
    ]
    loops = {(front.step, front.sequence): [predicted(row, front) for row in found] for front in tried}
    best = min(tried, key=lambda front: _mean(found, loops[front.step, front.sequence]))
    first = np.array([each.ttft_s for each in loops[best.step, best.sequence]])
    request, token = _line(np.array([row.prompt for row in found]), np.array([row.ttft_s for row in found]), first)
    return best.model_copy(update={"request": request, "token": token})


def _mean(found: Sequence[Row], loops: Sequence[Loop]) -> float:
    return float(np.mean([abs(np.log(loop.tpot_s / row.tpot_s)) for row, loop in zip(found, loops, strict=True)]))


def _line(tokens: Floats, measured: Floats, predicted: Floats) -> tuple[float, float]:
    """Fit what lies before the queue, s and s per token, for the least sum of relative errors (by weights anew)."""
    columns = np.stack([np.ones(len(tokens)), tokens], 1)
    weights, solved = np.array(1 / measured), np.zeros(2)
    for _ in range(50):
        solved = np.array(np.linalg.lstsq(columns * weights[:, None], (measured - predicted) * weights, rcond=None)[0])
        off = np.abs(measured - predicted - columns @ solved) / measured
        weights = np.array(1 / measured / np.sqrt(np.maximum(off, 1e-3)))
    return float(solved[0]), float(solved[1])


def factor(found: Sequence[Row], front: Front) -> float:
    """Return the least factor of the way at which intervals hold ``LEVEL`` of the times to the first token of services
    with room. ``front``: that of the site; the way comes after all else, which takes as long without it."""
    pairs = [(row, loops(row)) for row in found]
    kept = [(row, made) for row, made in pairs if made[0].room < ROOM]
    way = np.array([front.request + front.token * row.prompt for row, _ in kept])
    low, high = (
        np.array([made[at].ttft_s for _, made in kept]) - way * front.factor**end for at, end in ((1, -1), (2, 1))
    )
    measured = np.array([row.ttft_s for row, _ in kept])
    held = (float(np.mean((low + way / f <= measured) & (measured <= high + way * f))) for f in FACTORS)
    return float(next((each for each, share in zip(FACTORS, held, strict=True) if share >= LEVEL), FACTORS[-1]))


def main() -> None:
    """Fit, and print what comes of it."""
    found = [row for row in rows() if seen(row)]
    print(len(found), "rows:", fitted(found), flush=True)
    front = load_site(SITE).front
    assert front is not None
    print("factor:", factor(found, front))


if __name__ == "__main__":
    main()
