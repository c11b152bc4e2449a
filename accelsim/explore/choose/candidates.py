"""Candidates: chips and clusters x formats x batches or plans, with the offers of what they run on.

What is enumerated follows fixed rules (``docs/choose-hardware.md``), the same with and without bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from accelsim.account.price import DAY_S
from accelsim.account.spans import peak_mac_rate
from accelsim.cluster.plan.plan import parse_plan
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.compiler.passes import preferred_format
from accelsim.errors import Problem, UsageError, brief, nearest
from accelsim.explore.choose.question import GENERATION, RUN, SERVICE, TRAINING, Question, kept
from accelsim.explore.choose.services import load_of
from accelsim.explore.sweep.point import Point
from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip
from accelsim.spec.yaml import where
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.clusters import clusters, is_cluster, load_devices
from accelsim.spec.yaml.instances import INSTANCE, Offer, latest, load_providers, offers, stands_for
from accelsim.workload.sources.load import generation_of

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Batches of a run, and sequences of a generation."""
SPLITS = (2, 4, 8, 16)
"""Devices that share a model, and its stages."""
NODES = tuple(2**power for power in range(9))
"""Nodes of a training."""
STEPS = 3
"""Numbers of nodes of each cluster: from the fewest that may meet a limit of days, doubled."""
SCHEDULERS = ("vllm", "vllm:budget=512")
"""Schedulers of a service: large steps, and small ones that keep the time between tokens short."""
SEQUENCES = 512
"""Sequences of a training step, of all replicas together."""
STATE_B = 16
"""Bytes of weights, gradients and Adam's state by weight (2 + 2 + 12; Rajbhandari et al., arXiv 1910.02054)."""
EVERY = ("", "gpus", "all")
"""Names of several chips: those for rent, all GPUs, all chips."""
ROOM = 0.8
"""Share of a device's memory that these may take, where a plan is made; the rest is for activations."""


class Rented(NamedTuple):
    """An offer, the USD per hour that the hardware of one candidate has of it, and how many candidates it holds."""

    offer: Offer
    hour_USD: float
    holds: int


@dataclass(frozen=True)
class Candidate:
    """A candidate. ``device``: chip, or cluster without numbers; ``chip``: in it; ``count``: chips that work
    together, in a service those of a replica; ``rents``: offers of them, the cheapest of each provider first."""

    point: Point
    device: str
    chip: str
    count: int
    dtype: str
    batch: int
    plan: str = ""
    nodes: int = 1
    rents: tuple[Rented, ...] = ()
    scheduler: str = ""

    @property
    def hour_USD(self) -> float | None:
        """Cheapest price of an hour; None where nobody offers one."""
        return self.rents[0].hour_USD if self.rents else None

    @property
    def text(self) -> str:
        """Name for tables: '8 x h100-sxm, tp=8'."""
        many = f"{self.count} x " if self.count > 1 else ""
        return f"{many}{self.chip}"


class Place(NamedTuple):
    """A chip, or a cluster whose nodes and devices can be counted; ``size``: devices of a node, of a rack of 72 the
    first 64, which plans can share evenly; ``whole``: whether these are all."""

    name: str
    chip: str
    size: int = 1
    cluster: bool = False
    whole: bool = True

    def of_nodes(self, nodes: int) -> str:
        """Return the name of so many nodes, of the chip where there are none."""
        devices = "" if self.whole else f",devices={self.size}"
        return f"{self.name}?nodes={nodes}{devices}" if self.cluster else self.name


def offered(question: Question) -> list[Offer]:
    """Return the newest offers of chips with a spec, of these providers and this term. Raises UsageError."""
    every = latest(offers(load_providers(question.prices)))
    known = sorted({each.provider.name for each in every})
    UsageError.raise_for(
        [
            Problem(f"no provider {brief(name)}", "--providers", ", ".join(known), nearest(name, known))
            for name in question.providers
            if name not in known
        ]
    )
    asked = question.providers or known
    kept = [each for each in every if each.price.term == question.term and each.provider.name in asked]
    if question.providers and not kept:
        raise UsageError(f"no {question.term} price of {', '.join(asked)}", "--term", "another --term or --providers")
    return [
        each for each in kept if each.instance.chip is not None and each.instance.share == 1 and each.instance.count
    ]


def places(question: Question, found: Sequence[Offer]) -> list[Place]:
    """Return the chips and clusters that compete. Raises UsageError with all unknown names and the nearest."""
    named, problems = list[Place](), list[Problem]()
    for name in question.on or ("",):
        try:
            named += _places(name, question, found)
        except UsageError as error:
            problems += error.problems
    if problems:
        raise UsageError(problems)
    return list(dict.fromkeys(named))


