"""From the addresses of bursts to their banks and rows, by tables."""

from __future__ import annotations

import numpy as np

from accelsim.dram.device import Geometry
from accelsim.dram.mapping import Decoder
from accelsim.types import Array

TABLE_BITS = 10
"""Address bits that one table translates."""


class Locator:
    """Address, as the decoder spread it -> place: flat bank << ``row_bits`` | row, and the address bits that decide it.

    The flat bank is ((channel * ranks + rank) * groups + group) * banks + bank. Mappings only move and XOR bits, so the
    place of an address is the XOR of the places of its bits, looked up ten bits at a time: ``tables``, int64, one of
    2^10 entries behind the other. The lowest ``span`` bits change only the column and are left out.
    """

    def __init__(self, decoder: Decoder, geometry: Geometry) -> None:
        self.row_bits = geometry.rows.bit_length() - 1
        bits = np.arange(decoder.address_bits, dtype=np.int64)
        each = self._places(decoder, geometry, np.int64(1) << bits)
        self.span = int(np.argmax(np.r_[each, 1] != 0))
        entries = np.arange(1 << TABLE_BITS, dtype=np.int64)
        lows = range(self.span, max(decoder.address_bits, self.span + 1), TABLE_BITS)
        self.tables = np.concatenate([self._places(decoder, geometry, entries << low) for low in lows])

    def _places(self, decoder: Decoder, geometry: Geometry, addresses: Array) -> Array:
        place = decoder.places(addresses)
        bank = (place.channel.astype(np.int64) * geometry.ranks + place.rank) * geometry.groups + place.group
        return ((bank * geometry.banks + place.bank) << self.row_bits) | place.row
