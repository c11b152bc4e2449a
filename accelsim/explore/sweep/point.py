"""Points: runs that can be told apart and asked for again, and what is kept of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import accelsim
from accelsim import usercache
from accelsim.account.energy_totals import without_energies
from accelsim.errors import AccelsimError, Infeasible, OverCapacity, TooLarge
from accelsim.explore.sweep import kinds
from accelsim.explore.sweep.kinds import Facts
from accelsim.program.program import Spans
from accelsim.request import Request
from accelsim.spec.chip import Chip
from accelsim.spec.digest import digest
from accelsim.spec.levels import without_capacities
from accelsim.spec.yaml import where
from accelsim.spec.yaml.chips import meant

if TYPE_CHECKING:
    from accelsim.cluster.step.costs import Costs

SHOWN_ONLY = ("cli", "report", "lessons")
"""Packages that no figure depends on."""
STATUS = {OverCapacity: "over capacity", Infeasible: "infeasible", TooLarge: "too large", AccelsimError: "refused"}
"""Error -> what is kept as the status of its point; the first that fits. A point that gave figures is 'done'."""
DONE = "done"
PRICES = "instances"
"""Folder of specs that no run reads but by the chip or cluster of an instance."""
TABLES = ("intervals", "power")
"""Folders of specs that runs read beside those of their chips."""


@dataclass(frozen=True)
class Point:
    """One run: a model, a chip or cluster, and options as JSON text with sorted keys.

    Options are those of ``accelsim.run`` on a chip. With ``train`` it is a training step, on a chip or cluster; there
    and for a generation on a cluster there are ``plan`` and others (``kinds.KINDS``).
    """

    model: str
    on: str
    options: str = "{}"

    @classmethod
    def of(cls, model: str, on: str, options: Mapping[str, object]) -> Point:
        """Return the point of a model on a chip, a cluster, or an instance such as 'aws:p4d.24xlarge'."""
        return cls(model, on, json.dumps(options, sort_keys=True))

    @property
    def text(self) -> str:
        """The point as one line of JSON."""
        return json.dumps({"model": self.model, "on": self.on, "options": json.loads(self.options)}, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> Point:
        """Return the point of a ``text``."""
        content = json.loads(text)
        return cls.of(content["model"], content["on"], content["options"])

    @property
    def place(self) -> str:
        """Chip or cluster that it runs on: of an instance what that stands for. Raises UsageError."""
        return str(meant(self.on))

    @property
    def request(self) -> Request:
        """Return the request that it is, of a run or generation on a chip."""
        return Request(model=self.model, on=self.on, **json.loads(self.options))

    @property
    def reading(self) -> kinds.Read:
        """Read all that it names. Raises UsageError, SpecError and ModelError."""
        return kinds.read(self.model, self.place, json.loads(self.options))


@dataclass(frozen=True)
class Outcome:
    """Outcome of a point: its figures, or the reason why there are none.

    ``base``: key of the run without energy figures, under which ``totals`` give its energy for others; '' for none.
    """

    key: str
    status: str
    facts: Facts
    error: str = ""
    base: str = ""
    totals: str = ""


@dataclass
class Known:
    """Results so far: the ``keys`` that have an outcome, and JSON of ``runs`` by base: their figures and totals.

    ``alike``: by base without capacities of buffers, runs of this process with the capacities for which they hold;
    ``costs``: of pieces of trainings that this process simulated.
    """

    keys: frozenset[str] = frozenset()
    runs: dict[str, str] = field(default_factory=dict)
    alike: dict[str, list[tuple[Spans, str]]] = field(default_factory=dict)
    costs: list[Costs] = field(default_factory=list)

    def run_of(self, base: str, alike: str, chip: Chip) -> str:
        """Return a run that differs from one on ``chip`` in energies and unused capacity alone, '' for none."""
        sizes = {name: buffer.capacity for name, buffer in chip.buffers.items()}
        for spans, run in self.alike.get(alike, ()):
            if all(least <= sizes[name] < beyond for name, (least, beyond) in spans.items()):
                return run
        return self.runs.get(base, "")

    def add(self, base: str, alike: str, spans: Spans, run: str) -> None:
        """Keep a run that was not known."""
        self.runs.setdefault(base, run)
        if spans:
            self.alike.setdefault(alike, []).append((spans, run))


def outcome(point: Point, known: Known | None = None) -> Outcome:
    """Run a point; an error that its input causes is its outcome. That of a key that is ``known`` has no figures.

    A run on a chip that differs from a known one in energy figures and unused capacity alone is worked out from that
    one.
    """
    key, known = "", known or Known()
    try:
        found = point.reading
        key = _key(point, found.specs)
        if key in known.keys:
            return Outcome(key, DONE, {})
        if found.job is None:
            from accelsim.cluster.step.fleet import sharing

            with sharing(known.costs):
                return Outcome(key, DONE, found.figures())
        chip = without_energies(found.job.chip)
        base, alike = (_key(point, ("base", digest(each)), "energy") for each in (chip, _without_capacities(chip)))
        facts, totals, spans = kinds.run_or_price(found.job, known.run_of(base, alike, chip))
        if totals:
            known.add(base, alike, spans, f"[{json.dumps(facts)},{totals}]")
        return Outcome(key, DONE, facts, "", base if totals else "", totals)
    except AccelsimError as error:
        status = next(text for kind, text in STATUS.items() if isinstance(error, kind))
        return Outcome(key or quick_key(point), status, {}, "\n".join(map(str, error.problems)))


def _without_capacities(chip: Chip) -> Chip:
    """Return the chip without the capacities that a program has ``spans`` of; a chip of several kinds of cores as it
    is."""
    if len(chip.cores) > 1:
        return chip
    core = without_capacities(chip.core, chip.buffers)
    return chip.model_copy(update={"cores": {chip.core_kind: core}})


def key_of(point: Point) -> str:
    """Return a hash of all that a run reads: composed specs, the model, the options, this version's sources."""
    return _key(point, point.reading.specs)


