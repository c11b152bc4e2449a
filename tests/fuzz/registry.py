"""The fuzzers. One row each; the small draw of the tests and ``make fuzz`` find them here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

GIB = 1 << 30


@dataclass(frozen=True)
class Fuzzer:
    """``module`` of this package has ``case(seed: int) -> None``, which succeeds or raises an ``AccelsimError``.

    ``few`` and ``many``: how many seeds the tests and ``make fuzz`` draw. A case may take ``limit_s`` seconds and
    ``limit_B`` bytes of address space (of the whole process, about 1 GiB of which are there before the first case).
    """

    module: str
    about: str
    few: int
    many: int
    limit_s: int = 20
    limit_B: int = 4 * GIB

    def case(self) -> Callable[[int], None]:
        """The function of a seed."""
        function: Callable[[int], None] = import_module(f".{self.module}", __package__).case
        return function

    def ready(self) -> Callable[[int], None]:
        """The same, after the module's own ``ready()``, if it has one: what takes longer than a case may."""
        getattr(import_module(f".{self.module}", __package__), "ready", lambda: None)()
        return self.case()


FUZZERS: dict[str, Fuzzer] = {
    "models": Fuzzer("models", "mutated ONNX models, through import, compilation and simulation", 30, 10_000, 120),
    "nodes": Fuzzer("nodes", "mutated models of the test suite of ONNX (1,884 of one node each)", 0, 10_000, 120),
    "command_lines": Fuzzer(
        "command_lines", "command lines, valid and hostile, with files of all kinds", 30, 10_000, 60
    ),
    "specs": Fuzzer("specs", "mutated spec files of every kind, shown, read back and run", 30, 20_000, 60),
    "graphs": Fuzzer("graphs", "random graphs with all options of a run: values, laws, reports", 8, 2_000, limit_s=120),
    "saved": Fuzzer("saved", "saved runs with edited files, repeated and compared", 10, 2_000, 60),
    "bad_cases": Fuzzer("bad_cases", "cases of known fate, for the test of the harness", 0, 0, limit_s=1, limit_B=GIB),
}
"""Name -> fuzzer."""
