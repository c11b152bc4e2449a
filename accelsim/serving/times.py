"""Times of steps: a step of any mix of prompts and tokens, from the layers of the model on the devices of a plan.

A layer is its products with weights, on the tokens of all sequences together, and attention, sequence by sequence. What
attention adds is the difference between a whole layer and one without it, so that a step of one prompt, or of equally
long sequences that decode, takes what it takes alone (``cluster.serving``). Groups of devices that share experts have
sequences of their own: the fullest group sets the pace of all, and the experts get the tokens of all groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from accelsim import usercache
from accelsim.account.energy import left_W
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.adapters import LowRank, beside
from accelsim.cluster.serving.adapters import pieces as low_rank
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.pieces import (
    Call,
    Maker,
    Piece,
    embedding,
    experts,
    feed_forward,
    head,
    makers,
    projections,
    router,
)
from accelsim.cluster.serving.serve import routing_of
from accelsim.cluster.serving.step import Layout
from accelsim.cluster.step.transformer import Transformer
from accelsim.serving.requests import Sequence as Prompt
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.tables import Asked, Kept, Place, Table, Values
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml import where
from accelsim.spec.yaml.chips import load_site
from accelsim.time import FS
from accelsim.types import Floats
from accelsim.workload.zoo.style import Layer

TILE = 64
"""Rows of the tiles in which products are computed, or a part of them, on most chips."""
KNOWN = usercache.Table("steps", 512)
"""Simulated values of tables, for later processes too."""


def key_of(spec: ClusterSpec, devices: Devices) -> str:
    """Return a hash of all that times of steps are simulated from, but for model and plan; '' where nothing is kept."""
    files, setting = usercache.key_of(where.names("power").values()), devices.setting
    site = load_site(setting.site) if setting.site else None
    if site is not None and site.around:
        setting, site = replace(setting, site=None), None
    chips = dict.fromkeys(map(repr, devices.fleet.chips))
    return usercache.digest([files, *chips, *map(repr, (spec, setting, site))]) if files else ""


class Carried(NamedTuple):
    """Adapters of a replica, and time (s) and energy (J) in which one comes from the memory of the host."""

    low: LowRank
    load: Values


@dataclass
class StepTimes:
    """Times and joules of steps of one replica, or of one ``stage`` of its pipeline. ``swap``: of a block that goes to
    the host's memory, or comes back; None where there is none. ``width``: tokens that a sequence that decodes computes;
    ``draft``: what proposes all but one of them, ``share`` of the time of its steps, and of prompts too if ``follows``.
    ``carried``: adapters. ``key``: hash of the devices, under which what was simulated is kept; '' for nothing.
    """

    model: Transformer
    devices: Devices
    plan: Plan
    swap: Values | None = None
    width: int = 1
    draft: StepTimes | None = None
    share: float = 1.0
    follows: bool = False
    carried: Carried | None = None
    key: str = ""
    stage: int | None = None

    @cached_property
    def stages(self) -> tuple[StepTimes, ...]:
        """Times of each stage of a pipeline; () without one."""
        piped = self.plan.pp > 1 and self.stage is None
        return tuple(replace(self, stage=at) for at in range(self.plan.pp)) if piped else ()

    def stages_s(self, factor: float, batch: Batch) -> list[float]:
        """Return the time of each stage with its transfer to the next, ``factor`` times as long, s."""
        return [factor * each.cost(batch)[0] for each in self.stages]

    @property
    def _first(self) -> bool:
        return self.stage in (None, 0)

    @property
    def _last(self) -> bool:
        return self.stage in (None, self.plan.pp - 1)

    def scaled(self, factor: float, batch: Batch) -> Values:
        """Return time and energy of a step that takes ``factor`` times as long, and the share that prompts add; a board
        draws no more than it may."""
        seconds, joules = self.cost(batch)
        return factor * seconds, min(joules, self._most_W * factor * seconds), self._prompts(batch, seconds)

    def decoded(self, factor: float, decoding: int, mean: int) -> tuple[int, Floats, Floats]:
        """Return time and energy of steps that take ``factor`` times as long, in which so many sequences decode, for a
        mean of their tokens and its neighbours in the table, and the first of these means. Not for stages and drafts.
        """
        first, parts = self._decode.line((decoding, mean))
        dense, head = self._dense(decoding), self._heads[False].at((decoding,))
        seconds, joules = (a + b + c for a, b, c in zip(dense, parts, head, strict=True))
        return first, factor * seconds, np.minimum(joules, self._most_W * factor * seconds)

    def _prompts(self, batch: Batch, seconds: float) -> float:
        """Share of a step that its prompts add to the tokens that are decoded in it."""
        if not (batch.chunks and batch.decoding):
            return float(not batch.decoding)
        if self.plan.ep > 1 or self.stages:
            return 1 - self.cost(batch._replace(chunks=()))[0] / seconds
        more_s = self._dense(batch.tokens)[0] - self._dense(batch.decoding * self.width)[0]
        more_s += sum([self._prefill.at((tokens, each.computed))[0] for each, tokens in batch.chunks])
        more_s += sum([each[0] for each in self._of_adapters(batch)]) * (1 - batch.decoding * self.width / batch.tokens)
        return min(1.0, max(0.0, more_s / seconds))

    @cached_property
    def _most_W(self) -> float:
        return self.plan.devices * left_W(self.devices.fleet.chips[0])

    def cost(self, batch: Batch) -> Values:
        """Return time (s) and energy (J, without static power) of a step, through all stages."""
        if self.stages:
            return _sums([each.cost(batch) for each in self.stages])
        if not self._last:
            return _sums([self._whole(batch), self._onward(batch)])
        return self._whole(batch)

    def _onward(self, batch: Batch) -> Values:
        """Time and energy of the transfer to the next stage."""
        rows = fullest(batch, self.plan.ep).tokens
        elements = min(2, self.plan.tp) * rows * self.model.hidden  # of a tensor-parallel group both terms
        comm = self.devices.fleet.passed_on(self.plan, self.stage or 0, self.devices.message_B(elements))
        return comm.time_fs * FS, comm.energy_J

    def _whole(self, batch: Batch) -> Values:
        """Time and energy of a step on the devices of a stage."""
        if self.plan.ep == 1:
            return self._own(batch)
        own, groups = fullest(batch, self.plan.ep), self.plan.ep
        seconds, joules = self._own(own)
        more_s, more_J = self._mixtures.at((-(-batch.tokens // groups),))
        return seconds + more_s, joules * batch.tokens / (groups * own.tokens) + more_J

    def _own(self, batch: Batch) -> Values:
        """Time and energy of a step, without experts that groups share."""
        seconds, joules = self._dense(batch.tokens)
        parts = [self._prefill.at((tokens, each.computed)) for each, tokens in batch.chunks]
        if batch.decoding:
            mean = round(batch.context / batch.decoding)
            first, values = self._decode.line((batch.decoding, mean))
            parts.append(tuple([each.item(mean - first) for each in values]))
        sampled = batch.decoding * self.width + sum(
            [each.computed + tokens == each.total for each, tokens in batch.chunks]
        )
        if sampled and self._last:
            parts.append(self._heads[bool(batch.chunks)].at((sampled,)))
        if batch.moved and self._first:
            assert self.swap is not None
            parts.append(tuple([batch.moved * each for each in self.swap]))
        if self.draft is not None:
            parts += self._drafted(self.draft, batch)
        parts += self._of_adapters(batch)
        for more_s, more_J in parts:
            seconds, joules = seconds + more_s, joules + more_J
        return seconds, joules

    def _of_adapters(self, batch: Batch) -> list[Values]:
        """Time and energy of the products of adapters beside a step, and of their way from the host before it."""
        tokens, distinct, loads, _ = batch.adapted
        if self.carried is None or not tokens:
            return []
        way = [tuple([loads * each for each in self.carried.load])] if loads else []
        return [self.adapted.at((tokens, distinct)), *way]

    def _drafted(self, draft: StepTimes, batch: Batch) -> list[Values]:
        """Time and energy of what the draft computes beside a step."""
        found = []
        if batch.decoding:
            one = draft.cost(Batch((), batch.decoding, batch.context))
            found.append(tuple([self.share * (self.width - 1) * each for each in one]))
        if batch.chunks and self.follows:
            found.append(draft.cost(Batch(batch.chunks)))
        return found

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Tables by what they are of."""
        if self.stages:
            every = [(at, each.tables.items()) for at, each in enumerate(self.stages)]
            return {f"{name}, stage {at}": table for at, tables in every for name, table in tables}
        behind, alone = self._heads[True], self._heads[False]
        logits = {"logits": alone, "logits of prompts": behind}
        mixtures = {"experts": self._mixtures} if self.plan.ep > 1 else {"few tokens": self._few} if self._mixed else {}
        beside = {"adapters": self.adapted} if self.carried else {}
        parts = {"products": self._rows, "prompts": self._prefill, "decoding": self._decode}
        return {**parts, **logits, **mixtures, **beside}

    def _dense(self, rows: int) -> Values:
        """Everything but attention and the head. Kernels round rows up to tiles, so they lie on the line between the
        ends of their tile; but the first tokens each meet more experts, whose weights must be read."""
        if self._mixed and rows < TILE:
            return self._few.at((rows,))
        tile = -(-rows // TILE)
        first_s, first_J, last_s, last_J = self._rows.at((tile,))
        share = (rows - (tile - 1) * TILE - 1) / (TILE - 1)
        return first_s + share * (last_s - first_s), first_J + share * (last_J - first_J)

    @cached_property
    def _mixed(self) -> bool:
        """Return whether each device has a part of all experts."""
        return self.plan.ep == 1 and any(layer.sparse for layer, _ in self._kinds)

    @cached_property
    def _few(self) -> Table:
        """Products with fewer rows than a tile."""
        return self._table("few tokens", lambda place: _whole(self._products(place[0])))

    @cached_property
    def _rows(self) -> Table:
        """Products with one row more than a number of tiles less one, and with rows for all of them."""
        return self._table(
            "products",
            lambda place: _whole(self._products((place[0] - 1) * TILE + 1) + self._products(place[0] * TILE)),
        )

    @cached_property
    def _prefill(self) -> Table:
        """Attention's part for a piece of a prompt, by its tokens and those before it."""
        return self._table("prompts", lambda place: self._attended(1, *place))

    @cached_property
    def _decode(self) -> Table:
        """Attention's part for sequences that decode, by their number and mean tokens before."""
        return self._table(f"decoding {self.width}", lambda place: self._attended(place[0], self.width, place[1]))

    @cached_property
    def _heads(self) -> dict[bool, Table]:
        """The logits, by sequences that get a token; True: behind prompts, of which only the last rows count."""

        def table(seq: int) -> Table:
            return self._table(f"logits {seq}", lambda place: _whole(self._one(head, self._call(place[0], seq))))

        return {False: table(1), True: table(2)}

    def _table(self, name: str, ask: Callable[[Place], Asked]) -> Table:
        """Return a table, with what it simulated before."""
        if not self.key:
            return Table(ask)
        part = name if self.stage is None else f"{name} of stage {self.stage}"
        key = usercache.digest([self.key, repr(self.model), str(self.plan), part])
        known = KNOWN.get(key)
        kept: Kept = known if isinstance(known, dict) else {}
        KNOWN.put(key, kept)
        return Table(ask, kept)

    @cached_property
    def _mixtures(self) -> Table:
        """Experts that groups of devices share, by the tokens of each group."""

        def ask(place: Place) -> Asked:
            call = self._call(1, place[0])
            return _whole(self._sum(self._layers(call, (experts,)), call))

        return self._table("experts", ask)

    @cached_property
    def adapted(self) -> Table:
        """Products of adapters, by the tokens that have one and the distinct adapters of these."""
        assert self.carried is not None
        low, own = self.carried.low, replace(self, devices=beside(self.devices))

        def ask(place: Place) -> Asked:
            call = self._call(1, place[0])
            every = [(piece, times) for layer, times in self._kinds for piece in low_rank(call, low, place[1], layer)]
            parts = [tuple([times * each for each in own._of_piece(piece, call)]) for piece, times in every]
            return Asked(_sums(parts), _sums([*parts, self._dense(place[0])]))

        return self._table(f"adapters {low.rank} {low.targets}", ask)

    def _call(self, batch: int, seq: int, past: int = 0) -> Call:
        plan = self.plan
        return Call(self.model, batch, seq, past, plan.tp, plan.ep, routing_of(self.devices.fleet))

    def _layers(self, call: Call, wanted: Sequence[Maker]) -> list[tuple[Callable[[Call], Piece], int]]:
        """Some parts of all layers that have them, with their counts."""
        return [
            (_of(make, layer), times)
            for make in wanted for layer, times in self._kinds if make in makers(call, layer)
        ]  # fmt: skip

    def _products(self, rows: int) -> Values:
        call = self._call(1, rows)
        layers = [(_of(projections, layer), times) for layer, times in self._kinds]
        ends = [(embedding, 1)] if self._first else []
        return self._sum([*ends, *layers, *self._layers(call, (feed_forward, router))], call)

    def _attended(self, sequences: int, seq: int, past: int) -> Asked:
        call, alone = self._call(sequences, seq, past), self._call(1, sequences * seq)
        added, wholes = list[Values](), list[Values]()
        for layer, times in self._kinds:
            each, rows = (
                self._one(_of(makers(call, layer)[0], layer), call),
                self._one(_of(projections, layer), alone),
            )
            added.append(tuple([times * (a - b) for a, b in zip(each, rows, strict=True)]))
            wholes.append(tuple([times * a for a in each]))
        return Asked(_sums(added), _sums(wholes))

    @cached_property
    def _kinds(self) -> list[tuple[Layer, int]]:
        """Each kind of layer with its count."""
        layers = self.model.kinds if self.stage is None else Layout(self.model, self.plan, 1).layers(self.stage)
        return [*Counter(layers).items()]

    def _sum(self, counted: Sequence[tuple[Callable[[Call], Piece], int]], call: Call) -> Values:
        return _sums([tuple([times * each for each in self._one(make, call)]) for make, times in counted])

    def _one(self, make: Callable[[Call], Piece], call: Call) -> Values:
        return self._of_piece(make(call), call)

    def _of_piece(self, piece: Piece, call: Call) -> Values:
        """Time and energy of a piece on the devices of a replica, with its collective and the host that starts it."""
        fleet, plan, stage = self.devices.fleet, self.plan, self.stage or 0
        ranks = plan.stage_ranks(stage)
        made = {rank: self.devices.piece(call, piece, rank, plan.place(rank)[1] == 0) for rank in ranks}
        seconds = max(each.cost.time_fs * FS / fleet.speeds[rank] for rank, each in made.items())
        joules = sum(each.cost.energy_J for each in made.values())
        for comm in self.devices.sent(plan, stage, piece):
            seconds, joules = seconds + comm.time_fs * FS, joules + comm.energy_J
        return seconds, joules


def _of(make: Maker, layer: Layer) -> Callable[[Call], Piece]:
    return lambda call: make(call, layer)


def fullest(batch: Batch, groups: int) -> Batch:
    """Return the share of a batch that the fullest of some groups of devices gets: sequences that decode are spread
    evenly, chunks of prompts one by one to the emptiest group."""
    decoding = -(-batch.decoding // groups)
    loads: list[tuple[int, list[tuple[Prompt, int]]]] = [(0, []) for _ in range(groups)]
    for chunk in sorted(batch.chunks, key=lambda each: -each[1]):
        tokens, held = min(loads, key=lambda each: each[0])
        loads[loads.index((tokens, held))] = tokens + chunk[1], [*held, chunk]
    chunks = max(loads, key=lambda each: each[0])[1]
    context = round(batch.context * decoding / batch.decoding) if batch.decoding else 0
    return batch._replace(chunks=tuple(chunks), decoding=decoding, context=context, moved=-(-batch.moved // groups))


def _sums(parts: Sequence[Values]) -> Values:
    return tuple(map(sum, zip(*parts, strict=True)))


def _whole(values: Values) -> Asked:
    return Asked(values, values)
