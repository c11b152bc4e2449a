"""What ``accelsim validate`` does in a checkout: run checks, list them, print, save and draw their outcomes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

import click

from accelsim.cli.common import (
    check_file_target,
    check_outputs,
    progress,
    save_csv,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError, nearest
from tests import validation as package
from tests.validation.base import CHECKS, Check
from tests.validation.measured import FILES, VARIABLE, missing

TABLE = "rtl-machine"
"""The check that also takes rows from a file."""


class About(NamedTuple):
    """What a check compares, and how long it takes of one core, both in words."""

    what: str
    takes: str


AT_ONCE, SHORT, LONG = "at once", "up to a minute", "minutes"
"""Less than 2 s of CPU time, up to 60 s, more; of the whole command, on one core."""
MEASURED = {
    "collectives": 5.2, "serving": 7.3,
    "dram-dramsim3": 28.8, "dram-energy": 1.0, "dram-ramulator2": 21.9, "dram-ranks": 34.1, "eyeriss-hierarchy": 33.5,
    "light-models": 99.1, "neuroncore-v2": 42.7, "noc-load": 5.1, "noc-zero-load": 1.0, "onnx-backend": 13.2,
    "onnxruntime": 17.8, "pcie": 1.0, "row-stationary": 2.4, "rtl-machine": 2.9, "scalesim": 1.1, "sram-fit": 1.2,
    "systolic": 161.2, "tensor-cores": 6.0, "tpu-v1": 6.0,
}  # fmt: skip
"""Checks that were timed (once, on a server that did other work too): seconds of CPU time. What is said of a check
that is not among them is an estimate."""


ABOUT = {
    "collectives": About("all-reduce and messages of communication libraries against measured times", SHORT),
    "dram-dramsim3": About("traces on the bank and the pattern model against DRAMsim3", SHORT),
    "dram-energy": About("energies of DRAM commands and standby against DRAMsim3, from its own counts", AT_ONCE),
    "dram-ramulator2": About("traces on the bank and the pattern model against Ramulator 2.1", SHORT),
    "dram-ranks": About("random mixes of reads and writes on one and two ranks against the rules of DRAMsim3", SHORT),
    "eyeriss-hierarchy": About("AlexNet with the relative energies of Eyeriss (ISCA 2016)", SHORT),
    "gpu-attention": About("attention in one kernel on an H100 against measured times", AT_ONCE),
    "gpu-conv": About("convolutions on GPUs against measured times, rows left out of the fit", SHORT),
    "gpu-gemm": About("matrix products on GPUs against measured times, rows left out of the fit", LONG),
    "gpu-models": About("whole networks on GPUs against measured times", LONG),
    "gpu-own": About("kernels of an H200 and an H100 that were measured for this project", AT_ONCE),
    "gpu-own-models": About("networks on an H200 and an H100 that were measured for this project, and joules", SHORT),
    "gpu-power": About("joules of GPUs against the wall power of their servers (MLPerf)", SHORT),
    "gpu-streams": About("kernels side by side on an H200 and an H100 that were measured for this project", SHORT),
    "gpu-vector": About("functions on GPUs against measured times, rows left out of the fit", SHORT),
    "light-models": About("every tensor of simulated runs of small real models against ONNX Runtime", LONG),
    "neuroncore-v2": About("initiation intervals and peak rates against the rules that AWS publishes", SHORT),
    "noc-load": About("latency of loaded networks on a chip against BookSim 2", SHORT),
    "noc-zero-load": About("latency and bounds of empty networks on a chip against BookSim 2", AT_ONCE),
    "onnx-backend": About("every case of the backend test suite of ONNX that is not refused", SHORT),
    "onnxruntime": About("every tensor of the listed models against ONNX Runtime", SHORT),
    "pcie": About("packets and rates of PCIe against the public pcie-model", AT_ONCE),
    "row-stationary": About("AlexNet on the simulated Eyeriss against the table of JSSC 2017", SHORT),
    "rtl-machine": About("the whole machine against RTL, counter by counter", SHORT),
    "scalesim": About("cycles, utilisation, SRAM words against SCALE-Sim 2.0.2 and 3.0.0", AT_ONCE),
    "serving": About("layers of language models on several GPUs against measured times", SHORT),
    "sram-fit": About("energy, time and area of SRAM against the CACTI runs that they were fitted to", AT_ONCE),
    "systolic": About("closed forms of the array against the register-level model on random products", LONG),
    "tensor-cores": About("dot products of GPUs against outputs of the hardware, bit by bit", SHORT),
    "training": About("training steps on clusters of A100 against measured times", LONG),
    "tpu-v1": About("TPU v1 against Table 3 and the roofline of Jouppi et al. (ISCA 2017)", SHORT),
}  # fmt: skip
"""Name of a check -> what the list says of it; see ``AT_ONCE`` and so on."""

SMALL = 5e-4
"""Relative errors below this are written as powers of ten."""


def validate(
    names: tuple[str, ...],
    rows: Path | None,
    table: Path | None,
    data: Path | None,
    pictures: Path | None,
    details: bool,
    only_list: bool,
    as_json: bool,
) -> bool:
    """Run the checks ``names`` (all when empty) with the options of the command; return whether all of them pass.

    Raises UsageError for unknown checks and for folders of measurements that lack files.
    """
    if data is not None:
        _measured(data)
    if rows is not None:
        outcomes = _rows(names, rows, table)
    else:
        check_outputs(None, table)
        checks = all_checks()
        unknown = [name for name in names if name not in checks]
        if unknown:
            expected = "one of " + ", ".join(checks)
            raise UsageError(
                Problem(f"no check {name!r}", "", expected, nearest(name, checks)) for name in unknown
            )
        if only_list:
            _list(checks, table, as_json)
            return True
        outcomes = _run(names or tuple(checks), checks)
        save_csv(
            table,
            [{key: value for key, value in _facts(each).items() if key != "details"} for each in outcomes],
        )
    _print(outcomes, details, as_json)
    if pictures is not None:
        _pictures(outcomes, pictures)
    return all(outcome.equal == outcome.rows for outcome in outcomes)


def _measured(data: Path) -> None:
    """The folder of measured rows, for this command. Raises UsageError for what is none."""
    if not data.is_dir():
        raise UsageError(Problem("no such folder", f"--data {data}", "a folder with " + ", ".join(FILES)))
    lacking = missing(data)
    if lacking:
        raise UsageError(
            Problem(f"not there: {', '.join(lacking)}", f"--data {data}", "the folder of measured rows")
        )
    os.environ[VARIABLE] = str(data)


def _pictures(outcomes: Sequence[Check], folder: Path) -> None:
    """A picture of each check that compares times, in a folder that is made if need be."""
    from accelsim import files
    from accelsim.report.style import picture
    from tests.validation.kernel_plot import against_measured

    makers = {
        f"{outcome.name}.png": picture(
            against_measured(f"{outcome.name}: {outcome.what}", outcome.compared), ".png"
        )
        for outcome in outcomes
        if outcome.compared
    }
    for path in files.write_folder(folder, makers) if makers else ():
        click.echo(f"picture: {path}", err=True)


def verdict(outcome: Check) -> str:
    """'passes', 'fails', or 'skipped' where there was nothing to compare with."""
    if not outcome.rows:
        return "skipped"
    return "passes" if outcome.equal == outcome.rows else "fails"


def all_checks() -> dict[str, Any]:
    """Every check, found by importing the modules of the package."""
    for module in sorted(module.name for module in iter_modules(package.__path__)):
        import_module(f"{package.__name__}.{module}")
    return dict(sorted(CHECKS.items()))


def _list(checks: dict[str, Any], table: Path | None, as_json: bool) -> None:
    """What each check compares and how long it takes."""
    rows = [
        {"name": name, "what": ABOUT[name].what, "takes": ABOUT[name].takes, "measured_s": MEASURED.get(name)}
        for name in checks
    ]
    save_csv(table, rows)
    if as_json:
        show_json(rows)
        return
    formatter = click.HelpFormatter(width=width())
    formatter.write_dl([(name, f"{ABOUT[name].what} ({_time(name)})") for name in checks])
    click.echo(formatter.getvalue(), nl=False)


def _time(name: str) -> str:
    """How long a check takes of one core, and whether that was measured."""
    return ABOUT[name].takes + ("" if name in MEASURED else ", an estimate")


def _run(names: Sequence[str], checks: dict[str, Any]) -> list[Check]:
    outcomes = []
    with progress(len(names)) as stage:
        for name in dict.fromkeys(names):
            stage(name, 0.0)
            outcomes.append(checks[name]())
    return outcomes


def _rows(names: tuple[str, ...], rows: Path | None, table: Path | None) -> list[Check]:
    """The rows of a file through the machine, written to another."""
    if names != (TABLE,) or rows is None or table is None:
        raise UsageError(
            Problem("--rows FILE and --csv RESULTS", expected=f"both, and the one check {TABLE}")
        )
    from tests.validation import rtl_table

    check_file_target(table)
    lines = rtl_table.read(rows)
    with progress(len(lines)) as stage:
        found = rtl_table.simulate_lines(lines, lambda: stage(TABLE, 0.0))
    rtl_table.write(table, lines, found)
    outcome = rtl_table.compare(lines, found)
    click.echo(f"{len(lines):,} rows: {table}", err=True)
    return [outcome] if outcome is not None else []


def _print(outcomes: Sequence[Check], details: bool, as_json: bool) -> None:
    if as_json:
        show_json([_facts(outcome) for outcome in outcomes])
        return
    from accelsim.report.table import text_table

    if outcomes:
        headers = ["check", "rows", "agree", "bound", "verdict", "median error", "90th percentile", "largest"]
        rows = [
            (each.name, f"{each.rows:,}", f"{each.equal:,}", each.bound, verdict(each),
             *(_error(value) if each.errors.size else "-" for value in (each.median, each.p90, each.max)))
            for each in outcomes
        ]  # fmt: skip
        show(text_table(headers, rows, width()))
    for each in outcomes:
        if details or each.equal < each.rows:
            click.echo(f"\n{each.name}: {each.what}")
            for line in each.details:
                click.echo(click.wrap_text(line, width(), "  ", "    "))


def _error(value: float) -> str:
    """A relative error: in percent, or as a power of ten where that would have too many zeros."""
    return f"{100 * value:.1f}%" if value >= SMALL or not value else f"{value:.1e}"


def _facts(outcome: Check) -> dict[str, Any]:
    return {
        "name": outcome.name, "what": outcome.what, "rows": outcome.rows, "equal": outcome.equal,
        "bound": outcome.bound, "unclaimed": outcome.unclaimed,
        "passes": outcome.equal == outcome.rows, "median_error": outcome.median, "p90_error": outcome.p90,
        "largest_error": outcome.max, "details": outcome.details,
    }  # fmt: skip
