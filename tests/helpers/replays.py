"""Runs of a model with its alike blocks as copies, and with each of them lowered and simulated: nothing may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelsim.account.energy import energy_table
from accelsim.account.latency import layers, summary
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import Infeasible, SpecError, TooLarge
from accelsim.machine.check import check, engine_times_add_up, the_critical_path_covers_the_run
from accelsim.machine.critical_path import critical_path
from accelsim.machine.lifetimes import occupancy
from accelsim.machine.replay import NEAR
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model


def both(
    model: str, chip: str, sets: Sequence[str] = (), pinned: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Run, Run]:
    """The run as it is, and that of the whole program; ``pinned``: see ``Options``."""
    graph, on = load_model(model), load_chip(chip, sets)
    with limited(ignore_capacity=True):
        runs = [
            simulate(compile(graph, on, Options(values="off", repeat=on_or_off, pinned=pinned or {})))
            for on_or_off in (True, False)
        ]
    return runs[0], runs[1]


def assert_replayed_is_simulated(
    model: str, chip: str, sets: Sequence[str], pinned: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Slices, counts, femtoseconds, joules, path of a network, if it fits; whether its state recurs or not."""
    try:
        run, whole = both(model, chip, sets, pinned)
    except (Infeasible, SpecError, TooLarge):
        return
    assert_replay_is_right(run, whole)


def assert_replay_is_right(run: Run, whole: Run) -> None:
    """Equal to the last figure, where units are equal and clocks are whole femtoseconds; counts in any case."""
    if run.replay is None or (run.replay.equal and run.replay.shift.denominator == 1):
        assert_equal(run, whole)
        check(run, thorough=True)
        return
    for name in ("commands", "regions", "presets", "results", "needs", "steps", "ledger"):
        assert whole_of(run)[name] == whole_of(whole)[name], name
    for law in (engine_times_add_up, the_critical_path_covers_the_run):
        assert list(law(run)) == []
    most_fs = 1 if run.replay.equal else int(NEAR * whole.time_fs)
    for one, other in zip(run.slices, whole.slices, strict=True):
        assert one[:4] == other[:4]
        assert all(abs(a - b) <= most_fs for a, b in zip(one[4:], other[4:], strict=True))
    assert len(critical_path(run)) == len(critical_path(whole)) or not run.replay.equal


def assert_equal(run: Run, whole: Run) -> None:
    """To the last slice, count, femtosecond and joule."""
    assert whole.replay is None and whole.program.repeat is None
    for name, figures in whole_of(whole).items():
        assert whole_of(run)[name] == figures, name


def whole_of(run: Run) -> dict[str, Any]:
    """Everything that a run and its accounts say, but how much was replayed."""
    return run.once("whole", lambda: _whole_of(run))


def _whole_of(run: Run) -> dict[str, Any]:
    program, told = run.program, summary(run)
    for name in ("notes", "commands_replayed"):
        told.pop(name)
    return {
        "time": run.time_fs, "commands": list(program.commands), "regions": list(program.regions),
        "presets": list(program.presets.items()), "results": program.results, "needs": program.needs,
        "steps": [(step.name, step.label, step.gemm, step.mapping, step.note) for step in program.steps],
        "slices": list(run.slices), "histories": list(run.histories), "ledger": run.ledger,
        "engines": run.engines, "spans": run.step_spans, "stalls": run.step_stalls,
        "path": list(critical_path(run)), "energy": energy_table(run), "layers": layers(run), "summary": told,
        "occupancy": occupancy(run),
    }  # fmt: skip


def assert_places_agree(run: Run) -> None:
    """Return what is asked for by its place is what comes there when all are gone through."""
    for items in (run.slices, run.histories, run.program.commands):
        assert [items[at] for at in range(len(items))] == list(items)
        assert items[-1:] == list(items)[-1:]
