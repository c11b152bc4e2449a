"""Mappings of the search against those that were recorded: each product alone on the machine, and whole runs.

``python -m tests.helpers.compared [WORD ...]`` takes the recorded cases without values whose names hold all words
(``tests/helpers/unchanged.py``) and tells, for each, the time of the whole run and how many products are slower or faster
by more than 1 %, and which. Time on the critical path shifts between neighbours, so a product is compared by itself:
where things lie when it is reached, on the machine, with the recorded mapping and with the one that the search chooses
there. It is how a change of the score is judged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import accelsim
from accelsim.engines.base import Lowering
from accelsim.engines.systolic.mapping import search as systolic
from accelsim.engines.systolic.mapping.decide import product_program
from accelsim.errors import Infeasible
from accelsim.machine.simulate import simulate
from accelsim.program.mapping import Mapping as MappingOfProduct
from accelsim.workload.ops.base import Gemm
from tests.helpers.unchanged import Case, cases, read

SLOWER, FASTER = 1.01, 1 / 1.01
"""Ratios of times that count."""


class Compared(NamedTuple):
    """A product alone: its node, its time with the recorded mapping and with the chosen one, fs, and both."""

    name: str
    then_fs: int
    now_fs: int
    then: MappingOfProduct
    now: MappingOfProduct

    @property
    def ratio(self) -> float:
        """Above 1 where it is slower now."""
        return self.now_fs / self.then_fs


@dataclass
class Watch:
    """Stands in for the choice of mappings: chooses, compares with ``recorded`` mappings by node, keeps these."""

    recorded: Mapping[str, Mapping[str, Any]]
    found: list[Compared] = field(default_factory=list)
    _choose: Callable[[Lowering, Gemm], Any] = systolic.choose

    def __call__(self, step: Lowering, gemm: Gemm) -> Any:
        """Return what ``choose`` gives for the recorded mapping."""
        pinned = step.pinned
        kept = self._choose(step, gemm)
        if pinned:
            now = self._choose(replace(step, pinned={}), gemm).mapping
            self._compare(step, gemm, kept.mapping, now)
        return kept

    def _compare(self, step: Lowering, gemm: Gemm, then: MappingOfProduct, now: MappingOfProduct) -> None:
        try:
            times = {each: simulate(product_program(step, gemm, each), None, "off").time_fs for each in {then, now}}
        except Infeasible:
            return
        then_fs, now_fs = times[then], times[now]
        self.found.append(Compared(step.node.name, then_fs, now_fs, then, now))


def products(case: Case, recorded: Mapping[str, Any]) -> list[Compared]:
    """Each product of a case."""
    watch, was = Watch(recorded), systolic.choose
    systolic.choose = watch
    try:
        accelsim.run(case.model, case.on, mapping=dict(recorded), **case.options)
    finally:
        systolic.choose = was
    return watch.found


def told(mapping: MappingOfProduct) -> str:
    """A mapping in a few words."""
    tiles = f"{mapping.tg}x{mapping.tm}x{mapping.tn}x{mapping.tk}"
    flags = "".join(
        letter
        for letter, flag in zip("ayk", (mapping.a_resident, mapping.y_resident, mapping.a_whole_k), strict=True)
        if flag
    )
    return f"{mapping.order} {tiles} {flags or '-'} {mapping.a_slots}/{mapping.y_slots} {mapping.split}"


def main(words: Sequence[str]) -> int:
    """Compare; 1 where a whole run or a product alone is slower."""
    runs, mappings = read()
    wanted = [
        case for case in cases() if case.options.get("values") == "off" and all(word in case.name for word in words)
    ]
    slow = faster = same = 0
    for case in wanted:
        if not mappings.get(case.name):
            continue
        now_fs = accelsim.run(case.model, case.on, **case.options).time_fs
        whole = now_fs / runs[case.name]["time_fs"]
        found = products(case, mappings[case.name])
        ratios = [each.ratio for each in found]
        more = [each for each in found if each.ratio > SLOWER]
        less = sum(ratio < FASTER for ratio in ratios)
        print(f"{case.model} on {case.on}: whole run {whole - 1:+.2%}; of {len(found)} products alone "
              f"{len(more)} slower, {less} faster; together "
              f"{sum(each.now_fs for each in found) / max(1, sum(each.then_fs for each in found)) - 1:+.2%}", flush=True)  # fmt: skip
        for each in sorted(more, key=lambda each: -each.ratio):
            print(
                f"    {each.name} {each.then_fs / 1e9:.1f} us {each.ratio - 1:+.2%}: {told(each.then)} -> {told(each.now)}"
            )
        slow += len(more) + (whole > SLOWER)
        faster += less
        same += len(found) - len(more) - less
    print(f"{slow} slower, {faster} faster, {same} within 1 %")
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
