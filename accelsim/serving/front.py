"""The serving engine around the steps of a model: its work on the host, and the way from a client to its queue."""

from __future__ import annotations

from accelsim.serving.replica import Cost
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.base import Batch
from accelsim.spec.site import Front


def hosted(cost: Cost, front: Front) -> Cost:
    """Return the cost of steps with the work of the host, for which the chips wait."""

    def whole(batch: Batch) -> tuple[float, ...]:
        seconds, *others = cost(batch)
        sequences = batch.decoding + len(batch.chunks)
        return seconds + front.step + front.sequence * sequences, *others

    return whole


def way_s(front: Front, request: Request) -> float:
    """Return the time that a request spends between its client and the queue, s."""
    return front.request + front.token * request.prompt
