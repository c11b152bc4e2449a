"""``accelsim rerun``: repeat a saved run and say whether anything came out differently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_report_target, option, png_option, progress
from accelsim.errors import Gather
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.request import Request


@answers("accelsim rerun reports/cnn-edu-4x4", outputs="json", helps={"json": "Print the outcome as JSON."})
@click.argument("report", type=FILE, metavar="DIR")
@option("--out", "Directory for the report of the new run.", type=OUT)
@png_option
def rerun(gather: Gather, report: Path, out: Path | None) -> Answer:
    """Repeat the run whose report is in DIR, with the same options, and compare every figure of its summary.

    Changes of the chip are simulated again where the report has them. Exit code 1 when a figure differs. Says what has
    changed since: chip, model, files, versions.
    """
    from accelsim.explore.what_ifs import what_ifs
    from accelsim.report.repeated import repeated
    from accelsim.report.write import facts_of, report_files
    from accelsim.request.job import execute, prepare

    gather.check(out, check_report_target, last=True)
    before, request = gather.read(lambda: _saved(report))
    advised = before.get("what_ifs") is not None
    with progress(2 + advised) as stage:
        run = execute(prepare(request), progress=stage)
        changes = what_ifs(run, lambda share: stage("what if", share)) if advised else None
    now: dict[str, object] = json.loads(json.dumps(facts_of(run, changes)))
    return repeated(before, now, run.asked, {out: report_files(run, changes)} if out is not None else {})


def _saved(report: Path) -> tuple[dict[str, Any], Request]:
    """The summary of a report, and the request that it records."""
    from accelsim.report.compare import NAMES, load_summaries
    from accelsim.request import repeated

    before = {key: value for key, value in load_summaries([report])[0].items() if key not in NAMES}
    return before, repeated(before.get("run", {}), str(report / "summary.json"))
