"""Multiplication of one operand format on a multiprocessor, on Tensor Cores or lanes, and its measured
constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from accelsim.errors import brief, nearest
from accelsim.formats.table import get
from accelsim.spec.base import Model
from accelsim.spec.constants import Fitted
from accelsim.spec.counts import Lanes, Pace, Parts, Share, Side
from accelsim.spec.declaring import Field
from accelsim.spec.laws.finding import Finding
from accelsim.spec.names import format_bits, nearest_format, operand_formats
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip


class Sparse(Model):
    """N:M sparsity: at most N in each M weights along the reduction are nonzero, stored and multiplied."""

    n: Side = Field(description="weights kept")
    m: Side = Field(description="weights in a group")


def formats_are_known(unit: Any, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Names of number formats are those of ``accelsim.formats.table``, or pairs of them: int4xint8."""
    for name, mac in unit.formats.items():
        for inner, each in ((name,), name), ((name, "accumulate"), mac.accumulate):
            if format_bits(each) is None:
                what = f"{brief(each)} is no number format"
                yield Finding((*path, "formats", *inner), what, "int8, fp16, int4xint8, ...", nearest_format(each))


def dot_rules_fit(unit: Any, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Each dot-product rule of a unit is in the table of rules and accepts the format that it stands at."""
    from accelsim.formats import dot

    for name, mac in unit.formats.items():
        if mac.dot is None:
            continue
        known = dot.rules_for(name) if format_bits(name) is not None else ()
        if known and mac.dot not in known:
            what = f"{mac.dot!r} is no rule that adds up products of {name}"
            expected = "one of " + ", ".join(known)
            yield Finding((*path, "formats", name, "dot"), what, expected, nearest(mac.dot, known))


Feed = Annotated[float, Field(ge=0, le=4096)]
"""Multiply-accumulates, 0 to 4,096."""
Results = Annotated[float, Field(ge=1, le=65_536)]
"""Results of a tile, 1 to 65,536."""
Droop = Annotated[float, Field(ge=0, le=10)]
"""A share by which something takes longer, 0 to 10."""


class OfUnit(NamedTuple):
    """Measured constants of a multiplying unit on all chips: a format that no calibration names takes it."""

    sustained: float
    feed: float
    step: int


UNITS = {"tensor": OfUnit(0.85, 22.0, 32), "lanes": OfUnit(0.90, 10.0, 8)}
"""Units that multiply, with what formats of theirs take where the spec says nothing: fitted on the measured products of
all devices together (docs/gpu-kernels.md)."""
UNIT_OF: Mapping[tuple[str, str], OfUnit] = {("tensor", "fp64"): OfUnit(1.0, 13.0, 16)}
"""Unit and format -> the same, where it is known of the format: fitted on 30 products of an H200
(tests/golden/h200)."""
DRAWS: Mapping[tuple[str, str], float] = {("tensor", "fp64"): 0.75}
"""Unit and format -> what it draws beside its other formats, 1 where nothing is said. Of FP64 at the most so much: an
H200 and an H100 keep their clock in products of 13 and 4 ms, where it falls in those of FP16."""


class ImplicitGemm(Model):
    """Convolutions of one format by own implicit-GEMM kernels, without K cuts and Winograd."""

    sustained: Annotated[Share, Fitted(0.02, 1.0)] = Field(0.8, description="share of the products' rate")
    tile: Annotated[Results, Fitted(1.0, 65536.0)] = Field(
        4096.0, description="results of the smallest tile, below which a K step gets no faster"
    )
    pointwise: Annotated[Share, Fitted(0.05, 1.0)] = Field(
        0.5, description="share of that rate for 1 x 1 filters with stride or padding, which are no plain products"
    )
    strided: Annotated[Droop, Fitted(0.0, 4.0)] = Field(
        0.5, description="blocks in whose time strided inputs are gathered first"
    )
    channels: Side = Field(8, description="channels per K step on Tensor Cores, at one filter position, padded")
    fft: Parts | None = Field(
        None,
        description="thousands of images x channels x results from which filters above 3 x 3 with stride 1 "
        "use FFTs; absent: never",
    )


class SimtFormat(Model):
    """One operand format of a multiprocessor."""

    unit: Literal["tensor", "lanes"] = Field("tensor", description="Tensor Cores (matrix cores), or lanes")
    macs: Lanes = Field(description="peak multiply-accumulates of a multiprocessor in `clocks`")
    clocks: Pace = Field(1, description="above 1 for less than one per clock")
    accumulate: str = Field("fp32", description="sum format")
    dot: str | None = Field(None, description="[rule of sums](mixed-precision.md); absent: exact, or FP32")
    sustained: Annotated[Share, Fitted(0.2, 1.0)] = Field(
        UNITS["tensor"].sustained,
        description=f"share of the peak with the best tile; lanes: default {UNITS['lanes'].sustained:g}, "
        f"FP64 on Tensor Cores: {UNIT_OF['tensor', 'fp64'].sustained:g}",
    )
    feed: Annotated[Feed, Fitted(0.0, 256.0)] = Field(
        UNITS["tensor"].feed,
        description="time of an operand element from shared memory to the unit, in multiply-accumulates; "
        f"lanes: default {UNITS['lanes'].feed:g}, FP64 on Tensor Cores: {UNIT_OF['tensor', 'fp64'].feed:g}",
    )
    sparse: Sparse | None = Field(None, description="structured sparsity that it skips")
    step: Side = Field(
        UNITS["tensor"].step, description=f"K per step, to which K is rounded up; lanes: default {UNITS['lanes'].step}"
    )

    convolution: ImplicitGemm | None = Field(
        None, description="the library's own convolution kernels; absent: as products, or Winograd where faster"
    )

    @property
    def rate(self) -> Fraction:
        """Multiply-accumulates per clock and multiprocessor."""
        return Fraction(self.macs, self.clocks)


def shared_format(formats: Mapping[str, object], name: str) -> str:
    """Return the first format that multiplies as fast as ``name`` on the same unit, with operands of the same size:
    it stands for all of them in a calibration."""
    pace = _pace(name, formats[name])
    return next(other for other, form in formats.items() if _pace(other, form) == pace)


def sharing(blocks: Mapping[str, object], name: str) -> list[str]:
    """Return the formats that ``name`` stands for, from the blocks of a file as they are: none where it is not the
    first."""
    alike = [
        other
        for other, block in blocks.items()
        if isinstance(block, dict) and _pace(other, block) == _pace(name, blocks[name])
    ]
    return alike[1:] if alike[:1] == [name] else []


def _pace(name: str, form: Any) -> tuple[Any, ...]:
    if isinstance(form, dict):
        unit, macs, clocks = form.get("unit", "tensor"), form.get("macs"), form.get("clocks", 1)
    else:
        unit, macs, clocks = form.unit, form.macs, form.clocks
    return unit, str(macs), str(clocks), operands_B(name) if format_bits(name) is not None else name


def of_its_unit(name: str, block: Any) -> Any:
    """A format with what measurements say of it, or of its unit, where nothing else is given."""
    unit = block.get("unit", "tensor") if isinstance(block, dict) else None
    if not isinstance(unit, str) or unit not in UNITS:  # which the fields tell
        return block
    return {**UNIT_OF.get((unit, name), UNITS[unit])._asdict(), **block}


@cache
def operands_B(name: str) -> tuple[Fraction, Fraction]:
    """Bytes of an element of both operands, activations first, of a format or a pair ``weights x activations``."""
    found = operand_formats(name) or ()
    weights, activations = (found[0], found[-1])
    return Fraction(activations.storage_bits) / 8, Fraction(weights.storage_bits) / 8


@cache
def storage_B(name: str) -> Fraction:
    """Bytes of an element of a format in a memory."""
    return Fraction(get(name).storage_bits) / 8
