"""A prompt and what a decoder writes after it, token by token: time to the first, tokens per second, J per token.

The prompt is one call, the prefill; it gives the first token. Each further token is a call of its own on the token
before it, with the keys and values of all earlier ones in the memory of the chip. Calls depend on their place only
through the length of that cache, so without values not all of a long generation need be simulated: see ``_Calls``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from math import inf

import numpy as np

from accelsim.account.energy import energy_table, total_J
from accelsim.account.interval import Generated, generated, joules_ends
from accelsim.account.latency import traffic_by_memory
from accelsim.compiler.state import SERVING
from accelsim.errors import UsageError
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.calling import takes
from accelsim.request.job import execute, prepare
from accelsim.spec.chip import Chip
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import generation_of
from accelsim.workload.zoo import ZOO

SIMULATED = 33
"""Decode calls that are simulated at the most, where values are off."""
FEW = 4
"""Decode calls up to which all of them are simulated."""
CLOSE = 0.002
"""Between two simulated calls nothing more is simulated when the one in the middle is so near to the line between."""
Told = Callable[[float], None]


@dataclass(frozen=True)
class Call:
    """One call of decoding after ``past`` tokens: time, energy, off-chip memory -> bytes (read, written).

    ``floor_s``: the same bytes at the full rates of the memories, the slowest of them.
    """

    past: int
    seconds: float
    energy_J: float
    traffic_B: dict[str, tuple[int, int]]
    floor_s: float


@dataclass(frozen=True)
class Generation:
    """``new`` tokens of each of ``sequences`` after a prompt of ``prompt``; ``prefill`` gives the first.

    ``calls``: decode calls that were simulated, by rising ``past``; those between follow from straight lines.
    ``error``: how far a line was off, at most, where a call in its middle was simulated (share of the call; 0 when all
    were). ``tokens``: [sequences, new], the most likely ones, where values are computed. ``decode``: the run of the
    call after most tokens, None where the prefill gives all.
    """

    model: str
    chip: Chip
    dtype: str
    prompt: int
    new: int
    sequences: int
    prefill: Run
    calls: tuple[Call, ...]
    error: float
    tokens: Array | None = None
    decode: Run | None = None

    @property
    def time_to_first_token_s(self) -> float:
        """Time of the prefill, s."""
        return self.prefill.seconds

    @cached_property
    def prefill_J(self) -> float:
        """Energy of the prefill, J."""
        return total_J(energy_table(self.prefill))

    @cached_property
    def intervals(self) -> Generated:
        """Intervals of the time to the first token, of the time per token and of the whole."""
        return generated(self.prefill, self.decode, self.decode_s, self.decode_calls)

    @property
    def decode_calls(self) -> int:
        """Number of decode calls, one for each token after the first."""
        return self.new - 1

    @property
    def decode_s(self) -> float:
        """Time of all decode calls, s."""
        return sum(self._along(lambda call: call.seconds))

    @property
    def decode_J(self) -> float:
        """Energy of all decode calls, J."""
        return sum(self._along(lambda call: call.energy_J))

    @property
    def token_s(self) -> float | None:
        """Time per token: mean time of a decode step, s; None without any."""
        return self.decode_s / self.decode_calls if self.calls else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of all sequences per second of decoding; None without any."""
        return self.sequences * self.decode_calls / self.decode_s if self.calls else None

    @property
    def tokens_interval_per_s(self) -> tuple[float, float] | None:
        """Interval of ``tokens_per_s``: that of ``token_s``, turned over; None where it has none."""
        token = self.intervals.token
        return None if token is None else token.rates(self.sequences)

    @property
    def energy_per_token_J(self) -> float | None:
        """Energy of decoding per token, J; None without any."""
        return self.decode_J / (self.sequences * self.decode_calls) if self.calls else None

    @property
    def energy_interval_J(self) -> tuple[float, float] | None:
        """Interval of the energy of a token; None without any, or on a chip without kernels."""
        each_J = self.energy_per_token_J
        return None if each_J is None or self.intervals.first is None else joules_ends(each_J)

    @property
    def total_s(self) -> float:
        """Time of the whole generation, s."""
        return self.time_to_first_token_s + self.decode_s

    @property
    def total_J(self) -> float:
        """Energy of the whole generation, J."""
        return self.prefill_J + self.decode_J

    def _along(self, figure: Callable[[Call], float]) -> list[float]:
        places = range(self.prompt, self.prompt + self.decode_calls)
        return [_between(self.calls, past, figure) for past in places]

    def as_dict(self) -> dict[str, object]:
        """Return the facts for JSON; the unit is the end of each key."""
        return {
            "time_to_first_token_s": self.time_to_first_token_s,
            "intervals": {name: each and each._asdict() for name, each in self.intervals._asdict().items()},
            "token_s": self.token_s,
            "tokens_per_s": self.tokens_per_s,
            "tokens_interval_per_s": self.tokens_interval_per_s and [*self.tokens_interval_per_s],
            "energy_per_token_J": self.energy_per_token_J,
            "energy_per_token_interval_J": self.energy_interval_J and list(self.energy_interval_J),
            "prompt": self.prompt,
            "new": self.new,
            "sequences": self.sequences,
            "total_s": self.total_s,
            "total_J": self.total_J,
            "prefill_J": self.prefill_J,
            "decode_s": self.decode_s,
            "decode_J": self.decode_J,
            "decode_calls": self.decode_calls,
            "decode_calls_simulated": len(self.calls),
            "largest_interpolation_error": self.error,
            "calls": [_call_facts(call) for call in self.calls],
            "tokens": None if self.tokens is None else self.tokens.tolist(),
        }


