"""Constants of a chip: fields that no document states, which measurements have to give.

An engine type declares them: fields of its spec that carry the mark ``Fitted`` (``EngineSpec.constants``). The block
``calibration:`` of a chip gives them values, each by the name that ``--set`` takes (``sm.launch``); a constant that it
does not name, or that was set otherwise, is *not calibrated*, and whoever reads it says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from accelsim import units
from accelsim.spec.base import Model, declared, defaults
from accelsim.spec.counts import Name, Share, once
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Seconds
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip

M = TypeVar("M", bound=Model)


class Fitted(NamedTuple):
    """Mark of a field that is a constant: the range in which a fit may look for it, in SI, and its unit; ``simulated``:
    whether simulations read it (others are of single kernels, or of a site); ``kernels``: the only kind of kernels that
    it is of, '' for more than one; ``stated``: whether it is a constant only where a spec states it."""

    low: float
    high: float
    unit: str = ""
    simulated: bool = True
    kernels: str = ""
    stated: bool = False


Sustained = Annotated[Share, Fitted(0.3, 1.0, stated=True)]
"""A share of its rate that an array sustains."""


class Constant(NamedTuple):
    """A constant of one chip. ``path``: its place in the spec; ``engine``: name of its engine; ``value``,
    ``default``: current value and default; ``whole``: whether it is an integer; ``alone``: whether
    the chip has one kind of core; ``shares``: path of the constant whose value it takes unless it
    has its own; ``mechanism``: version of its engine's closed forms."""

    path: PathTo
    engine: str
    means: str
    mark: Fitted
    value: float
    default: float
    whole: bool
    alone: bool = True
    shares: PathTo = ()
    mechanism: int = 1

    @property
    def name(self) -> str:
        """Name in ``--set`` and ``calibration:``: 'sm.formats.fp16.sustained'; with its core where it is one of
        several kinds: 'little.sm.launch'."""
        of_core = self.path[0] == "cores"
        kind = self.path[1:2] if of_core and not self.alone else ()
        return ".".join(str(part) for part in (*kind, *self.path[3 if of_core else 1 :]))

    @property
    def of_shared(self) -> str:
        """Return the name of the constant whose value this one shares."""
        return self._replace(path=self.shares).name

    @property
    def number_format(self) -> str:
        """The number format that it is of, '' for what all have in common."""
        return str(self.path[self.path.index("formats") + 1]) if "formats" in self.path else ""

    def read(self, text: str) -> float:
        """The value that a text of a spec file says. ValueError for none of its dimension."""
        return units.parse(text, self.mark.unit) if self.mark.unit else float(text)

    def spell(self, value: float) -> str:
        """Return a value as text, as a spec file has it."""
        number = round(value) if self.whole else value
        return units.spell(number, self.mark.unit) if self.mark.unit else f"{number:g}"


def marked(model: Model, path: PathTo, engine: str) -> Iterator[Constant]:
    """The constants of a block at ``path``, and of the blocks and tables of blocks inside."""
    for name in defaults(type(model)):
        info = declared(type(model), name)
        inner, value = (*path, name), getattr(model, name)
        mark = next((each for each in info.marks if isinstance(each, Fitted)), None)
        if mark is not None:
            whole = isinstance(info.default, int)
            given, default = (0.0 if each is None else float(each) for each in (value, info.default))
            yield Constant(inner, engine, info.description, mark, given, default, whole)
        elif isinstance(value, Model):
            yield from marked(value, inner, engine)
        elif isinstance(value, dict):
            for key, each in value.items():
                if isinstance(each, Model):
                    yield from marked(each, (*inner, key), engine)


def constants(chip: Chip) -> dict[str, Constant]:
    """Every constant of a chip by its name, in the order of its engines."""
    found = (
        each._replace(alone=len(chip.cores) == 1, mechanism=unit.mechanism)
        for view in chip.views()
        for name, unit in view.engines.items()
        for each in unit.constants(view, name)
    )
    return {each.name: each for each in found}


