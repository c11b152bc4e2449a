"""Stages of a model on a cluster as PipeDream's optimiser chooses them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from accelsim.cluster.collectives.reach import reach
from accelsim.cluster.partition.pipedream import Partition, Rules, optimise
from accelsim.cluster.partition.states import ProfiledLayer, States, chain_states, graph_states
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.asked import Asked, default_batch, ready
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.memory import capacity_B
from accelsim.cluster.step.tensor import SHORT_B
from accelsim.cluster.step.work import Work
from accelsim.errors import Gather, Problem, UsageError
from accelsim.files.reading import read_text
from accelsim.spec.yaml.clusters import load_devices
from accelsim.time import FS

MOST_MACHINES = 256
"""Machines of a level: the optimiser's tables grow with their square."""


@dataclass(frozen=True)
class Assigned:
    """A request and its partition. ``machines``, ``rates_Bps``: of each level, the innermost first; ``samples``: in a
    minibatch of one device (0: a profile, which does not say)."""

    model: str
    cluster: str
    samples: int
    machines: tuple[int, ...]
    rates_Bps: tuple[float, ...]
    partition: Partition

    def rows(self) -> Iterator[dict[str, float]]:
        """Yield the stages in order: first and last layer, replicas of each, seconds of a minibatch on one device."""
        levels = self.partition.levels
        for number, stage in enumerate(self.partition.stages):
            of_levels = ([each for each in level.stages if each.start <= stage.start < each.end] for level in levels)
            layers = {"first_layer": stage.start, "last_layer": stage.end - 1}
            replicas = prod(found[0].replicas for found in of_levels)
            yield {"stage": number, **layers, "replicas": replicas, "compute_s": stage.compute_s}

    def as_dict(self) -> dict[str, object]:
        """Return the facts for JSON."""
        found = self.partition
        return {
            "model": self.model, "cluster": self.cluster, "samples": self.samples, "machines": list(self.machines),
            "rates_Bps": list(self.rates_Bps), "stages": list(self.rows()), "unused": [list(each.unused)
            for each in found.levels], "minibatch_s": found.time_s, "one_device_s": found.single_s,
            "data_parallel_s": found.data_parallel_s, "speedup": found.speedup,
            "speedup_over_data_parallel": found.speedup_over_data_parallel,
        }  # fmt: skip


def assigned(asked: Asked) -> Assigned:
    """Partition a model, or a profile of PipeDream (a text file), over a cluster.

    Raises UsageError, SpecError and ModelError, as ``ready``; UsageError for clusters that the optimiser does not know:
    devices or nodes that differ, a single device, too many machines, and for models that do not fit.
    """
    if Path(asked.model).suffix == ".txt":
        states, samples = read_profile(_text(Path(asked.model)), asked.model), 0
        fleet = fleet_of(load_devices(str(asked.on), asked.set))
        machines, rates = _levels(fleet)
    else:
        made = ready(asked)
        fleet, samples = made.fleet, asked.batch or default_batch(made.work, Plan())
        machines, rates = _levels(fleet)
        states = chain_states(list(_layers(made.work, fleet, samples)))
    room = None if asked.options.ignore_capacity else float(capacity_B(fleet.chips[0]))
    found = optimise(states, machines, rates, Rules(memory_B=room, least=1))
    return Assigned(asked.model, fleet.name, samples, machines, rates, found)


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{error}", str(path), "a profile of PipeDream") from None


def _layers(work: Work, fleet: Fleet, samples: int) -> Iterator[ProfiledLayer]:
    """The parts that a pipeline may be cut between, each simulated on the first chip."""
    plan, costs = Plan(pp=work.depth()), fleet.costs(0)
    for index in range(plan.pp):
        piece = work.piece(index, plan, samples, costs)
        took_fs = sum(cost.time_fs for cost in (piece.costs.forward, piece.costs.inputs, piece.costs.weights))
        yield ProfiledLayer(f"layer {index}", took_fs * FS, piece.result_B, SHORT_B * sum(piece.parameters))


def _levels(fleet: Fleet) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Machines and bytes per second of each level: devices of a node, then nodes."""
    nodes = Counter(fleet.topology.groups)
    each, count = max(nodes.values()), len(nodes)
    gather, name, most = Gather(), fleet.name, max(each, count)
    kinds = (set(map(id, fleet.chips)), {*fleet.speeds}, {*nodes.values()})
    differ = any(len(each) > 1 for each in kinds)
    gather.refuse(differ, "devices or nodes that differ", name, "equal ones, as PipeDream assumes")
    gather.refuse(fleet.size == 1, "one device", name, "a cluster of several")
    gather.refuse(most > MOST_MACHINES, f"{most:,} machines of one level", name, f"at most {MOST_MACHINES}")
    gather.done()
    rings = reach(fleet.topology, tuple(range(fleet.size)))
    levels = [(each, rings.inside_Bps), (count, rings.between_Bps)]
    kept = [level for level in levels if level[0] > 1]
    return tuple(machines for machines, _ in kept), tuple(rate for _, rate in kept)


_NODE = re.compile(
    r"(?P<name>\S+) -- (?P<title>.*) -- forward_compute_time=(?P<forward>[\d.]+), "
    r"backward_compute_time=(?P<backward>[\d.]+), activation_size=(?P<output>\[[^\]]*\]|[\d.]+), "
    r"parameter_size=(?P<parameter>[\d.]+)(?: -- stage_id=\d+)?"
)
_EDGE = re.compile(r"\t(?P<source>\S+) -- (?P<target>\S+)")

_EXPECTED = (
    "'name -- layer -- forward_compute_time=.., backward_compute_time=.., activation_size=.., parameter_size=..', "
    "or an edge, '<tab>name -- name'"
)


def read_profile(text: str, where: str = "profile") -> States:
    """Read the states of a profile in PipeDream's format (msr-fiddle/pipedream, ``profiler``): ms, bytes.

    Inputs go, for they have no choice of a stage; results that nobody uses (``__getitem__``) go too. UsageError with
    every line that is not of the format, or names an unknown layer.
    """
    layers: dict[str, ProfiledLayer] = {}
    titles: dict[str, str] = {}
    edges: list[tuple[str, str]] = []
    problems = []
    for number, line in enumerate(text.rstrip().splitlines(), 1):
        place = f"{where}:{number}"
        if edge := _EDGE.fullmatch(line.rstrip()):
            edges.append((edge["source"], edge["target"]))
            problems += [
                Problem(f"unknown layer {name!r}", place, "a layer that stands above")
                for name in edge.groups()
                if name not in layers
            ]
        elif node := _NODE.fullmatch(line.rstrip()):
            compute_s = (float(node["forward"]) + float(node["backward"])) / 1000.0
            output_B = sum(map(float, node["output"].strip("[]").split(";")))  # of several outputs: '[1; 2]'
            layers[node["name"]] = ProfiledLayer(node["name"], compute_s, output_B, float(node["parameter"]))
            titles[node["name"]] = node["title"]
        else:
            problems.append(Problem("not a line of a profile", place, _EXPECTED))
    UsageError.raise_for(problems)
    kept = [name for name in layers if not _dropped(name, titles[name], edges)]
    index = {name: place for place, name in enumerate(kept)}
    pairs = [(index[a], index[b]) for a, b in edges if a in index and b in index]
    return graph_states([layers[name] for name in kept], pairs)


def _dropped(name: str, title: str, edges: list[tuple[str, str]]) -> bool:
    if title.startswith("Input"):
        return all(target != name for _, target in edges)
    return title.startswith("__getitem__") and all(source != name for source, _ in edges)
