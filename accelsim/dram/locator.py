"""From the addresses of bursts to their banks and rows, by tables: for millions of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelsim.dram.device import Geometry
from accelsim.dram.mapping import Decoder

Array = np.ndarray[Any, Any]
_TABLE_BITS = 10
"""Address bits that one table translates."""


class Locator:
    """Address -> place: flat bank << ``row_bits`` | row, and the address bits that decide it.

    The flat bank is ((channel * ranks + rank) * groups + group) * banks + bank. Mappings only move and XOR bits, so the
    place of an address is the XOR of the places of its bits, looked up ten bits at a time. The lowest ``span`` bits
    change only the column: bursts that share the rest share the row.
    """

    def __init__(self, decoder: Decoder, geometry: Geometry) -> None:
        self.row_bits = geometry.rows.bit_length() - 1
        bits = np.arange(decoder.address_bits, dtype=np.int64)
        each = self._places(decoder, geometry, np.int64(1) << bits)
        self.span = int(np.argmax(np.r_[each, 1] != 0))
        self._tables = [
            self._places(decoder, geometry, np.arange(1 << _TABLE_BITS, dtype=np.int64) << low)
            for low in range(self.span, decoder.address_bits, _TABLE_BITS)
        ]

    def _places(self, decoder: Decoder, geometry: Geometry, addresses: Array) -> Array:
        place = decoder.decode(addresses)
        bank = (place.channel.astype(np.int64) * geometry.ranks + place.rank) * geometry.groups + place.group
        return ((bank * geometry.banks + place.bank) << self.row_bits) | place.row

    def places(self, lines: Array) -> Array:
        """Places of addresses, given as ``address >> span``."""
        mask = (1 << _TABLE_BITS) - 1
        place = self._tables[0].take(lines & mask, mode="clip")  # faster, as nothing is out of range
        for number, table in enumerate(self._tables[1:], 1):
            place ^= table.take((lines >> (number * _TABLE_BITS)) & mask, mode="clip")
        return np.asarray(place)
