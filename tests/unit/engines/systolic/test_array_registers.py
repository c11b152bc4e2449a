"""The register-level model: equal to the closed forms, never early, never late; and what it looks like."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.engines.systolic.accumulating import AccumulatingArray
from accelsim.engines.systolic.fabric import LAST, Batch, Setup
from accelsim.engines.systolic.loading import Chain
from accelsim.engines.systolic.registers import build, simulate
from accelsim.engines.systolic.stationary import StationaryArray
from accelsim.engines.systolic.timing import cycles
from accelsim.engines.systolic.watch import frames, legend
from accelsim.errors import HazardError, UsageError
from tests.validation.systolic import combinations, differences, prove

EDGES = [(1, 1), (1, 5), (5, 1), (2, 2), (16, 3)]


@pytest.mark.parametrize(("flow", "schedule", "shadow"), combinations())
def test_closed_forms_equal_the_registers(flow, schedule, shadow):
    equal, different = prove(flow, schedule, shadow, 80, np.random.default_rng(7))
    assert (equal, different) == (80, [])


@pytest.mark.parametrize(("R", "C"), EDGES)
@pytest.mark.parametrize(("flow", "schedule", "shadow"), combinations())
def test_thin_arrays_and_thin_products(flow, schedule, shadow, R, C):
    sizes = np.array([(1, 1, 1), (1, 9, 2), (9, 1, 2), (2, 1, 9), (R, C, R), (R + 1, C + 1, R + 1)])
    rng = np.random.default_rng(3)
    for lanes in (1, 3):
        assert differences(Setup(R, C, flow, schedule, shadow, lanes), sizes, rng) == {}


def test_floats_are_summed_in_the_order_of_the_hardware():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(3, 7)), rng.normal(size=(7, 2))
    got = simulate([a], [b], Setup(3, 2, "ws", "overlapped")).products[0]
    expected = np.zeros((3, 2))
    for first in range(0, 7, 3):
        part = np.zeros((3, 2))
        for k in range(first, min(first + 3, 7)):
            part = part + a[:, [k]] * b[[k]]
        expected = expected + part
    assert np.array_equal(got, expected)


def run_with(machine):
    while machine.running() and machine.edge < 500:
        machine.step()
    return machine


def operands(M=6, N=4, K=8):
    rng = np.random.default_rng(1)
    return [rng.integers(-9, 9, (M, K))], [rng.integers(-9, 9, (K, N))]


class EagerOutputs(AccumulatingArray):
    """Starts a fold one edge before PE (0, 0) may."""

    def may_start(self):
        return (self.fold < 0) | (self.token[:, -2, 0] & LAST).astype(bool)


class EagerWeights(StationaryArray):
    """Streams before the last word of column 0 has entered."""

    def may_start(self):
        return (self.loads.fold[:, 0] == self.fold + 1) & (self.loads.k[:, 0] >= self.path.steps - 1)


class EagerShadow(StationaryArray):
    """Begins a load right behind the one before, in all columns."""

    def _load(self, swap):
        self.free |= True
        super()._load(swap)


@pytest.mark.parametrize(
    ("machine", "setup"),
    [
        (EagerOutputs, Setup(3, 2, "os", "overlapped")),
        (EagerWeights, Setup(3, 2, "ws", "overlapped", "diagonal")),
        (EagerWeights, Setup(3, 2, "ws", "sequential")),
        (EagerShadow, Setup(3, 2, "ws", "overlapped", "column")),
        (EagerShadow, Setup(3, 2, "ws", "overlapped", "diagonal")),
    ],
)
def test_earlier_than_the_rules_is_a_hazard(machine, setup):
    """So the schedules are as early as the registers allow."""
    with pytest.raises(HazardError):
        run_with(machine(Batch(*operands(), setup), setup))


def test_a_fast_chain_would_run_into_the_swap():
    """Why a diagonal load of several rows per clock needs registers of its own."""
    setup = Setup(6, 2, "ws", "overlapped", "diagonal", 3)
    machine = build(*operands(M=2, K=18), setup)
    machine.path = Chain(1, 6, 2, 3, machine.batch.dtype)
    with pytest.raises(HazardError, match="shadow register"):
        run_with(machine)


@pytest.mark.parametrize(
    ("change", "text"),
    [({"dataflow": "wz"}, "dataflow"), ({"schedule": "scalesim"}, "schedule"), ({"shadow_load": "x"}, "shadow load")],
)
def test_unknown_names(change, text):
    fields = {"rows": 2, "cols": 2, "dataflow": "ws", "schedule": "overlapped"} | change
    with pytest.raises(UsageError, match=text):
        simulate(*operands(), Setup(**fields))


def test_operands_that_do_not_fit():
    with pytest.raises(UsageError, match="needs one K"):
        simulate([np.ones((2, 3))], [np.ones((4, 2))], Setup(2, 2, "ws", "sequential"))


@pytest.mark.parametrize(("flow", "schedule", "shadow"), combinations())
def test_frames_show_every_edge_and_every_output(flow, schedule, shadow):
    a, b = operands(M=3, N=3, K=4)
    setup = Setup(2, 2, flow, schedule, shadow)
    texts = list(frames(a[0], b[0], setup))
    assert len(texts) == cycles(2, 2, flow, schedule, shadow, 3, 3, 4)
    assert [text.split(":")[0] for text in texts] == [f"edge {edge}" for edge in range(1, len(texts) + 1)]
    leaves = [word for text in texts for word in text.splitlines()[-1].split()[:-1] if word != "."]
    machine = run_with(build(a, b, setup))
    assert len(leaves) == machine.outputs.sum()
    assert "leaves" in legend(setup)


def test_a_frame_as_a_student_sees_it():
    a, b = np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])
    texts = list(frames(a, b, Setup(2, 2, "ws", "overlapped")))
    assert texts[2] == (
        "edge 3: fold 1 of 1 streams row 1 of 2\n"
        "                  .                      .             in\n"
        "  1 -> | a 1  b 5*  b' .  y 5 | a .  b .   b' 6  y . |\n"
        "  . -> | a .  b .   b' 7  y . | a .  b .   b' 8  y . |\n"
        "                  .                      .             out\n"
    )
    assert "y 19" in texts[3]  # 1 x 5 + 2 x 7


@pytest.mark.parametrize(
    ("flow", "load", "drains"), [("ws overlapped", 2, (2, 2)), ("ws sequential", 2, (4, 2)), ("os sequential", 0, (3,))]
)
def test_a_frame_says_what_the_array_does(flow, load, drains):
    """Two rows in each fold; of weights that are loaded behind a fold none is waited for."""
    said = ["first load"] * load
    for fold, edges in enumerate(drains, 1):
        name = f"fold {fold} of {len(drains)}"
        said += [f"{name} streams row 1 of 2", f"{name} streams row 2 of 2"] + [f"{name} drains"] * edges
    a = np.ones((2, 2 * len(drains)))
    found = [text.splitlines()[0] for text in frames(a, a.T, Setup(2, 2, *flow.split()))]
    assert found == [f"edge {edge}: {what}" for edge, what in enumerate(said, 1)]


def test_large_arrays_are_not_watched():
    """64 PEs are as many as there may be."""
    assert next(frames(np.ones((2, 2)), np.ones((2, 2)), Setup(8, 8, "ws", "overlapped")))
    with pytest.raises(UsageError, match="5 x 13 PEs are too many to watch"):
        next(frames(np.ones((2, 2)), np.ones((2, 2)), Setup(5, 13, "ws", "overlapped")))


@pytest.mark.parametrize(
    ("flow", "schedule", "begins"),
    [
        ("ws", "sequential", "a moves right, b stays, y moves down"),
        ("ws", "overlapped", "a moves right, b stays, b' waits for the next fold"),
        ("is", "sequential", "b moves right, a stays, y moves down"),
        ("is", "overlapped", "b moves right, a stays, a' waits for the next fold"),
        ("os", "overlapped", "a moves right, b moves down, y stays"),
    ],
)
def test_the_legend_says_which_operand_stays(flow, schedule, begins):
    assert legend(Setup(2, 2, flow, schedule)).startswith(begins)
