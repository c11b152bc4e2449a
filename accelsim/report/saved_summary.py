"""The summary of a saved run, read as what somebody may have edited: every field that is used has its type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from accelsim.account.energy_basis import ABSENT, ESTIMATED, STATED
from accelsim.errors import Problem, UsageError
from accelsim.files.reading import is_file, read_text
from accelsim.report.text import Facts
from accelsim.report.write import MOST_FACTS_B, STEP, STEP_PAGE, SUMMARY, is_report
from accelsim.request import OPTIONS
from accelsim.request.fields import DEFAULTS, FORMER, MAPPINGS
from accelsim.request.option import Kind
from accelsim.spec.declaring import wanted

LARGEST = 1e60
"""Far beyond any figure of a run in its unit, far from what overflows in a ratio."""
Figure = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]


class _Strict(BaseModel):
    """Types are those of JSON, none is turned into another; fields that nobody reads may be there."""

    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=())


CALLS_IN_A_GENERATION = ("prefill", "decode")
"""Directories with reports of single calls within the report of a generation."""


class Flow(_Strict):
    """Bytes that one memory gave and took."""

    read_B: Figure
    write_B: Figure


class Basis(_Strict):
    """Energy basis as ``account.energy_basis`` writes it."""

    table_node: str
    table_sha256: str
    idle_power_W: Figure | None
    idle_power: Literal["stated", "an estimate", "not stated"]
    by_command: list[str] = []

    @model_validator(mode="after")
    def _charged(self) -> Self:
        if (self.idle_power == ABSENT) != (self.idle_power_W is None):
            stated = f"{STATED!r} or {ESTIMATED!r}"
            raise ValueError(f"idle_power_W is a number where idle_power is {stated}, else null")
        return self


JSON: dict[Kind, Any] = {
    "argument": str, "chips": str, "text": str, "texts": list[str], "flag": bool, "count": int, "whole": int,
    "percent": Figure, "size": int, "file": str, "extents": dict[str, list[int]], "counts": dict[str, int],
    "formats": dict[str, str],
}  # fmt: skip
"""Kind of a field on the command line -> type of its value in a file."""
OTHERWISE: Facts = {"mapping": str | dict[str, Facts], "scales": str | dict[str, Figure | list[Figure]]}
"""Fields that a file can hold in another way too."""


def _held(name: str) -> tuple[Any, Any]:
    kind = OTHERWISE.get(name) or JSON[OPTIONS[name].kind]
    return (kind | None if DEFAULTS[name] is None and name not in MAPPINGS else kind, None)


if TYPE_CHECKING:
    Asked = _Strict
else:
    Asked = create_model("Asked", __base__=_Strict, **{name: _held(name) for name in OPTIONS})
    """Fields of a request that a file can hold: as JSON has them."""


class Record(_Strict):
    """Record of a request as ``request.record`` writes it."""

    command: str = ""
    asked: Asked = Asked()
    in_memory: list[str] = []
    files: dict[str, str] = {}
    chip_sha256: str = ""
    model_sha256: str = ""
    versions: dict[str, str] = {}


class Saved(_Strict):
    """Fields of a summary that the program reads; the others are only shown."""

    chip: str
    model: str
    dtype: str
    batch: Annotated[int, Field(ge=1)]
    counts: Literal["inferences", "products", "passes"] = "inferences"
    latency_s: Figure
    energy_per_inference_J: Figure
    power_average_W: Figure | None
    utilisation: Figure | None
    throughput_per_s: Figure | None
    achieved_TOPS: Figure | None
    traffic: dict[str, Flow]
    energy_by_category_J: dict[str, Figure]
    values: str = ""
    memory_model: str = ""
    run: Record = Record()
    energy_basis: Basis | None = None
    what_ifs: list[Facts] | None = None


def read_summaries(folders: list[Path]) -> list[Facts]:
    """Read the summary in each directory. Raises UsageError with all problems: no report, or a wrong field."""
    found = [_read(folder) for folder in folders]
    problems = [problem for each in found if isinstance(each, list) for problem in each]
    UsageError.raise_for(problems)
    return [each for each in found if isinstance(each, dict)]


def _read(folder: Path) -> Facts | list[Problem]:
    calls = [folder / part for part in CALLS_IN_A_GENERATION if is_file(folder / part / SUMMARY)]
    expected = f"one of its calls: {' or '.join(map(str, calls))}" if calls else "a directory with the report of a run"
    unreadable = Problem(f"has no readable {SUMMARY}", str(folder), expected)
    if is_file(folder / STEP):
        what = f"is the report of a training step; its page is {folder / STEP_PAGE}"
        return [Problem(what, str(folder), expected)]
    if not is_report(folder):
        return [unreadable]
    try:
        content = read_text(folder / SUMMARY, MOST_FACTS_B)
        entry: Facts = json.loads(content, parse_constant=_refuse)
        json.dumps(entry, ensure_ascii=False).encode()  # halves of characters cannot be printed
    except (OSError, ValueError, RecursionError):
        return [unreadable]
    return _problems(entry, folder / SUMMARY) or _of_today(entry)


def _of_today(entry: Facts) -> Facts:
    record = entry.get("run", {})
    asked = {FORMER.get(name, name): value for name, value in record.get("asked", {}).items()}
    lost = [FORMER.get(name, name) for name in record.get("in_memory", [])]
    return {**entry, "run": {**record, "asked": asked, "in_memory": lost}} if record else entry


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _problems(entry: Facts, file: Path) -> list[Problem]:
    try:
        Saved.model_validate(entry)
    except ValidationError as error:
        told: dict[str, Problem] = {}
        for each in error.errors():
            path, missing = _path(entry, each["loc"]), each["type"] == "missing"
            what = f"{path} is {'missing' if missing else _shown(each['input'])}"
            told.setdefault(path, Problem(what, str(file), _wanted(each)))  # one for all alternatives
        return [told[path] for path in sorted(told)]
    return []


def _path(entry: Any, place: tuple[str | int, ...]) -> str:
    """The keys on the way to a field, without the names of alternatives between them."""
    parts = []
    for number, part in enumerate(place, 1):
        inside = isinstance(entry, dict) or (isinstance(entry, list) and isinstance(part, int))
        if inside and (number == len(place) or not isinstance(entry, dict) or part in entry):
            parts.append(str(part))
            entry = entry.get(part) if isinstance(entry, dict) else entry[int(part)]
    return ".".join(parts)


def _wanted(error: Mapping[str, Any]) -> str:
    missing = error["type"] == "missing"
    return "a report of this version" if missing else wanted(error).removeprefix("Value error, ")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."
