"""What was published of the Eyeriss chip, and what the model says of it. JSSC 2017, Tables III, V and VI.

Status of the figures: time and active PEs of AlexNet are as the tests of nn-dataflow cite them. The mappings of AlexNet
are recalled; a public re-implementation (github.com/moateff/Eyeriss-v1) configures the same but for ``m``, having other
numbers of filters. GLB and DRAM accesses, shares of zeros and all of VGG-16 are recalled; their sums reproduce the
recalled totals but for 0.1 % in the GLB accesses of VGG-16. The mappings of VGG-16 are not known to us.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.engines.row_stationary.counts import Counts, counts
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.engines.row_stationary.timing import clocks
from tests.validation.run_length import dram_words, ratio, unpadded_zeros

EYERISS = Geometry()
CLOCK_HZ = 200e6
WORD_B = 2
IMAGE_CHANNELS = 3


class Layer(NamedTuple):
    """Shape, published mapping and figures: ms of processing, MB of GLB and DRAM accesses, zeros of the ifmap.

    MB are 10^6 bytes. ``zeros`` is a share, of the ifmap with its padding (see ``dram_MB``). ``pooled``: a 3 x 3 max
    pooling lies between this ofmap and the next ifmap.
    """

    name: str
    conv: Conv
    mapping: Mapping | None
    active: int
    ms: float
    glb_MB: float
    dram_MB: float
    zeros: float
    pooled: bool = False


ALEXNET = (
    Layer("CONV1", Conv(4, 96, 3, 227, 227, 11, 11, U=4), Mapping(96, 1, 7, 16, 1, 1, 2),
          154, 16.5, 18.5, 5.0, 0.0001, True),
    Layer("CONV2", Conv(4, 128, 48, 31, 31, 5, 5, G=2), Mapping(64, 1, 27, 16, 2, 1, 1),
          135, 39.2, 77.6, 4.0, 0.387, True),
    Layer("CONV3", Conv(4, 384, 256, 15, 15, 3, 3), Mapping(64, 4, 13, 16, 4, 1, 4),
          156, 21.8, 50.2, 3.0, 0.725),
    Layer("CONV4", Conv(4, 192, 192, 15, 15, 3, 3, G=2), Mapping(64, 4, 13, 16, 3, 2, 2),
          156, 16.0, 37.4, 2.1, 0.793),
    Layer("CONV5", Conv(4, 128, 192, 15, 15, 3, 3, G=2), Mapping(64, 4, 13, 16, 3, 2, 2),
          156, 10.0, 24.9, 1.3, 0.776, True),
)  # fmt: skip
"""AlexNet at batch 4 (Tables III and V)."""

ALEXNET_TOTAL_MS = {"CONV1": 20.9, "CONV2": 41.9, "CONV3": 23.6, "CONV4": 18.4, "CONV5": 10.5}
"""Total latency, ms: processing, and what of the traffic with DRAM is not hidden behind it (Table V, recalled; their
sum is the published 115.3)."""


def _vgg(name: str, M: int, C: int, side: int, *figures: float) -> Layer:
    active, ms, glb_MB, dram_MB, zeros = figures
    return Layer(name, Conv(3, M, C, side + 2, side + 2, 3, 3), None, int(active), ms, glb_MB, dram_MB, zeros)


VGG16 = (
    _vgg("CONV1-1", 64, 3, 224, 156, 38.0, 112.6, 15.4, 0.016),
    _vgg("CONV1-2", 64, 64, 224, 156, 810.6, 2402.8, 54.0, 0.477),
    _vgg("CONV2-1", 128, 64, 112, 156, 405.3, 1201.4, 33.4, 0.248),
    _vgg("CONV2-2", 128, 128, 112, 156, 810.8, 2402.8, 48.5, 0.387),
    _vgg("CONV3-1", 256, 128, 56, 156, 204.0, 607.4, 20.2, 0.397),
    _vgg("CONV3-2", 256, 256, 56, 156, 408.1, 1214.8, 32.2, 0.581),
    _vgg("CONV3-3", 256, 256, 56, 156, 408.1, 1214.8, 30.8, 0.587),
    _vgg("CONV4-1", 512, 256, 28, 168, 105.1, 321.8, 17.8, 0.643),
    _vgg("CONV4-2", 512, 512, 28, 168, 210.0, 643.7, 28.6, 0.747),
    _vgg("CONV4-3", 512, 512, 28, 168, 210.0, 643.7, 22.8, 0.854),
    _vgg("CONV5-1", 512, 512, 14, 168, 48.3, 90.0, 6.3, 0.794),
    _vgg("CONV5-2", 512, 512, 14, 168, 48.5, 90.0, 5.7, 0.874),
    _vgg("CONV5-3", 512, 512, 14, 168, 48.5, 90.0, 5.6, 0.885),
)
"""VGG-16 at batch 3 (Table VI), recalled; without mappings."""


def processing_ms(conv: Conv, mapping: Mapping) -> float:
    """Processing time on the chip, ms."""
    return clocks(conv, EYERISS, mapping) / CLOCK_HZ * 1e3


def glb_MB(found: Counts[int]) -> float:
    """Accesses of the buffer as the table seems to count them, MB: ifmaps and psums to and from the array and ofmaps
    on their way out, without filters and without what comes from DRAM.

    Inferred: so counted, four of five layers of AlexNet agree to within 0.3 %.
    """
    words = found.glb_ifmap_reads + found.glb_psum_reads + found.glb_psum_writes + found.glb_ofmap_reads
    return words * WORD_B / 1e6


def ofmap_zeros(layer: Layer, after: Layer | None) -> tuple[float, float]:
    """Least and largest share of zeros of an ofmap that the published shares of ifmaps leave open.

    Without pooling it is that of the next ifmap, less its padding. A pooled value is zero where all nine values are:
    the share before pooling is at least the same (zeros stand together) and about its ninth root where each is zero
    for itself. After the last layer nothing was published: the share of its own ifmap stands in.
    """
    source = after or layer
    conv = source.conv
    padding = 2 * ((conv.R - 1) // 2)
    known = unpadded_zeros(source.zeros, conv.H * conv.W, (conv.H - padding) * (conv.W - padding))
    return known, known ** (1 / 9) if layer.pooled and after else known


def dram_MB(found: Counts[int], layer: Layer, after: Layer | None) -> tuple[float, float]:
    """Accesses of DRAM with compressed maps, MB, for the largest and the least share of zeros of the ofmap.

    The image itself is not compressed. Zeros of ifmaps are taken to be of the padded map: so counted, the two layers
    whose ofmap is known agree to within 1 %, and the padded map is what the uncompressed totals are made of, too.
    """
    few, many = ofmap_zeros(layer, after)
    ifmap = ratio(layer.zeros) if layer.conv.C > IMAGE_CHANNELS else 1.0
    least, most = (dram_words(found, ifmap, ratio(zeros)) * WORD_B / 1e6 for zeros in (many, few))
    return least, most


class Row(NamedTuple):
    """One layer as the model sees it, beside its published figures."""

    layer: Layer
    ms: float
    glb_MB: float
    dram_MB: tuple[float, float]

    @property
    def errors(self) -> tuple[float, float, float]:
        """Relative errors of time, GLB accesses and DRAM accesses (the middle of the interval)."""
        layer, middle = self.layer, sum(self.dram_MB) / 2
        return self.ms / layer.ms - 1, self.glb_MB / layer.glb_MB - 1, middle / layer.dram_MB - 1


def alexnet() -> list[Row]:
    """The five layers of AlexNet under the published mappings."""
    rows = []
    for layer, after in zip(ALEXNET, [*ALEXNET[1:], None], strict=True):
        assert layer.mapping is not None
        found = counts(layer.conv, layer.mapping)
        ms = processing_ms(layer.conv, layer.mapping)
        rows.append(Row(layer, ms, glb_MB(found), dram_MB(found, layer, after)))
    return rows


def psum_bound_ms(layer: Layer) -> float:
    """Least processing time, ms, that the published GLB accesses and active PEs leave: no mapping is needed for it.

    Most accesses are psums, half of them in and half out on buses of ``psum_words``; or all active PEs multiply always.
    """
    words = layer.glb_MB * 1e6 / WORD_B
    least = max(words / 2 / EYERISS.psum_words, layer.conv.macs / layer.active)
    return least / CLOCK_HZ * 1e3
