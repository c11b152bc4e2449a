"""Workers: points are run by processes of this machine, or of a Dask cluster, and kept as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from itertools import islice
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
        self._pool: ProcessPoolExecutor | None = None
        self._client = _client(dask, self._known) if dask else None

    def __enter__(self) -> Workers:
        """Start nothing yet: processes begin with the first points."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, or leave the cluster."""
        self._end_pool()
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
            self._pool = self._pool or ProcessPoolExecutor(self._count, get_context("spawn"), _begin, (self._known,))
            yield from _pooled(self._pool, waiting, self._count, lost, left)
            if lost or left:
                self._end_pool()
            for point, quick in lost:
                yield quick, _alone(point, quick, self._known)
            waiting = left

    def _end_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def run_all(
    tasks: Sequence[Task], store: Store, workers: int = 1, dask: str = "", told: Progress = lambda done, all: None
) -> int:
    """Run the points that have no outcome yet, and keep what comes of each; return how many were run."""
    with Workers(store, workers, dask) as ready:
        return ready.run(tasks, told)


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
    pool: ProcessPoolExecutor, tasks: list[Task], workers: int, lost: list[Task], left: list[Task]
) -> Iterator[tuple[str, Outcome]]:
    """Outcomes of a pool; if a worker dies, what was under way goes to ``lost`` and the others to ``left``."""
    source = iter(tasks)
    under_way: dict[Future[Outcome], Task] = {}
    while not lost:
        for task in islice(source, workers * AHEAD - len(under_way)):
            try:
                under_way[pool.submit(_work, task[0])] = task
            except BrokenProcessPool:
                left.append(task)
        if not under_way:
            break
        ready, _ = wait(under_way, PROBE_S, FIRST_COMPLETED)
        if not ready and _is_broken(pool):
            break
        for future in ready:
            task = under_way.pop(future)
            try:
                yield task[1], future.result()
            except BrokenProcessPool:
                lost.append(task)
    lost += under_way.values()
    left += source


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
