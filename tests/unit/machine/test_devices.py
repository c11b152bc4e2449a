"""Several devices on one clock: times of their separate runs, messages over shared links, barriers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.energy import energy_table
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import HazardError, UsageError
from accelsim.machine.check import check
from accelsim.machine.critical_path import critical_path
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.machine.simulation import How, Simulation
from accelsim.program.messages import Wire, barrier, connected
from accelsim.program.program import Program
from accelsim.spec.link import Link
from accelsim.spec.yaml.load import load_chip
from accelsim.spec.yaml.parts import load_link
from accelsim.workload.sources.load import load_model

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 24)


@cache
def program(model: str, chip: str, cores: int = 1) -> Program:
    found = load_chip(chip, [f"cores={cores}"])
    return compile(load_model(model), found, Options(dtype="fp32", values="off"))


def first(chip: str = "edu-4x4") -> Program:
    return program("mlp?inputs=24,hidden=16,layers=2,classes=12", chip)


def second(chip: str = "systolic-generic") -> Program:
    return program("mlp?inputs=12,hidden=20,layers=2,classes=5", chip)


def link(**fields: object) -> Link:
    plain = {"pcie": None, "bandwidth": 1e9, "latency": 1e-6}
    return load_link("pcie-gen3-x16").model_copy(update=plain | fields)


def pair(piece_B: int = 1 << 20, wire: Link | None = None) -> dict[str, Program]:
    """The first network on one chip gives its result to the second on another."""
    wires = [Wire("a", "fc2", "b", "x", (wire or link(),))]
    return connected({"a": first(), "b": second()}, wires, piece_B)


def ran(programs: dict[str, Program], values: str = "off", wire: Link | None = None) -> dict[str, Run]:
    simulation = Simulation({"wire": wire or link()}, {("a", "b"): ["wire"]})
    simulation.add("a", programs["a"], {"x": X}, How(values))
    simulation.add("b", programs["b"], {}, How(values))
    return simulation.run()


def test_devices_that_do_not_talk_have_the_times_of_their_separate_runs() -> None:
    simulation = Simulation()
    simulation.add("a", first())
    simulation.add("b", second())
    for name, run in simulation.run().items():
        alone = simulate(first() if name == "a" else second())
        assert (run.time_fs, run.slices, run.ledger) == (alone.time_fs, alone.slices, alone.ledger)


@pytest.mark.parametrize("values", ["exact", "fast"])
def test_a_result_of_one_device_is_the_input_of_another(values: str) -> None:
    runs = ran(pair(), values)
    middle = simulate(first(), {"x": X}, values).outputs["fc2"]
    expected = simulate(second(), {"x": middle}, values).outputs["fc2"]
    assert np.array_equal(runs["b"].outputs["fc2"], expected)
    assert np.array_equal(runs["a"].outputs["fc2"], middle)


@settings(max_examples=20)
@given(st.integers(1, 60))
def test_pieces_change_neither_values_nor_bytes(piece_B: int) -> None:
    whole, runs = ran(pair(), "exact"), ran(pair(piece_B), "exact")
    assert np.array_equal(runs["b"].outputs["fc2"], whole["b"].outputs["fc2"])
    for name in ("a", "b"):
        assert sorted(runs[name].ledger) == sorted(whole[name].ledger)


def test_a_message_takes_the_time_of_its_bytes_and_the_latency() -> None:
    runs = ran(pair())
    sent = next(c for c in runs["a"].program.commands if c.kind == "Send")
    received = next(c for c in runs["b"].program.commands if c.kind == "Recv")
    out, into = runs["a"].slices[sent.id], runs["b"].slices[received.id]
    assert out.end - out.start == 48 * 10**6  # 48 B at 1 B/ns
    assert into.start == out.start and into.end == out.end + 10**9


def traffic(run: Run) -> Counter[tuple[str, str]]:
    """Bytes of what passes between the devices, by component and action."""
    found: Counter[tuple[str, str]] = Counter()
    for row in run.ledger:
        if row.tensor in ("fc2", "x"):
            found[row.component, row.action] += row.count
    return found


def test_bytes_are_in_the_ledger_of_both_ends_and_the_link_is_priced() -> None:
    runs = ran(pair())
    assert traffic(runs["a"]) - traffic(simulate(first())) == {("dram", "read"): 48, ("b.link", "transfer"): 48}
    into = traffic(runs["b"]) - traffic(simulate(second()))
    assert [count for (_, action), count in into.items() if action == "write"] == [48]
    (row,) = [row for row in energy_table(runs["a"]) if row.component == "b.link"]
    assert row.energy_J == pytest.approx(48 * float(link().energy), rel=1e-9, abs=0)


@pytest.mark.parametrize(("duplex", "factor"), [("full", 2), ("half", 2)])
def test_two_messages_over_one_link_share_it(duplex: str, factor: int) -> None:
    """Both senders begin at once and get half of the rate each."""
    shared = link(duplex=duplex, bandwidth=1e6)
    wires = [Wire("a", "fc2", "b", "x"), Wire("c", "fc2", "d", "x")]
    programs = connected({"a": first(), "b": second(), "c": first(), "d": second()}, wires)
    simulation = Simulation({"wire": shared}, {("a", "b"): ["wire"], ("c", "d"): ["wire"]})
    for name, each in programs.items():
        simulation.add(name, each)
    runs = simulation.run()
    for name in ("a", "c"):
        (piece,) = [p for p in runs[name].slices if runs[name].program.commands[p.command].kind == "Send"]
        assert piece.end - piece.start == pytest.approx(factor * 48 * 10**9, rel=1e-6)


def test_ways_of_a_full_duplex_link_do_not_meet_and_those_of_a_half_duplex_link_do() -> None:
    times = {}
    for duplex in ("full", "half"):
        wires = [Wire("a", "fc2", "b", "x"), Wire("c", "fc2", "d", "x")]
        programs = connected({"a": first(), "b": second(), "c": first(), "d": second()}, wires)
        routes = {("a", "b"): ["wire"], ("c", "d"): ["-wire"]}
        simulation = Simulation({"wire": link(duplex=duplex, bandwidth=1e6)}, routes)
        for name, each in programs.items():
            simulation.add(name, each)
        runs = simulation.run()
        (piece,) = [p for p in runs["a"].slices if runs["a"].program.commands[p.command].kind == "Send"]
        times[duplex] = piece.end - piece.start
    assert times["half"] == pytest.approx(2 * times["full"], rel=1e-6)


def test_a_barrier_completes_when_the_last_device_has_come() -> None:
    simulation, programs = Simulation(), barrier({"a": first(), "b": second()}, "end")
    for name, each in programs.items():
        simulation.add(name, each)
    runs = simulation.run()
    last = max(simulate(first()).time_fs, simulate(second()).time_fs)
    ends = {run.slices[-1].end for run in runs.values()}
    assert len(ends) == 1 and last <= ends.pop() <= last + 10**8


def test_the_critical_path_goes_through_the_message_to_the_wait_for_the_other_device() -> None:
    path = critical_path(ran(pair())["b"])
    assert {"message", "peer"} <= {piece.kind for piece in path}
    assert max(path, key=lambda piece: piece.end - piece.start).kind == "peer"


def test_whoever_reads_an_input_before_it_came_is_a_hazard() -> None:
    programs = pair()
    writers = {c.id for c in programs["b"].commands if c.engine == "nic_write"}
    hasty = [replace(c, waits=tuple(w for w in c.waits if w.command not in writers)) for c in programs["b"].commands]
    with pytest.raises(HazardError, match="x version 0"):
        ran(programs | {"b": replace(programs["b"], commands=hasty)})


def test_a_message_that_nobody_takes_is_told() -> None:
    with pytest.raises(UsageError, match="send fc2 to b waits for ever"):
        ran(pair() | {"b": second()}, values="off")


def test_wires_that_do_not_fit_are_told_at_once() -> None:
    wires = [
        Wire("a", "fc3", "b", "x"), Wire("a", "fc2", "c", "x"), Wire("b", "fc2", "a", "x"), Wire("a", "fc2", "b", "x"),
        Wire("a", "fc2", "b", "x"),
    ]  # fmt: skip
    with pytest.raises(UsageError) as told:
        connected({"a": first(), "b": second()}, wires)
    text = str(told.value)
    for part in ("no result 'fc3'", "no device 'c'", "cannot become", "comes from two devices"):
        assert part in text


def test_links_and_routes_that_do_not_fit_are_told() -> None:
    with pytest.raises(UsageError, match="no link 'wires'"):
        Simulation({"wire": link()}, {("a", "b"): ["wires"]})
    simulation = Simulation({"wire": link()}, {("a", "c"): ["wire"]})
    for name, each in pair().items():
        simulation.add(name, each)
    with pytest.raises(UsageError, match="no route from a to b"):
        simulation.run()


def test_each_core_sends_its_part() -> None:
    one, two = (
        program("mlp?inputs=24,hidden=16,layers=2,classes=12", "edu-4x4", 2),
        program("mlp?inputs=12,hidden=20,layers=2,classes=5", "systolic-generic", 2),
    )
    programs = connected({"a": one, "b": two}, [Wire("a", "fc2", "b", "x")])
    simulation = Simulation({"wire": link()}, {("a", "b"): ["wire"]})
    x = np.concatenate([X, 2 * X])
    simulation.add("a", programs["a"], {"x": x}, How("exact"))
    simulation.add("b", programs["b"], {}, How("exact"))
    middle = simulate(one, {"x": x}, "exact").outputs["fc2"]
    expected = simulate(two, {"x": middle}, "exact").outputs["fc2"]
    assert np.array_equal(simulation.run()["b"].outputs["fc2"], expected)


def test_a_message_is_one_piece_up_to_a_mebibyte() -> None:
    """That is what a piece has unless it is said; the last one has the rest."""
    wide = program("mlp?inputs=8,hidden=8,layers=2,classes=300000", "systolic-generic")
    taker = program("mlp?inputs=300000,hidden=1,layers=2,classes=5", "systolic-generic")
    made = connected({"a": wide, "b": taker}, [Wire("a", "fc2", "b", "x")])
    sizes = [command.work.nbytes for command in made["a"].commands if command.kind == "Send"]  # type: ignore[union-attr]
    assert sizes == [1 << 20, 4 * 300_000 - (1 << 20)]


@pytest.mark.parametrize("chip", ["edu-cache", "edu-three-levels"])
def test_a_device_with_a_level_talks(chip: str) -> None:
    """A message passes the cache of the memory in which its tensor lies; the laws of both runs hold."""
    wires = [Wire("a", "fc2", "b", "x", (link(),))]
    runs = ran(connected({"a": first(chip), "b": second(chip)}, wires, 16), "exact")
    plain = ran(pair(), "exact")
    for name, run in runs.items():
        check(run, thorough=True)
        for output, value in run.outputs.items():
            np.testing.assert_allclose(value, plain[name].outputs[output], rtol=1e-5)
