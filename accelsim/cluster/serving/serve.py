"""Generation by a decoder on a cluster: time to the first token, tokens per second, joules per token.

All sequences begin together. The prefill is one call on their prompts and gives the first tokens; each further token is
a call on those before it, with the keys and values of all earlier ones in the memories of the devices. Calls depend on
their place through the length of that cache alone, so not all of a long generation need be simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from accelsim.account.energy import static_power_W
from accelsim.account.interval import GENERATION, JOULES, TOKEN, joules_ends
from accelsim.cluster.plan.plan import Plan, size_problems
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.pieces import HEAD
from accelsim.cluster.serving.step import Layout, Line, ServedCall, along, step
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.memory import OutOfMemory, capacity_B
from accelsim.cluster.step.transformer import Transformer
from accelsim.compiler.state import SERVING
from accelsim.errors import Problem, UsageError, count_of
from accelsim.kernels.whole import Interval, added, together, widened
from accelsim.workload.routing import UNIFORM, Routing, read_routing

Told = Callable[[float], None]


@dataclass(frozen=True)
class Asked:
    """Request for a generation: ``sequences`` in all, each a prompt of ``prompt`` tokens and ``new`` tokens after
    it."""

    sequences: int
    prompt: int
    new: int
    ignore_capacity: bool = False


@dataclass(frozen=True)
class Served:
    """A simulated generation. ``prefill``: the call on the prompts; ``decode``: simulated decode steps, with lines
    between them. ``memory_B``: kind -> bytes of one device of each stage when all tokens are there; ``room_B``: of the
    device of each stage with the least memory. ``static_W``: of all devices, all the time."""

    model: Transformer
    fleet: Fleet
    plan: Plan
    dtype: str
    asked: Asked
    prefill: ServedCall
    decode: Line[ServedCall]
    memory_B: tuple[dict[str, int], ...]
    room_B: tuple[int, ...]
    static_W: float

    @property
    def fusion(self) -> str:
        """Fusion of functions into kernels."""
        return self.fleet.setting.fusion or SERVING

    @property
    def fuller(self) -> tuple[float, ...]:
        """Load of the fullest of the devices that share experts, in means of all: in the prefill, in a step."""
        plan = self.plan
        layout = Layout(self.model, plan, self.asked.sequences // plan.data, routing_of(self.fleet))
        calls = [layout.call(self.asked.prompt, 0), layout.call(1, self.asked.prompt)]
        return tuple(call.fuller for call in calls[: 1 + bool(self.decoded)])

    @property
    def time_to_first_token_s(self) -> float:
        """Time until all sequences have their first token, s."""
        return self.prefill.first_s

    @property
    def decode_s(self) -> float:
        """Time of all decode steps, s."""
        return sum(self.decode.along(lambda each: each.period_s))

    @property
    def total_s(self) -> float:
        """Time of the whole generation, s."""
        return self.time_to_first_token_s + self.decode_s

    @property
    def decoded(self) -> int:
        """Tokens that are decoded, of all sequences: all but the first of each."""
        return self.asked.sequences * (self.asked.new - 1)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of all sequences per second of decoding; None without any."""
        return self.decoded / self.decode_s if self.decoded else None

    @property
    def token_s(self) -> float | None:
        """Time per token: mean time of a decode step, from one token of a sequence to the next, s; None without any."""
        return self.decode_s / (self.asked.new - 1) if self.decoded else None

    @property
    def prefill_J(self) -> dict[str, float]:
        """Joules of the prefill: devices while they compute, links, static power of all."""
        return self._parts_J(self.prefill.energy_J, self.prefill.links_J, self.time_to_first_token_s)

    @property
    def decode_J(self) -> dict[str, float]:
        """Joules of decoding, by the same parts as ``prefill_J``."""
        devices = sum(self.decode.along(lambda each: each.energy_J))
        links = sum(self.decode.along(lambda each: each.links_J))
        return self._parts_J(devices, links, self.decode_s)

    @property
    def energy_per_token_J(self) -> float | None:
        """Energy of decoding per token, J; None without any."""
        return sum(self.decode_J.values()) / self.decoded if self.decoded else None

    @property
    def total_J(self) -> float:
        """Energy of the whole generation, J: devices and links."""
        return sum(self.prefill_J.values()) + sum(self.decode_J.values())

    @property
    def wall_J(self) -> float | None:
        """Energy of the servers at the wall, J; None where the cluster does not state what these draw."""
        wall = self.fleet.wall
        return wall and wall.joules(self.total_J, self.fleet.size, self.total_s)

    @property
    def wall_per_token_J(self) -> float | None:
        """Energy of decoding per token at the wall, J; None without any."""
        wall = self.fleet.wall
        if wall is None or not self.decoded:
            return None
        return wall.joules(sum(self.decode_J.values()), self.fleet.size, self.decode_s) / self.decoded

    def ends_J(self, joules: float | None, key: str = JOULES) -> tuple[float, float] | None:
        """Return the interval of an energy, J; ``key``: its kind of measurements. None for None, or where times have no
        interval."""
        return None if joules is None or self.first_interval is None else joules_ends(joules, key)

    @property
    def first_interval(self) -> Interval | None:
        """Interval of the time to the first token, by its kernels or by measured generations; None without kernels."""
        return widened(interval(self.prefill, self.prefill.first_s), self.prefill.first_s, GENERATION)

    @property
    def token_interval(self) -> Interval | None:
        """Interval of ``token_s``, by the kernels of the last decode step or by measured tokens."""
        last, seconds = self.decode.last, self.token_s
        return None if last is None or seconds is None else widened(interval(last, seconds), seconds, TOKEN)

    @property
    def tokens_interval_per_s(self) -> tuple[float, float] | None:
        """Interval of ``tokens_per_s``, the inverse of that of ``token_s``; None where that has none."""
        found = self.token_interval
        return None if found is None else found.rates(self.asked.sequences)

    @property
    def total_interval(self) -> Interval | None:
        """Interval of ``total_s``, by the prefill and the last decode step."""
        last = None if self.decode.last is None else interval(self.decode.last, self.decode_s)
        parts = (interval(self.prefill, self.time_to_first_token_s), last)
        ends = [each for each in parts if each is not None]
        return widened(added(ends) if ends else None, self.total_s, GENERATION)

    def _parts_J(self, devices: float, links: float, seconds: float) -> dict[str, float]:
        return {"devices": devices, "links": links, "static": self.static_W * seconds}


