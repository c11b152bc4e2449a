"""Profiles of PipeDream: layers with measured times and sizes, and who feeds whom, as text."""

from __future__ import annotations

import re

from accelsim.cluster.partition.states import Layer, States, graph_states
from accelsim.errors import Problem, UsageError

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
    """The states of a profile in PipeDream's format (msr-fiddle/pipedream, ``profiler``): ms, bytes.

    Inputs go, for they have no choice of a stage; results that nobody uses (``__getitem__``) go too. UsageError with
    every line that is not of the format, or names an unknown layer.
    """
    layers: dict[str, Layer] = {}
    titles: dict[str, str] = {}
    edges: list[tuple[str, str]] = []
    problems = []
    for number, line in enumerate(text.rstrip().splitlines(), 1):
        place = f"{where}:{number}"
        if edge := _EDGE.fullmatch(line.rstrip()):
            edges.append((edge["source"], edge["target"]))
            problems += [
                Problem(f"unknown layer {name!r}", place, "a layer that stands above")
                for name in edge.groups() if name not in layers
            ]  # fmt: skip
        elif node := _NODE.fullmatch(line.rstrip()):
            compute_s = (float(node["forward"]) + float(node["backward"])) / 1000.0
            layers[node["name"]] = Layer(
                node["name"], compute_s, _size(node["output"]), float(node["parameter"])
            )
            titles[node["name"]] = node["title"]
        else:
            problems.append(Problem("not a line of a profile", place, _EXPECTED))
    if problems:
        raise UsageError(problems)
    kept = [name for name in layers if not _dropped(name, titles[name], edges)]
    index = {name: place for place, name in enumerate(kept)}
    pairs = [(index[a], index[b]) for a, b in edges if a in index and b in index]
    return graph_states([layers[name] for name in kept], pairs)


def _size(text: str) -> float:
    """Bytes; of several outputs ('[1; 2]') their sum."""
    return sum(float(part) for part in text.strip("[]").split(";"))


def _dropped(name: str, title: str, edges: list[tuple[str, str]]) -> bool:
    """Whether it is an input, or a result that nobody uses."""
    if title.startswith("Input"):
        return all(target != name for _, target in edges)
    return title.startswith("__getitem__") and all(source != name for source, _ in edges)