def _call_facts(call: Call) -> dict[str, object]:
    traffic = {name: {"read_B": read, "write_B": write} for name, (read, write) in call.traffic_B.items()}
    return {
        "past": call.past,
        "seconds": call.seconds,
        "energy_J": call.energy_J,
        "traffic": traffic,
        "memory_floor_s": call.floor_s,
    }


def _between(calls: tuple[Call, ...], past: int, figure: Callable[[Call], float]) -> float:
    """A figure of the call after ``past`` tokens: simulated, or on the line between its neighbours that were."""
    at = bisect_left(calls, past, key=lambda call: call.past)
    right = calls[at]
    if right.past == past:
        return figure(right)
    left = calls[at - 1]
    share = (past - left.past) / (right.past - left.past)
    return figure(left) + share * (figure(right) - figure(left))


@takes(Request)
def generate(request: Request) -> Generation:
    """Simulate a prompt and the tokens after it.

    ``model``: a decoder of the zoo with its parameters, ``prompt`` and ``new`` among them
    ('llama?prompt=16,new=8'). The others are those of ``accelsim.run``. With values every call is simulated, on the
    most likely token of the call before; with ``values='off'`` as many as it takes. Raises UsageError for a model that
    is no decoder, else as ``accelsim.run``.
    """
    return generation(request)


def generation(
    request: Request, told: Told = lambda share: None, simulated: int = SIMULATED, close: float = CLOSE
) -> Generation:
    """The generation that a request asks for; ``told`` is called with the share that is done. See ``generate``.

    Where values are off, ``simulated`` decode calls are simulated at the most, and none between two where the one in
    their middle is within ``close`` of the line between them (a share; below 0: all are simulated).
    """
    asked = generation_of(str(request.model), request.param)
    if asked is None:
        raise UsageError(f"no prompt and new tokens in {request.model}", expected=_expected())
    name, params, prompt, new = asked
    maker = _Maker(replace(request, model=name, param=params, fusion=request.fusion or SERVING))
    told(0.0)
    prefill = maker.run(0, prompt)
    calls = _Calls(maker, prompt, new - 1, told, simulated, close)
    found = calls.all() if request.values != "off" else calls.enough()
    batch = prefill.program.graph.tensors["tokens"].shape[0]
    return Generation(
        model=name, chip=prefill.chip, dtype=prefill.program.dtype, prompt=prompt, new=new,
        sequences=batch * prefill.program.cores, prefill=prefill, calls=tuple(found), error=calls.error,
        tokens=np.concatenate(maker.written, axis=1) if request.values != "off" else None, decode=calls.last,
    )  # fmt: skip


def _expected() -> str:
    names = ", ".join(name for name, entry in ZOO.items() if entry.generates)
    return f"NAME?prompt=P,new=N, with NAME one of {names}"


