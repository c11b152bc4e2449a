"""Mappings that the machine decides: each of the best by the closed form is simulated alone, and the fastest is kept.

What was decided is remembered in a file, by everything that it depends on: chip, step, where its operands lie, how the
memories are followed, how it was searched, and the version of accelsim. What is none of the best is decided again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from accelsim.errors import Infeasible, UsageError
from accelsim.files import text, write_file, write_folder
from accelsim.files.reading import exists, read_text
from accelsim.machine.simulate import simulate
from accelsim.program.mapping import ProductMapping
from accelsim.program.program import Program

MOST_FILE_B = 2**26
"""Bytes of a file of decisions; one takes about 300."""
M = TypeVar("M", bound=ProductMapping)
EXPECTED = "a file that --tune has written, or no file of that name"


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/accelsim/tuned.json`` (``~/.cache`` when unset)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "accelsim" / "tuned.json"


@dataclass
class Tuning:
    """Decide among ``leaders`` candidates of a search. ``cache``: file, None for ``default_cache``; ``progress``: gets
    the step that is decided, and the share of its candidates that is done. ``kept``: decisions of this run;
    ``unsaved``: why the default cache does not hold them."""

    leaders: int
    memory_model: str
    cache: Path | None = None
    progress: Callable[[str, float], None] = lambda stage, share: None
    simulated: int = 0
    decided: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    kept: dict[str, object] = field(default_factory=dict)
    unsaved: str = ""

    def fastest(self, what: str, depends: str, mappings: Sequence[M], program: Callable[[M], Program]) -> M:
        """The mapping whose ``program`` takes least time; of equals the first. ``depends``: all that it depends on.

        Programs that do not fit are passed over; where none does, the first mapping. Raises UsageError when a file
        of decisions that the user named cannot be read or written; for the default cache ``note`` says so.
        """
        key = self._key(depends)
        known = self._read()
        before = self._mapping(type(mappings[0]), known[key]) if key in known else None
        if before is not None and before in mappings:
            self.found.add(key)
            return before
        best, least = mappings[0], -1
        for index, mapping in enumerate(mappings):
            self.progress(f"tune {what}", index / len(mappings))
            try:
                time_fs = simulate(program(mapping), None, "off", memory_model=self.memory_model).time_fs
            except Infeasible:
                continue
            self.simulated += 1
            if least < 0 or time_fs < least:
                best, least = mapping, time_fs
        self.decided.add(key)
        self.kept[key] = asdict(best)
        self._write(self._read())
        return best

    def note(self) -> str:
        """Return a note that says how many mappings were tuned and what that gained."""
        different = len(self.decided | self.found)
        if not different:
            return "nothing was tuned: no product here leaves its mapping to the machine"
        cached = (
            f", {len(self.found - self.decided)} of them before (from {self._path})"
            if self.found - self.decided
            else ""
        )
        what = f"mappings of {different} different products were" if different > 1 else "the mapping of one product was"
        return (
            f"{what} decided by the machine among the best {self.leaders} of each search{cached}; "
            f"{self.simulated} simulations of a layer alone"
            + (f"; it is forgotten after this run: {self.unsaved}" if self.unsaved else "")
        )

    def _key(self, depends: str) -> str:
        whole = f"{version('accelsim')}\n{self.leaders}\n{self.memory_model}\n{depends}"
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def _path(self) -> Path:
        return self.cache or default_cache()

    def _read(self) -> dict[str, object]:
        try:
            return self._saved() | self.kept
        except UsageError as error:
            self._pass_over(error)
            return dict(self.kept)

    def _pass_over(self, error: UsageError) -> None:
        """Note why the default cache is of no use, which must not stop a run; a file that the user named does."""
        if self.cache is not None:
            raise error
        self.unsaved = str(error)

    def _saved(self) -> dict[str, object]:
        if not exists(self._path):
            return {}
        try:
            found = json.loads(read_text(self._path, MOST_FILE_B))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"cannot read decisions: {error}", str(self._path), EXPECTED) from None
        if not isinstance(found, dict):
            raise UsageError("holds no decisions", str(self._path), EXPECTED)
        return found

    def _mapping(self, kind: type[M], fields: Any) -> M | None:
        try:
            return kind(**fields)
        except TypeError:
            what = f"{fields!r} is no mapping"
            self._pass_over(UsageError(what, str(self._path), EXPECTED))
            return None

    def _write(self, decisions: dict[str, object]) -> None:
        try:
            content = text(json.dumps(decisions, indent=1) + "\n")
            if self.cache is None:
                write_folder(self._path.parent, {self._path.name: content})
            else:
                write_file(self._path, content)
            self.unsaved = ""
        except UsageError as error:
            self._pass_over(error)
