"""``accelsim chips``, ``accelsim models`` and ``accelsim memories``: what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelsim.cli.answers import answers
from accelsim.cli.common import counted
from accelsim.errors import Gather
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.spec.memory import Memory


@answers("accelsim chips", "accelsim chips --json")
def chips(gather: Gather) -> Answer:
    """List every chip that can be named, with its stated peak; a broken spec file is listed with its problem."""
    from accelsim.report import lists
    from accelsim.spec.yaml.where import listing

    return lists.chips(gather.read(lambda: listing("chips", _chip_facts)))


def _chip_facts() -> list[dict[str, Any]]:
    """Return a row for JSON of every chip; units at the end of the keys."""
    from accelsim.spec.yaml.load import list_chips

    return [
        {
            "name": chip.name,
            "title": chip.title,
            "kind": chip.kind,
            "peak_OPS": dict(chip.peak),
            "problem": chip.problem,
        }
        for chip in list_chips()
    ]


@answers("accelsim models", "accelsim models --csv models.csv")
def models(gather: Gather) -> Answer:
    """List every model that can be named; parameters are set with --param NAME=VALUE or NAME?PARAMETER=VALUE.

    Decoders (those with past=0) take prompt=P and new=N instead of seq and past: a prompt, and the tokens that follow.
    """
    from accelsim.report import lists
    from accelsim.usercache import remembered

    return lists.models(gather.read(lambda: remembered("models", tuple, _model_facts)))


def _model_facts() -> list[dict[str, Any]]:
    """Return a row for JSON of every model."""
    from accelsim.workload.sources.load import list_models

    return [
        {
            "name": row.name,
            "kind": row.kind,
            "description": row.description,
            "batch": row.batch,
            "parameters": row.parameters,
        }
        for row in list_models()
    ]


@answers(
    "accelsim memories",
    "accelsim memories --json",
    "accelsim run cnn --on edu-4x4 --set memories.dram.memory=dram/lpddr4-2400",
)
def memories(gather: Gather) -> Answer:
    """List every memory that a chip may have: capacity, bandwidth, energy per byte, and how far to trust the energy.

    Name one in a chip's file (memory: dram/ddr5-4800), or with --set memories.NAME.memory=dram/ddr5-4800. Figures of
    memories/... are stated in their files; those of dram/... follow from the DRAM and its model. usable: share
    of the peak that a stream gets; standby: power with banks open, and refresh.
    """
    from accelsim.report import lists
    from accelsim.spec.yaml.where import listing

    return lists.memories(gather.read(lambda: listing("memories", _all_memories)))


def _all_memories() -> list[dict[str, Any]]:
    """Return a row of ``_memory_facts`` for every memory."""
    from accelsim.spec.yaml.parts import memory_named, memory_names

    return [_memory_facts(name, memory_named(name)) for name in counted(memory_names(), str)]


def _memory_facts(name: str, memory: Memory) -> dict[str, Any]:
    """A row for JSON; units at the end of the keys. Bandwidth is that of all channels together."""
    return {
        "name": name, "kind": memory.kind, "capacity_B": memory.capacity, "channels": memory.channels,
        "bandwidth_Bps": float(memory.peak_Bps), "efficiency": memory.efficiency,
        "latency_s": float(memory.latency), "read_J_per_B": _known(memory.read_energy),
        "write_J_per_B": _known(memory.write_energy), "static_power_W": float(memory.static_power),
        "energy_status": memory.energy_status or "guess", "memory_models": _models_of(memory),
    }  # fmt: skip


def _known(energy_J: float | None) -> float | None:
    """An energy; None of an SRAM that leaves it to the energy table of its chip."""
    return None if energy_J is None else float(energy_J)


def _models_of(memory: Memory) -> list[str]:
    from accelsim.machine.memory_models import MODELS

    return [name for name, level in MODELS.items() if level.dram is None or memory.dram is not None]
