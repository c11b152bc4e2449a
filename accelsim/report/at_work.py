"""Machines at full load: what they do, what they draw, and what they are bought for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from accelsim.account.latency import summary
from accelsim.cluster.plan.plan import parse_plan
from accelsim.cluster.serving.asked import served
from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.errors import Infeasible, UsageError, count_of
from accelsim.explore.generation import generation
from accelsim.report import serving
from accelsim.report.bill import time_of
from accelsim.report.generation_report import generation_facts
from accelsim.report.step import StepReport
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.spec.site import Machine, Owning
from accelsim.spec.yaml.chips import meant
from accelsim.spec.yaml.clusters import is_cluster, load_cluster, load_devices, resolve_cluster
from accelsim.units import spell
from accelsim.workload.sources.load import generation_of, split_parameters
from accelsim.workload.zoo import ZOO

PROMPT, NEW = 512, 128
"""Tokens of a prompt and new tokens where a decoder is named without either."""
SEQUENCES = (32, 8, 1)
"""Sequences of a replica that are tried in turn, until they fit, where no batch is given."""


class Duty(NamedTuple):
    """Work that machines are to do; the fields are options of ``accelsim run``."""

    model: str
    on: str
    batch: int | None = None
    dtype: str = ""
    plan: str = ""
    train: bool = False


@dataclass(frozen=True)
class AtWork:
    """Machines under full load. ``facts``: of one run; ``copies`` of it go on side by side, each on accelerators of
    its own. ``power_W``: drawn by all; ``idle_W``: without work, None where the spec does not say. ``at_wall``: both
    include hosts, fans and losses of supplies, as the cluster states them."""

    job: Duty
    chip: str
    accelerators: int
    copies: int
    facts: Mapping[str, Any]
    power_W: float
    idle_W: float | None
    at_wall: bool

    @property
    def words(self) -> str:
        """Return what each run does, in words."""
        facts, dtype = self.facts, f", {self.facts['dtype']}"
        if "prompt" in facts:
            sequences = f"{count_of(facts['sequences'], 'sequence')} at once, {facts['prompt']:,} tokens in"
            does = f"{facts['model']}{dtype}, {sequences}, {facts['new']:,} out"
        else:
            step = "training step" if self.job.train else "batch"
            does = f"{facts['model']}{dtype}, {step} of {facts['batch']:,}"
        copies = f"; {self.copies} such runs side by side" if self.copies > 1 else ""
        return does + (f", plan {facts['plan']}" if "plan" in facts else "") + copies


def at_work(job: Duty) -> AtWork:
    """Simulate a job on all accelerators of machines. Raises whatever ``accelsim run`` would, and UsageError for
    machines with several kinds of accelerators."""
    fleet = fleet_of(load_devices(job.on))
    kinds = sorted({chip.name for chip in fleet.chips})
    if len(kinds) > 1:
        raise UsageError(f"{job.on} has {' and '.join(kinds)}", "--on", "machines with one kind of accelerator")
    facts = _facts(job, fleet)
    copies = 1 if "devices" in facts else fleet.size
    found = time_of(facts)
    assert found is not None
    stated = fleet.chips[0].power
    idle_W = None if stated is None or stated.idle is None else _at_wall(fleet, stated.idle * fleet.size)
    power_W = _at_wall(fleet, copies * _joules(facts) / found[0])
    return AtWork(job, kinds[0], fleet.size, copies, facts, power_W, idle_W, fleet.wall is not None)


def _at_wall(fleet: Fleet, boards_W: float) -> float:
    """Power of machines whose accelerators draw so much: at the wall, where the cluster states that."""
    return boards_W if fleet.wall is None else fleet.wall.joules(boards_W, fleet.size, 1.0)


def _joules(facts: Mapping[str, Any]) -> float:
    found = facts["total_J"] if "total_J" in facts else facts["energy_J"]
    return float(found["total"] if isinstance(found, Mapping) else found)


def _facts(job: Duty, fleet: Fleet) -> Mapping[str, Any]:
    """Facts of a training step, of a generation, or of one pass on one accelerator."""
    if job.train:
        wanted = Asked(job.model, job.on, job.plan, job.batch, setting=Setting(dtype=job.dtype))
        return StepReport(ready(wanted).fitted()[1]).facts()
    model = _with_tokens(job.model)
    if generation_of(model) is None:
        if job.plan:
            raise UsageError("a plan for copies of a model", "--plan", "--train, or a decoder: one pass runs on each")
        asked = Request(
            model, job.on if fleet.size == 1 else fleet.chips[0], batch=job.batch, dtype=job.dtype, values="off"
        )
        return summary(execute(prepare(asked)))
    lacks: Infeasible | None = None
    for plan, batch in _tries(job, fleet):
        try:
            if not is_cluster(job.on):
                asked = Request(model, job.on, batch=batch, dtype=job.dtype, values="off")
                return generation_facts(generation(asked))
            return serving.facts(served(model, job.on, plan=plan, batch=batch, setting=Setting(dtype=job.dtype))[0])
        except Infeasible as error:
            lacks = lacks or error
    assert lacks is not None
    raise lacks


def _with_tokens(model: str) -> str:
    """Add a prompt and new tokens to a decoder that is named without any."""
    name, given = split_parameters(model)
    if name not in ZOO or not ZOO[name].generates or given.keys() & {"prompt", "new", "seq", "past"}:
        return model
    return f"{model}{',' if given else '?'}prompt={PROMPT},new={NEW}"


def _tries(job: Duty, fleet: Fleet) -> Iterator[tuple[str, int]]:
    """Plans and sequences of all replicas, in the order in which they are tried: many sequences and small
    tensor-parallel groups first."""
    node = fleet.topology.groups.count(fleet.topology.groups[0]) if is_cluster(job.on) else 1
    widths = [2**at for at in range(node.bit_length()) if node % 2**at == 0]
    plans = [job.plan] if job.plan else [f"dp={fleet.size // width},tp={width}" for width in widths]
    for each, plan in product(SEQUENCES if job.batch is None else [None], plans):
        replicas = parse_plan(plan).dp
        batch = replicas * each if each else job.batch
        if batch and (job.plan or batch % replicas == 0):
            yield plan, batch


class Purchase(NamedTuple):
    """Price of machines, their rated power (None: as simulated), where the price comes from, and what it leaves out."""

    usd: float
    rated_W: float | None
    source: str
    note: str = ""


def bought(work: AtWork, owning: Owning, price_USD: float | None) -> Purchase:
    """Return the price of machines: ``price_USD``, else that of the machine at the site, else that of their
    accelerators. Raises UsageError where the site has neither."""
    machine, many, note = _machine(work, owning)
    rated_W = None if machine is None or machine.power is None else machine.power * many
    if price_USD is not None:
        return Purchase(price_USD, rated_W, "--price")
    if machine is None:
        known = f"--price '280000 USD', or a machine with a price at the site: {', '.join(owning.machines) or 'none'}"
        raise UsageError(f"no price of {' or '.join(dict.fromkeys((work.job.on, work.chip)))}", "--on", known)
    each = f"{many} x {spell(machine.price, 'USD')}; " if many > 1 else ""
    return Purchase(machine.price * many, rated_W, f"{each}{machine.source or 'no source'} ({machine.as_of})", note)


def _machine(work: AtWork, owning: Owning) -> tuple[Machine | None, int, str]:
    """The machine that is bought, how many of it, and what is left out; None where the site has no price."""
    on = str(meant(work.job.on))
    if is_cluster(on):
        file = resolve_cluster(on).file
        if (name := file.stem) in owning.machines:
            one, every = load_cluster(file), load_cluster(on)
            nodes, all_nodes = (sum(node.count for node in each.nodes.values()) for each in (one, every))
            if one.size * all_nodes == every.size * nodes and all_nodes % nodes == 0:
                return owning.machines[name], all_nodes // nodes, ""
    note = f"The price is that of {count_of(work.accelerators, 'card')} alone, without the machine around them."
    return owning.machines.get(work.chip), work.accelerators, note
