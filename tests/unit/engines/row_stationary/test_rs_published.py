"""The Eyeriss chip: AlexNet within the errors told in the documentation, VGG-16 as it comes out, compression."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from accelsim.engines.row_stationary.counts import counts
from accelsim.engines.row_stationary.shape import Mapping
from accelsim.errors import UsageError
from tests.helpers.rs_best import best
from tests.validation import eyeriss_jssc2017 as published
from tests.validation import run_length as rlc
from tests.validation.eyeriss_jssc2017 import ALEXNET, EYERISS, VGG16, alexnet, glb_MB, processing_ms

ROWS = alexnet()
ERRORS = 100 * np.array([row.errors for row in ROWS])


def test_macs_are_those_of_the_table():
    """0.42, 0.90, 0.60, 0.45, 0.30 G of AlexNet, 46.04 G of VGG-16."""
    assert [round(layer.conv.macs / 1e9, 2) for layer in ALEXNET] == [0.42, 0.9, 0.6, 0.45, 0.3]
    assert sum(layer.conv.macs for layer in VGG16) / 1e9 == pytest.approx(46.04, abs=0.01)


def test_columns_add_up_to_the_published_totals():
    """Tables V and VI: ms, MB of the buffer and of DRAM, and the PEs at work over the processing time."""

    def totals(layers):
        sums = [sum(getattr(layer, name) for layer in layers) for name in ("ms", "glb_MB", "dram_MB")]
        return [*sums, sum(layer.active * layer.ms for layer in layers) / sums[0]]

    assert totals(ALEXNET) == pytest.approx([103.5, 208.6, 15.4, 148], rel=0.003)
    assert totals(VGG16) == pytest.approx([3755.2, 11025.6, 321.1, 158], rel=0.001)
    assert sum(published.ALEXNET_TOTAL_MS.values()) == pytest.approx(115.3)


def test_shapes_and_mappings_fit_each_other():
    """Windows reach the last row, each ifmap is the ofmap before with its padding, active PEs are those of the sets."""
    for layer in ALEXNET:
        conv, mapping = layer.conv, layer.mapping
        assert (conv.H - conv.R) % conv.U == (conv.W - conv.S) % conv.U == 0
        assert conv.R * mapping.e * mapping.r * mapping.t == layer.active
        assert conv.N % mapping.n == conv.M % (mapping.p * mapping.t) == conv.C % (mapping.q * mapping.r) == 0
    for before, after in pairwise(ALEXNET):
        side = (before.conv.E - 3) // 2 + 1 if before.pooled else before.conv.E
        assert after.conv.H == after.conv.W == side + 2 * ((after.conv.R - 1) // 2)
        assert before.conv.M * before.conv.G == after.conv.C * after.conv.G


def test_time_of_alexnet():
    assert np.abs(ERRORS[:, 0]).mean() < 6
    assert ERRORS[:, 0].round(1).tolist() == [0.7, -0.7, 0.4, 9.1, 16.3]


def test_glb_accesses_of_alexnet():
    """All but CONV3 to within 0.3 %."""
    assert np.abs(np.delete(ERRORS[:, 1], 2)).max() < 0.3
    assert ERRORS[2, 1].round(1) == 37.9


def test_conv3_has_the_accesses_of_another_mapping():
    """That of CONV4 and CONV5; under the published one the psums alone exceed the published accesses."""
    layer = ALEXNET[2]
    assert glb_MB(counts(layer.conv, ALEXNET[3].mapping)) == pytest.approx(layer.glb_MB, abs=0.05)
    psums = counts(layer.conv, layer.mapping).glb_psum_writes
    assert 2 * psums * published.WORD_B / 1e6 > layer.glb_MB


def test_dram_accesses_of_alexnet():
    """Where the zeros of the ofmap are known, within 1 %; elsewhere between the bounds but for CONV5."""
    for row in ROWS:
        low, high = row.dram_MB
        if row.layer.name in ("CONV1", "CONV2"):
            assert low < row.layer.dram_MB < high
    assert np.abs(ERRORS[2:4, 2]).max() < 1
    assert np.abs(ERRORS[:, 2]).mean() < 6


def test_time_of_vgg_under_mappings_of_ours():
    """Unseen, and without the chip's mappings: right only where both have the same bottleneck."""
    chosen = {conv: best(conv, EYERISS) for conv in dict.fromkeys(layer.conv for layer in VGG16)}
    errors = np.array([processing_ms(layer.conv, chosen[layer.conv]) / layer.ms - 1 for layer in VGG16])
    assert 100 * np.abs(errors).mean() == pytest.approx(38.2, abs=0.1)
    assert 100 * np.quantile(np.abs(errors), 0.9) == pytest.approx(76.7, abs=0.1)
    assert np.abs(errors[7:]).max() < 0.11


def test_time_of_vgg_is_that_of_its_psums():
    """From the published accesses alone: never longer than the chip took, within 15 %."""
    errors = np.array([published.psum_bound_ms(layer) / layer.ms - 1 for layer in VGG16])
    assert errors.max() < 0
    assert errors.min() > -0.15


def test_vgg_conv4_under_the_mapping_of_alexnet_conv3():
    """Looked for after the table had been read: p, q, r, t of CONV3, strips of 14 rows."""
    for layer in VGG16[7:10]:
        found = Mapping(64, 1, 14, 16, 4, 1, 4)
        assert processing_ms(layer.conv, found) == pytest.approx(layer.ms, rel=0.01)
        assert glb_MB(counts(layer.conv, found)) == pytest.approx(layer.glb_MB, rel=0.01)


@pytest.mark.parametrize("zeros", [0.0, 0.2, 0.5, 0.8, 0.95, 0.99])
def test_ratio_is_that_of_the_scheme(zeros):
    rng = np.random.default_rng(3)
    values = rng.integers(1, 9, 60_000) * (rng.random(60_000) >= zeros)
    assert rlc.encoded_bits(values) / (16 * values.size) == pytest.approx(rlc.ratio(zeros), rel=0.02)


def test_ratio_at_its_ends():
    assert rlc.ratio(0) == pytest.approx(4 / 3)
    assert rlc.ratio(1) == pytest.approx(4 / 3 / 32)
    assert rlc.encoded_bits(np.zeros(32)) == 64
    assert rlc.encoded_bits(np.array([1, 0, 2, 3])) == 64
    assert rlc.encoded_bits(np.array([1, 2, 3, 0])) == 128
    with pytest.raises(UsageError):
        rlc.ratio(1.5)


def test_compressed_words():
    found = counts(ALEXNET[3].conv, ALEXNET[3].mapping)
    assert rlc.dram_words(found) == found.level("dram")
    assert rlc.dram_words(found, 0.5, 0.25) == pytest.approx(
        found.dram_filter_reads + found.dram_ifmap_reads / 2 + found.dram_ofmap_writes / 4
    )


def test_padding_is_zeros():
    assert rlc.unpadded_zeros(1 - 169 / 225, 225, 169) == pytest.approx(0)
    assert rlc.unpadded_zeros(0.0001, 225, 169) == 0
