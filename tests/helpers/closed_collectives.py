"""Closed forms of collectives, exact, in the alpha-beta model: a message of s bytes takes alpha + s / beta.

n devices, each with one port of beta bytes per second in each direction (of a chain, one per neighbour), S bytes,
T = S / beta. Thakur, Rabenseifner and Gropp (2005); Patarasuk and Yuan (2009). They are what the events give where
nothing is rounded and no two messages meet but at the ports of devices. Those of halving and of trees that reduce are
of 2^k devices: among others, devices that need not wait begin early, and the events give a little less.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from accelsim.errors import Problem, UsageError


class Case(NamedTuple):
    """``n`` devices, ``alpha`` of a message in s, ``T``: time of the whole buffer over a port, s; ``q`` chunks."""

    n: int
    alpha: Fraction
    T: Fraction
    q: int = 1

    def step(self, share: Fraction | int = 1) -> Fraction:
        """A message of a share of the buffer."""
        return self.alpha + self.T * share

    @property
    def part(self) -> Fraction:
        """Share of one device."""
        return Fraction(1, self.n)

    @property
    def rest(self) -> Fraction:
        """Share of all devices but one."""
        return Fraction(self.n - 1, self.n)

    @property
    def levels(self) -> int:
        """log2 of the number of devices, rounded up."""
        return (self.n - 1).bit_length()

    @property
    def power(self) -> int:
        """log2 of a number of devices that is a power of two."""
        if self.n & (self.n - 1):
            raise UsageError(Problem(f"no closed form among {self.n} devices", "", "a power of two"))
        return self.n.bit_length() - 1

    def halving(self) -> Fraction:
        """Reduce-scatter by halving."""
        return self.power * self.alpha + self.T * self.rest


Form = Callable[[Case], Fraction]
CLOSED: dict[tuple[str, str], Form] = {
    ("all_reduce", "ring"): lambda c: 2 * (c.n - 1) * c.step(c.part),
    ("reduce_scatter", "ring"): lambda c: (c.n - 1) * c.step(c.part),
    ("all_gather", "ring"): lambda c: (c.n - 1) * c.step(c.part),
    ("all_reduce", "halving_doubling"): lambda c: 2 * c.halving(),
    ("reduce_scatter", "halving_doubling"): lambda c: c.halving(),
    ("all_gather", "halving_doubling"): lambda c: c.halving(),
    ("all_reduce", "recursive_doubling"): lambda c: c.power * c.step(),
    ("broadcast", "binomial"): lambda c: c.levels * c.step(),
    ("reduce", "binomial"): lambda c: c.power * c.step(),
    ("broadcast", "chain"): lambda c: (c.n - 1 + c.q - 1) * c.step(Fraction(1, c.q)),
    ("reduce", "chain"): lambda c: (c.n - 1 + c.q - 1) * c.step(Fraction(1, c.q)),
    ("all_reduce", "chain"): lambda c: (2 * (c.n - 1) + c.q - 1) * c.step(Fraction(1, c.q)),
    ("all_to_all", "pairwise"): lambda c: (c.n - 1) * c.step(c.part),
    ("all_reduce", "direct"): lambda c: 2 * c.step(c.rest),
    ("reduce_scatter", "direct"): lambda c: c.step(c.rest),
    ("all_gather", "direct"): lambda c: c.step(c.rest),
    ("all_to_all", "direct"): lambda c: c.step(c.rest),
    ("broadcast", "direct"): lambda c: c.step(c.n - 1),
    ("reduce", "direct"): lambda c: c.step(c.n - 1),
    ("send_recv", "direct"): lambda c: c.step(),
    ("all_reduce", "server"): lambda c: 2 * c.step(c.n - 1),
}
"""(kind, algorithm) -> its time, s, among two devices or more."""


def closed_s(
    kind: str, algorithm: str, ranks: int, nbytes: int, alpha_s: Fraction, beta_Bps: Fraction, chunks: int = 1
) -> Fraction:
    """Time of a collective, s, exact. UsageError where there is no closed form, or not among so many."""
    form = CLOSED.get((kind, algorithm))
    if form is None:
        known = ", ".join(f"{one} by {two}" for one, two in CLOSED)
        raise UsageError(Problem(f"no closed form of {kind} by {algorithm}", "", f"one of {known}"))
    if ranks == 1:
        return Fraction(0)
    return form(Case(ranks, alpha_s, nbytes / beta_Bps, chunks))


def hierarchical_s(
    per_node: int, nodes: int, nbytes: int, inside: tuple[Fraction, Fraction], between: tuple[Fraction, Fraction]
) -> Fraction:
    """Hierarchical all-reduce, s; ``inside`` and ``between`` nodes: alpha in s, bytes per second of a device's port."""
    (alpha, beta), (far, slow) = inside, between
    around = 2 * (per_node - 1) * (alpha + Fraction(nbytes, per_node) / beta)
    return around + 2 * (nodes - 1) * (far + Fraction(nbytes, per_node * nodes) / slow)


def crossover_B(ranks: int, alpha_s: Fraction, beta_Bps: Fraction) -> Fraction:
    """Bytes from which an all-reduce by ring is faster than by recursive doubling, 2^k devices, at least four:
    alpha beta (2 (n - 1) - log2 n) / (log2 n - 2 (n - 1) / n)."""
    levels = ranks.bit_length() - 1
    if ranks < 4 or ranks != 1 << levels:
        raise UsageError(Problem(f"{ranks} devices", "crossover", "a power of two from 4 on"))
    return alpha_s * beta_Bps * (2 * (ranks - 1) - levels) / (levels - Fraction(2 * (ranks - 1), ranks))


SENT: dict[tuple[str, str], Callable[[int], Fraction]] = {
    ("all_reduce", "ring"): lambda n: Fraction(2 * (n - 1), n),
    ("all_reduce", "direct"): lambda n: Fraction(2 * (n - 1), n),
    **{
        (kind, algorithm): lambda n: Fraction(n - 1, n)
        for kind in ("reduce_scatter", "all_gather")
        for algorithm in ("ring", "direct", "halving_doubling")
    },
    ("all_to_all", "pairwise"): lambda n: Fraction(n - 1, n),
    ("all_to_all", "direct"): lambda n: Fraction(n - 1, n),
}
"""(kind, algorithm) -> bytes that each of n devices sends, over the size."""
