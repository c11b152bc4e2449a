"""The decoupled access/execute machine once more, decided clock edge by clock edge, as an oracle for the event machine.

It knows nothing of events, closed forms or commands: at each edge every unit looks at its tokens and acts or waits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any


@dataclass
class Exec:
    """One tile: extents, which tokens it takes and gives back, whether it opens and closes its sums."""

    tm: int
    tn: int
    tk: int
    key_a: tuple[int, int]
    key_w: tuple[int, int]
    first: bool
    last: bool
    takes: dict[str, bool] = field(default_factory=dict)
    gives: dict[str, bool] = field(default_factory=dict)


@dataclass
class Fold:
    """One pass through the array."""

    exec: Exec
    first: bool
    last: bool
    load: int = 0
    stream: int = 0


def execs_of(p: dict[str, Any]) -> list[Exec]:
    """All tiles in loop order."""
    cut = {x: [(i, min(i + p[f"T{x}"], p[x.upper()])) for i in range(0, p[x.upper()], p[f"T{x}"])] for x in "mnk"}
    found = []
    for place in product(*(range(len(cut[axis])) for axis in p["order"])):
        at = dict(zip(p["order"], place, strict=True))
        m, n, k = at["m"], at["n"], at["k"]
        size = {axis: cut[axis][at[axis]][1] - cut[axis][at[axis]][0] for axis in "mnk"}
        found.append(Exec(size["m"], size["n"], size["k"], (m, k), (n, k), k == 0, k == len(cut["k"]) - 1))
    for index, tile in enumerate(found):
        before, after = (found[index - 1] if index else None, found[index + 1] if index + 1 < len(found) else None)
        for kind, key in (("a", "key_a"), ("w", "key_w")):
            mine = getattr(tile, key)
            tile.takes[kind] = not (p["reuse"] and before is not None and getattr(before, key) == mine)
            tile.gives[kind] = not (p["reuse"] and after is not None and getattr(after, key) == mine)
    return found


def run(p: dict[str, Any]) -> dict[str, list[Any]]:
    """Requests (store?, a, first data edge, last data edge), folds (Lw, S) and edges of completed sums."""
    tiles = execs_of(p)
    sums_B = 4 if p["out"] == "int32" else 1
    loads = [
        (kind, tile.tk * tile.tn if kind == "w" else tile.tm * tile.tk)
        for tile in tiles
        for kind in ("w", "a")
        if tile.takes[kind]
    ]
    stores = [("acc", tile.tm * tile.tn * sums_B) for tile in tiles if tile.last]
    folds = [
        Fold(tile, i == 0, i == count - 1)
        for tile in tiles
        for count in [-(-tile.tn // p["C"]) * -(-tile.tk // p["R"])]
        for i in range(count)
    ]
    empty, full = Counter(dict.fromkeys(("a", "w", "acc"), p["slots"])), Counter()
    released: list[tuple[int, str, str]] = []  # edge, 'empty' or 'full', kind
    port_free, requests, sums_done = 0, [], []
    loading = streaming = edge = 0
    while loads or stores or streaming < len(folds):
        edge += 1
        for when, state, kind in [token for token in released if token[0] < edge]:
            (empty if state == "empty" else full)[kind] += 1
            released.remove((when, state, kind))
        head = next(iter(loads), None)
        if head is not None and empty[head[0]]:
            empty[head[0]] -= 1
            kind, size, store = *loads.pop(0), 0
        elif stores and full["acc"]:
            full["acc"] -= 1
            kind, size, store = *stores.pop(0), 1
        else:
            size = 0
        if size:
            start = max(edge + p["L"], port_free) if p["pipelined"] else max(edge, port_free) + p["L"]
            port_free = start - (-size // p["B"])
            requests.append((store, edge, start + 1, port_free))
            released.append((port_free, "empty" if store else "full", kind))
        if streaming < loading and _may_stream(p, folds, streaming, edge, empty, full):
            fold = folds[streaming]
            fold.stream = edge
            streaming += 1
            if fold.first and fold.exec.takes["a"]:
                full["a"] -= 1
            if fold.first and fold.exec.first:
                empty["acc"] -= 1
            end = edge + fold.exec.tm - 1
            if fold.last and fold.exec.gives["a"]:
                released.append((end, "empty", "a"))
            if fold.last and fold.exec.last:
                sums_done.append(end + p["R"] + p["C"] - 1)
                released.append((sums_done[-1], "full", "acc"))
        if loading < len(folds) and loading == streaming:
            fold = folds[loading]
            takes = fold.first and fold.exec.takes["w"]
            if not takes or full["w"]:
                full["w"] -= takes
                fold.load = edge
                loading += 1
                if fold.last and fold.exec.gives["w"]:
                    released.append((edge + p["R"] - 1, "empty", "w"))
        assert edge < 1_000_000, "the machine does not come to an end"
    return {"requests": requests, "folds": [(fold.load, fold.stream) for fold in folds], "sums": sums_done}


def _may_stream(
    p: dict[str, Any], folds: list[Fold], index: int, edge: int, empty: Counter[str], full: Counter[str]
) -> bool:
    fold = folds[index]
    if edge < fold.load + p["R"]:
        return False
    if index and edge < folds[index - 1].stream + folds[index - 1].exec.tm:
        return False
    if fold.first and fold.exec.takes["a"] and not full["a"]:
        return False
    return not (fold.first and fold.exec.first and not empty["acc"])
