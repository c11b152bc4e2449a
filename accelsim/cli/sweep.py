"""``accelsim sweep``: many runs into a store, and what they say together."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_store, flag, option, progress
from accelsim.errors import Gather
from accelsim.report.answer import Answer


def _split(context: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@answers(
    "accelsim sweep sweep.yaml --out study.db --workers 2",
    "accelsim sweep study.db --pareto latency,energy,area --plot front.png --csv points.csv",
    "accelsim sweep study.db --page study.html",
    outputs="csv plot page json",
)
@click.argument("file", type=FILE)
@option("--out", "Store of the results; with a sweep file: FILE with '.db' instead of '.yaml'.", type=OUT)
@option("--workers", "Processes of this machine.", 1, least=1)
@option("--dask", "Address of a Dask scheduler whose workers run the points.", "", metavar="tcp://HOST:PORT")
@flag("--yes", "Run even a very large sweep.")
@option("--study", "Which study of a store that holds several.", "", metavar="NAME")
@option("--pareto", "Objectives of the front; default: those of the sweep.", "", callback=_split, metavar="NAME,...")
@option("--limit limits", "Keep points within this only. Repeatable.", multiple=True, metavar="NAME=VALUE,...")
@option("--prices", "Your own prices, before those that ship.", type=FILE)
@flag("--sensitivity", "Show what each axis changes.")
def sweep(
    gather: Gather, file: Path, out: Path | None, workers: int, dask: str, yes: bool, study: str,
    pareto: tuple[str, ...], limits: tuple[str, ...], prices: Path | None, sensitivity: bool,
) -> Answer:  # fmt: skip
    """Run the points of a sweep (FILE.yaml), or read what a store (FILE.db) holds: front, knee, effects.

    Each result is kept as it comes: a sweep that was stopped goes on where it was, and no point is run twice.
    """
    from accelsim.explore.sweep.fronts import UNITS
    from accelsim.explore.sweep.pricing import pricing
    from accelsim.explore.sweep.store import Store
    from accelsim.explore.sweep.study import check_objectives, check_size, read_study, read_sweep, run_sweep
    from accelsim.limits import read_limits
    from accelsim.report import sweep as report

    kept, reads = {}, file.suffix not in (".yaml", ".yml")
    for what, given in (("--out", out), ("--dask", dask), ("--yes", yes)):
        gather.refuse(reads and given, f"{what} with a store", str(file), "a sweep file, which ends in .yaml")
    gather.refuse(study and not reads, "--study with a sweep file", str(file), "a store")
    with gather.also():
        check_objectives(pareto, "--pareto")
    with gather.also():
        kept = read_limits(limits, UNITS)
    gather.check(prices, pricing)
    if reads:
        with closing(gather.read(lambda: Store(file, new=False))) as store:
            return report.sweep(read_study(store, study, pareto, kept, prices), 0, sensitivity)
    place, name = out or file.with_suffix(".db"), file.stem
    check_store(gather, place)
    missing = dask and not find_spec("distributed")
    gather.refuse(missing, "Dask is not installed", "--dask", "'pip install accelsim[dask]'")
    asked = gather.read(lambda: read_sweep(file))
    check_size(asked, str(file), workers, yes)
    with closing(Store(place)) as store, progress(1) as stage:

        def told(done: int, every: int) -> None:
            stage(f"{done:,} of {every:,} points", done / max(every, 1))

        ran = run_sweep(asked, store, name, workers, dask, told, prices)
        return report.sweep(read_study(store, name, pareto, kept, prices), ran, sensitivity)
