"""``accelsim chips``, ``accelsim models`` and ``accelsim memories``: what there is."""

from __future__ import annotations

from accelsim.cli.answers import answers
from accelsim.cli.common import counted
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers("accelsim chips", "accelsim chips --json")
def chips(gather: Gather) -> Answer:
    """List every chip that can be named, with its stated peak; a broken spec file is listed with its problem."""
    from accelsim.report.lists import chips

    return gather.read(chips)


@answers("accelsim models", "accelsim models --csv models.csv")
def models(gather: Gather) -> Answer:
    """List every model that can be named; parameters are set with --param NAME=VALUE or NAME?PARAMETER=VALUE.

    An ONNX file, a topology CSV and a language model's config.json (docs/language-models-of-today.md) are models, too.
    Decoders (those with past=0) take prompt=P and new=N instead of seq and past: a prompt, and the tokens that follow.
    """
    from accelsim.report.lists import model_records, models
    from accelsim.usercache import remembered

    return models(gather.read(lambda: remembered("models", tuple, model_records)))


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
    from accelsim.report.lists import memories

    return gather.read(lambda: memories(lambda names: counted(names, str)))
