"""Kernels of serving stacks as families of ``KernelModel``: linear layers, attention of prompts and of single queries,
mixtures of experts; each row by the constants of its format and library."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.kernel_times import Columns, KernelCost, KernelTimes, Names, Prepared
from accelsim.engines.simt import serving_attention as attention
from accelsim.engines.simt import serving_experts as experts
from accelsim.engines.simt import serving_layers as layers
from accelsim.engines.simt.constants import Device
from accelsim.spec.constants import constants as constants_of
from accelsim.spec.serving import LIBRARIES, SPECIAL, Decode, Experts, Layer, Measured, Prefill, Served, served
from accelsim.types import Array, Floats, Ints

NARROW = "fp8_e4m3fn"
"""Format of keys and values of one byte, by which constants know them."""
ALIKE: Mapping[str, str] = {"fp16": "bf16", "mxfp4": "nvfp4", "fp8_e5m2": "fp8_e4m3fn", "int8": "fp8_e4m3fn"}
"""Format -> the one whose constants it takes where it has none: that of one rate."""
WEIGHTS = ("int4", "int8", "fp8_e4m3fn", "fp4_e2m1fn", "mxfp4")
"""Formats of weights that are narrower than inputs."""
INPUTS = ("fp16", "bf16", "fp8_e4m3fn", "mxfp8_e4m3")
"""Formats of the inputs of such layers."""
BLOCKS = ("mxfp4", "mxfp8_e4m3")
"""Formats with a scale for each block, of weights and inputs."""
OF_QUANTISER, OF_CUTS = ("quantiser", "row", "along", "quantising"), ("reduction", "added", "vector")
"""Constants of layers with narrow inputs, and of the others."""
OF_LONE = ("walk", "packing", "copying")
"""Constants of single queries where heads may have blocks of their own."""
SHORT, LONG = 2.0, 10.0
"""Multiples of the launches up to which a kernel is short, and from which it is long."""


class RowGroup(NamedTuple):
    """Rows of a family with the same constants: their places, the key of the constants, their columns."""

    rows: Ints
    key: str
    columns: Columns


class Kind(NamedTuple):
    """A family: its block of the spec, the model of a row of it, its columns, how long rows take by constants, and the
    multiply-accumulates and bytes that no kernel does without. ``prepared``: columns with what follows from them."""

    block: str
    model: type[Measured]
    columns: Sequence[str]
    cost: Callable[[Any, Served, layers.Peak, Columns], KernelCost]
    least: Callable[[Served, Columns], tuple[Floats, Floats]]
    prepared: Callable[[Columns], Columns] = dict


KINDS: Mapping[str, Kind] = {
    "layer": Kind("layers", Layer, layers.COLUMNS, layers.layer_cost, layers.least_work),
    "prefill": Kind("prefill", Prefill, attention.COLUMNS, attention.prefill_cost, attention.least_work),
    "decode": Kind("decode", Decode, attention.COLUMNS, attention.decode_cost, attention.least_work),
    "experts": Kind("experts", Experts, experts.COLUMNS, experts.experts_cost, experts.least_work, experts.with_loads),
}
"""Family -> what it is."""


def serving_kernels(kind: Kind, device: Device, name: str, columns: Columns) -> Prepared:
    """Prepare kernels of one family in one format."""
    form, parts = served(name), parts_of(kind, device, name, columns)
    assert form is not None
    count = len(next(iter(columns.values())))
    return Prepared(
        _constants(kind, device, form, parts), lambda chip: _times(kind, Device(chip, device.name), form, parts, count)
    )


def parts_of(kind: Kind, device: Device, name: str, columns: Columns) -> list[RowGroup]:
    """Return the rows of a family by the constants that they take: by format, bytes of keys (0: none), library."""
    none = np.zeros(len(next(iter(columns.values()))))
    chosen = zip(columns.get("kv_B", none).tolist(), columns.get("library", none).tolist(), strict=True)
    wanted = [_key(name, *pair) for pair in chosen]
    keys = {each: _known_key(kind, device, each) for each in dict.fromkeys(wanted)}
    parts = []
    for key in dict.fromkeys(keys.values()):
        rows = np.array([index for index, each in enumerate(wanted) if keys[each] == key])
        own = {column: values[rows] for column, values in columns.items()}
        parts.append(RowGroup(rows, key, kind.prepared(own)))
    return parts


def _key(name: str, kv_B: float, library: float) -> str:
    form = NARROW if kv_B == 1 else name
    return f"{form}/{LIBRARIES[int(library)]}" if library else form


def _known_key(kind: Kind, device: Device, key: str) -> str:
    """The key itself where the spec has it, else that of a format of the same rate, else the key."""
    serving = device.spec.serving
    known: Collection[str] = getattr(serving, kind.block) if serving is not None else ()
    name, slash, library = key.partition("/")
    form = served(name)
    usual = ALIKE.get(name, form.arithmetic if form is not None else name)
    wanted = (f"{each}{slash}{library}" for each in (name, usual, ALIKE.get(usual, usual), "bf16"))
    found = (each if each in known else _of_any_library(known, each) for each in wanted)
    return next((each for each in found if each), key)


def _of_any_library(known: Collection[str], key: str) -> str:
    return next((each for each in known if each.startswith(f"{key}/")), "")


def _constants(kind: Kind, device: Device, form: Served, parts: Sequence[RowGroup]) -> Names:
    """Constants by their names in the spec, of every key that the chip's spec has a row for."""
    names, found = constants_of(device.roles.chip), []
    for part in parts:
        prefix = f"{device.name}.serving.{kind.block}.{part.key}."
        own = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        no_use = unused(form, row(device, kind, part.key))
        found += [(prefix + name,) for name in own if name not in no_use]
    return found


