"""Names and colours of what devices of a cluster do and hold, the same in every picture."""

from __future__ import annotations

from collections.abc import Mapping

from accelsim.cluster.step.result import Device, StepResult
from accelsim.errors import count_of
from accelsim.report.style import BLUE, FAINT, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, YELLOW, Look

KINDS: Mapping[str, Look] = {
    "compute": Look(BLUE),
    "recompute": Look(SKY, "////"),
    "communication": Look(ORANGE, "...."),
    "optimiser": Look(GREEN, "xxxx"),
    "wait": Look(FAINT),
}
"""Kind of a slice (``accelsim.cluster.step.result.Slice``) -> look."""
PARTS: Mapping[str, Look] = {
    "compute": Look(BLUE),
    "recompute": Look(SKY, "////"),
    "tensor": Look(ORANGE, "...."),
    "host": Look(GREY, "oooo"),
    "bubble": Look(FAINT),
    "pipeline": Look(YELLOW, "----"),
    "stragglers": Look(PURPLE, "\\\\\\\\"),
    "data": Look(VERMILLION, "++++"),
    "optimiser": Look(GREEN, "xxxx"),
}
"""Part of a step (``accelsim.cluster.step.result.PARTS``) -> look."""
HELD: Mapping[str, Look] = {
    "weights": Look(BLUE),
    "gradients": Look(VERMILLION, "++++"),
    "optimiser": Look(GREEN, "xxxx"),
    "buffers": Look(PURPLE, "\\\\\\\\"),
    "stash": Look(ORANGE, "...."),
}
"""Kind of memory -> look; others are grey."""
OTHER = Look(GREY)


def device_names(result: StepResult) -> list[str]:
    """Return a name per kind of device: stage, chip where a stage has several kinds, number of devices."""
    stages = [device.stage for device in result.devices]
    return [_name(device, stages.count(device.stage) > 1) for device in result.devices]


def _name(device: Device, several: bool) -> str:
    of = f", {device.chip}, rank {device.ranks[0]}" if several else ""
    many = f" ({count_of(len(device.ranks), 'device')})" if len(device.ranks) > 1 else ""
    return f"stage {device.stage}{of}{many}"
