"""Points: runs that can be told apart and asked for again, and what is kept of each."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import accelsim
from accelsim import usercache
from accelsim.account.critical_path import by_blame
from accelsim.account.energy import energy_table, total_J
from accelsim.account.interval import latency_interval
from accelsim.account.latency import batch_size, main_format
from accelsim.errors import AccelsimError, Infeasible, OverCapacity, TooLarge
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.job import Job, execute, prepare
from accelsim.spec.digest import digest
from accelsim.spec.silicon import silicon
from accelsim.spec.yaml import where
from accelsim.time import FS

Facts: TypeAlias = dict[str, object]
"""Figures of a run by key, in SI units, as JSON can hold them."""
SHOWN_ONLY = ("cli", "report", "lessons")
"""Packages that no figure depends on."""
STATUS = {OverCapacity: "over capacity", Infeasible: "infeasible", TooLarge: "too large", AccelsimError: "refused"}
"""Error -> what is kept as the status of its point; the first that fits. A point that gave figures is 'done'."""
DONE = "done"


@dataclass(frozen=True)
class Point:
    """One run: a model, a chip, and options of ``accelsim.run`` as JSON text with sorted keys."""

    model: str
    on: str
    options: str = "{}"

    @classmethod
    def of(cls, model: str, on: str, options: Mapping[str, object]) -> Point:
        """Return the point of a model on a chip with options of ``accelsim.run``."""
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
    def request(self) -> Request:
        """Return the request that it is."""
        return Request(model=self.model, on=self.on, **json.loads(self.options))


@dataclass(frozen=True)
class Outcome:
    """Outcome of a point: its figures, or the reason why there are none."""

    key: str
    status: str
    facts: Facts
    error: str = ""


def outcome(point: Point, known: Container[str] = ()) -> Outcome:
    """Run a point; an error that its input causes is its outcome. That of one of the ``known`` keys has no figures."""
    key = ""
    try:
        job = prepare(point.request)
        key = key_of(point, job)
        return Outcome(key, DONE, {} if key in known else figures(execute(job)))
    except AccelsimError as error:
        status = next(text for kind, text in STATUS.items() if isinstance(error, kind))
        return Outcome(key or quick_key(point), status, {}, "\n".join(map(str, error.problems)))


def figures(run: Run) -> Facts:
    """Return the figures of a run that a sweep keeps."""
    joules, seconds = total_J(energy_table(run)), run.seconds
    batch = batch_size(run.program.graph) * run.program.cores
    interval = latency_interval(run)
    path = {blame.text: fs * FS for blame, fs in by_blame(run).items()}
    area = silicon(run.chip)
    return {
        "latency_s": seconds,
        "latency_low_s": interval and interval.low_s,
        "latency_high_s": interval and interval.high_s,
        "throughput_per_s": batch / seconds if seconds else None,
        "energy_J": joules,
        "energy_per_sample_J": joules / batch,
        "power_W": joules / seconds if seconds else None,
        "area_m2": area.area_m2 or None,
        "macs": sum(step.macs for step in run.program.steps) * run.program.cores,
        "batch": batch,
        "dtype": main_format(run),
        "limit": max(path, key=lambda name: path[name]) if path else "",
        "critical_path_s": path,
    }


def key_of(point: Point, job: Job) -> str:
    """Return a hash of all that a run reads: the composed spec, the model, the options, this version's sources."""
    return usercache.digest([mechanism(), digest(job.chip), _model(point.model), _others(point)])


def quick_key(point: Point) -> str:
    """Return a hash that needs no spec read: it differs as soon as any spec file does."""
    return usercache.digest([mechanism(), _specs(), _model(point.model), point.text])


def _others(point: Point) -> str:
    """Options but those that the spec of the chip has in it."""
    options = json.loads(point.options)
    return json.dumps({name: value for name, value in options.items() if name != "set"}, sort_keys=True)


@cache
def _specs() -> str:
    return sha256(b"".join(path.read_bytes() for path in where.every_file())).hexdigest()


@cache
def _model(name: str) -> str:
    """A listed model by its name, a file by its bytes."""
    path = Path(name)
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else name


@cache
def mechanism() -> str:
    """Return a hash of all sources that figures depend on: another version of them gives other figures."""
    root = Path(accelsim.__file__).parent
    found = sha256()
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0] not in SHOWN_ONLY:
            found.update(f"{inside.as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]
