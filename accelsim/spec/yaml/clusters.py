"""Clusters by name, with a number before it or not: ``load_cluster("16x-dgx-a100")``, ``"dgx-a100?devices=2"``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from accelsim.errors import Problem, SpecError, brief, nearest
from accelsim.spec.yaml import where
from accelsim.spec.yaml.chips import load_chip, meant
from accelsim.spec.yaml.kept import kept

if TYPE_CHECKING:
    from accelsim.spec.base import Model
    from accelsim.spec.cluster import ClusterSpec


FOLDER = "clusters"
COUNTED = re.compile(r"([1-9][0-9]{0,6})x-(.+)")
"""A number before a name: '16x-dgx-a100'."""


ALIKE = 6
"""Chips of one family that are told, at most."""
COUNTS = ("nodes", "devices")
"""Options that may follow the name: 'dgx-h100?nodes=4,devices=2', so many nodes, so many devices in each."""


class Named(NamedTuple):
    """A parsed cluster name: its file, the number before it (or None), and the ``COUNTS`` after it."""

    file: Path
    many: int | None
    counts: Mapping[str, int]

    @property
    def as_it_is(self) -> bool:
        """Return whether the name asks for no number of nodes or devices."""
        return self.many is None and not self.counts


def clusters() -> list[str]:
    """Return the names of all clusters, sorted."""
    return list(where.names(FOLDER))


def is_cluster(name: str | Path) -> bool:
    """Return whether a name (with a number before it or not) or the path of a YAML file is that of a cluster."""
    text = str(meant(name)).partition("?")[0]
    if _is_path(text):
        from accelsim.spec.yaml.load import kind_of

        file = where.find(str(Path(text).absolute()))
        return file is not None and kind_of(file) == FOLDER
    return _named(text) is not None


def listed(text: str) -> list[str]:
    """Return the names that commas separate; those behind a '?' belong to its name."""
    return re.split(r",(?!\w+=)", text)


def load_cluster(name_or_path: str | Path, overrides: Sequence[str] = ()) -> ClusterSpec:
    """The cluster of a name ('dgx-a100', '16x-dgx-a100') or YAML file, with ``path.to.field=value`` overrides.

    A number before the name is that of its nodes, or of its devices where ``counts`` says so (a torus then gets
    dimensions to match); of a name that begins with a number ('4x-edu') another number takes its place. Behind a '?'
    stand the number of the only kind of nodes and that of the only kind of devices in each, which keep their share of
    its network cards: 'dgx-h100?nodes=4,devices=2'. Raises SpecError with all problems at once, with file, line and
    column.
    """
    from accelsim.spec.cluster import ClusterSpec
    from accelsim.spec.yaml.load import read_part

    named = resolve_cluster(name_or_path)
    made, problems = read_part(named.file, ClusterSpec, [*_counted(named), *overrides])
    if problems or made is None:
        raise SpecError(problems)
    return made if named.as_it_is else made.model_copy(update={"name": str(name_or_path)})


def load_devices(name_or_path: str | Path, overrides: Sequence[str] = ()) -> ClusterSpec:
    """The cluster of a name; of a chip's name or file a cluster that is this one device, with overrides of the chip.

    It is kept as a chip is. Raises SpecError as ``load_cluster`` and ``load_chip``.
    """
    from accelsim.spec.cluster import ClusterSpec

    return kept(ClusterSpec, [str(name_or_path), *overrides], lambda: _devices(name_or_path, overrides))


def _devices(name_or_path: str | Path, overrides: Sequence[str]) -> ClusterSpec:
    from accelsim.spec.cluster import ClusterSpec, Devices, Node

    if is_cluster(name_or_path):
        return load_cluster(name_or_path, overrides)
    if not _is_path(text := str(meant(name_or_path))) and not _is_chip(text):
        both = [*clusters(), *where.names("chips")]
        expected = "a cluster (see 'accelsim clusters') or a chip (see 'accelsim chips')"
        alike = [name for name in where.names("chips") if name.startswith(f"{text}-")]
        if 1 < len(alike) <= ALIKE:
            raise SpecError(
                f"no cluster or chip {brief(text)}", "", f"{', '.join(alike)}, or another of 'accelsim chips'"
            )
        raise SpecError(f"no cluster or chip {brief(text)}", "", expected, nearest(text, both))
    chip = load_chip(name_or_path, overrides)
    one = Devices(chip=str(where.resolve(text)), settings=list(overrides))
    return ClusterSpec(
        name=chip.name,
        title=chip.title,
        nodes={"node": Node(devices={"chip": one})},
        source=chip.source,
        as_of=chip.as_of,
    )


def _is_chip(name: str) -> bool:
    try:
        where.resolve(name)
    except SpecError:
        return False
    return True


def resolve_cluster(name_or_path: str | Path) -> Named:
    """The file of a cluster and the number that is asked for; SpecError with the nearest name when there is none."""
    whole = str(meant(name_or_path))
    text, counts = whole.partition("?")[0], _counts(whole)
    if _is_path(text):
        file = where.find(str(Path(text).absolute()))
        if file is None:
            raise SpecError(where.no_file(text), expected="a cluster's name or the path of a YAML file")
        return Named(file, None, counts)
    named = _named(text)
    if named is None:
        known = clusters()
        expected = f"one of {', '.join(known)}, with a number before it ('16x-dgx-a100') or without"
        raise SpecError(f"no cluster {brief(text)}", "", expected, nearest(text, known))
    return named._replace(counts=counts)


def _counts(text: str) -> dict[str, int]:
    """Read the numbers after the '?' of a name. SpecError with all that is wrong with them."""
    found: dict[str, int] = {}
    problems = []
    for part in filter(None, text.partition("?")[2].split(",")):
        name, _, value = part.partition("=")
        if name not in COUNTS or name in found:
            what = f"{name} is given twice" if name in found else f"a cluster has no {brief(name)}"
            problems.append(Problem(what, repr(text), f"one of {', '.join(COUNTS)}", nearest(name, COUNTS)))
        elif not re.fullmatch(r"[1-9][0-9]{0,6}", value):
            what = f"{name}={brief(value)[1:-1]}"
            problems.append(Problem(what, repr(text), "a whole number from 1 to 9,999,999"))
        else:
            found[name] = int(value)
    SpecError.raise_for(problems)
    return found


def _is_path(text: str) -> bool:
    return Path(text).suffix in where.SUFFIXES or os.sep in text


def _named(text: str) -> Named | None:
    """A name as it is, or behind a number; or None."""
    known = where.names(FOLDER)
    if text in known:
        return Named(known[text], None, {})
    found = COUNTED.fullmatch(text)
    if found is None:
        return None
    count, name = int(found[1]), found[2]
    if name in known:
        return Named(known[name], count, {})
    alike = [each for each in known if (begun := COUNTED.fullmatch(each)) and begun[2] == name]
    return Named(known[alike[0]], count, {}) if len(alike) == 1 else None


def _counted(named: Named) -> Iterator[str]:
    """Overrides that make the only kind of nodes, and of devices in them, as many as are asked for."""
    from accelsim.spec.cluster import ClusterSpec
    from accelsim.spec.yaml.load import read_part

    made = None if named.as_it_is else read_part(named.file, ClusterSpec)[0]
    if made is None:
        return
    kinds = list(made.nodes) if "nodes" in made.__dict__ else []
    counts = dict(named.counts) if named.many is None else {made.counts: named.many, **named.counts}
    if len(kinds) != 1:
        what = f"{_told(named)}: the cluster has {len(kinds)} kinds of nodes"
        raise SpecError(what, str(named.file), "--set NODE.count=..., for each of them")
    at, node = f"nodes.{kinds[0]}", made.nodes[kinds[0]]
    if "nodes" in counts:
        yield f"{at}.count={counts['nodes']}"
    if "devices" not in counts:
        return
    count = counts["devices"]
    if len(node.devices) != 1:
        what = f"{_told(named)}: its node has {len(node.devices)} kinds of devices"
        raise SpecError(what, str(named.file), "--set DEVICE.count=..., for each of them")
    yield f"{at}.devices.{next(iter(node.devices))}.count={count}"
    if node.power is not None:
        yield f"{at}.power.idle={float(node.power.idle) * count / node.size!r} W"
    if node.nics is not None and "devices" in named.counts:
        yield f"{at}.nics.count={-(-node.nics.count * count // node.size)}"
    for name, fabric in node.fabrics.items():
        if fabric.dims is not None:
            dims = json.dumps(balanced(count, len(fabric.dims)))
            yield f"{at}.fabrics.{name}.dims={dims}"
        if (ports := -(-count // (fabric.members or 1))) < fabric.roots:
            yield f"{at}.fabrics.{name}.roots={ports}"


def _told(named: Named) -> str:
    many = [] if named.many is None else [f"{named.many}x"]
    return ", ".join([*many, *(f"{name}={count}" for name, count in named.counts.items())])


def balanced(count: int, dimensions: int) -> list[int]:
    """The grid of so many places whose longest side is shortest, then the next; sides ascend: 2 x 2 x 4 of 16."""
    if dimensions == 1:
        return [count]
    found = [
        sorted([side, *balanced(count // side, dimensions - 1)])
        for side in range(1, count + 1)
        if count % side == 0 and side**dimensions <= count
    ]
    return min(found, key=lambda sides: (sides[::-1], prod(sides)))


def load_spec(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Model:
    """Return a chip or cluster by name, or a spec of any kind by its path. SpecError with all problems at once."""
    from accelsim.spec.yaml.load import KINDS, file_of, kind_of
    from accelsim.spec.yaml.parts import load_part

    if is_cluster(name_or_path):
        return load_cluster(name_or_path, overrides)
    kind = kind_of(file := file_of(name_or_path))
    if kind == "chips":
        return load_chip(name_or_path, overrides)
    return load_part(file, kind, KINDS[kind], overrides)
