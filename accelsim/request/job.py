"""A request checked, compiled and simulated: what the command ``accelsim run`` does, as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.compiler.numbers.formats import resolve
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile, preferred_format
from accelsim.compiler.state import Options, copies
from accelsim.engines.registry import ENGINES
from accelsim.errors import Gather, Problem, UsageError, brief, known, nearest
from accelsim.machine.memory_models import DEFAULT, MODELS, check_model
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.machine.values.batch import batch_shape, whole_batch
from accelsim.mapping.search import known_effort
from accelsim.program.mapping import ProductMapping
from accelsim.program.program import Program
from accelsim.program.roles import units
from accelsim.request import OPTIONS, Request
from accelsim.request import record as record_of
from accelsim.request.fields import DEFAULTS, compiled
from accelsim.request.needs import check_needs, notes
from accelsim.seeds import of_inputs, of_ranges
from accelsim.spec.chip import Chip
from accelsim.spec.energy import EnergyTable
from accelsim.spec.yaml.chips import load_chip
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.limits import DEFAULT as ALLOWED
from accelsim.workload.limits import Limits, limited
from accelsim.workload.sources.load import load_model
from accelsim.workload.value_memory import check_values

if TYPE_CHECKING:
    from accelsim.request.tuning import Tuning


Progress = Callable[[str, float], None]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Job:
    """A checked request: ``graph`` to compile for ``chip`` with ``options``, and its inputs (None: no values).

    ``memory_model``: how off-chip memories are followed, a key of ``accelsim.machine.memory_models.MODELS``.
    ``asked``: the record of the request, see ``request.record``; ``request``: the request itself. ``notes``: what of it
    has no effect on this chip.
    """

    graph: Graph
    chip: Chip
    options: Options
    feeds: dict[str, Array] | None
    values: str
    memory_model: str = DEFAULT
    limits: Limits = field(default_factory=Limits)
    asked: dict[str, object] = field(default_factory=dict)
    request: Request | None = None
    notes: list[str] = field(default_factory=list)


def execute(job: Job, keep: bool = False, progress: Progress = lambda stage, share: None, record: bool = False) -> Run:
    """Compile and simulate; ``progress`` is told the stage, and the share of it that is done. Raises as ``run``.

    ``record``: keep every burst of the memories that are followed one by one, as ``Run.accesses``.
    """
    progress("compile", 0.0)
    with limited(job.limits.commands, job.limits.memory_B, job.limits.ignore_capacity):
        program = _compiled(job, progress)
    progress("simulate", 0.0)
    told = simulate(
        program, job.feeds, job.values, keep, lambda share: progress("simulate", share), job.memory_model, record
    )
    told.asked, told.job = job.asked, job
    return told


def _compiled(job: Job, progress: Callable[[str, float], None]) -> Program:
    """Return the program of a job; a tuner reports its progress and leaves a note."""
    tuner = job.options.tuner
    if tuner is None:
        program = compile(job.graph, job.chip, job.options)
        program.notes += job.notes
        return program
    from accelsim.request.tuning import Tuning

    assert isinstance(tuner, Tuning)
    tuner.progress = progress
    program = compile(job.graph, job.chip, job.options)
    program.notes += [*job.notes, tuner.note()]
    return program


def changed(job: Job, overrides: Sequence[str], **options: Any) -> Job:
    """Return the same job on a chip with further ``overrides``, and with other fields of ``Options``; without values.

    Its time is that of the same request with these overrides behind its own. Raises SpecError, UsageError.
    """
    assert job.request is not None
    given = job.request.on
    if isinstance(given, Chip):
        from accelsim.spec.yaml.load import override

        chip = override(given, overrides)
    else:
        chip = load_chip(given, [*_overrides(job.request), *overrides])
    chip = _as_asked(chip, job.request)
    check_model(job.memory_model, chip)
    without = replace(job.options, values="off", ranges_from=None, **options)
    return replace(job, chip=chip, options=without, feeds=None, values="off")


Loader = Callable[[Request, int], Graph]
"""Loads the model of a request for so many batches side by side."""


def prepare(request: Request, gather: Gather | None = None, load: Loader | None = None, recorded: bool = True) -> Job:
    """Read everything that the request names and check all of it; every problem is told at once.

    ``gather`` may already hold problems of the caller's own checks. ``load``: loads the model in another way.
    ``recorded``: keep a record of the request, which takes a while and which a part of a larger run does not need.
    """
    gather = gather or Gather()
    given = {row.limits: getattr(request, name) for name, row in OPTIONS.items() if row.limits}
    asked = {name: None if value is False else value for name, value in given.items()}  # a caller's own hold too
    with limited(**asked) as allowed:
        return _prepared(_under(request, allowed), gather, allowed, load or load_graph, recorded)


def _under(request: Request, allowed: Limits) -> Request:
    """The request with the limits that hold for it, whoever set them, so that its record repeats the run."""
    found: dict[str, Any] = {}
    for name, row in OPTIONS.items():
        if row.limits:
            holds = getattr(allowed, row.limits)
            found[name] = DEFAULTS[name] if holds == getattr(ALLOWED, row.limits) else holds
    return replace(request, **found)


def _prepared(request: Request, gather: Gather, allowed: Limits, load: Loader, recorded: bool) -> Job:
    request = _seeded(request, gather)
    chip, graph, options = _chip(request, gather), None, Options()
    with gather.also():
        graph = load(request, _batches(request, chip) or 1)
        if request.sparsity or graph.sparsity:
            from accelsim.compiler.numbers.sparsify import prune

            graph = prune(graph, request.sparsity)
    with gather.also():
        _check_names(request)
    with gather.also():
        check_needs(vars(request))
    if request.memory_model in MODELS:
        with gather.also():
            check_model(request.memory_model, chip)
    feeds: dict[str, Array] | None = None
    with gather.also():
        feeds, ranges_from = _feeds(request, graph, _batches(request, chip))
        options = _options(request, chip, ranges_from, gather)
        if not options.edges:
            options = replace(options, edges="outside" if graph is not None and graph.products else "host")
    gather.done()
    assert chip is not None and graph is not None
    asked = record_of(request, chip, graph) if recorded else {}
    return Job(
        graph, chip, options, feeds, request.values, request.memory_model, allowed, asked, request,
        notes(vars(request), chip),
    )  # fmt: skip


def _batches(request: Request, chip: Chip | None) -> int | None:
    """Return how many batches run side by side; None where the chip could not be read."""
    return copies(chip, Options(share=request.share)) if chip is not None else None


def _seeded(request: Request, gather: Gather) -> Request:
    """The request; with a seed of 0, for the checks that follow, where its own is none."""
    with gather.also():
        if isinstance(request.seed, int) and request.seed >= 0:
            return request
        raise UsageError(f"seed {brief(request.seed)}", expected="a whole number from 0")
    return replace(request, seed=0)


def _chip(request: Request, gather: Gather) -> Chip | None:
    """The chip, if it can be read and can do what is asked of it."""
    with gather.also():
        chip = request.on if isinstance(request.on, Chip) else load_chip(request.on, _overrides(request))
        if isinstance(request.on, Chip) and request.set:
            raise UsageError("overrides of a chip that is loaded already", expected="its name or file")
        if chip.matrix is None and (request.dataflow or request.array_timing):
            raise UsageError(f"{chip.name} has no matrix unit whose dataflow or timing could be set")
        resolve(chip, request.dtype or preferred_format(chip), request.emulate)
        chip = _as_asked(chip, request)
        loaded = isinstance(request.on, Chip) or isinstance(request.energy, EnergyTable)
        if not loaded:
            return chip
        from accelsim.spec.yaml.parts import with_table

        return with_table(chip, request.energy)
    return None


def _overrides(request: Request) -> list[str]:
    """Return what the request changes of the file of its chip: the energy table, then single values."""
    if request.energy is None:
        return list(request.set)
    from accelsim.spec.yaml.parts import energy_override

    return [*energy_override(request.energy), *request.set]


def _as_asked(chip: Chip, request: Request) -> Chip:
    """With the streams and the serving stack of the request, at its site."""
    chip = chip if request.streams is None else with_streams(chip, request.streams)
    if request.stack:
        from accelsim.spec.yaml.stacks import with_stack

        chip = with_stack(chip, request.stack)
    if request.site is None:
        return chip
    from accelsim.spec.site import with_site
    from accelsim.spec.yaml.chips import load_site

    return with_site(chip, load_site(request.site))


def with_streams(chip: Chip, count: int) -> Chip:
    """The chip with kernels of so many streams side by side. Raises UsageError for a chip whose engines have none."""
    engines = [name for name, unit in units(chip).items() if hasattr(unit.spec, "streams")]
    if not engines:
        raise UsageError(f"{chip.name} has no engine that runs kernels side by side", "streams", "a GPU")
    from accelsim.spec.yaml.load import override

    return override(chip, [f"{name}.streams={count}" for name in engines])


def load_graph(request: Request, cores: int) -> Graph:
    """Return the model of a request, for inputs of so many batches side by side."""
    if not isinstance(request.model, Graph):
        return load_model(
            request.model,
            batch=request.batch,
            shapes=request.shape,
            weights=request.weights,
            params=request.param,
            data=request.values != "off",
            arrays=lambda: _shapes_of_inputs(request, cores),
        )
    if request.batch is not None or request.shape or request.param or request.weights != "model":
        what = "batch, shapes, params or weights for a graph that is loaded already"
        raise UsageError(what, expected="them in load_model")
    return request.model


def _shapes_of_inputs(request: Request, cores: int) -> dict[str, tuple[int, ...]]:
    """Input -> the shape of its array, for one core; nothing where the file cannot be read, which ``_feeds`` tells."""
    given: Mapping[str, Array] = {}
    if isinstance(request.inputs, Mapping):
        given = {name: np.asarray(value) for name, value in request.inputs.items()}
    elif request.inputs is not None:
        from accelsim.files.npz import NUMBERS, read_npz

        with suppress(UsageError):
            given = read_npz(Path(request.inputs), "", UsageError, NUMBERS + "U")
    return {name: (*(size // cores for size in each.shape[:1]), *each.shape[1:]) for name, each in given.items()}


def _check_names(request: Request) -> None:
    gather = Gather()
    for name, row in OPTIONS.items():
        given, default = getattr(request, name), DEFAULTS[name]
        if given == default or (not given and not default):
            continue
        with gather.also():
            if row.choices is not None:
                known(row.choices.what, str(given), row.choices.names())
    gather.done()


def _pinned(request: Request, chip: Chip | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the mappings that the request gives, as they are or in a file."""
    given = request.mapping
    if not isinstance(given, str | Path):
        return given or {}
    from accelsim.program.mapping_file import load_mappings

    return load_mappings(Path(given), _kinds(chip))


