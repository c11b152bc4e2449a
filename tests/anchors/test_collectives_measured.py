"""Check ``collectives``: constants that ship stay within what is claimed of them, where the measured rows are."""

from __future__ import annotations

import pytest

from accelsim.cluster.collectives.choice import library_of
from accelsim.cluster.fit import Model
from accelsim.cluster.shapes.building import build
from accelsim.fit.validation import residuals
from accelsim.spec.yaml.clusters import load_cluster
from tests.validation.collectives import SYSTEMS, Outcome, System
from tests.validation.measured import ABSENT, folder


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda each: each.title)
def test_constants_that_ship_are_within_the_claim(system: System) -> None:
    data = folder()
    if data is None or not (data / system.file).is_file():
        pytest.skip(ABSENT)
    cluster = load_cluster(system.cluster, system.changes)
    model = Model(system.rows(data), build(cluster), library_of(cluster, system.software))
    found = Outcome(system, model.rows, model.seconds(), model.seconds())
    for name, rows in found.sets():
        assert residuals(found.shipped[rows], model.rows.seconds[rows]).median <= system.claimed, name
