"""Lines between a few simulated places."""

from __future__ import annotations

import pytest

from accelsim.cluster.serving.step import MOST, along


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_what_is_straight_takes_three_places(count: int) -> None:
    seen: list[int] = []

    def simulate(place: int) -> float:
        seen.append(place)
        return 3.0 * place + 1

    line = along(simulate, 10, count, [float])
    assert line.along(float) == pytest.approx([3.0 * place + 1 for place in range(10, 10 + count)])
    assert len(seen) == min(count, 3) and line.error == pytest.approx(0, abs=1e-12)


def test_a_bend_is_looked_at_more_closely() -> None:
    line = along(lambda place: float(max(100, place)), 0, 1000, [float])
    errors = [abs(value / max(100, place) - 1) for place, value in enumerate(line.along(float))]
    assert max(errors) < 0.02 and 5 < len(line.places) <= MOST


def test_there_is_an_end() -> None:
    line = along(lambda place: 1.0 + place % 7, 0, 10_000, [float])
    assert len(line.places) <= MOST + 1 and line.error > 0.002
