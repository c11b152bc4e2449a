"""Designs on FPGAs: which blocks they use, and that none is used twice, too fast or in a format that it lacks."""

from __future__ import annotations

import json

import pytest

from accelsim.errors import SpecError
from accelsim.report.specs import blocks, tree
from accelsim.spec.resources import Use, uses
from accelsim.spec.yaml.load import list_chips, load_chip

FPGAS = [found.name for found in list_chips() if found.kind == "fpga"]


def test_three_dpus_use_the_block_rams_that_the_vendor_counts() -> None:
    """AMD's PG338 (DPUCZDX8G): 255 block RAMs of 36 Kib each; 8 x 16 x 16 products in a clock, four in a DSP."""
    found = list(uses(load_chip("zcu102")))
    assert found == [
        Use("matrix", "dsp", 3 * 8 * 16 * 16 // 4, "int8"),
        Use("feature_maps", "bram", 3 * 128, "capacity"),
        Use("weight_ram", "bram", 3 * 127, "capacity"),
    ]
    assert sum(use.blocks for use in found if use.kind == "bram") == 3 * 255


def test_a_wide_memory_needs_blocks_for_its_ports() -> None:
    narrow = {use.part: use for use in uses(load_chip("zcu102", ["dpu.feature_maps.capacity=64 KiB"]))}
    assert narrow["feature_maps"] == Use("feature_maps", "bram", 3 * 16, "capacity")
    wide = {use.part: use for use in uses(load_chip("zcu102", ["dpu.feature_maps.read_width=1 KiB"]))}
    assert wide["feature_maps"] == Use("feature_maps", "bram", 3 * 128, "capacity")
    sets = ["cores.dpu.count=1", "dpu.feature_maps.read_width=4 KiB"]
    wider = {use.part: use for use in uses(load_chip("zcu102", sets))}
    assert wider["feature_maps"] == Use("feature_maps", "bram", 512, "width")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("matrix.rows=384", "the design needs 24,576 dsp (matrix 24,576 by its int8); expected 12,288 at the most"),
        ("tensor_memory.capacity=12 MiB", "the design needs 1,536 uram (tensor_memory 1,536 by its capacity); expected 1,280"),
        ("matrix.clock=900 MHz", "matrix at 900 MHz clocks dsp at 900 MHz, which reach 775 MHz; expected 775 MHz at the most"),
        ("resources.multipliers.dsp.macs.int9=2", "'int9' is no number format; expected int8, fp16"),
        ("resources.uses.matrix=dsq", "no multipliers 'dsq'; expected dsp; did you mean 'dsp'?"),
        ("resources.uses.sums=dsp", "no memory 'dsp'; expected bram, uram"),
        ("resources.uses.array=dsp", "no engine or memory 'array'"),
        ("matrix.formats={int16: {}}", "dsp do not multiply it; expected int8"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_chip("u250", [change])
    assert told in str(caught.value)


@pytest.mark.parametrize("name", FPGAS)
def test_the_tree_tells_what_is_left(name: str) -> None:
    chip = load_chip(name)
    assert chip.resources is not None and chip.resources.configuration is not None
    rows = blocks(chip)
    assert rows and all(0 < row["used"] <= row["blocks"] for row in rows)
    assert json.loads(json.dumps(tree(chip).facts))[-len(rows) :] == rows
