"""GPipe's partition: contiguous blocks of layers, the largest as small as it can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.errors import Problem, UsageError, count_of


def balanced_blocks(times: Sequence[int] | Sequence[float], stages: int) -> tuple[tuple[int, int], ...]:
    """``stages`` blocks (start, end) of layers one after the other, none empty, whose largest sum is least.

    Of all such blocks those with the least sum of squares, so that the smaller ones are even too; of these the ones
    that begin earliest. What GPipe asks of a partition (Huang et al., NeurIPS 2019, section 2.2), and torchgpipe's
    ``balance`` approximates. UsageError: fewer layers than stages, or times below 0.
    """
    problems = []
    if not 1 <= stages <= len(times):
        problems.append(
            Problem(
                f"{count_of(len(times), 'layer')} on {count_of(stages, 'stage')}",
                "stages",
                f"1 to {len(times)}",
            )
        )
    if any(time < 0 for time in times):
        problems.append(Problem("a time below 0", "times", "times of layers from 0"))
    if problems:
        raise UsageError(problems)
    reached = np.concatenate([[0], np.cumsum(np.asarray(times))])
    block = reached[None, :] - reached[:, None]
    size = np.where(np.triu(np.ones_like(block, bool), 1), block.astype(float), np.inf)
    largest = _least(size, stages, np.maximum)[0][-1, -1]
    squares = np.where(size <= largest, size, np.inf) ** 2
    cuts = _least(squares, stages, np.add)[1]
    ends = [len(times)]
    for stage in range(stages - 1, 0, -1):
        ends.append(int(cuts[stage, ends[-1]]))
    starts = [0, *ends[:0:-1]]
    return tuple(zip(starts, ends[::-1], strict=True))


def _least(cost: np.ndarray, stages: int, join: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
    """Least joined cost of the first j layers in k + 1 blocks, and where the last of these begins, both [k, j].

    ``cost[i, j]``: of a block of the layers i to j - 1.
    """
    best, cuts = [cost[0]], [np.zeros(len(cost), np.int64)]
    for _ in range(stages - 1):
        joined = join(best[-1][:, None], cost)
        cuts.append(np.argmin(joined, axis=0))
        best.append(joined[cuts[-1], np.arange(len(cost))])
    return np.array(best), np.array(cuts)