def interval(call: ServedCall, seconds: float) -> Interval | None:
    """Return the interval of a call's time: its kernels are as far off as alone, everything else is exact."""
    if any(stage.parts is None for stage in call.stages):
        return None
    parts = [part for stage in call.stages for part in stage.parts or ()]
    kernels = sum(part.seconds for part in parts)
    if not kernels:
        return None
    return together(parts).scaled(call.total("compute_s") / call.through_s, seconds, kernels)


def serve(
    model: Transformer,
    fleet: Fleet,
    plan: Plan,
    asked: Asked,
    progress: Told = lambda share: None,
    devices: Devices | None = None,
) -> Served:
    """Simulate a prompt and the tokens after it on a cluster under a plan. ``progress`` gets the share that is done.

    ``devices``: those of ``fleet``, where some of what they do is known already. Raises UsageError with all that is
    wrong of the plan, OutOfMemory where devices hold more than they can.
    """
    wrong = list(problems(model, fleet, plan, asked))
    UsageError.raise_for(wrong)
    layout = Layout(model, plan, asked.sequences // plan.data, routing_of(fleet))
    devices = devices or Devices(fleet, fleet.setting)
    progress(0.0)
    if not asked.ignore_capacity:
        check_memory(devices, layout, asked.prompt, asked.new, permanent=True)
    prefill = step(devices, layout, asked.prompt, 0)
    if not asked.ignore_capacity:
        check_memory(devices, layout, asked.prompt, asked.new)
    figures = (lambda each: each.period_s, lambda each: each.energy_J)
    calls = along(lambda past: step(devices, layout, 1, past), asked.prompt, asked.new - 1, figures, progress)
    rooms = tuple(_room_B(devices, layout, stage)[1] for stage in range(plan.pp))
    watts = sum(sum(static_power_W(chip).values()) for chip in fleet.chips)
    held = tuple(needs(devices, layout, asked.prompt, asked.new))
    return Served(model, fleet, plan, devices.dtype, asked, prefill, calls, held, rooms, watts)


TRAINING = ("chunks", "microbatches", "sp", "zero", "recompute", "period")
"""Fields of a plan that only a training has."""


def problems(model: Transformer, fleet: Fleet, plan: Plan, asked: Asked) -> Iterator[Problem]:
    """Yield each problem: devices, widths, layers, sequences, fields of a plan that only a training has, tokens."""
    where = "--plan"
    params = dict(model.params)
    divided, experts = {"heads": model.heads, "ffn": params.get("expert_ffn", model.ffn)}, params.get("experts", 0)
    other = fleet.resized(plan.devices)
    yield from size_problems(replace(plan, chunks=1), fleet.size, divided, model.layers, other, experts)
    yield from _routed(routing_of(fleet), experts)
    if model.kv_heads % plan.tp and plan.tp % model.kv_heads:
        what = f"tp={plan.tp} of kv_heads={model.kv_heads}"
        yield Problem(what, where, f"a number that divides {model.kv_heads}, or a multiple of it")
    if asked.sequences % plan.data:
        what = f"{count_of(asked.sequences, 'sequence')} on {count_of(plan.dp, 'replica')}"
        what += f" of {plan.ep} groups with sequences of their own" if plan.ep > 1 else ""
        yield Problem(what, "--batch", f"a multiple of {plan.data}")
    yield from _context(model, plan, asked.prompt)
    for name in TRAINING:
        if getattr(plan, name) != getattr(Plan(), name):
            yield Problem(f"{name} in a plan for serving", where, "dp, tp, ep, cp and pp: the rest is for training")
    total = asked.prompt + asked.new - 1
    if model.positions and total > model.positions:
        yield Problem(f"{total:,} tokens", model.name, f"at most {model.positions:,}, which have a learnt position")


def _context(model: Transformer, plan: Plan, prompt: int) -> Iterator[Problem]:
    """Yield what is wrong with devices that share the tokens of a prompt."""
    if plan.cp == 1:
        return
    chunks, where = 2 * plan.cp, "--plan"
    if prompt % chunks:
        near = dict.fromkeys(each for each in (prompt // chunks * chunks, -(-prompt // chunks) * chunks) if each)
        expected = f"a multiple of {chunks}, two chunks a device, such as prompt={' or '.join(map(str, near))}"
        yield Problem(f"cp={plan.cp} of prompt={prompt}", where, expected)
    if any(layer.window for layer in model.kinds) or model.style.sinks:
        yield Problem(f"cp={plan.cp} of layers with windows or sinks", where, "dp, tp, ep or pp")


def routing_of(fleet: Fleet) -> Routing:
    """Return how popular experts are in a setting. Raises UsageError."""
    return read_routing(fleet.setting.routing)


def _routed(routing: Routing, experts: int) -> Iterator[Problem]:
    """Yield what is wrong with the popularity of so many experts."""
    if routing != UNIFORM and experts < 2:
        yield Problem(f"{routing} of a model without experts", "--routing", "a model with experts, or no routing")
    elif routing.shares and experts % len(routing.shares):
        what = f"{len(routing.shares)} shares of {experts} experts"
        yield Problem(what, "--routing", f"one of each expert, or as many as divide {experts}")


def needs(devices: Devices, layout: Layout, prompt: int, new: int, permanent: bool = False) -> list[dict[str, int]]:
    """Return kind -> bytes of one device of each stage, when all tokens are there. ``permanent``: only weights and
    caches, which need no simulation."""
    plan, call = layout.plan, layout.call(prompt, 0)
    found = []
    for stage in range(plan.pp):
        weights = working = 0
        for piece, times in layout.stage(call, stage):
            shared = piece.name == HEAD and layout.model.tied and stage == 0
            weights += 0 if shared else ceil(times * devices.weights_B(layout.model, piece))
            if not permanent:
                made = devices.piece(call, piece, plan.rank(stage, 0, 0))
                working = max(working, made.working_B + devices.message_B(piece.received))
        parts = {"weights": weights, "keys and values": cache_B(devices, layout, prompt + new, stage)}
        found.append(parts if permanent else {**parts, "activations": working})
    return found


def cache_B(devices: Devices, layout: Layout, tokens: int, stage: int) -> int:
    """Return the bytes of keys and values of ``tokens`` tokens of all sequences of a replica, on one device of a stage.

    Sum over layers of 2 x own heads x depth x own tokens, times sequences x bytes of an element; see
    ``Transformer.cached`` for layers that keep less.
    """
    model, tp = layout.model, layout.plan.tp
    own = -(-tokens // layout.plan.cp)
    elements = sum(model.cached(layer, own, tp) for layer in layout.layers(stage))
    return ceil(elements * layout.sequences * devices.widths.cache)


def check_memory(
    devices: Devices, layout: Layout, prompt: int, new: int, permanent: bool = False, advice: str = ""
) -> None:
    """Raise OutOfMemory with ``advice``, for all stages at once, where devices hold more than they have room for; see
    ``needs``."""
    short = []
    for stage, parts in enumerate(needs(devices, layout, prompt, new, permanent)):
        ranks, room = _room_B(devices, layout, stage)
        if sum(parts.values()) > room:
            short.append((ranks, parts, room))
    if short:
        raise OutOfMemory(layout.model.name, short, advice or ADVICE)


def _room_B(devices: Devices, layout: Layout, stage: int) -> tuple[list[int], int]:
    """The devices of a stage, and the memory of the one that has least."""
    ranks = layout.plan.stage_ranks(stage)
    return ranks, min(capacity_B(devices.fleet.chips[rank]) for rank in ranks)


ADVICE = "more devices by tp or pp, fewer sequences, a shorter prompt; or, for a study, --ignore-capacity"
"""Advice for a generation that does not fit."""
