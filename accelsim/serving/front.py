"""The serving engine around the steps of a model: its work on the host, and the way from a client to its queue."""

from __future__ import annotations

from accelsim.serving.replica import Cost
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.base import Batch
from accelsim.spec.site import Front

MOST = 1 << 17
"""Costs that are kept."""


def hosted(cost: Cost, front: Front, by_mean: bool = False) -> Cost:
    """Return the cost of steps with the work of the host, for which the chips wait. ``by_mean``: that of steps that
    only decode depends on no more than their number of sequences and the mean of their tokens, so it is kept."""
    known = dict[tuple[int, int], tuple[float, ...]]()

    def whole(batch: Batch) -> tuple[float, ...]:
        seconds, *others = cost(batch)
        sequences = batch.decoding + len(batch.chunks)
        return seconds + front.step + front.sequence * sequences, *others

    def kept(batch: Batch) -> tuple[float, ...]:
        if batch.chunks or batch.moved:
            return whole(batch)
        place = batch.decoding, round(batch.context / batch.decoding)
        if (found := known.get(place)) is None:
            if len(known) == MOST:
                known.clear()
            found = known[place] = whole(batch)
        return found

    return kept if by_mean else whole


def stretched(front: Front, end: int) -> Front:
    """Return a front whose way to the queue is as short (-1) or as long (1) as it may be (90 %)."""
    factor = front.factor**end
    return front.model_copy(update={"request": factor * front.request, "token": factor * front.token})


class Way:
    """The way between a client and the queue."""

    def __init__(self, front: Front) -> None:
        self._front, self._known = front, set[int | str]()

    def __call__(self, request: Request) -> float:
        """Return the time that a request spends there, s; called in order of arrival."""
        again = sum(tokens for name, tokens in request.prefix if name in self._known)
        self._known.update(name for name, _ in request.prefix)
        return self._front.request + self._front.token * (request.prompt - again)