def is_calibrated(chip: Chip, constant: Constant) -> bool:
    """Return whether the calibration of the chip, made with today's forms, gives a constant the value that it has."""
    block = chip.calibration
    if block is None or block.mechanism != constant.mechanism:
        return False
    text = block.values.get(constant.name)
    if text is None and constant.shares:
        text = block.values.get(constant.of_shared)
    return text is not None and constant.read(text) == constant.value


def outdated(chip: Chip) -> str:
    """Return a sentence that says that a calibration was made with other forms of the engine; '' for none such."""
    block = chip.calibration
    now = next((each.mechanism for each in constants(chip).values()), None) if block is not None else None
    if block is None or now is None or block.mechanism == now:
        return ""
    return (
        f"The calibration of {chip.name} was made with version {block.mechanism} of the kernel model, this is version "
        f"{now}: its constants count as uncalibrated until `accelsim calibrate` has fitted them again."
    )


def with_values(chip: Chip, values: Mapping[str, float], known: Mapping[str, Constant] | None = None) -> Chip:
    """The chip with other values of constants, by name, in SI; whole ones are rounded. KeyError for an unknown name.

    Constants that share the value of one of these get it too, unless they are named.

    ``known``: its constants, where they are at hand: to collect them takes longer than the rest.
    """
    known = constants(chip) if known is None else known
    for name, value in values.items():
        constant = known[name]
        alike = [other.path for other in known.values() if other.shares == constant.path and other.name not in values]
        for path in (constant.path, *alike):
            chip = _changed(chip, path, round(value) if constant.whole else value)
    return chip


def _changed(model: M, path: PathTo, value: float) -> M:
    """A copy of a block in which the field at ``path`` has this value."""
    return model.model_copy(update={str(path[0]): _inside(getattr(model, str(path[0])), path[1:], value)})


def _inside(block: Any, path: PathTo, value: float) -> Any:
    if not path:
        return value
    if isinstance(block, Model):
        return _changed(block, path, value)
    return {**block, path[0]: _inside(block[path[0]], path[1:], value)}


Rows = Annotated[int, Field(ge=1, le=10**9)]
Error = Annotated[float, Field(ge=0, le=100)]
"""A relative error, 0 to 100."""


class Residual(Model):
    """Error of the calibrated model on measurements that were not fitted."""

    rows: Rows = Field(description="compared measurements")
    median: Error = Field(description="median size of model / measured - 1")
    p90: Error = Field(description="90th percentile of it")


Factor = Annotated[float, Field(ge=1, le=1000)]
"""Factor by which a time is divided and multiplied, 1 to 1,000."""


class IntervalOf(Model):
    """An interval that holds nine of ten measurements."""

    factor: Factor = Field(description="ends: prediction divided by it, times it")
    rows: Rows = Field(description="left-out measurements behind it")


class Calibration(Model):
    """Fitted constants and their remaining error."""

    fitted_on: str = Field(description="measurements: of what, on which device, by whom")
    mechanism: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="version of the fitted closed forms; others do not hold"
    )
    elsewhere: bool = Field(
        False, description="predictions are for other labs: intervals cover the spread between labs"
    )
    host: Annotated[Seconds, Field(ge=0, le=1)] | None = Field(
        None, description="host time per kernel beside the measured chip, in an eager framework"
    )
    rows: Rows = Field(description="fitted measurements")
    residual: Residual = Field(description="remaining error")
    kinds: Annotated[list[Name], once] = Field([], description="measured kinds of kernels: only these have intervals")
    intervals: dict[str, IntervalOf] = Field(
        {}, description="kind and regime (`product: few waves`), kind (`product`), or `all` -> interval"
    )
    values: dict[str, str] = Field(
        min_length=1,
        description="constant by its `--set` name (`sm.launch`) -> value. A constant set elsewhere, too, is "
        "not calibrated",
    )
