"""Workers: points are run by processes of this machine, or of a Dask cluster, and kept as they come."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from itertools import chain
from multiprocessing import get_context
from typing import Any

from accelsim.errors import UsageError
from accelsim.explore.sweep.point import Known, Outcome, Point, mechanism, outcome
from accelsim.explore.sweep.store import Store

AHEAD = 4
"""Points that each worker has before it, so that it never waits; so many are lost at most when all is killed."""
TRIES = 3
"""Workers that may die on a point alone before that is its outcome."""
DIED = "died"
PROBE_S = 2.0
"""Time without an outcome after which the pool is asked whether it still works."""
Progress = Callable[[int, int], None]
Task = tuple[Point, str]
"""A point and its quick key."""


class Workers:
    """Processes of this machine, or those of a Dask cluster, which run points and know the results of a ``store``.

    ``count``: processes; with one, points run in this process. ``dask``: address of a scheduler, whose workers run the
    points instead. Raises UsageError without Dask, or where nothing answers at its address.
    """

    def __init__(self, store: Store, count: int = 1, dask: str = "") -> None:
        self._store, self._count = store, count
        self._known = store.results(mechanism())
        self._pools: list[ProcessPoolExecutor] = []
        self._client = _client(dask, self._known) if dask else None

    def __enter__(self) -> Workers:
        """Start nothing yet: processes begin with the first points."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, or leave the cluster."""
        self._end_pools()
        if self._client is not None:
            self._client.close()

    def run(self, tasks: Sequence[Task], told: Progress = lambda done, all: None) -> int:
        """Run the points that have no outcome yet, and keep what comes of each; return how many were run.

        ``told``: is called with the number of points done and that of all.
        """
        known = self._store.known(quick for _, quick in tasks)
        left = list({quick: (point, quick) for point, quick in tasks if quick not in known}.values())
        done = len(tasks) - len(left)
        told(done, len(tasks))
        for quick, found in self._outcomes(left):
            self._store.keep(quick, found, mechanism())
            done += 1
            told(done, len(tasks))
        return len(left)

    def _outcomes(self, tasks: list[Task]) -> Iterator[tuple[str, Outcome]]:
        """Outcomes in the order in which they come."""
        tasks = sorted(tasks, key=kin)
        if self._client is not None:
            yield from _by_dask(tasks, self._client)
        elif self._count <= 1:
            for point, quick in tasks:
                yield quick, outcome(point, self._known)
        else:
            yield from self._by_processes(tasks)

    def _by_processes(self, waiting: list[Task]) -> Iterator[tuple[str, Outcome]]:
        while waiting:
            lost: list[Task] = []
            left: list[Task] = []
            starts = (get_context("spawn"), _begin, (self._known,))
            while len(self._pools) < min(self._count, len(waiting)):
                self._pools.append(ProcessPoolExecutor(1, *starts))
            yield from _pooled(self._pools, waiting, lost, left)
            if lost or left:
                self._end_pools()
            for point, quick in lost:
                yield quick, _alone(point, quick, self._known)
            waiting = left

    def _end_pools(self) -> None:
        while self._pools:
            self._pools.pop().shutdown(cancel_futures=True)


LAST = {"capacity": 1, "bandwidth": 2, "efficiency": 2, "latency": 2}
"""Fields of a spec that little of a run depends on, from that of which most does; energies come after them."""


def kin(task: Task) -> tuple[object, ...]:
    """Return a sort key by which points that share most of their work are neighbours: searches, candidates, runs."""
    point, _ = task
    options = json.loads(point.options)
    groups: list[list[str]] = [[], [], [], []]
    for change in options.pop("set", ()):
        path = str(change).partition("=")[0]
        groups[3 if "energy" in path else LAST.get(path.rpartition(".")[2], 0)].append(str(change))
    first, *others = groups
    return point.model, point.on, first, json.dumps(options), *others


_kept = Known()
"""Results as this worker began, and its own since then."""


def _begin(kept: Known) -> None:
    global _kept
    _kept = kept


def _work(point: Point) -> Outcome:
    """Run a point in a worker, unless another text of it was run before."""
    return outcome(point, _kept)


def _alone(point: Point, quick: str, kept: Known) -> Outcome:
    """Return the outcome of a point that was under way as a worker died, from a worker of its own."""
    for _ in range(TRIES):
        with ProcessPoolExecutor(1, get_context("spawn"), _begin, (kept,)) as pool, suppress(BrokenProcessPool):
            return pool.submit(_work, point).result()
    return Outcome(quick, DIED, {}, f"{TRIES} workers died on {point.text}")


def _is_broken(pool: ProcessPoolExecutor) -> bool:
    """Return whether a pool takes no more. One that breaks just as a task is handed in never answers that task."""
    try:
        pool.submit(int)
    except BrokenProcessPool:
        return True
    return False


def _pooled(
    pools: Sequence[ProcessPoolExecutor], tasks: list[Task], lost: list[Task], left: list[Task]
) -> Iterator[tuple[str, Outcome]]:
    """Outcomes of pools of one worker, each with neighbours of its own, so that it knows what they share; if a worker
    dies, what was under way goes to ``lost`` and the others to ``left``."""
    size = -(-len(tasks) // len(pools))
    parts = [deque(tasks[start : start + size]) for start in range(0, size * len(pools), size)]
    under_way: dict[Future[Outcome], tuple[Task, int]] = {}
    while not lost:
        busy = Counter(at for _, at in under_way.values())
        for at, pool in enumerate(pools):
            while busy[at] < AHEAD and any(parts):  # who has none left helps where most are left
                task = parts[at].popleft() if parts[at] else max(parts, key=len).pop()
                busy[at] += 1
                try:
                    under_way[pool.submit(_work, task[0])] = task, at
                except BrokenProcessPool:
                    left.append(task)
        if not under_way:
            break
        ready, _ = wait(under_way, PROBE_S, FIRST_COMPLETED)
        if not ready and any(map(_is_broken, pools)):
            break
        for future in ready:
            task, _ = under_way.pop(future)
            try:
                yield task[1], future.result()
            except BrokenProcessPool:
                lost.append(task)
    lost += [task for task, _ in under_way.values()]
    left += chain.from_iterable(parts)


def _client(address: str, known: Known) -> Any:
    """Join a Dask cluster, and tell its workers, those of later too, the results so far."""
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("Dask is not installed", "--dask", "'pip install accelsim[dask]'") from None
    try:
        client = Client(address, timeout="10s")
    except OSError as error:
        raise UsageError(f"nothing answers: {error}", "--dask", "the address of a scheduler, tcp://HOST:8786") from None
    client.register_worker_callbacks(partial(_begin, known))
    return client


def _by_dask(tasks: list[Task], client: Any) -> Iterator[tuple[str, Outcome]]:
    """Outcomes of the workers of a Dask cluster, which runs the points of a worker that died again."""
    from distributed import as_completed

    futures = {client.submit(_work, point, key=quick, retries=TRIES): quick for point, quick in tasks}
    for future in as_completed(futures):
        yield futures[future], future.result()
