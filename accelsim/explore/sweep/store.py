"""The store: outcomes of points in one SQLite file, each kept as it comes. Several processes may write at once."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import wraps
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar

from accelsim.errors import UsageError
from accelsim.explore.sweep.point import Known, Outcome, Point
from accelsim.files import check_file, create
from accelsim.files.reading import is_file, is_folder

OURS = 0x41434350
"""Number by which SQLite files are known as ours (``application_id``)."""
FORM = 1
"""Version of the tables (``user_version``)."""
MEMORY = ":memory:"
"""Path of a store that is kept nowhere."""
PATIENCE_S, FILLING_S = 60.0, 1.0
"""Time for which a writer waits for another, and for another that makes the file."""
EXPECTED = "a store, made by 'accelsim sweep', or the name of a new file"
TABLES = f"""
PRAGMA application_id={OURS}; PRAGMA user_version={FORM};
CREATE TABLE outcome (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, facts TEXT NOT NULL, error TEXT NOT NULL, mechanism TEXT NOT NULL)
    WITHOUT ROWID;
CREATE TABLE totals (base TEXT PRIMARY KEY, key TEXT NOT NULL, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE known (quick TEXT PRIMARY KEY, key TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE study (name TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE member (
    study TEXT NOT NULL, number INTEGER NOT NULL, point TEXT NOT NULL, quick TEXT NOT NULL,
    PRIMARY KEY (study, number)) WITHOUT ROWID;
"""


class Member(NamedTuple):
    """A point of a study, its number, and its outcome; None while it has none."""

    number: int
    point: Point
    outcome: Outcome | None


Call = TypeVar("Call", bound=Callable[..., Any])


def _told(method: Call) -> Call:
    """Turn an error of SQLite in a method of a store into a UsageError that names the file."""

    @wraps(method)
    def call(self: Store, *given: Any, **named: Any) -> Any:
        try:
            return method(self, *given, **named)
        except sqlite3.Error as error:
            expected = "a store that is whole and can be written"
            raise UsageError(f"cannot be used: {error}", str(self._path), expected) from None

    return call  # type: ignore[return-value]


def _make(path: Path) -> None:
    """Make an empty store in one piece where there is no file; another process may do so at the same time."""
    with closing(sqlite3.connect(MEMORY)) as db:
        db.executescript(TABLES)
        content = db.serialize()
    try:
        create(path, content)
    except OSError as error:
        raise UsageError(f"cannot be made: {error.strerror}", str(path), "a folder that can be written") from None
    until_s = monotonic() + FILLING_S
    while not path.stat().st_size and monotonic() < until_s:
        sleep(0.05)


class Store:
    """Outcomes by the hash of all that a run reads, and studies: lists of points with numbers from 0."""

    def __init__(self, path: Path, new: bool = True) -> None:
        """Open the store at ``path``; ``new``: make one where there is none.

        Raises UsageError for a file that is no store, one of another version, or one that cannot be written.
        """
        self._path = path
        if not new and not is_file(path):
            what = "a folder, not a store" if is_folder(path) else "no such file"
            raise UsageError(what, str(path), "a store, which 'accelsim sweep FILE.yaml --out' makes")
        if new and str(path) != MEMORY:
            check_file(path)
            _make(path)
        self._open(new)

    @_told
    def _open(self, write: bool) -> None:
        kept_still = not write and not os.access(self._path.parent, os.W_OK) and not Path(f"{self._path}-wal").exists()
        name = f"{self._path.absolute().as_uri()}?immutable=1" if kept_still else self._path
        self._db = sqlite3.connect(name, timeout=PATIENCE_S, isolation_level=None, uri=kept_still)
        if str(self._path) == MEMORY:
            self._db.executescript(TABLES)
        try:
            ident, form = (
                self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            raise UsageError(f"no store: {error}", str(self._path), EXPECTED) from None
        if ident != OURS:
            size_B = self._path.stat().st_size
            what = "but another program's database" if size_B else "but an empty file"
            raise UsageError(f"no store, {what}", str(self._path), EXPECTED)
        if form != FORM:
            what = f"a store of {'a later' if form > FORM else 'an earlier'} version ({form})"
            raise UsageError(
                what, str(self._path), f"version {FORM}, which this accelsim reads, or the name of a new file"
            )
        until_s = monotonic() + PATIENCE_S
        while write and not self._many_at_once(until_s):
            sleep(0.05)

    def _many_at_once(self, until_s: float) -> bool:
        """Let readers and a writer work at once; False where another process does so just now, for which SQLite does
        not wait."""
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > until_s:
                raise
            return False
        return True

    def close(self) -> None:
        """Close the file; what was kept stays."""
        self._db.close()

    @_told
    def known(self, quick: Iterable[str]) -> set[str]:
        """Return which of these quick keys have an outcome."""
        found: set[str] = set()
        keys = iter(quick)
        while some := list(islice(keys, 500)):
            marks = ",".join("?" * len(some))
            found |= {row[0] for row in self._db.execute(f"SELECT quick FROM known WHERE quick IN ({marks})", some)}
        return found

    @_told
    def results(self, mechanism: str) -> Known:
        """Return the keys of all outcomes of a version of accelsim, and the totals of its runs."""
        keys = self._db.execute("SELECT key FROM outcome WHERE mechanism = ?", (mechanism,))
        totals = self._db.execute(
            "SELECT base, o.facts, content FROM totals JOIN outcome o USING (key) WHERE mechanism = ?", (mechanism,)
        )
        return Known(
            frozenset(row[0] for row in keys), {base: f"[{facts},{content}]" for base, facts, content in totals}
        )

    @_told
    def outcome(self, quick: str) -> Outcome | None:
        """Return the outcome of a quick key; None where there is none."""
        row = self._db.execute(
            "SELECT key, status, facts, error FROM known JOIN outcome USING (key) WHERE quick = ?", (quick,)
        ).fetchone()
        return None if row is None else Outcome(row[0], row[1], json.loads(row[2]), row[3])

    @_told
    def keep(self, quick: str, found: Outcome, mechanism: str) -> None:
        """Keep an outcome from now on; the first one of a key stays."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "INSERT OR IGNORE INTO outcome VALUES (?, ?, ?, ?, ?)",
                (found.key, found.status, json.dumps(found.facts, separators=(",", ":")), found.error, mechanism),
            )
            self._db.execute("INSERT OR IGNORE INTO known VALUES (?, ?)", (quick, found.key))
            if found.base:
                self._db.execute("INSERT OR IGNORE INTO totals VALUES (?, ?, ?)", (found.base, found.key, found.totals))
            self._db.execute("COMMIT")

    @_told
    def begin(self, study: str, content: str, points: Sequence[tuple[Point, str]] = ()) -> None:
        """Write down the points of a study with their quick keys; those of the same name are replaced."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM member WHERE study = ?", (study,))
            self._db.execute("INSERT OR REPLACE INTO study VALUES (?, ?)", (study, content))
            self._add(study, 0, points)
            self._db.execute("COMMIT")

    @_told
    def extend(self, study: str, first: int, points: Sequence[tuple[Point, str]]) -> None:
        """Write down further points of a study, of which ``first`` is the number of the first."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._add(study, first, points)
            self._db.execute("COMMIT")

    def _add(self, study: str, first: int, points: Sequence[tuple[Point, str]]) -> None:
        rows = [(study, number, point.text, quick) for number, (point, quick) in enumerate(points, first)]
        self._db.executemany("INSERT OR REPLACE INTO member VALUES (?, ?, ?, ?)", rows)

    @_told
    def studies(self) -> dict[str, str]:
        """Name -> content of every study, in the order of their names."""
        return dict(self._db.execute("SELECT name, content FROM study ORDER BY name"))

    def members(self, study: str, first: int = 0) -> Iterator[Member]:
        """Yield the points of a study in order from the ``first``, each with its outcome."""
        for number, point, key, status, facts, error in self._members(study, first):
            found = None if key is None else Outcome(key, status, json.loads(facts), error)
            yield Member(number, Point.read(point), found)

    @_told
    def _members(self, study: str, first: int) -> list[tuple[Any, ...]]:
        return self._db.execute(
            "SELECT m.number, m.point, o.key, o.status, o.facts, o.error FROM member m LEFT JOIN known k USING (quick) "
            "LEFT JOIN outcome o USING (key) WHERE m.study = ? AND m.number >= ? ORDER BY m.number",
            (study, first),
        ).fetchall()
