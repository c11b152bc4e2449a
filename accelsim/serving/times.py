"""Times of steps: a step of any mix of prompts and tokens, from the layers of the model on the devices of a plan.

A layer is its products with weights, on the tokens of all sequences together, and attention, sequence by sequence. What
attention adds is the difference between a whole layer and one without it, so that a step of one prompt, or of equally
long sequences that decode, takes what it takes alone (``cluster.serving``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from accelsim import usercache
from accelsim.account.energy import left_W
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.pieces import (
    Call,
    Devices,
    Piece,
    attention,
    block,
    embedding,
    feed_forward,
    head,
    projections,
)
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.transformer import Transformer
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.tables import Asked, Kept, Place, Table, Values
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml import where
from accelsim.spec.yaml.chips import load_site
from accelsim.time import FS
from accelsim.workload.zoo.style import Layer

TILE = 64
"""Rows of the tiles in which products are computed, or a part of them, on most chips."""
KNOWN = usercache.Table("steps", 512)
"""Simulated values of tables, for later processes too."""


def key_of(spec: ClusterSpec, devices: Devices) -> str:
    """Return a hash of all that times of steps are simulated from, but for model and plan; '' where nothing is kept."""
    files, setting = usercache.key_of(where.names("power").values()), devices.setting
    site = load_site(setting.site) if setting.site else None
    chips = dict.fromkeys(map(repr, devices.fleet.chips))
    return usercache.digest([files, *chips, *map(repr, (spec, setting, site))]) if files else ""


@dataclass
class StepTimes:
    """Times and joules of steps of one replica: ``plan.tp`` devices of a fleet. ``swap``: of a block that goes to the
    host's memory, or comes back; None where there is none. ``width``: tokens that a sequence that decodes computes;
    ``draft``: what proposes all but one of them, ``share`` of the time of its steps, and of prompts too if ``follows``.
    ``key``: hash of the devices, under which what was simulated is kept; '' for nothing.
    """

    model: Transformer
    devices: Devices
    plan: Plan
    swap: Values | None = None
    width: int = 1
    draft: StepTimes | None = None
    share: float = 1.0
    follows: bool = False
    key: str = ""

    def scaled(self, factor: float, batch: Batch) -> Values:
        """Return time and energy of a step that takes ``factor`` times as long, and the share that prompts add; a board
        draws no more than it may."""
        seconds, joules = self.cost(batch)
        return factor * seconds, min(joules, self._most_W * factor * seconds), self._prompts(batch, seconds)

    def _prompts(self, batch: Batch, seconds: float) -> float:
        """Share of a step that its prompts add to the tokens that are decoded in it."""
        if not (batch.chunks and batch.decoding):
            return float(not batch.decoding)
        more_s = self._dense(batch.tokens)[0] - self._dense(batch.decoding * self.width)[0]
        more_s += sum([self._prefill.at((tokens, each.computed))[0] for each, tokens in batch.chunks])
        return min(1.0, max(0.0, more_s / seconds))

    @cached_property
    def _most_W(self) -> float:
        return self.plan.tp * left_W(self.devices.fleet.chips[0])

    def cost(self, batch: Batch) -> Values:
        """Return time (s) and energy (J, without static power) of a step."""
        seconds, joules = self._dense(batch.tokens)
        parts = [self._prefill.at((tokens, each.computed)) for each, tokens in batch.chunks]
        if batch.decoding:
            parts.append(self._decode.at((batch.decoding, round(batch.context / batch.decoding))))
        sampled = batch.decoding * self.width + sum(
            [each.computed + tokens == each.total for each, tokens in batch.chunks]
        )
        if sampled:
            parts.append(self._heads[bool(batch.chunks)].at((sampled,)))
        if batch.moved:
            assert self.swap is not None
            parts.append(tuple([batch.moved * each for each in self.swap]))
        if self.draft is not None:
            parts += self._drafted(self.draft, batch)
        for more_s, more_J in parts:
            seconds, joules = seconds + more_s, joules + more_J
        return seconds, joules

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
        behind, alone = self._heads[True], self._heads[False]
        logits = {"logits": alone, "logits of prompts": behind}
        return {"products": self._rows, "prompts": self._prefill, "decoding": self._decode, **logits}

    def _dense(self, rows: int) -> Values:
        """Everything but attention and the head. Kernels round rows up to tiles, so they lie on the line between the
        ends of their tile."""
        tile = -(-rows // TILE)
        first_s, first_J, last_s, last_J = self._rows.at((tile,))
        share = (rows - (tile - 1) * TILE - 1) / (TILE - 1)
        return first_s + share * (last_s - first_s), first_J + share * (last_J - first_J)

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
            make = partial(Call, self.model, seq=seq, past=0, tp=self.plan.tp)
            return self._table(f"logits {seq}", lambda place: _whole(self._one(head, make(place[0]))))

        return {False: table(1), True: table(2)}

    def _table(self, name: str, ask: Callable[[Place], Asked]) -> Table:
        """Return a table, with what it simulated before."""
        if not self.key:
            return Table(ask)
        key = usercache.digest([self.key, repr(self.model), str(self.plan), name])
        known = KNOWN.get(key)
        kept: Kept = known if isinstance(known, dict) else {}
        KNOWN.put(key, kept)
        return Table(ask, kept)

    def _products(self, rows: int) -> Values:
        call = Call(self.model, 1, rows, 0, self.plan.tp)
        makers = (projections,) if call.tp == 1 else (projections, feed_forward)
        layers = [(partial(make, layer=layer), times) for make in makers for layer, times in self._kinds]
        return self._sum([(embedding, 1), *layers], call)

    def _attended(self, sequences: int, seq: int, past: int) -> Asked:
        whole = block if self.plan.tp == 1 else attention
        call = Call(self.model, sequences, seq, past, self.plan.tp)
        alone = Call(self.model, 1, sequences * seq, 0, self.plan.tp)
        added, wholes = list[Values](), list[Values]()
        for layer, times in self._kinds:
            each, rows = (
                self._one(partial(whole, layer=layer), call),
                self._one(partial(projections, layer=layer), alone),
            )
            added.append(tuple([times * (a - b) for a, b in zip(each, rows, strict=True)]))
            wholes.append(tuple([times * a for a in each]))
        return Asked(_sums(added), _sums(wholes))

    @cached_property
    def _kinds(self) -> list[tuple[Layer, int]]:
        """Each kind of layer with its count."""
        return [*Counter(self.model.kinds).items()]

    def _sum(self, counted: Sequence[tuple[Callable[[Call], Piece], int]], call: Call) -> Values:
        return _sums([tuple([times * each for each in self._one(make, call)]) for make, times in counted])

    def _one(self, make: Callable[[Call], Piece], call: Call) -> Values:
        """Time and energy of a piece on the devices of a replica, with its collective and the host that starts it."""
        piece, fleet = make(call), self.devices.fleet
        ranks = self.plan.tp_group(0)
        made = {rank: self.devices.piece(call, piece, rank) for rank in ranks}
        seconds = max(each.cost.time_fs * FS / fleet.speeds[rank] for rank, each in made.items())
        comm = fleet.collective(piece.kind, self.devices.message_B(piece.elements), [ranks]) if piece.kind else Comm()
        joules = sum(each.cost.energy_J for each in made.values()) + comm.energy_J
        return seconds + comm.time_fs * FS, joules


def _sums(parts: Sequence[Values]) -> Values:
    return tuple(map(sum, zip(*parts, strict=True)))


def _whole(values: Values) -> Asked:
    return Asked(values, values)
