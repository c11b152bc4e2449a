"""Byte address <-> channel, rank, bank group, bank, row and burst of a row: the address mapping as one short text.

A mapping names its fields from the most to the least significant bits, each by two letters::

    ro row   ch channel   ra rank   ba bank of its group   bg bank group   co burst (column) of its row

``rochrababgco`` puts the row on top and the bursts of a row at the bottom, as DRAMsim3 writes it. Four additions:

- *Digits* after a field take that many of its low bits, the same letters without digits the rest: in
  ``rocobabgrachco2`` four bursts (2 bits) of a row lie together, then come channels, ranks and banks, then the rest of
  the row. ``ch3`` at the bottom and ``ch`` further up are eight channels and their pseudo-channels.
- ``:ch@256B`` (``:ch@4KiB``, ``:ch@burst``, ``:ch@page``) puts the channel field where consecutive blocks of that size
  change the channel; the fields are then written without ``ch``.
- ``^row``: group and bank, seen as one number with the group in its low bits, are XORed with the low bits of the row,
  so that equal banks of neighbouring rows become different ones.
- ``^co``: channel, rank, group, bank and row are XORed, in this order, with the bits of the column from the lowest up.

A field that the memory has only one of may be left out. Addresses beyond the capacity wrap. Channels that change by
blocks (``:ch@256B``) may be any number, such as the 40 of five stacks: block n is block n // 40 of channel n mod 40.
Rows may be any number where they are on top, such as those of stacks of twelve dies. All else is a power of two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.dram.device import Geometry
from accelsim.errors import Problem, UsageError, nearest
from accelsim.types import Array
from accelsim.units import parse_exact

CODES = {"ro": "row", "ch": "channel", "ra": "rank", "ba": "bank", "bg": "group", "co": "column"}
"""Letters of a field -> its name in :class:`Place`."""
CODES_OF = {name: code for code, name in CODES.items()}
SIZES = {"row": "rows", "channel": "channels", "rank": "ranks", "bank": "banks", "group": "groups", "column": "columns"}
"""Field -> the attribute of Geometry that says how many there are."""

ALIASES = {
    "row-bank-column": "rochrababgco",
    "column-lowest": "robabgracoch",
    "bank-group-lowest": "rorabachcobg",
    "bank-xor": "rochrababgco^row",
    "mop4": "rocobabgrachco2^row",
    "RoBaRaCoCh": "robabgracoch",
    "ChRaBaRoCo": "chrabgbaroco",
    "MOP4CLXOR": "rocobabgrachco2^co",
}
"""Names of mappings. The capitalised ones are Ramulator's (src/addr_mapper/impl/linear_mappers.cpp), whose MOP4CLXOR
takes its XOR from the column; ``mop4`` is minimalist open page (Kaseridis et al., MICRO 2011) with the row."""

FLIPS = {"row": ("row", ("group", "bank")), "co": ("column", ("channel", "rank", "group", "bank", "row"))}
"""Suffix ``^name`` -> (field whose low bits are taken, fields that they are XORed into, in this order)."""

_FORM = re.compile(r"(?P<order>[^:^]+)(?::ch@(?P<every>[^:^]+))?(?:\^(?P<flip>[^:^]+))?")
_FIELD = re.compile(r"([a-z]{2})(\d*)")


class Place(NamedTuple):
    """Places of bursts: int32 arrays of one shape. ``column``: the burst in its row."""

    channel: Array
    rank: Array
    group: Array
    bank: Array
    row: Array
    column: Array


class Piece(NamedTuple):
    """``bits`` bits of a field, from its bit ``shift`` up, at the address bits from ``at`` up."""

    field: str
    bits: int
    shift: int
    at: int


class Flip(NamedTuple):
    """The low ``bits`` bits of ``field`` are XORed with those of ``source`` from its bit ``shift`` up."""

    field: str
    bits: int
    source: str
    shift: int


@dataclass(frozen=True)
class Decoder:
    """One mapping of one geometry. ``address_bits``: bits of an address as ``spread`` leaves it, of which ``pieces``
    are cut; ``turns``: channels that take blocks of ``block_B`` in turn, where they or the rows are no power of two."""

    text: str
    pieces: tuple[Piece, ...]
    flips: tuple[Flip, ...]
    address_bits: int
    turns: int = 1
    block_B: int = 1
    capacity_B: int = 0

    @property
    def row_lsb(self) -> int:
        """The lowest address bit of the row: adding ``1 << row_lsb`` gives another row of (without XOR) one bank."""
        return min((piece.at for piece in self.pieces if piece.field == "row"), default=self.address_bits)

    def decode(self, addresses: Array) -> Place:
        """Return where the bytes at ``addresses`` (integers, any shape, not negative; they wrap at the capacity)
        lie."""
        return self.places(self.spread(np.asarray(addresses, np.int64)))

    def spread(self, addresses: Array) -> Array:
        """Addresses with the number of their channel above those within it, where channels take turns; else as they
        are: they are cut into fields bit by bit."""
        if not self.capacity_B:
            return addresses
        block, inside = np.divmod(addresses % self.capacity_B, self.block_B)
        within, channel = np.divmod(block, self.turns)
        spread: Array = (channel << self._within_bits) | (within * self.block_B + inside)
        return spread

    def _gathered(self, addresses: Array) -> Array:
        """``spread`` undone."""
        if not self.capacity_B:
            return addresses
        within, inside = np.divmod(addresses & ((1 << self._within_bits) - 1), self.block_B)
        gathered: Array = (within * self.turns + (addresses >> self._within_bits)) * self.block_B + inside
        return gathered

    @property
    def _within_bits(self) -> int:
        return (self.capacity_B // self.turns - 1).bit_length()

    def places(self, addresses: Array) -> Place:
        """Return channel, rank, group, bank, row and column of addresses that were spread."""
        fields = {name: np.zeros(addresses.shape, np.int64) for name in Place._fields}
        for field, bits, shift, at in self.pieces:
            fields[field] |= ((addresses >> at) & ((1 << bits) - 1)) << shift
        self._flip(fields)
        return Place(*(fields[name].astype(np.int32) for name in Place._fields))

    def encode(self, place: Place) -> Array:
        """The int64 address of the first byte of each burst: ``decode(encode(place)) == place``."""
        fields = {name: np.asarray(values, np.int64) for name, values in place._asdict().items()}
        self._flip(fields)
        addresses = np.zeros(np.broadcast_shapes(*(values.shape for values in fields.values())), np.int64)
        for field, bits, shift, at in self.pieces:
            addresses |= ((fields[field] >> shift) & ((1 << bits) - 1)) << at
        return self._gathered(addresses)

    def _flip(self, fields: dict[str, Array]) -> None:
        """XOR in place; a second time undoes it, as no source is among the fields that are changed."""
        for field, bits, source, shift in self.flips:
            fields[field] = fields[field] ^ ((fields[source] >> shift) & ((1 << bits) - 1))


def decoder(text: str, geometry: Geometry) -> Decoder:
    """The decoder of a mapping (fields as in the module's text, or a name of ``ALIASES``).

    Raises UsageError, with every problem, for an unknown name, a field that is missing, given twice or split into more
    bits than it has, a number of rows, banks, ... that is no power of two, or an interleave that does not fit.
    """
    found = problems(text, geometry)
    UsageError.raise_for(found)
    order, every, flip = _parts(text)
    flips = tuple(_flips(flip, _bits(geometry)))
    if every is not None and not (_is_power(geometry.channels) and _is_power(geometry.rows)):
        return _in_turns(text, order, _every_B(every, geometry), flips, geometry)
    pieces = _placed(order, geometry) if every is None else _interleaved(order, every, geometry)
    capacity_B = geometry.capacity_B
    wraps = {} if _is_power(geometry.rows) else {"block_B": capacity_B, "capacity_B": capacity_B}
    return Decoder(text, tuple(pieces), flips, (capacity_B - 1).bit_length(), **wraps)


def _in_turns(text: str, order: str, block_B: int, flips: tuple[Flip, ...], geometry: Geometry) -> Decoder:
    """A decoder of channels or rows that are no power of two: the channel's number lies above the addresses within."""
    within = (geometry.capacity_B // geometry.channels - 1).bit_length()
    bits = (geometry.channels - 1).bit_length()
    pieces = (*_placed(order, _one_channel(geometry)), Piece("channel", bits, 0, within))
    return Decoder(text, pieces, flips, within + bits, geometry.channels, block_B, geometry.capacity_B)


def _one_channel(geometry: Geometry) -> Geometry:
    return Geometry(**{**geometry.__dict__, "channels": 1})


def _is_power(count: int) -> bool:
    return count > 0 and not count & (count - 1)


def problems(text: str, geometry: Geometry) -> list[Problem]:
    """Everything that is wrong with a mapping of this geometry, [] when nothing is."""
    if _FORM.fullmatch(ALIASES.get(text, text)) is None:
        unknown = Problem(f"mapping {text!r} is not understood", "", _EXPECTED, nearest(text, ALIASES))
        return [*_sizes(geometry, frozenset()), unknown]
    order, every, flip = _parts(text)
    found = [*_sizes(geometry, _of_any_number(order, every, flip))]
    if flip and flip not in FLIPS:
        found.append(Problem(f"mapping {text!r}: ^{flip} is unknown", "", " or ".join(f"^{each}" for each in FLIPS)))
    if flip == "co" and not _is_power(geometry.channels):
        found.append(Problem(f"mapping {text!r}: ^co with {geometry.channels} channels", "", "a power of two"))
    fields = _FIELD.findall(order)
    if "".join(code + digits for code, digits in fields) != order or any(code not in CODES for code, _ in fields):
        near = nearest(text, ALIASES)
        return [*found, Problem(f"mapping {text!r}: {order!r} is no row of fields", "", _EXPECTED, near)]
    if found:
        return found
    if every is not None:
        found += _interleave(text, every, geometry)
    return [*found, *_fields(text, fields, every, _bits(geometry))]


_EXPECTED = "fields " + " ".join(CODES) + " from the highest to the lowest bits, or a name: " + ", ".join(ALIASES)


def _parts(text: str) -> tuple[str, str | None, str]:
    """(fields, interleave of the channels or None, XOR or '') of a mapping that has the right form."""
    match = _FORM.fullmatch(ALIASES.get(text, text))
    assert match is not None
    order, every, flip = match.group("order", "every", "flip")
    inner = _FORM.fullmatch(ALIASES.get(order, order))
    if inner is not None and order in ALIASES:
        order, flip = inner["order"].replace("ch", "") if every else inner["order"], flip or inner["flip"]
    return order, every, flip or ""


def _bits(geometry: Geometry) -> dict[str, int]:
    """Field -> its bits."""
    return {field: (getattr(geometry, size) - 1).bit_length() for field, size in SIZES.items()}


def _of_any_number(order: str, every: str | None, flip: str) -> frozenset[str]:
    """Return what need be no power of two: channels that take turns, rows on top of which none is split off."""
    rows = order.startswith(CODES_OF["row"]) and order.count(CODES_OF["row"]) == 1 and flip != "co"
    return frozenset(["channels"] * (every is not None) + ["rows"] * rows)


_ANY_NUMBER = {
    "channels": "; channels may be any number where they change by blocks (:ch@256B)",
    "rows": "; rows may be any number on top (ro first, and once)",
}


def _sizes(geometry: Geometry, but: frozenset[str]) -> Iterator[Problem]:
    """Only powers of two can be told apart by address bits; all ``but`` what takes turns, or lies on top."""
    for size in (*SIZES.values(), "access_B"):
        count = getattr(geometry, size)
        if size not in but and not _is_power(count):
            more = _ANY_NUMBER.get(size, "")
            yield Problem(
                f"{count} {size}: no power of two", "", f"an address mapping of bits needs powers of two{more}"
            )


def _fields(text: str, fields: list[tuple[str, str]], every: str | None, bits: dict[str, int]) -> Iterator[Problem]:
    """Each field once without digits, split within its bits, and none missing that the memory has several of."""
    for code, name in CODES.items():
        splits = [int(digits) for each, digits in fields if each == code and digits]
        whole = [each for each, digits in fields if each == code and not digits]
        said = f"mapping {text!r}: "
        if code == "ch" and every is not None:
            if splits or whole:
                yield Problem(said + "the channel has two places", "", "either ch among the fields or :ch@")
        elif len(whole) > 1:
            yield Problem(said + f"field {code} ({name}) is given twice", "", f"{code} once; {code}2 for two low bits")
        elif sum(splits) > bits[name]:
            yield Problem(said + f"{sum(splits)} bits of {name} are split off, it has {bits[name]}")
        elif not whole and sum(splits) < bits[name]:
            yield Problem(said + f"field {code} ({name}) is missing", "", f"{code}: there are {1 << bits[name]}")


def _interleave(text: str, every: str, geometry: Geometry) -> Iterator[Problem]:
    """The block after which the channel changes: a power of two between a burst and all of a channel."""
    said = f"mapping {text!r}: channels every {every}: "
    try:
        size = _every_B(every, geometry)
    except ValueError as error:
        yield Problem(said + str(error).partition(";")[0], "", "burst, page, or a size such as 256B")
        return
    channel_B = geometry.capacity_B // geometry.channels
    if size & (size - 1) or not geometry.access_B <= size <= channel_B:
        yield Problem(said + "not possible", "", f"a power of two from {geometry.access_B} B (one burst) up")


def _every_B(every: str, geometry: Geometry) -> int:
    """Bytes of a block that lies in one channel."""
    named = {"burst": geometry.access_B, "page": geometry.row_B}
    return named[every] if every in named else int(parse_exact(every, "B"))


def _placed(order: str, geometry: Geometry) -> list[Piece]:
    """Pieces from the lowest bits up."""
    bits, used, pieces = _bits(geometry), dict.fromkeys(SIZES, 0), []
    at = geometry.access_B.bit_length() - 1
    for code, digits in reversed(_FIELD.findall(order)):
        field = CODES[code]
        count = int(digits) if digits else bits[field] - _split(order, code)
        shift = used[field] if digits else _split(order, code)
        if count:
            pieces.append(Piece(field, count, shift, at))
        used[field] += count if digits else 0
        at += count
    return pieces


def _split(order: str, code: str) -> int:
    """Low bits of a field that are split off from it."""
    return sum(int(digits) for each, digits in _FIELD.findall(order) if each == code and digits)


def _interleaved(order: str, every: str, geometry: Geometry) -> list[Piece]:
    """``_placed`` with the channel pushed in at a block of ``every``; a field that lies across it is split."""
    channels = geometry.channels.bit_length() - 1
    border = _every_B(every, geometry).bit_length() - 1
    pieces = [Piece("channel", channels, 0, border)] if channels else []
    for field, bits, shift, at in _placed(order, _one_channel(geometry)):
        low = min(max(border - at, 0), bits)
        if low:
            pieces.append(Piece(field, low, shift, at))
        if bits - low:
            pieces.append(Piece(field, bits - low, shift + low, max(at, border) + channels))
    return pieces


def _flips(flip: str, bits: dict[str, int]) -> Iterator[Flip]:
    """The XORs of a suffix: one field after the other takes its bits from the source, as long as it has any."""
    source, fields = FLIPS.get(flip, ("row", ()))
    used = 0
    for field in fields:
        count = min(bits[field], bits[source] - used)
        if count > 0:
            yield Flip(field, count, source, used)
        used += bits[field]
