"""Times without events where engines share ports: each transfer has its turn once no other can ask earlier.

Queues are in order, and what a command waits for comes earlier in the program. So the next request of an engine is
known, or it depends on a transfer that no port has accepted yet. Then it comes later than that one ends, and later than
all requests that are known. The earliest of these is decided about, as a ``Port`` decides: one request per clock, of
those that have come the one of lowest rank.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from accelsim.engines.timer import Mover, Row
from accelsim.spec.chip import Chip

Numbered = tuple[int, Row]


class _Ask(NamedTuple):
    """A request: the clock edge of it, the port that is asked, and its rank there."""

    edge: int
    port: int
    rank: tuple[int, str]


class Turns:
    """Takes the ``rows`` of a program. ``movers``: engines that ask ports; ``others``: names of the rest, whose
    commands ``take`` times."""

    def __init__(
        self, chip: Chip, rows: Iterator[Numbered], commands: int, movers: dict[str, Mover],
        others: Sequence[str], take: Callable[[int, Row], None],
    ) -> None:  # fmt: skip
        self._rows, self._movers, self._others, self._take = rows, movers, others, take
        self._heads: dict[str, deque[Numbered]] = {engine: deque() for engine in (*movers, *others)}
        self._done = bytearray(commands)
        self._asked: dict[str, _Ask] = {}
        self._accepting: dict[int, int] = {}  # port -> edge from which on it accepts
        self._first = {  # memory -> whether its loads win against its stores
            name: memory.arbitration == "loads_first" for name, memory in chip.memories.items()
        }

    def play(self) -> bool:
        """Time all commands; False where some wait for ever."""
        while True:
            self._pull()
            self._go_on()
            for engine in self._movers:
                if engine not in self._asked:
                    self._ask(engine)
            if not self._asked:
                return not any(self._heads.values())
            self._serve()

    def _pull(self) -> None:
        """Read the program until the next command of each mover is there."""
        for engine in self._movers:
            while not self._heads[engine] and (row := next(self._rows, None)) is not None:
                self._heads[row[1].command.engine].append(row)

    def _go_on(self) -> None:
        """Time what waits for nothing that is unknown, on engines that ask no port."""
        moved = True
        while moved:
            moved = False
            for engine in self._others:
                heads = self._heads[engine]
                while heads and self._known(heads[0]):
                    number, row = heads.popleft()
                    self._take(number, row)
                    self._done[number] = moved = True

    def _known(self, head: Numbered) -> bool:
        """Whether the times of all that a command waits for are known."""
        (number, row), done = head, self._done
        for tokens in row.tokens:
            for _, at, moves, _ in tokens:
                if not done[number - at if moves else at]:
                    return False
        return True

    def _ask(self, engine: str) -> None:
        heads = self._heads[engine]
        if heads and self._known(heads[0]):
            number, row = heads[0]
            edge, (port, asked) = self._movers[engine].asks(number, row), row.made
            rank = int(asked.write == self._first[row.command.work.memory]), engine  # type: ignore[union-attr]
            self._asked[engine] = _Ask(edge, id(port), rank)

    def _serve(self) -> None:
        """Let the port that decides first accept a request."""
        at, port = min(
            (max(ask.edge, self._accepting.get(ask.port, 0)), ask.port) for ask in self._asked.values()
        )
        _, engine = min(ask.rank for ask in self._asked.values() if ask.port == port and ask.edge <= at)
        number, row = self._heads[engine].popleft()
        self._movers[engine].accept(number, row, self._asked.pop(engine).edge, at)
        self._accepting[port] = at + 1
        self._done[number] = True
