"""Workers: points are run by processes of this machine, or of a Dask cluster, and kept as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import islice
from multiprocessing import get_context

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


def run_all(
    tasks: Sequence[Task], store: Store, workers: int = 1, dask: str = "", told: Progress = lambda done, all: None
) -> int:
    """Run the points that have no outcome yet, and keep what comes of each; return how many were run.

    ``workers``: processes of this machine. ``dask``: address of a Dask scheduler instead. ``told``: is called with the
    number of points done and that of all. Raises UsageError without Dask, or where nothing answers at its address.
    """
    known = store.known(quick for _, quick in tasks)
    left = list({quick: (point, quick) for point, quick in tasks if quick not in known}.values())
    done = len(tasks) - len(left)
    told(done, len(tasks))
    kept = store.results(mechanism()) if left else Known()
    for quick, found in _by_dask(left, dask, kept) if dask else _by_processes(left, workers, kept):
        store.keep(quick, found, mechanism())
        done += 1
        told(done, len(tasks))
    return len(left)


_kept = Known()
"""Results as this worker began, and its own since then."""


def _begin(kept: Known) -> None:
    global _kept
    _kept = kept


def _work(point: Point) -> Outcome:
    """Run a point in a worker, unless another text of it was run before."""
    return outcome(point, _kept)


def _by_processes(tasks: list[Task], workers: int, kept: Known) -> Iterator[tuple[str, Outcome]]:
    """Outcomes in the order in which they come; in this process where there is one worker."""
    if workers <= 1:
        for point, quick in tasks:
            yield quick, outcome(point, kept)
        return
    waiting = list(tasks)
    while waiting:
        lost: list[Task] = []
        left: list[Task] = []
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (kept,)) as pool:
            yield from _pooled(pool, waiting, workers, lost, left)
        for point, quick in lost:
            yield quick, _alone(point, quick, kept)
        waiting = left


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


def _by_dask(tasks: list[Task], address: str, kept: Known) -> Iterator[tuple[str, Outcome]]:
    """Outcomes of the workers of a Dask cluster, which runs the points of a worker that died again."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise UsageError("Dask is not installed", "--dask", "'pip install accelsim[dask]'") from None
    try:
        client = Client(address, timeout="10s")
    except OSError as error:
        raise UsageError(f"nothing answers: {error}", "--dask", "the address of a scheduler, tcp://HOST:8786") from None
    with client:
        known = client.scatter(kept, broadcast=True)
        futures = {client.submit(outcome, point, known, key=quick, retries=TRIES): quick for point, quick in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
