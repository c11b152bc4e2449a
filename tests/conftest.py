"""Every run of the tests draws the same cases, so what fails once fails always.

``HYPOTHESIS_PROFILE=search pytest tests/laws`` draws new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

pytest.register_assert_rewrite("tests.helpers")  # before any of them is imported
from tests.helpers.shipped import remember  # noqa: E402

COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("same", COMMON, derandomize=True)
settings.register_profile("search", COMMON)
settings.register_profile("unshrunk", COMMON, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
# To compile a loop over DRAM bursts takes as long as it takes to serve 400,000 of them.
os.environ.setdefault("ACCELSIM_KERNEL", "python")
if os.environ.get("HYPOTHESIS_PROFILE") != "unshrunk":  # of mutants, which must see what each test reaches
    remember()  # before anything imports the function


@pytest.fixture(autouse=True)
def _compiled_loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of the group ``compiled`` serve DRAM bursts by compiled loops, all in one process; the others do not."""
    group = request.node.get_closest_marker("xdist_group")
    with pytest.MonkeyPatch.context() as patch:
        if group is not None and "compiled" in group.args:
            patch.delenv("ACCELSIM_KERNEL", raising=False)
        yield


@pytest.fixture(name="unpainted")
def _unpainted() -> Iterator[None]:
    """Reports with pictures that are composed but not painted, which is most of their time: for tests of the rest."""
    from tests.helpers.pictures import unpainted

    with unpainted():
        yield


@pytest.fixture(scope="module")
def all_unpainted() -> Iterator[None]:
    """The same for all tests of a module."""
    from tests.helpers.pictures import unpainted

    with unpainted():
        yield


@pytest.fixture(scope="module")
def any_good_mapping() -> Iterator[None]:
    """Searches of all tests of a module rehearse few candidates: where the mapping is not what is tested."""
    from tests.helpers.quick_search import quick_searches

    with quick_searches():
        yield