def _key(point: Point, specs: Iterable[str], *without: str) -> str:
    others = [_named(point.model), _others(point, "set", *without), *_files(point)]
    return usercache.digest([mechanism(), *specs, *_tables(), *others])


def quick_key(point: Point) -> str:
    """Return a hash that needs no chip read: it differs as soon as any spec file does, but those of prices."""
    place = point.on
    with suppress(AccelsimError):  # an unknown instance is the outcome of the point
        place = point.place
    return usercache.digest([mechanism(), _specs(), _named(point.model), _named(place), point.options, *_files(point)])


def _others(point: Point, *without: str) -> str:
    """Options but those that the specs have in them."""
    options = json.loads(point.options)
    return json.dumps({name: value for name, value in options.items() if name not in without}, sort_keys=True)


def _files(point: Point) -> list[str]:
    """Contents of the files that options name: a site, a profile of rates."""
    texts = [each.removeprefix("rates:") for each in json.loads(point.options).values() if isinstance(each, str)]
    return [_named(text) for text in texts if Path(text).is_file()]


@cache
def _specs() -> str:
    files = [path for path in where.every_file() if path.parent.name != PRICES]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@cache
def _tables() -> tuple[str, ...]:
    """Contents of the spec files that runs read beside those of their chips."""
    return tuple(path.read_text(encoding="utf-8") for folder in TABLES for path in where.names(folder).values())


def _named(name: str) -> str:
    """A model, chip or cluster that is listed by its name, a file by its bytes."""
    path = Path(name)
    if not path.is_file() and "?" in name:  # a configuration with parameters
        file, _, parameters = name.partition("?")
        return f"{_named(file)}?{parameters}"
    return _content(path, path.stat().st_mtime_ns) if path.is_file() else name


@cache
def _content(path: Path, changed_ns: int) -> str:
    """Hash of a file, read again when it has changed."""
    return sha256(path.read_bytes()).hexdigest()


@cache
def mechanism() -> str:
    """Return a hash of all sources that figures depend on: another version of them gives other figures."""
    root = Path(accelsim.__file__).parent
    found = sha256()
    for path in sorted(each for each in root.rglob("*") if each.suffix in (".py", ".yaml")):
        inside = path.relative_to(root)
        if inside.parts[0] not in SHOWN_ONLY:
            found.update(f"{inside.as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]
