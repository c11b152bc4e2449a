"""Studies that ship: ``accelsim study cost-by-year`` and others, one table of them."""

from __future__ import annotations

from pathlib import Path

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_store, option, progress
from accelsim.cli.study import study
from accelsim.errors import Gather
from accelsim.report.answer import Answer
from accelsim.report.saved import STUDIES, Saved, answer_of

HELP = """

Shows the results that ship, at today's prices. --store runs the study again, --sweep one of your own like it.
"""


def _command(name: str, saved: Saved) -> None:
    @answers(
        f"accelsim study {name} --plot {name}.png",
        f"accelsim study {name} --store studies.db --workers 2 --csv {name}.csv",
        outputs="out csv plot json",
        make=study.command,
        name=name,
        help=saved.asks + HELP,
        short_help=saved.asks,
    )
    @option("--store", "Run what this store lacks, and keep it there.", type=OUT)
    @option("--sweep", "Sweep file to run instead of the one that ships.", type=FILE)
    @option("--workers", "Processes of this machine.", 1, least=1)
    @option("--prices", "Your own prices, before those that ship.", type=FILE)
    def command(gather: Gather, store: Path | None, sweep: Path | None, workers: int, prices: Path | None) -> Answer:
        from accelsim.explore.saved import results
        from accelsim.explore.sweep.study import read_sweep
        from accelsim.spec.yaml.instances import load_providers, offers

        file = store or (sweep or Path(name)).with_suffix(".db")
        if store or sweep:
            check_store(gather, file)
        with gather.also():
            found_prices = offers(load_providers(prices))
        if store is None and sweep is None:
            gather.done()
            return answer_of(name, prices)
        asked = gather.read(lambda: results.sweep_of(name) if sweep is None else read_sweep(sweep))
        results.check(name, asked, saved.needs)
        with progress(1) as stage:

            def told(done: int, every: int) -> None:
                stage(f"{done:,} of {every:,} points", done / max(every, 1))

            found = results.run(name, asked, file, workers, told)
        return saved.report(found, found_prices)


for each, its in STUDIES.items():
    _command(each, its)