def _options(request: Request, chip: Chip | None, ranges_from: Arrays | None, gather: Gather) -> Options:
    pinned: Mapping[str, Mapping[str, Any]] = {}
    with gather.also():
        pinned = _pinned(request, chip)
    with gather.also():
        known_effort(request.search)
    return Options(
        ranges_from=ranges_from,
        seed=of_ranges(request.seed),
        pinned=pinned,
        tuner=_tuner(request),
        **compiled(vars(request)),
    )


def _kinds(chip: Chip | None) -> list[type[ProductMapping]]:
    """Return what the engines of a chip choose of products; of all engine types where it could not be read."""
    types = ENGINES if chip is None else {unit.type for unit in units(chip).values()}
    return [kind for name, each in ENGINES.items() if name in types and (kind := each.mapping)]


def _tuner(request: Request) -> Tuning | None:
    if not request.tune:
        return None
    from accelsim.request.tuning import Tuning

    cache = request.tune_cache
    return Tuning(request.tune, request.memory_model, Path(cache) if cache else None)


def _feeds(request: Request, graph: Graph | None, cores: int | None) -> tuple[dict[str, Array] | None, Arrays | None]:
    """Inputs (drawn when none are given) and data for ranges; ``cores`` None: the chip could not be read."""
    given = None if request.inputs is None else _arrays(request.inputs, graph)
    ranges_from = given if request.ranges_from is None else _arrays(request.ranges_from, graph)
    if graph is None or request.values == "off":
        return None, None
    if given is None:
        check_values(graph, cores or 1)
        return _drawn(graph, request.seed, cores or 1), ranges_from
    problems = list(_feed_problems(graph, given, "inputs", cores))
    UsageError.raise_for(problems)
    return {name: given[name] for name in graph.inputs}, ranges_from


