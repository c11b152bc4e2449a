"""What devices hold that serve a model: weights, keys and values, activations; and the refusal of what does not fit."""

from __future__ import annotations

from accelsim.cluster.serving.costs import Devices
from accelsim.cluster.serving.pieces import HEAD
from accelsim.cluster.serving.step import Layout
from accelsim.cluster.step.memory import OutOfMemory, capacity_B


def needs(
    devices: Devices, layout: Layout, prompt: int, new: int, permanent: bool = False
) -> list[dict[str, int]]:
    """Kind -> bytes of one device of each stage, when all tokens are there. ``permanent``: only what stays, for which
    nothing need be simulated."""
    plan, call = layout.plan, layout.call(prompt, 0)
    found = []
    for stage in range(plan.pp):
        weights = working = 0
        for piece, times in layout.stage(call, stage):
            shared = piece.name == HEAD and layout.model.tied and stage == 0
            weights += 0 if shared else times * piece.learnt * devices.element_B
            if not permanent:
                working = max(working, devices.piece(call, piece, plan.rank(stage, 0, 0)).working_B)
        parts = {"weights": weights, "keys and values": cache_B(devices, layout, prompt + new, stage)}
        found.append(parts if permanent else {**parts, "activations": working})
    return found


def cache_B(devices: Devices, layout: Layout, tokens: int, stage: int) -> int:
    """Bytes of the keys and values of so many tokens of all sequences of a replica, on one device of a stage.

    2 x layers x own heads x depth x tokens x sequences x bytes of an element.
    """
    call = layout.call(1, 0)
    elements = layout.layers(stage) * call.kv_heads * layout.model.head_dim * tokens * layout.sequences
    return 2 * elements * devices.element_B


def check_memory(devices: Devices, layout: Layout, prompt: int, new: int, permanent: bool = False) -> None:
    """Raises OutOfMemory, all stages at once, where devices hold more than they have room for; see ``needs``."""
    plan, fleet, short = layout.plan, devices.fleet, []
    for stage, parts in enumerate(needs(devices, layout, prompt, new, permanent)):
        ranks = [plan.rank(stage, d, t) for d in range(plan.dp) for t in range(plan.tp)]
        room = min(capacity_B(fleet.chips[rank]) for rank in ranks)
        if sum(parts.values()) > room:
            short.append((ranks, parts, room))
    if short:
        raise OutOfMemory(layout.model.name, short, ADVICE)


ADVICE = "more devices by tp or pp, fewer sequences, a shorter prompt; or, for a study, --ignore-capacity"
"""What helps."""