def _places(name: str, question: Question, found: Sequence[Offer]) -> Iterator[Place]:
    chips = where.names("chips")
    if name in EVERY:
        rented = {each.instance.chip for each in found if each.instance.chip}
        every = [each for each in (chips if name else sorted(rented)) if spec_of(each).kind != "edu"]
        every = [each for each in every if name != "gpus" or spec_of(each).kind == "gpu"]
        yield from (Place(each, each) for each in every if _multiplies(each))
        inside = set() if question.task == RUN else {_cluster(each) for each in found} - {""}
        yield from (place for each in sorted(inside) if (place := _counted(each)).chip in every)
        return
    whole = stands_for(name) if INSTANCE.fullmatch(name) else name
    if is_cluster(whole):
        yield _counted(whole.partition("?")[0])
    elif whole in chips or where.find(whole) is not None:
        yield Place(whole, whole)
    else:
        known = [*chips, *clusters(), "gpus", "all"]
        raise UsageError(f"no chip or cluster {brief(name)}", "--on", "a name, 'gpus' or 'all'", nearest(name, known))


def _cluster(offer: Offer) -> str:
    return (offer.instance.cluster or "").partition("?")[0]


@kept
def _counted(name: str) -> Place:
    spec = load_devices(name)
    node = next(iter(spec.nodes.values()))
    size = 2 ** (node.size.bit_length() - 1)
    return Place(name, next(iter(node.devices.values())).chip, size, True, size == node.size)


@kept
def spec_of(chip: str) -> Chip:
    """Return a chip, read once for a question."""
    return load_chip(chip)


@kept
def peak(chip: str, dtype: str) -> float:
    """Return operations per second of a chip in a format, of its host where that alone computes; 0 without it."""
    spec = spec_of(chip)
    if multiplier(spec) is None:
        return float(spec.host.peak.get(dtype, 0)) if spec.host else 0.0
    try:
        return 2 * peak_mac_rate(spec, dtype)
    except KeyError:
        return 0.0


def _multiplies(chip: str) -> bool:
    return peak(chip, preferred_format(spec_of(chip))) > 0


def formats(question: Question, chip: str) -> list[str]:
    """Return the formats of a chip: those asked for, else the faster of the one that it prefers and fp16.

    With a limit of accuracy, which measures what a format loses, a run has int8 too where that is faster.
    """
    if question.dtypes:
        return [each for each in question.dtypes if peak(chip, each)]
    own = preferred_format(spec_of(chip))
    best = max(own, "fp16", key=lambda each: peak(chip, each))
    measured = "accuracy" in question.limits and peak(chip, "int8") > peak(chip, best)
    return [best, "int8"] if measured else [best]


def enumerate_all(question: Question, found: Sequence[Offer]) -> list[Candidate]:
    """Return all candidates in a fixed order. Raises UsageError where there is none."""
    made = [each for place in places(question, found) for each in _of_place(question, place, found)]
    if not made:
        what = f"nothing to choose from: no chip has {' or '.join(question.dtypes)}" if question.dtypes else "nothing"
        raise UsageError(what, "--on", "chips and formats that they multiply")
    return made


def _of_place(question: Question, place: Place, found: Sequence[Offer]) -> Iterator[Candidate]:
    for dtype in formats(question, place.chip):
        if question.task == TRAINING:
            yield from _trainings(question, place, dtype, found)
        elif question.task == SERVICE:
            yield from _services(question, place, dtype, found)
        elif place.cluster and question.task == GENERATION:
            yield from _served(question, place, dtype, found)
        elif not place.cluster:
            rents = _rents(found, place, 1)
            for batch in [question.batch] if question.batch else BATCHES:
                options = {"values": "off", "dtype": dtype, "batch": batch}
                point = Point.of(question.model, place.name, options)
                yield Candidate(point, place.name, place.chip, 1, dtype, batch, rents=rents)


def _services(question: Question, place: Place, dtype: str, found: Sequence[Offer]) -> Iterator[Candidate]:
    """Replicas of one chip, or of 2, 4, ... devices of one node; how many of them is found by simulation."""
    sizes, asked = _sizes(question), load_of(question)
    for count, plan in _shared(place, sizes) if place.cluster else [(1, "")]:
        on = f"{place.name}?nodes=1,devices={count}" if place.cluster else place.name
        rents = _rents(found, place, count)
        for scheduler in question.schedulers or SCHEDULERS:
            options = {**asked.options, "dtype": dtype, "plan": plan, "scheduler": scheduler}
            point = Point.of(question.model, on, options)
            yield Candidate(point, place.name, place.chip, count, dtype, 1, plan, 1, rents, scheduler)


