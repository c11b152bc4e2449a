"""Kernels of serving stacks as families of ``KernelModel``: linear layers, attention of prompts and of single queries,
mixtures of experts; each row by the constants of its format and library."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.engines.kernel_times import Columns, KernelTimes, text_rows
from accelsim.engines.simt import serving_attention, serving_experts
from accelsim.engines.simt.serving_layers import COLUMNS as LAYER
from accelsim.engines.simt.serving_layers import Cost, Peak, layer_cost
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants as constants_of
from accelsim.spec.serving import (
    LIBRARIES,
    SPECIAL,
    Decode,
    Experts,
    Layer,
    Measured,
    Prefill,
    Served,
    served,
)
from accelsim.types import Array, Floats, Ints

if TYPE_CHECKING:
    from accelsim.engines.simt.constants import Device

NARROW = "fp8_e4m3fn"
"""Format of keys and values of one byte, by which constants know them."""
ALIKE: Mapping[str, str] = {"fp16": "bf16", "mxfp4": "nvfp4", "fp8_e5m2": "fp8_e4m3fn", "int8": "fp8_e4m3fn"}
"""Format -> the one whose constants it takes where it has none: that of one rate."""
WEIGHTS = ("int4", "int8", "fp8_e4m3fn", "fp4_e2m1fn", "mxfp4")
"""Formats of weights that are narrower than inputs."""
BLOCKS = ("mxfp4", "mxfp8_e4m3")
"""Formats with a scale for each block, of weights and inputs."""
OF_QUANTISER, OF_CUTS = ("quantiser", "row", "along", "quantising"), ("reduction", "added", "vector")
"""Constants of layers with narrow inputs, and of the others."""
OF_LONE = ("walk", "packing", "copying")
"""Constants of single queries where heads may have blocks of their own."""
SHORT, LONG = 2.0, 10.0
"""Multiples of the launches up to which a kernel is short, and from which it is long."""


class Part(NamedTuple):
    """Rows of a family with the same constants: their places, the constants' key and whether it is the rows' own."""

    rows: Ints
    key: str
    columns: Mapping[str, Floats]
    more: tuple[Floats, ...]


class Kind(NamedTuple):
    """A family: its block of the spec, the model of a row of it, its columns; what constants do not change; how long
    rows take; multiply-accumulates and bytes that no kernel does without."""

    block: str
    model: type[Measured]
    columns: Sequence[str]
    prepared: Callable[[Columns], tuple[Floats, ...]]
    cost: Callable[[Measured, Served, Peak, Columns, tuple[Floats, ...]], Cost]
    least: Callable[[Served, Columns, tuple[Floats, ...]], tuple[Floats, Floats]]


def _layer_least(form: Served, columns: Columns, more: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    m, k, n = (columns[name] for name in ("M", "K", "N"))
    return m * k * n, k * n * form.weight_B + m * k * form.activation_B + m * n * 2


def _attention_least(form: Served, columns: Columns, more: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    moved: Floats = np.sum(serving_attention.moved_B(columns), axis=0)
    return 2 * columns["head_dim"] * serving_attention.pairs(columns), moved


def _experts_least(form: Served, columns: Columns, more: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    return serving_experts.macs(columns, more[1]), serving_experts.weights_B(form, columns, more[0])


KINDS: Mapping[str, Kind] = {
    "layer": Kind(
        "layers", Layer, LAYER, lambda columns: (),
        lambda of, form, peak, columns, more: layer_cost(of, form, peak, columns),  # type: ignore[arg-type]
        _layer_least,
    ),
    "prefill": Kind(
        "prefill", Prefill, serving_attention.COLUMNS, lambda columns: (),
        lambda of, form, peak, columns, more: serving_attention.prefill_cost(of, peak, columns),  # type: ignore[arg-type]
        _attention_least,
    ),
    "decode": Kind(
        "decode", Decode, serving_attention.COLUMNS, lambda columns: (),
        lambda of, form, peak, columns, more: serving_attention.decode_cost(of, peak, columns),  # type: ignore[arg-type]
        _attention_least,
    ),
    "experts": Kind(
        "experts", Experts, serving_experts.COLUMNS, serving_experts.busy,
        lambda of, form, peak, columns, more: serving_experts.experts_cost(of, form, peak, columns, more),  # type: ignore[arg-type]
        _experts_least,
    ),
}  # fmt: skip
"""Family -> what it is."""


@dataclass(frozen=True)
class OfServing:
    """Rows of one family in one format, by the constants that they take."""

    device: Device
    kind: Kind
    form: Served
    count: int
    parts: tuple[Part, ...]

    @property
    def constants(self) -> Sequence[tuple[str, ...]]:
        """Constants by their names in the spec, of every key that the chip's spec has a row for."""
        names, found = constants_of(self.device.roles.chip), []
        for part in self.parts:
            prefix = f"{self.device.name}.serving.{self.kind.block}.{part.key}."
            no_use = unused(self.form, row(self.device, self.kind, part.key))
            found += [
                (name,)
                for name in names
                if name.startswith(prefix) and name.removeprefix(prefix) not in no_use
            ]
        return found

    def times(self, chip: Chip) -> KernelTimes:
        """Each row by its constants."""
        device = self.device.of(chip)
        found = np.zeros((10, self.count))
        for part in self.parts:
            found[:, part.rows] = self._part(device, part)
        seconds, launch, computing, moving, waves, m, n, parts, bound, floor = found
        binds = np.array(["launch", "products", "memory"], dtype=object)[
            np.argmax(np.stack([launch, computing, moving]), axis=0)
        ]
        tiles = text_rows(
            f"{rows:.0f}x{columns:.0f}" if rows else "" for rows, columns in zip(m, n, strict=True)
        )
        regime = regimes_of(seconds / floor)
        factor = np.zeros(self.count)
        for part in self.parts:
            factor[part.rows] = self._factors(device, part, regime[part.rows])
        return KernelTimes(seconds, bound, launch, tiles, parts, waves, binds, regime, factor)

    def _part(self, device: Device, part: Part) -> Floats:
        peak = device.peak(self.form.arithmetic)
        cost = self.kind.cost(row(device, self.kind, part.key), self.form, peak, part.columns, part.more)
        macs, moved = self.kind.least(self.form, part.columns, part.more)
        bound = device.bound(self.form.arithmetic, macs, moved)
        return np.stack([*cost, bound, np.maximum(cost.launch, 1e-9)])

    def _factors(self, device: Device, part: Part, regime: Array) -> Floats:
        """Factors of the intervals that the row of constants states; 0 of another chip, of a format of other bytes, and
        where none is stated."""
        serving, name = device.spec.serving, part.key.partition("/")[0]
        like = self.form if self.kind.block in ("prefill", "decode") else served(name)
        if (
            serving is None
            or serving.device != device.roles.chip.name
            or like is None
            or like[:2] != self.form[:2]
        ):
            return np.zeros(len(regime))
        known = row(device, self.kind, part.key).intervals
        pooled = known["all"].factor if "all" in known else 0.0
        return np.array([known[each].factor if each in known else pooled for each in regime.tolist()])

    def likely(self, chip: Chip, most: int) -> OfServing:
        """There is no choice."""
        return self


