"""The store: outcomes of points in one SQLite file, each kept as it comes. Several processes may write at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from accelsim.errors import UsageError
from accelsim.explore.sweep.point import Known, Outcome, Point

OURS = 0x41434350
"""Number by which SQLite files are known as ours (``application_id``)."""
FORM = 1
"""Version of the tables (``user_version``)."""
PATIENCE_S = 60.0
"""Time for which a writer waits for another."""
TABLES = """
CREATE TABLE IF NOT EXISTS outcome (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, facts TEXT NOT NULL, error TEXT NOT NULL, mechanism TEXT NOT NULL)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (base TEXT PRIMARY KEY, key TEXT NOT NULL, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS known (quick TEXT PRIMARY KEY, key TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS study (name TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS member (
    study TEXT NOT NULL, number INTEGER NOT NULL, point TEXT NOT NULL, quick TEXT NOT NULL,
    PRIMARY KEY (study, number)) WITHOUT ROWID;
"""


class Member(NamedTuple):
    """A point of a study, its number, and its outcome; None while it has none."""

    number: int
    point: Point
    outcome: Outcome | None


class Store:
    """Outcomes by the hash of all that a run reads, and studies: lists of points with numbers from 0."""

    def __init__(self, path: Path, new: bool = True) -> None:
        """Open the store at ``path``; ``new``: make one where there is none.

        Raises UsageError for a file that is no store, or one of a later version.
        """
        if not new and not path.is_file():
            what = "a folder, not a store" if path.is_dir() else "no such file"
            raise UsageError(what, str(path), "a store, which 'accelsim sweep FILE.yaml --out' makes")
        if path.is_dir() or not path.parent.is_dir():
            what = "is a folder" if path.is_dir() else f"no folder {str(path.parent)!r}"
            raise UsageError(what, str(path), "a file in a folder that exists")
        self._path = path
        try:
            self._open(path)
        except sqlite3.DatabaseError as error:
            raise UsageError(f"no store: {error}", str(path), "a store, made by 'accelsim sweep'") from None

    def _open(self, path: Path) -> None:
        empty = not path.exists() or not path.stat().st_size
        self._db = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
        ident, form = (self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if (not empty and ident not in (0, OURS)) or (not empty and ident == 0 and self._has_tables()):
            raise UsageError("no store, but another program's database", str(path), "a store, made by 'accelsim sweep'")
        if form > FORM:
            raise UsageError(
                f"a store of a later version ({form})", str(path), f"version {FORM}, which this accelsim reads"
            )
        until_s = monotonic() + PATIENCE_S
        while not self._prepared(until_s):
            sleep(0.05)

    def _prepared(self, until_s: float) -> bool:
        """Make the tables, and let readers and a writer work at once; False where another process does so just now, for
        which SQLite does not wait."""
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(f"PRAGMA application_id={OURS}; PRAGMA user_version={FORM};{TABLES}")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > until_s:
                raise
            return False
        return True

    def _has_tables(self) -> bool:
        return bool(self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def close(self) -> None:
        """Close the file; what was kept stays."""
        self._db.close()

    def known(self, quick: Iterable[str]) -> set[str]:
        """Return which of these quick keys have an outcome."""
        found: set[str] = set()
        keys = iter(quick)
        while some := list(islice(keys, 500)):
            marks = ",".join("?" * len(some))
            found |= {row[0] for row in self._db.execute(f"SELECT quick FROM known WHERE quick IN ({marks})", some)}
        return found

    def results(self, mechanism: str) -> Known:
        """Return the keys of all outcomes of a version of accelsim, and the totals of its runs."""
        keys = self._db.execute("SELECT key FROM outcome WHERE mechanism = ?", (mechanism,))
        totals = self._db.execute(
            "SELECT base, o.facts, content FROM totals JOIN outcome o USING (key) WHERE mechanism = ?", (mechanism,)
        )
        return Known(
            frozenset(row[0] for row in keys), {base: f"[{facts},{content}]" for base, facts, content in totals}
        )

    def outcome(self, quick: str) -> Outcome | None:
        """Return the outcome of a quick key; None where there is none."""
        row = self._db.execute(
            "SELECT key, status, facts, error FROM known JOIN outcome USING (key) WHERE quick = ?", (quick,)
        ).fetchone()
        return None if row is None else Outcome(row[0], row[1], json.loads(row[2]), row[3])

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

    def begin(self, study: str, content: str, points: Sequence[tuple[Point, str]] = ()) -> None:
        """Write down the points of a study with their quick keys; those of the same name are replaced."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM member WHERE study = ?", (study,))
            self._db.execute("INSERT OR REPLACE INTO study VALUES (?, ?)", (study, content))
            self._add(study, 0, points)
            self._db.execute("COMMIT")

    def extend(self, study: str, first: int, points: Sequence[tuple[Point, str]]) -> None:
        """Write down further points of a study, of which ``first`` is the number of the first."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._add(study, first, points)
            self._db.execute("COMMIT")

    def _add(self, study: str, first: int, points: Sequence[tuple[Point, str]]) -> None:
        rows = [(study, number, point.text, quick) for number, (point, quick) in enumerate(points, first)]
        self._db.executemany("INSERT OR REPLACE INTO member VALUES (?, ?, ?, ?)", rows)

    def studies(self) -> dict[str, str]:
        """Name -> content of every study, in the order of their names."""
        return dict(self._db.execute("SELECT name, content FROM study ORDER BY name"))

    def members(self, study: str, first: int = 0) -> Iterator[Member]:
        """Yield the points of a study in order from the ``first``, each with its outcome."""
        rows = self._db.execute(
            "SELECT m.number, m.point, o.key, o.status, o.facts, o.error FROM member m LEFT JOIN known k USING (quick) "
            "LEFT JOIN outcome o USING (key) WHERE m.study = ? AND m.number >= ? ORDER BY m.number",
            (study, first),
        )
        for number, point, key, status, facts, error in rows:
            found = None if key is None else Outcome(key, status, json.loads(facts), error)
            yield Member(number, Point.read(point), found)
