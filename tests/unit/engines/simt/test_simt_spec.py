"""The spec of a GPU: what a block takes, peaks, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.engines.simt.spec import LIBRARY, SPEC, TileShape
from accelsim.errors import SpecError
from accelsim.spec.multiplying import ImplicitGemm, operands_B
from accelsim.spec.residency import Limits, Needs, residents
from tests.helpers.simt_cases import GPU


def test_the_block_of_a_tile():
    """64 x 32 sums of 4 B and 128 threads with 128 B each; two steps of 8 x (64 + 32) operands of 2 B."""
    assert GPU.needs(GPU.tiles[0], "fp16") == Needs(128, 64 * 32 * 4 + 128 * 128, 2 * 8 * 96 * 2)
    assert GPU.residents(GPU.tiles[0], "fp16") == 2  # registers: 65,536 of 24,576 each
    assert GPU.residents(GPU.tiles[2], "fp32") == 8  # blocks


def test_wider_formats_take_more():
    narrow, wide = (GPU.needs(GPU.tiles[0], name) for name in ("fp16", "fp64"))
    assert wide.registers_B - narrow.registers_B == 64 * 32 * 4
    assert wide.shared_B * 2 == narrow.shared_B  # 8 B, but steps of 1 and not of 8


def test_what_a_block_does_not_take_does_not_limit():
    assert residents(Limits(1024, 16, 65536, 0), Needs(128, 8192, 0)) == 8


def test_peaks_are_those_of_all_multiprocessors():
    chip = accelsim.load_chip("a100-80-sxm")
    assert GPU.peaks(chip) == pytest.approx(
        {name: 8 * rate * 1.41e9 for name, rate in (("fp16", 64), ("fp32", 16), ("fp64", 0.5), ("int8", 64))}
    )


def test_pairs_of_formats_have_weights_first():
    assert operands_B("int4xint8") == (1, Fraction(1, 2))
    assert operands_B("tf32") == (4, 4)


def test_the_blocks_of_an_a100():
    """One block of 256 x 128 by its registers (131,072 B of sums), two of 128 x 128, six of 64 x 64."""
    sm: Any = accelsim.load_chip("a100-80-sxm").engines["sm"]
    found = {(tile.m, tile.n): sm.residents(tile, "fp16") for tile in sm.tiles}
    assert found == {
        (256, 128): 1, (128, 256): 1, (128, 128): 2, (128, 64): 4, (64, 128): 4, (64, 64): 6, (128, 32): 5, (32, 128): 5,
        (256, 1): 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["cores.core.engines.sm.registers=6000 B"], "cores.core.engines.sm.formats.fp16: no tile fits a multiprocessor in this format"),
        (["cores.core.engines.sm.threads=128"], "256 x 128 takes 256 threads, 196,608 B of registers and 73,728 B of shared memory"),
        (["cores.core.engines.sm.formats.fp16.dot=int32"], "'int32' is no rule that adds up products of fp16"),
        (["cores.core.engines.sm.formats.fp16.accumulate=fp33"], "'fp33' is no number format"),
        (["cores.core.engines.sm.splits=[2, 4]"], "a loop over one step cannot be cut; expected 1 among the splits"),
        (["cores.core.engines.sm.formats.fp16.sparse.n=4"], "4:4 keeps every weight; expected n below m"),
        (["cores.core.engines.sm.splits=[1, 1]"], "1 is given twice"),
        (["cores.core.engines.sm.formats.fp16.unit=[1]"], "['1'] is not one of the choices; expected 'tensor' or 'lanes'"),
        (["cores.core.engines.sm.lanes=0"], "1 or more"),
        (["l2.holds=[activations]"], "buffers of activations: l2; weights: none"),
    ],
)  # fmt: skip
def test_what_is_refused(overrides: list[str], told: str) -> None:
    with pytest.raises(SpecError) as error:
        accelsim.load_chip("a100-80-sxm", overrides)
    assert told in str(error.value)


def test_a_file_says_where(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(
        "use: chips/a100-80-sxm\nname: small\nsource: a test\nas_of: 2026\ncores: {core: {engines: {sm: {warps: 64}}}}\n"
    )
    with pytest.raises(SpecError, match=r"small\.yaml:5:31: cores\.core\.engines\.sm\.warps"):
        accelsim.load_chip(str(path))


def test_every_field_is_described():
    for model in (SPEC, type(GPU.tiles[0]), type(GPU.formats["fp16"]), ImplicitGemm):
        assert all(field.description for field in model.model_fields.values()), model


@pytest.mark.parametrize(
    ("issue", "lanes", "macs", "clocks"),
    [
        (None, 128, 128, 1 / 128),
        (128, 128, 128, 1 / 128 * (1 + 5 / 64)),  # every slot is one of a multiplication, and the loads want theirs
        (256, 128, 128, 1 / 128),
        (128, 64, 64, 1 / 64),  # half of the slots are free
        (128, 128, 256, 1 / 256 * (1 + 5 / 64)),  # two multiplications an instruction
    ],
)
def test_lanes_that_fill_the_slots_of_their_schedulers_share_them_with_loads(
    issue: int | None, lanes: int, macs: int, clocks: float
) -> None:
    form = GPU.formats["fp32"].model_copy(update={"macs": macs, "clocks": 1, "unit": "lanes"})
    spec = GPU.model_copy(update={"issue": issue, "lanes": lanes, "formats": {"fp32": form}})
    assert spec.clocks_of_product("fp32") == pytest.approx(clocks)


def test_fp64_has_small_tiles_on_tensor_cores_and_what_is_known_of_it():
    sm: Any = accelsim.load_chip("h200-sxm").engines["sm"]
    small = {"fp16": 64, "fp32": 16, "fp64": 16}
    for name, least in small.items():
        assert min(tile.n for tile in sm.tiles_of(name, batched=False)) == least
    ampere: Any = accelsim.load_chip("a100-80-sxm").engines["sm"]
    assert min(tile.n for tile in ampere.tiles_of("fp64", batched=False)) == 32
    assert (ampere.formats["fp64"].sustained, ampere.formats["fp64"].feed) == (1.0, 13.0)
    assert ampere.formats["tf32"].sustained == 0.85 and ampere.formats["fp32"].sustained == 0.9


def test_fp64_keeps_the_clock_that_the_formats_of_a_stated_droop_do_not():
    """(1 + 0.193) x 0.75 is below 1."""
    sm: Any = accelsim.load_chip("a100-80-sxm", ["sm.droop=0.193"]).engines["sm"]
    assert sm.droops("fp16") == pytest.approx(sm.droop) and sm.droops("fp64") < 0
    assert sm.pace("fp64") == 64 / 1024 and sm.pace("fp16") == 1 and sm.pace("int8") == 2


def test_tiles_of_the_library_are_powers_of_two_for_whole_warps():
    """Kernels are built for such sides, so that any product is cut into warps of 32 threads."""
    tiles = [TileShape.model_validate(tile) for tile in LIBRARY]
    assert len({(tile.m, tile.n) for tile in tiles}) == len(tiles)
    for tile in tiles:
        assert {bin(side).count("1") for side in (tile.m, tile.n, tile.threads)} == {1} and tile.threads >= 32