def regimes_of(over: Floats) -> Array:
    """Return where like errors are to be expected: by how many launches long a kernel is."""
    names = np.array(["launch", "short", "long"], dtype=object)
    found: Array = names[np.searchsorted([SHORT, LONG], over)]
    return found


def unused(form: Served, of: Measured) -> Sequence[str]:
    """Return the constants of a row that have no part in kernels of a format."""
    if isinstance(of, Layer):
        return OF_CUTS if form.quantises else OF_QUANTISER
    return OF_LONE if isinstance(of, Decode) and not of.lone else ()


def row(device: Device, kind: Kind, key: str) -> Measured:
    """Return the constants of a key: those of the spec, else the defaults."""
    serving = device.spec.serving
    found: Measured | None = getattr(serving, kind.block).get(key) if serving is not None else None
    return kind.model.model_construct() if found is None else found


def serving_formats(known: Collection[str]) -> list[str]:
    """Return the formats of serving kernels on a chip that multiplies in these."""
    pairs = [
        f"{weights}x{inputs}"
        for weights in WEIGHTS
        for inputs in ("fp16", "bf16", "fp8_e4m3fn", "mxfp8_e4m3")
    ]
    every = (*known, *SPECIAL, *BLOCKS, *pairs)
    return [name for name in every if (form := served(name)) is not None and form.arithmetic in known]


class ServingFamily:
    """One kind of kernel of serving stacks."""

    def __init__(self, kind: Kind) -> None:
        self._kind, self.columns = kind, kind.columns

    def prepared(self, device: Device, name: str, columns: Columns) -> OfServing:
        """Return the rows by the constants that they take."""
        kind, form = self._kind, served(name)
        assert form is not None
        count = len(next(iter(columns.values())))
        wanted = [_key(name, *pair) for pair in zip(*_choices(columns, count), strict=True)]
        keys = {each: self._known(device, each) for each in dict.fromkeys(wanted)}
        parts = []
        for key in dict.fromkeys(keys.values()):
            rows = np.array([index for index, each in enumerate(wanted) if keys[each] == key])
            own = {column: values[rows] for column, values in columns.items()}
            parts.append(Part(rows, key, own, kind.prepared(own)))
        return OfServing(device, kind, form, count, tuple(parts))

    def _known(self, device: Device, key: str) -> str:
        """The key itself where the spec has it, else that of a format of the same rate, else the key."""
        serving = device.spec.serving
        known = getattr(serving, self._kind.block) if serving is not None else {}
        name, slash, library = key.partition("/")
        form = served(name)
        usual = ALIKE.get(name, form.arithmetic if form is not None else name)
        wanted = (f"{each}{slash}{library}" for each in (name, usual, ALIKE.get(usual, usual), "bf16"))
        found = (_first(known, each) for each in wanted)
        return next((each for each in found if each), key)


def _first(known: Collection[str], key: str) -> str:
    """A key of constants, or the first of a format whose library nobody named; '' for none."""
    return key if key in known else next((each for each in known if each.startswith(f"{key}/")), "")


def _choices(columns: Columns, count: int) -> tuple[list[float], list[float]]:
    """Bytes of an element of keys (0: no keys) and library of each row."""
    none = np.zeros(count)
    return columns.get("kv_B", none).tolist(), columns.get("library", none).tolist()


def _key(name: str, kv_B: float, library: float) -> str:
    """Key of the constants of a row."""
    form = NARROW if kv_B == 1 else name
    return f"{form}/{LIBRARIES[int(library)]}" if library else form
