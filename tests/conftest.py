"""Every run of the tests draws the same cases, so what fails once fails always.

``HYPOTHESIS_PROFILE=search pytest tests/laws`` draws new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, settings

COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("same", COMMON, derandomize=True)
settings.register_profile("search", COMMON)
pytest.register_assert_rewrite("tests.helpers")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports with pictures that are composed but not painted, which is most of their time: for tests of the rest."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", _saved)


@pytest.fixture(scope="module")
def all_unpainted() -> Iterator[None]:
    """The same for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", _saved)
        yield


def _saved(figure: object, file: IO[bytes], **_: Any) -> None:
    file.write(b"<svg xmlns='http://www.w3.org/2000/svg'></svg>")
