"""The page reports/onnx-backend.md: how accelsim does in the backend test suite of ONNX."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COMMAND = "python -m tests.validation.onnx_backend_suite"

SETS = ("node", "simple", "pytorch-converted", "pytorch-operator")
"""The sets of the suite; the real models are the light ones, which have a check of their own."""

VERDICTS = ("own", "host", "unsupported", "excluded", "failed")

_INTRODUCTION = """# ONNX backend test suite

Made by `{command}`, which runs every case again. Do not edit.

The cases are those of `onnx.backend.test` of onnx {version}: each is a model, its inputs and the outputs that ONNX
expects. accelsim imports the model (`tests.validation.onnx_backend`), executes the graph in the formats of its
tensors, and the outputs are compared with the tolerance that the suite sets for the case, in shape and type exactly.

- **own**: kernels of the op registry computed everything.
- **host**: at least one op went through the reference kernels of onnx, as it would go to the CPU beside the chip.
- **unsupported**: the import refuses the model and says why.
- **excluded**: the result differs from the expected one for a reason that is given below.
- **failed**: anything else.

A graph is static after import. Where a shape or a parameter is an input (the target of a Reshape, the k of a TopK), the
import is repeated with the values of those inputs as constants; *specialised* counts the own cases that need it.
*Evaluated* are the own cases of which nothing is left to execute then, or anyway (the shape of an input, say): the
same kernels computed them at import. Ops that ONNX defines by other ops, and control flow that constants decide, are
replaced by their bodies.

"""


@dataclass(frozen=True)
class Result:
    """One case: ``ops`` of its model, and why it is not ``own`` (host ops, the refusal, or what differs).

    ``bound``: some inputs became constants, because a shape or a parameter depends on them. ``evaluated``: nothing was
    left to execute after import.
    """

    suite: str
    name: str
    ops: tuple[str, ...]
    verdict: str
    reason: str = ""
    bound: bool = False
    evaluated: bool = False


def page(found: Sequence[Result]) -> str:
    """The whole page; the same bytes for the same results."""
    import onnx

    parts = [_INTRODUCTION.format(command=COMMAND, version=onnx.__version__), _counts(found)]
    parts += ["\n## Ops\n\n", _own_ops(found), _other_ops(found)]
    parts += ["\n## Unsupported, and why\n\n", _reasons(found, "unsupported")]
    parts += ["\n## Excluded, and why\n\n", _reasons(found, "excluded")]
    failed = _reasons(found, "failed")
    return "".join([*parts, *(["\n## Failed\n\n", failed] if failed else [])])


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    marks = ["---", *["---:"] * (len(headers) - 1)]
    lines = [headers, marks, *([str(cell) for cell in row] for row in rows)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _counts(found: Sequence[Result]) -> str:
    """One row per set, and their sum."""
    groups = {suite: [each for each in found if each.suite == suite] for suite in SETS}
    rows = [_row(f"`{suite}`", cases) for suite, cases in groups.items()]
    headers = ["set", "cases", "own", "of these specialised", "of these evaluated", *VERDICTS[1:]]
    return _table(headers, [*rows, _row("**all**", found)])


def _row(title: str, cases: Sequence[Result]) -> list[object]:
    counts = Counter(each.verdict for each in cases)
    own = [each for each in cases if each.verdict == "own"]
    special, evaluated = sum(each.bound for each in own), sum(each.evaluated for each in own)
    return [title, len(cases), counts["own"], special, evaluated, *(counts[verdict] for verdict in VERDICTS[1:])]


def _by_op(found: Sequence[Result]) -> dict[str, Counter[str]]:
    """Op -> verdicts of the cases that test it: models of one op."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for each in found:
        if len(each.ops) == 1:
            table[each.ops[0]][each.verdict] += 1
    return dict(sorted(table.items()))


def _own_ops(found: Sequence[Result]) -> str:
    own = [op for op, counts in _by_op(found).items() if set(counts) == {"own"}]
    return f"Every case of these {len(own)} ops passes by own kernels: {', '.join(own)}.\n\n"


def _other_ops(found: Sequence[Result]) -> str:
    rest = {op: counts for op, counts in _by_op(found).items() if set(counts) != {"own"}}
    text = f"Of these {len(rest)} ops some cases do not (cases whose model is that op alone):\n\n"
    rows = [[f"`{op}`", *(counts[verdict] for verdict in VERDICTS)] for op, counts in rest.items()]
    return text + _table(["op", *VERDICTS], rows)


def _reasons(found: Sequence[Result], verdict: str) -> str:
    """One line per reason, with the cases."""
    groups: dict[str, list[str]] = defaultdict(list)
    for each in found:
        if each.verdict == verdict:
            groups[each.reason].append(f"`{each.name}`")
    return "".join(f"- {reason}: {', '.join(names)}\n" for reason, names in sorted(groups.items()))
