"""A chip that is right, as text to plant errors in, and all problems of what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accelsim.errors import Problem, SpecError
from accelsim.spec.yaml.load import load_chip, show

GOOD = show(load_chip("tpu-v1"))
Write = Callable[..., Path]


def problems(path: Path, overrides: tuple[str, ...] = ()) -> list[Problem]:
    """Return what is wrong with a chip, in the order in which it is told; fails where nothing is."""
    with pytest.raises(SpecError) as error:
        load_chip(path, overrides)
    return list(error.value.problems)