def _times(kind: Kind, device: Device, form: Served, parts: Sequence[RowGroup], count: int) -> KernelTimes:
    """Each row by its constants."""
    found, factor, peak = np.zeros((9, count)), np.zeros(count), device.peak(form.arithmetic)
    for part in parts:
        cost = kind.cost(row(device, kind, part.key), form, peak, part.columns)
        bound = device.bound(form.arithmetic, *kind.least(form, part.columns))
        found[:, part.rows] = np.stack([*cost, bound])
    cost = KernelCost(*found[:8])
    regime = regimes_of(cost.seconds / np.maximum(cost.launch, 1e-9))
    for part in parts:
        factor[part.rows] = _factors(kind, device, form, part.key, regime[part.rows])
    return cost.times(found[8], regime, factor)


def _factors(kind: Kind, device: Device, form: Served, key: str, regime: Array) -> Floats:
    """Factors of the intervals that the row of constants states; 0 of another chip, of a format of other bytes, and
    where none is stated."""
    serving = device.spec.serving
    like = form if kind.block in ("prefill", "decode") else served(key.partition("/")[0])
    own = serving is not None and serving.device == device.roles.chip.name
    if not own or like is None or like[:2] != form[:2]:
        return np.zeros(len(regime))
    known = row(device, kind, key).intervals
    pooled = known["all"].factor if "all" in known else 0.0
    return np.array([known[each].factor if each in known else pooled for each in regime.tolist()])


def regimes_of(over: Floats) -> Array:
    """Return where like errors are to be expected: by how many launches long a kernel is."""
    names = np.array(["launch", "short", "long"], dtype=object)
    found: Array = names[np.searchsorted([SHORT, LONG], over)]
    return found


def unused(form: Served, constants: Measured) -> Sequence[str]:
    """Return the constants of a row that have no part in kernels of a format."""
    if isinstance(constants, Layer):
        return OF_CUTS if form.quantises else OF_QUANTISER
    return OF_LONE if isinstance(constants, Decode) and not constants.lone else ()


def row(device: Device, kind: Kind, key: str) -> Measured:
    """Return the constants of a key: those of the spec, else the defaults."""
    serving = device.spec.serving
    found: Measured | None = getattr(serving, kind.block).get(key) if serving is not None else None
    return kind.model.model_construct() if found is None else found


def serving_formats(known: Collection[str]) -> list[str]:
    """Return the formats of serving kernels on a chip that multiplies in these."""
    pairs = (f"{weights}x{inputs}" for weights in WEIGHTS for inputs in INPUTS)
    every = (*known, *SPECIAL, *BLOCKS, *pairs)
    return [name for name in every if (form := served(name)) is not None and form.arithmetic in known]
