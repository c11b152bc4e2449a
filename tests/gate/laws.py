"""Random tests: one seed for all processes of a run, few draws in the core, failing examples kept in the repository."""

from __future__ import annotations

import os
import random
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import ExampleDatabase

from tests.gate.costs import TESTS
from tests.gate.tiers import SHARE

FAILED = TESTS / "regressions"
"""A text file for each test that ever failed: its failing examples in Hypothesis' coding, one a line, to be committed."""
SEED = "hypothesis_seed"


class Regressions(ExampleDatabase):
    """Failing examples, shrunk: each is tried first in every later run, also once it no longer fails."""

    def __init__(self, folder: Path = FAILED) -> None:
        super().__init__()
        self.folder = folder

    def _file(self, key: bytes) -> Path:
        name = re.sub(r"\W+", "-", key.decode(errors="replace"))[:100].strip("-")
        return self.folder / f"{name}-{zlib.crc32(key):08x}.txt"

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """Yield the examples of a test."""
        file = self._file(key)
        if file.exists():
            yield from map(bytes.fromhex, file.read_text(encoding="utf-8").split())

    def save(self, key: bytes, value: bytes) -> None:
        """Keep an example that fails. What Hypothesis saves beside it (``.secondary``, ``.pareto``) is not kept."""
        kept = list(self.fetch(key))
        if value not in kept and not key.endswith((b".secondary", b".pareto")):
            self._write(key, [*kept, value])

    def move(self, src: bytes, dest: bytes, value: bytes) -> None:
        """Remove an example that was shrunk further."""
        self._write(src, [each for each in self.fetch(src) if each != value])

    def delete(self, key: bytes, value: bytes) -> None:
        """Keep an example that fails no more."""

    def _write(self, key: bytes, values: list[bytes]) -> None:
        file = self._file(key)
        if values:
            self.folder.mkdir(exist_ok=True)
            file.write_text("".join(f"{value.hex()}\n" for value in values), encoding="utf-8")
        else:
            file.unlink(missing_ok=True)


def load_profile() -> None:
    """Load the settings of all laws; ``HYPOTHESIS_PROFILE=unshrunk`` draws the same in every run and shrinks nothing."""
    common = settings(deadline=None, suppress_health_check=list(HealthCheck), database=Regressions())
    settings.register_profile("new", common, print_blob=True)
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    settings.register_profile("unshrunk", common, derandomize=True, database=None, phases=phases)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "new"))


def choose_seed(config: pytest.Config) -> int | str:
    """Return the seed that was asked for, or draw one and tell it to Hypothesis here and in all workers."""
    if getattr(config.option, SEED, None) is None:
        setattr(config.option, SEED, str(random.SystemRandom().randrange(1_000_000)))
    seed: str = getattr(config.option, SEED)
    return seed


def draw_few(item: pytest.Item) -> None:
    """Let a law make a part of its draws."""
    test = _test(item)
    now = getattr(test, "_hypothesis_internal_use_settings", None) or settings()
    if not hasattr(test, "draws_few"):
        few = max(2, round(now.max_examples * SHARE))
        test._hypothesis_internal_use_settings = settings(now, max_examples=min(few, now.max_examples))
        test.draws_few = True


def name_examples(item: pytest.Item) -> None:
    """Let failing examples of a case be kept by its name, whatever its source."""
    _test(item)._hypothesis_internal_database_key = item.nodeid.partition("@")[0].encode()


def is_law(item: pytest.Item) -> bool:
    """Return whether a case draws examples by Hypothesis."""
    return hasattr(getattr(item, "obj", None), "hypothesis")


def _test(item: pytest.Item) -> Any:
    test = item.obj  # type: ignore[attr-defined]
    return getattr(test, "__func__", test)
