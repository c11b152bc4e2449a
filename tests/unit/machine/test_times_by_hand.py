"""Small programs whose commands, waiting times and critical path are worked out by hand, in clocks of 10 ns.

The memory of edu-4x4 moves 4 B per clock, the first of them 10 clocks after the request; a token takes one clock, so
what ends at edge n lets another command begin at edge n + 1. A command that works at the edges n to m takes the time from
n - 1 to m.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest

from accelsim.engines.systolic.streaming import Streaming
from accelsim.machine.critical_path import critical_path
from accelsim.machine.run import LawError, Run
from accelsim.machine.simulate import simulate
from accelsim.machine.simulation import Simulation
from accelsim.program.commands import Command, Effect, Use, Wait
from accelsim.program.work import Duration, Folds, Message
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.spec.yaml.parts import load_link
from accelsim.time import Clock
from tests.helpers.hand_programs import HOME, chip, load, program, region, store, vector

CLOCK_FS = 10 * 10**6
REGIONS = [
    HOME,
    region(1),
    region(2, "weight_sram"),
    region(3, "accumulators"),
    region(4, offset=64),
    region(5, "accumulators", 64),
    region(6, "accumulators", 128),
    region(7, "dram", -1),
    region(8, "weight_sram", 64),
]
FETCHED = [(0, 1, "hand_over", ""), (1, 11, "latency", ""), (11, 15, "transfer", "")]
"""The path of the first load: the first edge, the latency, four beats."""


def full(*commands: int) -> tuple[Wait, ...]:
    return tuple(Wait(command, "done", "full") for command in commands)


def product(
    index: int, folds: int, rows: int, waits: tuple[Wait, ...], w: int = 2, y: int = 3, version: int = 1
) -> Command:
    """A MatMul that streams region 1 through the weights of region ``w`` into region ``y``."""
    return Command(
        index, "MatMul", "matrix", 0, f"product {index}", Folds(folds, rows, 1), Effect("none"), waits,
        (Use(1, 1, "a"), Use(w, 1, "w")), (Use(y, version, "whole"),),
    )  # fmt: skip


def host(index: int, clocks: float, waits: tuple[Wait, ...] = ()) -> Command:
    return Command(index, "Host", "host", 0, f"host {index}", Duration(int(clocks * CLOCK_FS)), Effect("none"), waits)


def ran(commands: list[Command], on: Chip | None = None, others: Mapping[str, str] | None = None) -> Run:
    whole = program(commands, REGIONS, on)
    whole.engines.update(others or {})
    return simulate(whole)


def times(run: Run) -> list[tuple[float, float, float]]:
    return [(piece.start / CLOCK_FS, piece.data / CLOCK_FS, piece.end / CLOCK_FS) for piece in run.slices]


def path(run: Run) -> list[tuple[float, float, str, str]]:
    return [(piece.start / CLOCK_FS, piece.end / CLOCK_FS, piece.kind, piece.why) for piece in critical_path(run)]


def spent(run: Run, engine: str) -> tuple[float, dict[str, float], float]:
    """Busy, stalled by reason, idle."""
    (found,) = [each for each in run.engines if each.engine == engine]
    stalled = {why: lost / CLOCK_FS for why, lost in found.stalled.items()}
    return found.busy / CLOCK_FS, stalled, found.idle / CLOCK_FS


def one_port() -> Chip:
    """One unit at a time in the buffer of the activations."""
    base = chip()
    narrow = base.buffers["act_sram"].model_copy(update={"ports": 1})
    return base.with_core(memories={**base.buffers, "act_sram": narrow})


def test_a_host_starts_at_any_time_and_the_vector_unit_at_an_edge() -> None:
    commands = [load(0, 1), host(1, 0.75), host(2, 1, full(0)), host(3, 1.2, full(0)), vector(4, 1, 4, 5, full(0, 3))]
    run = ran(commands, others={"host": "cpu"})
    assert times(run) == [(1, 11, 15), (0, 0, 0.75), (16, 16, 17), (17, 17, 18.2), (19, 19, 24)]
    assert path(run) == [
        *FETCHED, (15, 16, "hand_over", ""), (16, 17, "host", "full"), (17, 18.2, "host", "queue"),
        (18.2, 19, "hand_over", ""), (19, 24, "vector", "full"),
    ]  # fmt: skip
    assert spent(run, "host") == (2.95, {"full": 15.25}, 5.8)
    assert spent(run, "vector") == (5, {"full": 19}, 0)


def test_a_host_alone() -> None:
    run = ran([host(0, 2.5), host(1, 1)], others={"host": "cpu"})
    assert times(run) == [(0, 0, 2.5), (2.5, 2.5, 3.5)]
    assert path(run) == [(0, 2.5, "host", "start"), (2.5, 3.5, "host", "queue")]
    assert spent(run, "host") == (3.5, {}, 0)


def test_vector_commands_follow_each_other_without_a_gap() -> None:
    commands = [load(0, 1), vector(1, 1, 4, 5, full(0)), vector(2, 1, 5, 7, full(0)), store(3, 5, 7, 16, full(2))]
    run = ran(commands)
    assert times(run) == [(1, 11, 15), (15, 15, 20), (20, 20, 27), (28, 38, 42)]
    assert path(run) == [
        *FETCHED, (15, 20, "vector", "full"), (20, 27, "vector", "queue"), (27, 28, "hand_over", ""),
        (28, 38, "latency", "full"), (38, 42, "transfer", ""),
    ]  # fmt: skip
    assert spent(run, "vector") == (12, {"full": 15}, 15)
    assert spent(run, "dma_in") == (14, {"port": 1}, 27)
    assert spent(run, "dma_out") == (14, {"full": 27, "port": 1}, 0)


def test_a_vector_unit_alone() -> None:
    run = ran([vector(0, 0, 4, 5, versions=(0, 1)), vector(1, 0, 5, 3, versions=(0, 1))])
    assert times(run) == [(0, 0, 5), (5, 5, 8)]
    assert path(run) == [(0, 5, "vector", "start"), (5, 8, "vector", "queue")]
    assert spent(run, "vector") == (8, {}, 0)


W_AND_A = (Wait(0, "done", "a"), Wait(1, "done", "w"))


def test_products_of_one_and_of_several_folds() -> None:
    """The weights come at 19 and take four clocks to shift in. Of the second product each fold streams for 8 clocks, as
    long as the next takes until it may shift (4) and is shifted in (4). A fold of the third streams for 2 clocks, then
    nothing for 2, then the next is shifted in for 4: three folds take 2 + 6 + 2 + 6 + 2. Behind the last row come six
    clocks through the array and one to the accumulator.
    """
    products = [product(2, 1, 8, W_AND_A), product(3, 2, 8, W_AND_A, y=5), product(4, 3, 2, W_AND_A, y=6)]
    run = ran([load(0, 1), load(1, 2), *products, vector(5, 6, 4, 5, full(4))])
    assert times(run)[2:] == [(19, 23, 38), (31, 31, 54), (47, 47, 72), (72, 72, 77)]
    assert path(run) == [
        *FETCHED, (15, 19, "transfer", "port"), (19, 23, "weight_shift", "w"), (23, 31, "stream", ""),
        (31, 47, "stream", "queue"), (47, 65, "stream", "queue"), (65, 72, "fill_drain", ""), (72, 77, "vector", "full"),
    ]  # fmt: skip
    mixes = [dict(piece.mix) for piece in critical_path(run) if piece.kind == "stream"]
    assert [tuple(mix.values()) for mix in mixes] == [(8, 0, 0), (16, 0, 0), (6, 8, 4)]
    assert list(mixes[0]) == ["compute", "weight_shift", "fill_drain"]
    assert spent(run, "matrix") == (8 + 16 + 6, {"weights": 19, "shift": 4 + 12}, 12)
    (step,) = run.step_stalls
    assert step == {"active": 30 * CLOCK_FS, "weights": 19 * CLOCK_FS, "shift": 16 * CLOCK_FS}
    assert run.step_spans == [(CLOCK_FS, 77 * CLOCK_FS)]


def test_products_that_wait_for_each_of_their_operands() -> None:
    """The first waits for its activations (data until 23), the second for its weights (until 39, then shifted in), the
    third, shifted in behind the second, for the vector command that reads the sums which it overwrites.
    """
    waits = [
        (Wait(0, "done", "w"), Wait(1, "done", "a")),
        (Wait(2, "done", "w"), Wait(1, "done", "a")),
        (Wait(2, "done", "w"), Wait(4, "done", "acc")),
    ]
    commands = [
        load(0, 2), load(1, 1, 32), load(2, 8, 64), product(3, 1, 8, waits[0]), vector(4, 3, 4, 40, full(3)),
        product(5, 1, 4, waits[1], w=8, y=5), product(6, 1, 4, waits[2], w=8, version=2),
    ]  # fmt: skip
    run = ran(commands)
    assert {piece.command: (piece.start, piece.data, piece.end) for piece in run.slices if piece.command > 2} == {
        3: (15 * CLOCK_FS, 23 * CLOCK_FS, 38 * CLOCK_FS),
        4: (38 * CLOCK_FS, 38 * CLOCK_FS, 78 * CLOCK_FS),
        5: (39 * CLOCK_FS, 43 * CLOCK_FS, 54 * CLOCK_FS),
        6: (47 * CLOCK_FS, 78 * CLOCK_FS, 89 * CLOCK_FS),
    }
    assert path(run) == [
        *FETCHED, (15, 23, "transfer", "port"), (23, 31, "stream", "a"), (31, 38, "fill_drain", ""),
        (38, 78, "vector", "full"), (78, 82, "stream", "acc"), (82, 89, "fill_drain", ""),
    ]  # fmt: skip
    assert spent(run, "matrix") == (
        16, {"weights": 15 + 8, "shift": 3 * 4, "activations": 4, "accumulator": 27}, 7,
    )  # fmt: skip


def test_the_array_waits_for_the_port_of_a_buffer() -> None:
    """The vector unit has the only port for 30 clocks from 15 on, so what could stream at 23 streams at 45."""
    run = ran([load(0, 1), load(1, 2), vector(2, 1, 4, 30, full(0)), product(3, 1, 8, W_AND_A)], one_port())
    assert times(run)[2:] == [(15, 15, 45), (19, 45, 60)]
    assert path(run) == [
        *FETCHED, (15, 19, "transfer", "port"), (19, 23, "weight_shift", "w"), (23, 45, "buffer_port", ""),
        (45, 53, "stream", ""), (53, 60, "fill_drain", ""),
    ]  # fmt: skip
    assert spent(run, "matrix") == (8, {"weights": 19, "shift": 4, "buffer port": 22}, 7)


def test_the_vector_unit_waits_for_the_port_of_a_buffer() -> None:
    """Two folds of 8 rows stream from 23 to 39; the vector command could begin at 24. The last sums are there at 46."""
    commands = [load(0, 1), load(1, 2), product(2, 2, 8, W_AND_A), host(3, 23.5), vector(4, 1, 4, 5, full(0, 3))]
    run = ran(commands, one_port(), {"host": "cpu"})
    assert times(run)[-1] == (39, 39, 44)
    assert spent(run, "vector") == (5, {"full": 24, "buffer port": 15}, 2)
    late = ran([*commands, vector(5, 4, 7, 4, full(4))], one_port(), {"host": "cpu"})
    assert path(late)[-3:] == [(24, 39, "buffer_port", "full"), (39, 44, "vector", ""), (44, 48, "vector", "queue")]


@pytest.mark.parametrize(("folds", "free"), [(1, 23), (2, 31), (3, 43)])
def test_weights_make_room_when_they_have_been_shifted_in(folds: int, free: int) -> None:
    """12 rows stream at the edges 24 to 35, 36 to 47, 48 to 59; the next fold is shifted in at the edges 28 to 31 and
    40 to 43. A token later the next weights are asked for.
    """
    again = load(3, 2, 16, (Wait(2, "w", "empty"),), 2)
    run = ran([load(0, 1), load(1, 2), product(2, folds, 12, W_AND_A), again])
    assert next(piece for piece in run.slices if piece.command == 3).start == (free + 1) * CLOCK_FS


@pytest.mark.parametrize(("folds", "free"), [(1, 35), (2, 47)])
def test_activations_make_room_when_their_last_row_has_streamed(folds: int, free: int) -> None:
    again = load(3, 1, 16, (Wait(2, "a", "empty"),), 2)
    run = ran([load(0, 1), load(1, 2), product(2, folds, 12, W_AND_A), again])
    assert next(piece for piece in run.slices if piece.command == 3).start == (free + 1) * CLOCK_FS


def message(index: int, kind: Literal["Send", "Recv"], tag: str, waits: tuple[Wait, ...] = ()) -> Command:
    """1000 B between devices a and b."""
    peer, engine = ("b", "nic_out") if kind == "Send" else ("a", "nic_in")
    return Command(index, kind, engine, 0, f"{kind} {tag}", Message(peer, tag, 1000), Effect("none"), waits)


def test_messages_of_two_devices() -> None:
    """1 us each at 1 GB/s, 100 clocks, and 50 clocks more until the last byte is there. The first can go when the host of
    the sender has worked for 30 clocks (a token later), the second is ready with the first, and goes when the
    receiver, which takes one after the other, has got that.
    """
    wire = load_link("pcie-gen3-x16").model_copy(update={"pcie": None, "bandwidth": 1e9, "latency": 5e-7})
    first = program([host(0, 30), message(1, "Send", "x", full(0)), message(2, "Send", "y")], REGIONS)
    second = program([message(0, "Recv", "x"), message(1, "Recv", "y"), vector(2, 0, 4, 5, full(1), (0, 1))], REGIONS)
    first.engines.update(host="cpu", nic_out="nic")
    second.engines["nic_in"] = "nic"
    simulation = Simulation({"wire": wire}, {("a", "b"): ["wire"]})
    for name, each in (("a", first), ("b", second)):
        simulation.add(name, each)
    runs = simulation.run()
    assert times(runs["a"]) == [(0, 0, 30), (31, 31, 131), (181, 181, 281)]
    assert times(runs["b"]) == [(31, 31, 181), (181, 181, 331), (331, 331, 336)]
    assert spent(runs["a"], "nic_out") == (200, {"full": 31, "peer": 50}, 0)
    assert spent(runs["b"], "nic_in") == (300, {"peer": 31}, 5)
    assert path(runs["b"]) == [
        (0, 31, "peer", "start"), (31, 181, "message", ""), (181, 331, "message", "queue"), (331, 336, "vector", "full"),
    ]  # fmt: skip
    assert path(runs["a"])[:3] == [(0, 30, "host", "start"), (30, 31, "hand_over", ""), (31, 131, "message", "full")]
    assert path(runs["a"])[3:5] == [(131, 181, "peer", "queue"), (181, 281, "message", "")]


STREAMED = {
    "RRSS RRSS RR": (2, 4, 2, 4, 3),
    "RR..SSSS RR..SSSS RR": (2, 8, 4, 4, 3),
    "RRR....SSS RRR": (3, 10, 3, 4, 2),
    "RRRRS RRRRS RRRR": (4, 5, 4, 1, 3),
    "RRRR RRRR": (4, 4, 1, 2, 2),
    "RR... RR": (2, 5, 0, 0, 2),
    "RRRRRR": (6, 9, 4, 4, 1),
}
"""What the array does at each edge: a row, a shift, neither; by rows, step, load, reload, folds of a command."""


@pytest.mark.parametrize("edges", STREAMED)
def test_edges_with_a_row_with_a_shift_and_with_neither(edges: str) -> None:
    rows, step, load_, reload, folds = STREAMED[edges]
    clock, plain = Clock(100e6), edges.replace(" ", "")
    stream = Streaming("stream", "matrix", clock, rows, folds, step, load_, reload, 0, "", 0, 0, "")
    for until in range(24, 24 + len(plain)):
        seen = plain[: until - 23]
        *_, (start_fs, kind, _, mix) = stream.pieces(clock.at(23), clock.at(until), "w")
        assert (start_fs, kind) == (clock.at(23), "stream")
        assert [count for _, count in mix] == [seen.count("R"), seen.count("S"), seen.count(".")]
    assert (clock.at(23 + len(plain)), "fill_drain", "matrix", ()) in stream.pieces(clock.at(23), clock.at(99), "done")


def test_the_path_through_weights_that_make_room() -> None:
    """The second load is asked for when the only fold has been shifted in, and is the last to end."""
    again = load(3, 2, 64, (Wait(2, "w", "empty"),), 2)
    run = ran([load(0, 1), load(1, 2), product(2, 1, 12, W_AND_A), again])
    assert path(run) == [
        *FETCHED, (15, 19, "transfer", "port"), (19, 23, "weight_shift", "w"), (23, 24, "hand_over", ""),
        (24, 34, "latency", "empty"), (34, 50, "transfer", ""),
    ]  # fmt: skip


def test_rows_that_stream_come_before_the_shift_behind_them_on_the_path() -> None:
    """Six rows stream from 23 to 29, the next weights are shifted in from 27 to 31."""
    run = ran([load(0, 1), load(1, 2), product(2, 1, 6, W_AND_A), product(3, 1, 8, W_AND_A, y=5)])
    assert times(run)[2:] == [(19, 23, 36), (29, 31, 46)]
    assert path(run)[4:] == [
        (19, 23, "weight_shift", "w"), (23, 29, "stream", ""), (29, 31, "weight_shift", "queue"),
        (31, 39, "stream", ""), (39, 46, "fill_drain", ""),
    ]  # fmt: skip


def test_one_request_per_clock_is_on_the_path() -> None:
    """A beat takes half a clock, so the port is free again before the data of the second request can come."""
    run = ran([load(0, 1, 4), load(1, 4, 4)], chip(bandwidth=8e8))
    assert times(run) == [(1, 11, 11.5), (2, 12, 12.5)]
    assert path(run) == [
        (0, 1, "hand_over", ""), (1, 2, "requests", "queue"), (2, 12, "latency", ""), (12, 12.5, "transfer", ""),
    ]  # fmt: skip
    assert critical_path(run)[1].resource == "dma_in", "the engine, not the memory, let it wait"


def test_units_with_clocks_of_their_own() -> None:
    """At half the clock: the token at 16 is acquired at the edge at 16, so the vector unit works from 14 on, 5 x 2."""
    base = chip()
    assert base.vector is not None and base.matrix is not None
    slow = base.with_engine(base.vector.model_copy(update={"clock": 50e6}))
    run = ran([load(0, 1), vector(1, 1, 4, 5, full(0))], slow)
    assert times(run)[1] == (14, 14, 24)
    assert spent(run, "vector") == (10, {"full": 14}, 0)
    slow = base.with_engine(base.matrix.model_copy(update={"clock": 50e6}))
    run = ran([load(0, 1), load(1, 2), product(2, 1, 8, W_AND_A)], slow)
    assert times(run)[2] == (18, 18 + 2 * 4, 18 + 2 * (4 + 8 + 7))


def test_the_path_through_weights_passes_by_activations_that_came_later() -> None:
    """The weights are shifted in from 15 to 19, whose room is asked for then; the activations come until 23."""
    waits = (Wait(0, "done", "w"), Wait(1, "done", "a"))
    again = load(3, 2, 64, (Wait(2, "w", "empty"),), 2)
    run = ran([load(0, 2), load(1, 1, 32), product(2, 1, 8, waits), again])
    assert path(run) == [
        *FETCHED, (15, 19, "weight_shift", "w"), (19, 20, "hand_over", ""), (20, 30, "latency", "empty"),
        (30, 46, "transfer", ""),
    ]  # fmt: skip


def test_a_product_that_streams_when_nothing_lets_it_is_a_broken_law() -> None:
    run = ran([load(0, 1), load(1, 2), product(2, 1, 8, W_AND_A)])
    early = run.histories[2]._replace(begins=tuple(begin - 2 * CLOCK_FS for begin in run.histories[2].begins))
    run = replace(run, histories=[*run.histories[:2], early])
    with pytest.raises(LawError, match="went on at 170000000 fs, 'w' came at 190000000 fs"):
        critical_path(run)


def test_the_path_names_the_cache_where_it_served_alone() -> None:
    """The second load finds what the first one fetched from the memory."""
    loads = [load(0, 1), load(1, 4, waits=full(0))]
    through = [replace(each, actions=(each.actions[0]._replace(component="l2"),)) for each in loads]
    run = ran(through, load_chip("edu-cache"))
    moves = {piece.command: piece.resource for piece in critical_path(run) if piece.kind == "transfer"}
    assert moves == {0: "dram", 1: "l2"}


def test_a_byte_on_a_link_takes_the_time_of_a_byte() -> None:
    wire = load_link("pcie-gen3-x16").model_copy(update={"pcie": None, "bandwidth": 1e8, "latency": 0.0})
    simulation = Simulation({"wire": wire}, {("a", "b"): ["wire"]})
    for name, command in (("a", message(0, "Send", "x")), ("b", message(0, "Recv", "x"))):
        command.work = Message("b" if name == "a" else "a", "x", 1)
        each = program([command], REGIONS)
        each.engines[command.engine] = "nic"
        simulation.add(name, each)
    assert [times(run) for run in simulation.run().values()] == [[(0, 0, 1)], [(0, 0, 1)]]


def test_where_sums_stay_the_next_product_waits_until_they_begin_to_leave() -> None:
    """8 rows stream from 19 on; the last PE of the first column has its last operands 3 clocks behind them."""
    base = chip()
    assert base.matrix is not None
    on = base.with_engine(base.matrix.model_copy(update={"dataflow": "os"}))
    run = ran([load(0, 1), load(1, 2), product(2, 1, 8, W_AND_A), product(3, 1, 8, W_AND_A, y=5)], on)
    assert [piece[1] for piece in times(run)[2:]] == [19, 19 + 8 + 3]
