"""Write reports/accuracy.md and reports/light-models.md: ``python -m tests.validation.report [FOLDER [CHECK...]]``.

Every number in them is computed by the checks of this package; the texts only say what it means. All checks together
take a quarter of an hour; with names of checks only theirs run, and the rest of the page stays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from accelsim.account.energy import energy_table, total_J
from accelsim.errors import known
from accelsim.files import text, write_folder
from accelsim.machine.run import Run
from accelsim.program.roles import units
from accelsim.report.text import percent, si
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.onnx.reference import reference_outputs
from accelsim.workload.sources.load import load_model
from tests import validation
from tests.validation.anchors import run_shapes
from tests.validation.base import CHECKS, Check
from tests.validation.claims import broken
from tests.validation.light_models import Outcome, outcomes, summed
from tests.validation.report_texts import INTRODUCTION, LIGHT, MEANING, NOT_VALIDATED, SPREAD

COMMAND = "python -m tests.validation.report"
ACCURACY, LIGHT_MODELS = "accuracy.md", "light-models"
ENERGY_TABLES = ("energy/horowitz-45nm", "energy/scaled-28nm", "energy/jouppi-7nm")
SPREAD_MODEL, SPREAD_CHIP = "resnet50", "systolic-generic"


def main(arguments: Sequence[str]) -> int:
    """Write both reports into the named folder, else into ``reports``; the exit code is 1 when a check fails.

    With names of checks behind the folder these run, and the pages there keep what the others said. Raises UsageError
    for a check that is not known.
    """
    folder, names = Path(arguments[0] if arguments else "reports"), arguments[1:]
    valid = check_names()
    chosen = sorted({known("check", name, valid) for name in names}) or valid
    pages, found = {}, outcomes(each=_say) if LIGHT_MODELS in chosen else []
    checks = [summed(found) if name == LIGHT_MODELS else _run(name) for name in chosen]
    if found:
        pages["light-models.md"] = light_models_page(found)
    kept = (folder / ACCURACY).read_text(encoding="utf-8") if names else ""
    pages[ACCURACY] = accuracy_page(checks, kept)
    write_folder(folder, {name: text(content) for name, content in pages.items()})
    return int(any(broken(each) for each in checks))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run(name: str) -> Check:
    _say(name)
    return CHECKS[name]()


def check_names() -> list[str]:
    """Every check of the package, by importing its modules."""
    for module in sorted(module.name for module in iter_modules(validation.__path__)):
        import_module(f"{validation.__name__}.{module}")
    return sorted(CHECKS)


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table; the first ``left`` columns are text, the others numbers."""
    marks = ["---" if index < left else "---:" for index in range(len(headers))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headers, marks, *rows)) + "\n"


def _head(title: str) -> str:
    return f"# {title}\n\nMade by `{COMMAND}`, which computes every number again. Do not edit.\n\n"


def accuracy_page(checks: Sequence[Check], kept: str = "") -> str:
    """The page over all checks: one table, what each number means, every compared figure, what is not validated.

    ``kept``: a page whose rows and sections stand for the checks that are not among these.
    """
    headers = ["check", "rows", "agree", "bound", "median error", "90th percentile", "largest"]
    rows, sections = _rows(kept), _sections(kept)
    rows |= {each.name: _row(each) for each in checks}
    sections |= {each.name: _section(each) for each in checks}
    parts = [_head("Accuracy"), markdown(headers, [rows[name] for name in sorted(rows)]), "\n", INTRODUCTION]
    parts += [f"\n{sections[name]}" for name in sorted(rows)]
    parts.append("\n## What is not validated\n\n")
    parts += [f"- {text}\n" for text in NOT_VALIDATED]
    parts += ["\n", _spread()]
    return "".join(parts)


def _row(each: Check) -> list[str]:
    return [f"`{each.name}`", f"{each.rows:,}", f"{each.equal:,}", each.bound, *_errors(each)]


def _section(each: Check) -> str:
    details = "".join(_detail(line) for line in each.details)
    return f"## {each.name}: {each.what}\n\n{MEANING.get(each.name, '')}\n\n{details}"


def _detail(line: str) -> str:
    """A line of a table as it is, another one as a point of a list."""
    return f"{line}\n" if line.startswith("|") else f"- {line}\n"


def _rows(page: str) -> dict[str, list[str]]:
    """Check -> cells of its row in a page."""
    lines = [line for line in page.splitlines() if line.startswith("| `") and line.split("`")[1] in CHECKS]
    return {line.split("`")[1]: [cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines}


def _sections(page: str) -> dict[str, str]:
    """Check -> its section in a page."""
    found = {part.split(":")[0]: f"## {part}" for part in page.split("\n## ")[1:]}
    return {name: part for name, part in found.items() if name in CHECKS}


def _errors(each: Check) -> list[str]:
    return [_error(value) if each.errors.size else "-" for value in (each.median, each.p90, each.max)]


def _error(value: float) -> str:
    if not value:
        return "0"
    return percent(value) if value >= 1e-3 else f"{value:.1e}"


@cache
def _spread() -> str:
    return energy_spread(run_shapes(load_model(SPREAD_MODEL), load_chip(SPREAD_CHIP)))


def energy_spread(run: Run) -> str:
    """Return what the energy tables say about one and the same ledger."""
    joules = {}
    for name in ENERGY_TABLES:
        table = load_chip(SPREAD_CHIP, [f"energy={name}"]).energy
        other = replace(run, chip=run.chip.model_copy(update={"energy": table}))
        joules[name] = _dynamic_on_chip(other)
    least = min(joules.values())
    rows = [[f"`{name}`", si(value, "J"), f"{value / least:.1f}"] for name, value in joules.items()]
    text = SPREAD.format(model=SPREAD_MODEL, chip=SPREAD_CHIP, dtype=run.program.dtype)
    return text + markdown(["table", "on-chip energy", "times the smallest"], rows)


def _dynamic_on_chip(run: Run) -> float:
    on_chip = {*units(run.chip), *run.chip.buffers}
    return total_J(row for row in energy_table(run) if row.component in on_chip)


def light_models_page(found: Sequence[Outcome]) -> str:
    """The table over the light models."""
    headers = ["model", "chip", "format", "latency", "energy per inference", "off-chip read", "written", "tensors",
               "within bound", "bit-equal", "worst error, exact", "fast", "SQNR of the output"]  # fmt: skip
    return _head("Light models") + LIGHT.format(by=_reference()) + markdown(headers, map(_light_row, found), left=3)


def _reference() -> str:
    graph = load_model("gemm", params={"M": 1, "N": 1, "K": 1})
    return reference_outputs(graph, {"a": graph.tensors["b"].value()}).by


def _light_row(each: Outcome) -> list[str]:
    bits, sqnr = ("", "") if each.sqnr_dB is None else (str(each.equal), f"{each.sqnr_dB:.1f} dB")
    return [
        each.model, each.target.chip, each.target.dtype, si(each.latency_s, "s"), si(each.energy_J, "J"),
        si(each.read_B, "B"), si(each.written_B, "B"), str(each.tensors), str(each.within), bits,
        _error(each.exact), _error(each.fast), sqnr,
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
