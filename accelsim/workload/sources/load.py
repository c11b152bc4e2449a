"""One door for every workload: an ONNX file, a topology CSV, or a model of the zoo."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

from accelsim.digits import whole
from accelsim.errors import ModelError, Problem, UsageError, nearest
from accelsim.files.reading import exists, is_file
from accelsim.workload.graph import Graph
from accelsim.workload.limits import LARGEST, check_sizes
from accelsim.workload.sources.weights import parse_weights, randomise
from accelsim.workload.zoo import ZOO, Entry

DEFAULT_SEED = 0


@dataclass(frozen=True)
class ModelRow:
    """One line of the list of models; ``parameters`` with their defaults, ``batch`` the default batch."""

    name: str
    kind: str
    description: str
    parameters: dict[str, int]
    batch: int


def list_models() -> list[ModelRow]:
    """Every model of the zoo."""
    return [ModelRow(item.name, item.kind, item.description, dict(item.params), item.batch) for item in ZOO.values()]


def load_model(
    name_or_path: str | Path,
    *,
    batch: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    weights: str = "model",
    params: Mapping[str, int] | None = None,
    data: bool = True,
    arrays: Callable[[], Mapping[str, tuple[int, ...]]] = dict,
) -> Graph:
    """The graph of a workload.

    ``name_or_path``: a model of the zoo, perhaps with parameters (``'mlp?hidden=512,layers=3'``), an ONNX file or a
    topology CSV. ``batch``: first dimension of every real input. ``shapes``: input name -> whole shape (ONNX only).
    ``weights``: 'model', or 'random:SEED'; what has no weights of its own (the zoo, CSVs) gets 'random:0', and
    ``Graph.values_from`` says so. ``data``: whether values matter; without, or with weights that are drawn anyway,
    weights whose values a file lacks are drawn, and ``Graph.notes`` say so. ``arrays``: tells the shapes of given
    inputs, for dimensions that an ONNX file leaves open. Raises ModelError and UsageError, all problems at once.
    """
    text, inline = split_parameters(str(name_or_path))
    seed = parse_weights(weights)
    given = {**inline, **(params or {})}
    if batch is not None and not (isinstance(batch, Integral) and 1 <= batch <= LARGEST):
        raise UsageError(f"batch {batch}", expected=f"1 to {LARGEST:,}")
    if generation_of(text, given) is not None:
        expected = "seq and past of one of them, or accelsim.generate"
        raise UsageError(f"{PROMPT} and {NEW} are several graphs, one for each call", text, expected)
    if text in ZOO:
        return _from_zoo(ZOO[text], batch, shapes or {}, given, seed)
    path = _existing(text)
    if given:
        raise UsageError(f"parameters {', '.join(given)} for {text!r}", expected="a model of the zoo")
    if path.suffix == ".csv":
        return _from_table(path, batch, shapes or {}, seed)
    from accelsim.workload.onnx.importing.importer import import_onnx
    from accelsim.workload.onnx.importing.refusing import located
    from accelsim.workload.sources.other_tools import refuse_other_tools

    refuse_other_tools(path)

    graph = import_onnx(path, batch, shapes, DEFAULT_SEED if seed is None and not data else seed, arrays)
    with located(path):
        check_sizes(graph)
    return graph if seed is None else randomise(graph, seed)


def check_there(name: str) -> None:
    """Raise ModelError where a text names neither a model of the zoo nor a file."""
    text, _ = split_parameters(name)
    if text not in ZOO:
        _existing(text)


PROMPT, NEW = "prompt", "new"
"""Parameters of a generation: tokens of the prompt, tokens that follow it."""


def generation_of(name: str, params: Mapping[str, int] | None = None) -> tuple[str, dict[str, int], int, int] | None:
    """(model, its other parameters, prompt, new) where a decoder of the zoo is asked for a generation, else None.

    A prompt that is not given is as long as the model's ``seq``; without ``new`` there is one token. Raises UsageError
    for ``seq`` and ``past`` beside them, and for numbers that are none.
    """
    text, inline = split_parameters(name)
    given = {**inline, **(params or {})}
    if text not in ZOO or not ZOO[text].generates or not given.keys() & {PROMPT, NEW}:
        return None
    what = f"{PROMPT} and {NEW}, the calls of a generation"
    problems = [
        Problem(f"{key}={given[key]}", text, f"either {key} of one call, or {what}")
        for key in ("seq", "past")
        if key in given
    ]
    prompt, new = given.pop(PROMPT, ZOO[text].params["seq"]), given.pop(NEW, 1)
    problems += [
        Problem(f"{key}={value}", text, f"1 to {LARGEST:,}")
        for key, value in ((PROMPT, prompt), (NEW, new))
        if not 1 <= value <= LARGEST
    ]
    UsageError.raise_for(problems)
    return text, given, prompt, new


def split_parameters(text: str) -> tuple[str, dict[str, int]]:
    """'mlp?hidden=512,layers=3' -> ('mlp', {'hidden': 512, 'layers': 3}); a file name may hold a '?'.

    Raises UsageError, all problems at once, for what is no NAME=integer.
    """
    name, mark, query = text.partition("?")
    if not mark or exists(Path(text)):
        return text, {}
    given: dict[str, int] = {}
    problems = []
    for part in query.split(","):
        key, _, digits = (each.strip() for each in part.partition("="))
        value = whole(digits)
        if value is None or not re.fullmatch(r"[\w-]+", key):
            problems.append(Problem(f"parameter {part!r}", name, "name=integer"))
        else:
            given[key] = value
    UsageError.raise_for(problems)
    return name, given


def _existing(text: str) -> Path:
    path = Path(text)
    if is_file(path):
        return path
    if text and (path.suffix in (".onnx", ".csv") or exists(path)):
        raise ModelError("no such file" if not exists(path) else "not a file", text)
    close = difflib.get_close_matches(text.casefold(), ZOO, n=3, cutoff=0.4) or list(ZOO)
    raise ModelError(
        f"no model {text!r}", expected=f"a file, or a name such as {', '.join(close)}", nearest=nearest(text, ZOO)
    )


def _from_zoo(
    entry: Entry, batch: int | None, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int], seed: int | None
) -> Graph:
    problems = [
        Problem(f"no parameter {name!r}", entry.name, ", ".join(entry.params) or "none", nearest(name, entry.params))
        for name in given
        if name not in entry.params
    ]
    problems += [
        Problem(f"{name}={value}", entry.name, f"{entry.least.get(name, 1)} to {LARGEST:,}")
        for name, value in given.items()
        if not entry.least.get(name, 1) <= value <= LARGEST
    ]
    if shapes:
        problems.append(Problem(f"shapes for {', '.join(shapes)}", entry.name, "a batch or parameters instead"))
    UsageError.raise_for(problems)
    graph = entry.build(entry.batch if batch is None else batch, entry.sizes(given))
    check_sizes(graph)
    return _seeded(graph, seed)


def _from_table(path: Path, batch: int | None, shapes: Mapping[str, tuple[int, ...]], seed: int | None) -> Graph:
    from accelsim.workload.sources.topology_csv import read_topology

    if shapes:
        raise UsageError(f"shapes for {', '.join(shapes)}", str(path), "a batch instead")
    graph = read_topology(path, 1 if batch is None else batch)
    check_sizes(graph)
    return _seeded(graph, seed)


def _seeded(graph: Graph, seed: int | None) -> Graph:
    """Seeded values for what has none of its own."""
    randomise(graph, DEFAULT_SEED if seed is None else seed)
    if seed is None:
        graph.values_from += " (the model has no learnt values of its own)"
    return graph