class _Maker:
    """Makes the calls of one request; keeps, where values are computed, the caches and the tokens written so far."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._caches: dict[str, Array] = {}
        self.written: list[Array] = []

    def run(self, past: int, seq: int) -> Run:
        """Simulate one call on ``seq`` tokens after ``past`` earlier ones."""
        request = replace(self._request, param={**(self._request.param or {}), "past": past, "seq": seq})
        if self._request.values == "off":
            return execute(prepare(request))
        if past:
            caches = {name: array[:, :, -self._rows(name) :] for name, array in self._caches.items()}
            request = replace(request, inputs={"tokens": self.written[-1], **caches})
        run = execute(prepare(request))
        self._remember(run.program.graph, run.outputs)
        return run

    def _rows(self, name: str) -> int:
        """Rows of a cache that the next call reads: with a window those that its token sees beside itself."""
        style = ZOO[str(self._request.model)].style
        window = style.layer(int(name[1 : name.index(".")])).window if style else 0
        return window - 1 if window else 0

    def _remember(self, graph: Graph, outputs: dict[str, Array]) -> None:
        logits, *caches = graph.outputs
        self.written.append(np.argmax(outputs[logits], axis=2))
        self._caches = {}
        for cache in caches:  # keys and values of each layer, or keys alone, as a decoder returns them
            layer = cache.partition(".")[0]
            key = f"{layer}.k_past"
            self._caches[f"{layer}.v_past" if key in self._caches else key] = outputs[cache]


class _Calls:
    """Decode calls after a prompt: ``count`` of them, simulated where it takes them.

    Ends first, then halves: where the call in the middle of two is farther than ``close`` from the line between them,
    both halves are looked at, the worst first, until ``simulated`` calls were. ``error`` is the largest distance from a
    line at a middle whose halves were not looked at any more.
    """

    def __init__(self, maker: _Maker, first: int, count: int, told: Told, simulated: int, close: float) -> None:
        self._maker, self._first, self._count, self._most = maker, first, count, simulated
        self._told, self._close = told, close
        self._found: dict[int, Call] = {}
        self.error = 0.0
        self.last: Run | None = None

    def all(self) -> list[Call]:
        """Simulate every call, in order."""
        return [self._call(past) for past in range(self._first, self._first + self._count)]

    def enough(self) -> list[Call]:
        """Simulate as many calls as the lines between them need."""
        if self._count <= FEW:
            return self.all()
        last = self._first + self._count - 1
        self._call(self._first), self._call(last)
        waiting = [(-inf, self._first, last)]
        while waiting and len(self._found) < self._most:
            _, left, right = heappop(waiting)
            middle = (left + right) // 2
            off = self._distance(left, middle, right)
            if off > self._close:
                for half in ((left, middle), (middle, right)):
                    if half[1] - half[0] > 1:
                        heappush(waiting, (-off, *half))
            else:
                self.error = max(self.error, off)
        self.error = max(self.error, *(-off for off, *_ in waiting), 0.0)
        return [self._found[past] for past in sorted(self._found)]

    def _distance(self, left: int, middle: int, right: int) -> float:
        """Return how far time or energy of the call in the middle are from the line between the two, as shares of
        them."""
        ends, known = (self._call(left), self._call(right)), self._call(middle)
        figures: tuple[Callable[[Call], float], ...] = (lambda call: call.seconds, lambda call: call.energy_J)
        return max(abs(_between(ends, middle, f) / f(known) - 1) if f(known) else 0.0 for f in figures)

    def _call(self, past: int) -> Call:
        if past not in self._found:
            self._told(len(self._found) / min(self._count, self._most))
            run = self._maker.run(past, 1)
            self._found[past] = call_of(run, past)
            if past == max(self._found):
                self.last = run
        return self._found[past]


def call_of(run: Run, past: int) -> Call:
    """Return time, energy and traffic of one decode call."""
    traffic = {name: (of["read_B"], of["write_B"]) for name, of in traffic_by_memory(run).items()}
    floors = [
        sum(traffic[name]) / attached.memory.rate_Bps
        for name, attached in run.chip.memories.items()
        if attached.link is None
    ]
    return Call(past, run.seconds, total_J(energy_table(run)), traffic, max(floors, default=0.0))
