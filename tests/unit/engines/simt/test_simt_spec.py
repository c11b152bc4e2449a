"""The spec of a GPU: what a block takes, peaks, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pydantic import ValidationError

from accelsim.engines.simt.spec import SPEC, Simt, operands_B
from accelsim.engines.simt.waves import Needs
from tests.helpers.simt_cases import GPU, SMALL, changed


def test_the_block_of_a_tile():
    """64 x 32 sums of 4 B and 128 threads with 128 B each; two steps of 8 x (64 + 32) operands of 2 B."""
    assert GPU.needs(GPU.tiles[0], "fp16") == Needs(128, 64 * 32 * 4 + 128 * 128, 2 * 8 * 96 * 2)
    assert GPU.residents(GPU.tiles[0], "fp16") == 2  # registers: 65,536 of 24,576 each
    assert GPU.residents(GPU.tiles[2], "fp32") == 8  # blocks


def test_wider_formats_take_more():
    narrow, wide = (GPU.needs(GPU.tiles[0], name) for name in ("fp16", "fp64"))
    assert wide.registers_B - narrow.registers_B == 64 * 32 * 4
    assert wide.shared_B * 2 == narrow.shared_B  # 8 B, but steps of 1 and not of 8


def test_peaks_are_those_of_all_multiprocessors():
    assert GPU.peak(1e9, "fp16") == 2 * 4 * 64 * 1e9
    assert GPU.peak(1e9, "fp64") == 2 * 4 * 0.5 * 1e9
    assert changed(clock="2 GHz").peak(1e9, "fp16") == 2 * 4 * 64 * 2e9


def test_pairs_of_formats_have_weights_first():
    assert operands_B("int4xint8") == (1, Fraction(1, 2))
    assert operands_B("tf32") == (4, 4)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"registers": "6000 B", "tiles": SMALL["tiles"][2:]}, "no tile fits a multiprocessor in fp64; expected"),
        ({"shared": "700 B"}, "tiles.0 (64 x 32) takes 128 threads, 24,576 B of registers and 3,072 B of shared"),
        ({"tiles": [*SMALL["tiles"], {"m": 32, "n": 32, "threads": 1024}]}, "tiles.3 (32 x 32) takes 1,024 threads"),
        ({"formats": {}}, "at least 1 item"),
        ({"lanes": 0}, "greater than or equal to 1"),
        ({"warps": 64}, "Extra inputs"),
    ],
)  # fmt: skip
def test_what_is_refused(fields, told):
    with pytest.raises(ValidationError) as error:
        changed(**fields)
    assert told in str(error.value)


def test_formats_that_there_are_not_are_left_to_the_laws_of_a_chip():
    assert "fp17" in changed(formats={**SMALL["formats"], "fp17": {"macs": 1}}).formats


def test_every_field_is_described():
    for model in (SPEC, type(GPU.tiles[0]), type(GPU.formats["fp16"])):
        assert all(field.description for field in model.model_fields.values()), model
    assert SPEC is Simt
