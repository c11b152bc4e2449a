"""Checks ``noc-zero-load`` and ``noc-load``: networks on a chip against runs of BookSim 2.

Its routers: input-queued, 4 virtual channels of 8 flits, islip, routing, both allocations and traversal of one clock
each, links and credits of one clock, dimension-order routing.
"""

from __future__ import annotations

import csv
from functools import cache
from math import isclose

import numpy as np

from accelsim.network.noc.routes import bound, estimate, hops, mean_hops, zero_load
from accelsim.network.noc.simulate import simulate
from accelsim.network.noc.sweep import named as pattern
from accelsim.network.noc.topology import Network, named
from accelsim.spec.network import Router
from accelsim.types import Floats
from tests.validation.base import Check, check, within
from tests.validation.golden import golden

FILE = "noc/booksim2.csv"
ROUTER = Router()
"""The defaults of the spec are the configuration of the golden runs."""

CLOSE_CLOCKS, LOAD, LOAD_TOLERANCE = 0.05, 0.1, 0.05
NODE_CLOCKS = 96_000
"""Length of a simulation by its nodes: 6,000 clocks on 4 x 4, 1,500 on 8 x 8."""

Row = dict[str, str]


@cache
def golden_rows() -> tuple[Row, ...]:
    """The rows of the golden file."""
    with golden(FILE).open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def setting(row: Row) -> tuple[Network, Floats, int]:
    """Network, traffic and flits of a packet of a golden row."""
    network = named(row["topology"], int(row["k"]), int(row["k"]))
    return network, pattern(row["traffic"], network), int(row["packet_flits"])


def label(row: Row) -> str:
    """Return what a row is about, in words."""
    return f"{row['topology']} {row['k']} x {row['k']}, {row['traffic']}, packets of {row['packet_flits']}"


@check("noc-zero-load")
def noc_zero_load() -> Check:
    """Mean, least and largest latency of almost empty networks, mean links and bounds."""
    equal, errors, details = 0, [], []
    for row in golden_rows():
        wrong = zero_load_differences(row)
        mean = float(zero_load(ROUTER, float(row["mean_link_hops_measured"]), int(row["packet_flits"])))
        errors.append(mean / float(row["zero_load_latency_cycles"]) - 1)
        equal += not wrong
        details += [f"{label(row)}: {', '.join(wrong)}"] if wrong else []
    what = "latency of empty networks within 0.05 clocks of BookSim 2, least latency and bounds exactly"
    bound = f"within {CLOSE_CLOCKS} clocks"
    return Check("noc-zero-load", what, len(errors), equal, np.array(errors), details, bound)


def zero_load_differences(row: Row) -> list[str]:
    """Return what of a golden row the formulas do not give."""
    network, traffic, flits = setting(row)
    used = hops(network)[traffic > 0]
    mean = float(zero_load(ROUTER, float(row["mean_link_hops_measured"]), flits))
    least, most = (float(zero_load(ROUTER, int(count), flits)) for count in (used.min(), used.max()))
    limit, theory = bound(network, traffic), row["bound_theory"]
    facts = {
        f"mean {mean:.3f}": abs(mean - float(row["zero_load_latency_cycles"])) <= CLOSE_CLOCKS,
        f"least {least:g}": least == float(row["zero_load_min"]),
        f"largest {most:g}": most <= float(row["zero_load_max"]),
        f"bound {limit:.4f}": not theory or isclose(limit, float(theory), abs_tol=5e-5),
        f"links {mean_hops(network, traffic):.3f}": isclose(
            mean_hops(network, traffic), float(row["mean_link_hops_theory"])
        ),
    }
    return [name for name, holds in facts.items() if not holds]


@check("noc-load")
def noc_load() -> Check:
    """Mean latency at ``LOAD`` flits per clock and node, simulated."""
    equal, errors, details = 0, [], []
    for row in golden_rows():
        error, formula = load_errors(row)
        errors.append(error)
        equal += abs(error) <= LOAD_TOLERANCE
        details.append(f"{label(row)}: simulation {error:+.1%}, formula {formula:+.1%}")
    what = f"mean latency at a load of {LOAD} within {LOAD_TOLERANCE:.0%} of BookSim 2"
    return Check("noc-load", what, len(errors), equal, np.array(errors), details, within([LOAD_TOLERANCE]))


def load_errors(row: Row) -> tuple[float, float]:
    """Relative errors of the latency under load: of the simulation and of the formula."""
    network, traffic, flits = setting(row)
    golden_clocks = float(row["latency_at_0.1_flit_per_node_cycle"])
    clocks = NODE_CLOCKS // network.nodes
    simulated = simulate(network, ROUTER, traffic, LOAD, flits, clocks).latency
    return simulated / golden_clocks - 1, estimate(network, ROUTER, traffic, LOAD, flits) / golden_clocks - 1