def _arrays(source: str | Path | Arrays, graph: Graph | None) -> dict[str, Array]:
    """Arrays by name, texts only where the model takes some; UsageError when the file is no npz of plain arrays."""
    from accelsim.files.npz import NUMBERS as NUMERIC
    from accelsim.files.npz import read_npz

    if isinstance(source, Mapping):
        return {name: np.asarray(value) for name, value in source.items()}
    texts = graph is not None and any(graph.tensors[name].dtype == "string" for name in graph.inputs)
    expected = "an npz file with one array per input, as numpy.savez writes it"
    return read_npz(Path(source), expected, UsageError, NUMERIC + "U" * texts)


def _drawn(graph: Graph, seed: int, cores: int) -> dict[str, Array]:
    """Random inputs, a batch of its own for each core."""
    parts = [synthetic(graph, of_inputs(seed, core)) for core in range(cores)]
    return {name: whole_batch([part[name] for part in parts]) for name in graph.inputs}


def _feed_problems(graph: Graph, given: Arrays, where: str, cores: int | None) -> Iterator[Problem]:
    """Return what is wrong with the inputs; without ``cores`` nobody knows how many batches side by side there must be.

    What the model declares and does not use may be given, as other tools ask for it.
    """
    names = ", ".join(graph.inputs)
    for name in given:
        if name not in (*graph.inputs, *graph.unused):
            yield Problem(f"the model has no input {name!r}", where, f"one of {names}", nearest(name, graph.inputs))
    for name in graph.inputs:
        shape = list(batch_shape(graph.tensors[name].shape, cores or 1))
        if cores is None and name in given:
            shape[:1] = given[name].shape[: len(shape[:1])]
        if name not in given:
            yield Problem(f"input {name!r} is missing", where, f"an array of shape {shape}")
        elif list(given[name].shape) != shape:
            yield Problem(f"input {name!r} has shape {list(given[name].shape)}", where, str(shape))
        else:
            yield from _value_problems(graph, name, given[name], where)


def _value_problems(graph: Graph, name: str, array: Array, where: str) -> Iterator[Problem]:
    """Numbers of the right sort, and indices within the table that they index."""
    dtype = graph.tensors[name].dtype
    kinds = "fiub" if dtype.startswith(("fp", "bf")) else "UO" if dtype == "string" else "iub"
    if array.dtype.kind not in kinds:
        yield Problem(f"input {name!r} holds {array.dtype} values", where, dtype)
        return
    for node in graph.nodes:
        if node.op == "Gather" and node.inputs[1] == name and array.size:
            size = graph.tensors[node.inputs[0]].shape[node.attrs["axis"]]
            if array.min() < -size or array.max() >= size:
                what = f"input {name!r} holds indices from {array.min()} to {array.max()}"
                yield Problem(what, where, f"0 to {size - 1}, as {node.name} looks them up")
