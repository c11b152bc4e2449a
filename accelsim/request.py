"""What one can ask of a run: the fields, and their record, from which a saved run can be told apart and repeated."""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.errors import Problem, UsageError
from accelsim.files.reading import is_file
from accelsim.machine.memory_models import DEFAULT
from accelsim.spec.models import Chip, EnergyTable
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.onnx.importing.external_files import external_files

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Request:
    """Everything that one can ask of a run; fields, arguments of :func:`accelsim.run` and options have one name.

    ``model``: a name of the zoo, an ONNX file, a topology CSV, or a graph; ``on``: a name, a YAML file or a chip.
    ``dtype``: operand format ('' = the chip's preferred one). ``values``: 'exact' computes tile by tile as the
    hardware does, 'fast' each layer at once, 'off' nothing; time and energy are the same.
    ``batch``, ``shape`` (input -> shape), ``param`` (zoo) and ``weights`` ('model' or 'random:SEED') are those
    of ``load_model``; a chip of several cores runs as many batches side by side, and inputs and outputs hold all
    of them, one after the other along the first axis. ``inputs``: an npz file or arrays by input name, else drawn
    with ``seed``. ``calibration`` sets the scales of an integer format: the same kind of data, else ``inputs``,
    else one drawn batch of another seed. ``set``: 'path.to.field=value' on the spec. ``array_timing``
    ('scalesim', 'sequential', 'overlapped') and ``dataflow`` ('ws', 'os', 'is') replace the chip's own.
    ``mapping``: a file of ``save_mappings`` or layer -> fields, which the search must keep.
    ``layer_dtype``: layer -> its own format. ``emulate``: a format that the chip lacks is computed in the narrowest of
    its formats that holds it. Narrow formats are codes with scales: ``calibrate`` ('absmax', 'percentile', 'mse',
    'entropy') and ``percentile`` choose them, ``scheme`` ('symmetric', 'affine') gives activations a zero point,
    ``per_tensor`` all weights of a layer one scale instead of one for each output channel; ``bias_correction`` takes
    back the mean error of the weights; ``scales`` are given ones, by tensor. ``sparsity`` ('2:4') prunes the weights.
    ``edges``: inputs become codes, and results numbers, on the 'host', or 'outside' the run, where it costs nothing
    ('': outside for a single product and the layers of a CSV, which are no network with ends, else on the host).
    ``energy``: another energy table than the chip's, a name ('horowitz-45nm'), a YAML file or a table.
    ``memory_model``: off-chip memories take no time ('ideal'), latency and a rate ('bandwidth'), or are followed
    burst by burst, by bounds ('pattern') or command by command ('bank'); the last two need a ``dram`` of each memory.
    ``limit_commands``, ``limit_bytes``: the most that the run may build, commands and bytes of this machine's memory
    (None: those of ``workload.limits``); estimates are checked before anything is built.
    ``ignore_capacity``: run although weights, states and activations do not fit into the memories of the chip; the
    notes of the run say so.
    """

    model: str | Path | Graph
    on: str | Path | Chip
    dtype: str = ""
    values: str = "exact"
    batch: int | None = None
    weights: str = "model"
    inputs: str | Path | Arrays | None = None
    calibration: str | Path | Arrays | None = None
    seed: int = 0
    shape: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    param: Mapping[str, int] = field(default_factory=dict)
    set: Sequence[str] = ()
    array_timing: str = ""
    dataflow: str = ""
    mapping: str | Path | Mapping[str, Mapping[str, Any]] | None = None
    layer_dtype: Mapping[str, str] = field(default_factory=dict)
    emulate: bool = False
    calibrate: str = "absmax"
    percentile: float | None = None
    scheme: str = "symmetric"
    per_tensor: bool = False
    bias_correction: bool = False
    scales: Mapping[str, Array] = field(default_factory=dict)
    sparsity: str = ""
    edges: str = ""
    energy: str | Path | EnergyTable | None = None
    memory_model: str = DEFAULT
    limit_commands: int | None = None
    limit_bytes: int | None = None
    ignore_capacity: bool = False


FILES = ("model", "on", "inputs", "calibration", "mapping", "energy")
"""Fields that may name a file, which is recorded with its hash."""
PACKAGES = ("accelsim", "numpy", "simpy", "onnx", "ml_dtypes")
"""Packages on whose versions a result can depend."""
UNITS = {"limit_bytes": "B"}
"""Fields that are numbers here and texts with a unit on the command line."""
IN_MEMORY = "given in memory"
"""What the record says of an argument that is no text, number or file."""


def record(request: Request, chip: Chip, graph: Graph) -> dict[str, Any]:
    """What was asked, as JSON holds it.

    'command': the line that asks for it again ('' where an argument was given in memory or has no option); 'asked':
    every field that is not the default; 'files': SHA-256 of each file named; 'chip_sha256' and 'model_sha256': of what
    was simulated (the chip with its overrides, the graph with its shapes); 'versions': of Python and the packages.
    """
    asked = dict(_asked(request))
    lost = sorted(name for name, value in asked.items() if value == IN_MEMORY)
    return {
        "command": "" if lost else command(asked),
        "asked": asked,
        "in_memory": lost,
        "files": _files(request),
        "chip_sha256": _digest(json.dumps(chip.model_dump(mode="json"), sort_keys=True, default=str)),
        "model_sha256": _digest("\n".join(_lines(graph))),
        "versions": {"python": platform.python_version(), **dict(_versions())},
    }