def _served(question: Question, place: Place, dtype: str, found: Sequence[Offer]) -> Iterator[Candidate]:
    """Plans of ``_shared`` whose groups of devices have equally many sequences."""
    for count, plan in _shared(place, _sizes(question)):
        rents = _rents(found, place, count)
        for batch in [question.batch] if question.batch else BATCHES:
            if batch % parse_plan(plan).data:
                continue
            options = {"dtype": dtype, "batch": batch, "plan": plan}
            point = Point.of(question.model, f"{place.name}?nodes=1,devices={count}", options)
            yield Candidate(point, place.name, place.chip, count, dtype, batch, plan, rents=rents)


def _shared(place: Place, sizes: Transformer) -> Iterator[tuple[int, str]]:
    """Yield 2, 4, ... devices of one node that share tensors, and experts where the model has them."""
    experts = dict(sizes.params).get("experts", 1)
    for count in SPLITS:
        if count > place.size or place.size % count:
            continue
        if not (sizes.heads % count or sizes.ffn % count):
            yield count, f"tp={count}"
        if experts > 1 and not experts % count:
            yield count, f"ep={count}"


def _sizes(question: Question) -> Transformer:
    asked = generation_of(question.model)
    made = transformer_of(*(asked[:2] if asked else (question.model,)))
    assert made is not None  # it generates
    return made


def _trainings(question: Question, place: Place, dtype: str, found: Sequence[Offer]) -> Iterator[Candidate]:
    """Whole nodes; tensor parallelism in a node up to the least that needs no stages, the fewest stages in which the
    state fits, else replicas."""
    batch = question.batch or SEQUENCES
    options = {"train": True, "dtype": dtype, "batch": batch}
    options |= {"tokens": question.tokens} if question.tokens else {}
    for nodes in _node_counts(question, place, dtype):
        count, rents = nodes * place.size, _rents(found, place, nodes * place.size)
        for plan in _plans(question, place, count, batch):
            point = Point.of(question.model, place.of_nodes(nodes), {**options, "plan": plan})
            yield Candidate(point, place.name, place.chip, count, dtype, batch, plan, nodes, rents)


def _node_counts(question: Question, place: Place, dtype: str) -> Sequence[int]:
    if not place.cluster:
        return (1,)
    days = question.limits.get("days")
    if days is None or not question.tokens:
        return NODES[:STEPS]
    sizes = _sizes(question)
    least_s = sizes.sequence_flops / sizes.seq * question.tokens / (peak(place.chip, dtype) * place.size)
    enough = [nodes for nodes in NODES if least_s / nodes <= days * DAY_S]
    return enough[:STEPS]


def _plans(question: Question, place: Place, count: int, batch: int) -> Iterator[str]:
    from accelsim.cluster.step.memory import capacity_B

    sizes = transformer_of(question.model)
    if sizes is None or count == 1:
        if batch % count == 0:
            yield f"dp={count}"
        return
    room = ROOM * capacity_B(spec_of(place.chip))
    for tp in (each for each in (1, *SPLITS) if each <= place.size and not place.size % each):
        for pp in (1, *SPLITS):
            dp, rest = divmod(count, tp * pp)
            fits = STATE_B * sizes.parameters / (tp * pp) <= room
            if rest or not dp or batch % dp or sizes.layers % pp or sizes.heads % tp or not fits:
                continue
            yield f"dp={dp},tp={tp},pp={pp}"
            if pp == 1:  # more devices for a model that fits only cost messages
                return
            break


def _rents(found: Sequence[Offer], place: Place, count: int) -> tuple[Rented, ...]:
    """Offers of ``count`` chips, the cheapest of each provider, by price."""
    best: dict[str, Rented] = {}
    for each in found:
        if place.cluster:
            if _cluster(each) != place.name:
                continue
            size = each.instance.count
            rented = Rented(each, each.price.hour_USD * count / size, max(1, size // count))
        elif each.instance.chip == place.chip:
            rented = Rented(each, each.each_USD, each.instance.count)
        else:
            continue
        known = best.get(each.provider.name)
        if known is None or rented.hour_USD < known.hour_USD:
            best[each.provider.name] = rented
    return tuple(sorted(best.values(), key=lambda each: (each.hour_USD, each.offer.full_name)))
