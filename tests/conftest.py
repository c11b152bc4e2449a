"""What all tests share: the gate (``tests/gate``), searches, coverage, what is remembered between tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.helpers")  # before any of them is imported
from tests.gate import plugin  # noqa: E402
from tests.gate.laws import load_profile  # noqa: E402
from tests.helpers.shipped import remember  # noqa: E402
from tests.helpers.traced import traced  # noqa: E402

load_profile()
# To compile a loop over DRAM bursts takes as long as it takes to serve 400,000 of them.
os.environ.setdefault("ACCELSIM_KERNEL", "python")
# What an earlier run has left in the user's cache would hide a fault of today.
os.environ["ACCELSIM_CACHE"] = "off"
if os.environ.get("HYPOTHESIS_PROFILE") != "unshrunk":  # of mutants, which must see what each test reaches
    remember()  # before anything imports the function

SHOWN = {"anchors", "docs", "validate"}
UNTRACED = {"anchors", "docs", "fuzz", "laws"}
"""Tests that run what others test piece by piece; to trace them takes longer than to run them."""


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


@pytest.fixture(name="full")
def _full(request: pytest.FixtureRequest) -> bool:
    """Return whether this run has the evidence of a case, and not the part of it that the core has."""
    return plugin.in_full(request.node)


@pytest.fixture(scope="module", autouse=True)
def _searches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Searches rehearse few candidates, which saves a third of the time of a small run, but where the mapping that is
    chosen matters: for figures that are shown or compared with others', and in modules marked ``shipped_search``."""
    from tests.helpers.quick_search import quick_searches

    if SHOWN & set(request.path.parts) or request.node.get_closest_marker("shipped_search"):
        yield
    else:
        with quick_searches():
            yield


@pytest.fixture(scope="module", autouse=True)
def _forgotten(request: pytest.FixtureRequest) -> Iterator[None]:
    """Return what functions of a module remember, whole runs often, goes with its tests."""
    yield
    module = request.module
    for value in vars(module).values():
        if getattr(value, "__module__", "") == module.__name__ and hasattr(value, "cache_clear"):
            value.cache_clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--tier`` and the other options of the gate."""
    plugin.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the gate."""
    plugin.register(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A module's tests share what it remembers, so one process runs them. Groups stay what they are; laws share nothing
    and take long, so each goes to whichever process is free. No coverage is taken of ``UNTRACED``."""
    for item in items:
        if UNTRACED & set(item.path.parts):
            item.add_marker("no_cover")
        if not item.get_closest_marker("xdist_group") and "laws" not in item.path.parts:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """The beginning of what is set up for a test is traced, and that of the test."""
    with traced(item):
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """See ``pytest_runtest_setup``."""
    with traced(item):
        yield


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Texts so long that they would fill the screen are named by what they are for."""
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > 200 else None
