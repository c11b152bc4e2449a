"""``accelsim report``: the explorable page of saved runs, made again, or of several side by side."""

from __future__ import annotations

import os
from pathlib import Path

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_file_target, option
from accelsim.errors import Gather
from accelsim.report.answer import Answer

PAGES = "report.html", "comparison.html"
"""The page of one run, in its folder, and of several, where the command runs."""


@answers(
    "accelsim report reports/cnn-edu-4x4", "accelsim report reports/cnn reports/cnn-8x8 --out cnn.html", outputs=""
)
@click.argument("runs", nargs=-1, required=True, type=FILE, metavar="RUN...")
@option(
    "--out",
    f"The page: FILE.html; default: {PAGES[0]} in the folder of one RUN, {PAGES[1]} here for several.",
    type=OUT,
)
def report(gather: Gather, runs: tuple[Path, ...], out: Path | None) -> Answer:
    """Write the explorable page of each RUN (a directory that 'accelsim run --out' wrote); nothing is simulated.

    One self-contained HTML file that loads nothing from the network. With several runs: totals, energy by category and
    layers side by side with their differences to the first run, and the page of each.
    """
    from accelsim.files import text
    from accelsim.report.page.compared import comparison, labelled
    from accelsim.report.page.document import html
    from accelsim.report.page.saved import read_pages

    target = out or (runs[0] / PAGES[0] if len(runs) == 1 else Path(PAGES[1]))
    with gather.also(last=True):
        check_file_target(target, (".html",))
    entries = gather.read(lambda: read_pages(list(runs)))
    entries = [entry._replace(base=_way(target, run)) for entry, run in zip(entries, runs, strict=True)]
    if len(runs) > 1:
        entries = labelled(entries, runs)
    content = html(entries, *([comparison(entries, runs)] if len(runs) > 1 else []))
    return Answer({}, other_files={target: text(content)})


def _way(page: Path, folder: Path) -> str:
    """The way from a page to the folder of its run, as a link has it; '' where it lies in it."""
    way = os.path.relpath(folder.resolve(), page.resolve().parent)
    return "" if way == os.curdir else Path(way).as_posix()
