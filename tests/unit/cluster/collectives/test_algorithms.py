"""Every algorithm of the registry, on data: right results, the same bits everywhere, any number of devices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from accelsim.cluster.collectives.algorithms import COLLECTIVES, able, algorithm
from accelsim.cluster.collectives.base import KINDS, Collective, Members
from accelsim.cluster.values.lockstep import run_data
from accelsim.errors import UsageError
from accelsim.types import Array
from tests.helpers.collective_data import part, run_collective

CASES = [(kind, each.name) for each in COLLECTIVES.values() for kind in each.kinds]


def members_of(chosen: Collective, kind: str, most: int = 8) -> Iterator[Members]:
    """Numbers of devices that it can do with: on one node, and on nodes of two and three."""
    for ranks in range(1, most):
        for groups in {(0,) * ranks, *(tuple(i // size for i in range(ranks)) for size in (2, 3))}:
            if not chosen.why_not(kind, Members(ranks, groups)):
                yield Members(ranks, groups)


def buffers(ranks: int, elements: int) -> list[Array]:
    return list(np.random.default_rng(ranks * 100 + elements).integers(-99, 99, (ranks, elements)))


def expected(kind: str, given: list[Array]) -> list[Array | None]:
    """Return what each device must hold; None for whatever it likes."""
    ranks, size, total = len(given), len(given[0]), np.sum(given, 0)
    parts = [part(i, ranks, size) for i in range(ranks)]
    if kind == "all_reduce":
        return [total] * ranks
    if kind == "broadcast":
        return [given[0]] * ranks
    if kind == "all_gather":
        return [np.concatenate([given[i][own] for i, own in enumerate(parts)])] * ranks
    if kind == "all_to_all":
        return [np.concatenate([each[own] for each in given]) for own in parts]
    if kind == "send_recv":
        return [None, *given[:-1]]
    return [total, *[None] * (ranks - 1)]


def test_each_kind_has_an_algorithm() -> None:
    assert {kind for kind, _ in CASES} == set(KINDS)
    for kind in KINDS:
        assert able(kind, Members(4, (0,) * 4)), kind


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_data_is_right(kind: str, name: str) -> None:
    for members in members_of(COLLECTIVES[name], kind):
        for elements in (1, 7, 24):
            if kind == "all_to_all":
                elements *= members.ranks
            given = buffers(members.ranks, elements)
            for chunks in (1, 3) if kind in ("all_reduce", "broadcast", "reduce", "send_recv") else (1,):
                got = run_collective(kind, name, given, chunks, members.groups)
                if kind == "reduce_scatter":
                    own = [part(i, members.ranks, elements) for i in range(members.ranks)]
                    assert all((got[i][each] == np.sum(given, 0)[each]).all() for i, each in enumerate(own))
                    continue
                for found, wanted in zip(got, expected(kind, given), strict=True):
                    assert wanted is None or (found == wanted).all(), (members, elements, chunks)


@pytest.mark.parametrize("name", [name for kind, name in CASES if kind == "all_reduce"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_device_ends_with_the_same_bits(name: str, dtype: str) -> None:
    random = np.random.default_rng(7)
    for members in members_of(COLLECTIVES[name], "all_reduce"):
        given = list(random.standard_normal((members.ranks, 3, 5)).astype(dtype))
        got = run_collective("all_reduce", name, given, 2, members.groups)
        assert {each.tobytes() for each in got} == {got[0].tobytes()}, members
        assert got[0].shape == (3, 5)
        np.testing.assert_allclose(got[0], sum(given), rtol=0.05, atol=0.05)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_message_waits_only_for_earlier_ones(kind: str, name: str) -> None:
    members = list(members_of(COLLECTIVES[name], kind))[-1]
    graph = COLLECTIVES[name].build(kind, members.ranks, 101, 2, members.groups)
    who = np.repeat(np.arange(len(graph)), np.diff(graph.needs_start))
    assert (graph.needs < who).all()
    assert (graph.round[graph.needs] < graph.round[who]).all()
    assert (np.diff(graph.round) >= 0).all()


def test_a_ring_adds_in_the_order_of_the_ring() -> None:
    """Part 0 starts at device 1 and ends at device 0, each adding to what it has: (((b + c) + d) + a), bit for bit."""
    a, b, c, d = (np.array([value], np.float32) for value in (1e8, 1.0, -1e8, 0.5))
    got = run_collective("all_reduce", "ring", [np.repeat(each, 4) for each in (a, b, c, d)])
    assert got[0][0] == a + (d + (c + b))
    assert got[0][1] == b + (a + (d + c))


def test_input_is_left_alone() -> None:
    given = buffers(3, 6)
    before = [each.copy() for each in given]
    run_data(COLLECTIVES["ring"].build("all_reduce", 3, 6), given)
    assert all((now == then).all() for now, then in zip(given, before, strict=True))


def test_bytes_are_elements_times_their_size() -> None:
    graph = COLLECTIVES["ring"].build("all_reduce", 4, 8, itemsize=2)
    assert set(graph.nbytes.tolist()) == {4}


@pytest.mark.parametrize(
    ("kind", "name", "ranks", "said"),
    [
        ("all_redoce", "ring", 4, "did you mean 'all_reduce'"),
        ("all_reduce", "rong", 4, "did you mean 'ring'"),
        ("broadcast", "ring", 4, "ring does no broadcast; expected one of binomial, chain, chains, direct"),
        ("reduce_scatter", "halving_doubling", 6, "a power of two"),
        ("all_reduce", "hierarchical", 6, "several nodes"),
    ],
)
def test_what_cannot_be_done_is_refused(kind: str, name: str, ranks: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        algorithm(name, kind).build(kind, ranks, 100)


def test_chunks_and_buffers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="0 chunks"):
        COLLECTIVES["ring"].build("all_reduce", 4, 100, chunks=0)
    with pytest.raises(UsageError, match="buffers of different shapes"):
        run_collective("all_reduce", "ring", [np.zeros(3), np.zeros(4)])
    with pytest.raises(UsageError, match="7 elements; expected as many in each of 2 parts"):
        run_collective("all_to_all", "direct", buffers(2, 7))
