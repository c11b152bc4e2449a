"""Laws of the critical path on random graphs, chips and options: it explains every instant, and nothing else."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from law_cases import Case, cases

QUICK = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@settings(QUICK, max_examples=200)
@given(cases())
def test_the_critical_path_covers_the_run(case: Case) -> None:
    """From 0 to the end without gap or overlap; the walk itself checks each start against its cause."""
    run = case.run()
    path = run.critical_path
    assert path[0].start == 0 and path[-1].end == run.time_fs
    assert all(before.end == after.start for before, after in pairwise(path))
    assert all(piece.end > piece.start for piece in path)