def _asked(request: Request) -> Iterator[tuple[str, Any]]:
    for entry in fields(Request):
        value = getattr(request, entry.name)
        default = entry.default_factory() if callable(entry.default_factory) else entry.default
        if entry.name in ("model", "on") or not _same(value, default):
            yield entry.name, _plain(value)


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return not value
    return bool(value == default)


def _plain(value: Any) -> Any:
    """The value as JSON can hold it, or ``IN_MEMORY``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        parts = {str(name): _plain(part) for name, part in value.items()}
        return IN_MEMORY if IN_MEMORY in parts.values() else parts
    if isinstance(value, list | tuple):
        parts_of = [_plain(part) for part in value]
        return IN_MEMORY if IN_MEMORY in parts_of else parts_of
    return IN_MEMORY


def _no_option(asked: Mapping[str, Any]) -> list[str]:
    """Fields of a record that no option of the command line can give."""
    return [name for name in ("scales", "mapping") if isinstance(asked.get(name), Mapping)]


def how_to_repeat(record: Mapping[str, Any]) -> str:
    """The command line of a record, or why there is none."""
    if record["command"]:
        return str(record["command"])
    lost = record["in_memory"]
    why = (
        f"{', '.join(lost)} {IN_MEMORY}"
        if lost
        else f"no option gives {', '.join(_no_option(record['asked']))}"
    )
    return f"(no command line: {why})"


def command(asked: Mapping[str, Any]) -> str:
    """The command line of a record; '' where a field of it has no option."""
    if _no_option(asked):
        return ""
    parts = ["accelsim", "run", str(asked["model"]), "--on", str(asked["on"])]
    for name, value in asked.items():
        if name in ("model", "on"):
            continue
        value = _last_settings(value) if name == "set" else value
        parts += _option(f"--{name.replace('_', '-')}", f"{value} {UNITS[name]}" if name in UNITS else value)
    return shlex.join(parts)


def _last_settings(texts: Iterable[str]) -> list[str]:
    """Of each field the setting that holds: on a command line several of one field would be several runs."""
    found: dict[str, str] = {}
    for text in texts:
        field = text.partition("=")[0].strip()
        found.pop(field, None)
        found[field] = text
    return list(found.values())


def _option(flag: str, value: Any) -> list[str]:
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        return [word for key, part in value.items() for word in (flag, f"{key}={_joined(part)}")]
    if isinstance(value, list | tuple):
        return [word for part in value for word in (flag, str(part))]
    return [flag, str(value)]


def _joined(value: Any) -> str:
    return (",".join(map(str, value)) or "()") if isinstance(value, list | tuple) else str(value)


def _files(request: Request) -> dict[str, str]:
    """Every file that the request names, and those that hold the tensors of an ONNX model -> SHA-256."""
    given = [getattr(request, name) for name in FILES]
    named = [Path(value) for value in given if isinstance(value, str | Path) and is_file(Path(value))]
    beside = [data for path in named if path.suffix == ".onnx" for data in external_files(path)]
    return {str(path): _digest(path.read_bytes()) for path in sorted({*named, *beside})}


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _lines(graph: Graph) -> Iterator[str]:
    """The graph as text: what is computed from what, in which shapes; not the values of the weights."""
    yield f"{graph.inputs} {graph.outputs} {graph.values_from}"
    for tensor in graph.tensors.values():
        yield f"{tensor.name} {tensor.shape} {tensor.dtype} {tensor.is_constant}"
    for node in graph.nodes:
        attrs = sorted((name, repr(value)) for name, value in node.attrs.items())
        yield f"{node.op} {node.inputs} {node.outputs} {attrs}"


def _versions() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"


def repeated(saved: Mapping[str, Any], where: str) -> Request:
    """The request of a record. Raises UsageError when part of it was given in memory or a field is unknown."""
    problems = [
        Problem(f"{name} was {IN_MEMORY}", where, "a run whose arguments are names, numbers and files")
        for name in saved.get("in_memory", [])
    ]
    known = {entry.name for entry in fields(Request)}
    asked = dict(saved.get("asked", {}))
    problems += [
        Problem(f"no option {name!r}", where, "a report of this version")
        for name in asked
        if name not in known
    ]
    if not {"model", "on"} <= asked.keys():
        problems.append(Problem("does not say what was run", where, "a report of this version"))
    if problems:
        raise UsageError(problems)
    if "shape" in asked:
        asked["shape"] = {name: tuple(extents) for name, extents in asked["shape"].items()}
    return Request(**asked)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is no longer as it was recorded, in words: files, chip, model, versions."""
    found = []
    for key, what in (("chip_sha256", "the chip"), ("model_sha256", "the model")):
        if before.get(key) != now.get(key):
            found.append(f"{what} is not what it was")
    for key, what in (("files", "file"), ("versions", "version of")):
        old, new = before.get(key, {}), now.get(key, {})
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                told = f": {old.get(name)} then, {new.get(name)} now" if key == "versions" else " has changed"
                found.append(f"{what} {name}{told}")
    return found
