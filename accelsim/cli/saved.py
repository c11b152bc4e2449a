"""Studies that ship: ``accelsim study cost-by-year`` and others, one table of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, option, progress
from accelsim.cli.study import study
from accelsim.errors import Gather
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.explore.saved.results import Result
    from accelsim.spec.yaml.instances import Offer


class Saved(NamedTuple):
    """A study that ships: the module and the function that make its answer, and its question."""

    module: str
    function: str
    asks: str

    @property
    def report(self) -> Callable[[Sequence[Result], Sequence[Offer]], Answer]:
        """Return the function that makes the answer of results and prices."""
        return getattr(import_module(f"accelsim.report.saved.{self.module}"), self.function)  # type: ignore[no-any-return]


STUDIES = {
    "cost-by-year": Saved("years", "cost_by_year", "The cheapest ResNet-50 image on chips of 2014 to 2025."),
    "bus-or-sports-car": Saved("batches", "bus_or_sports_car", "One at a time or many: which chip from which batch."),
    "cpu-or-gpu": Saved("fleets", "cpu_or_gpu", "Up to how many requests a day a CPU alone is cheaper than a GPU."),
    "gpt3-then-and-now": Saved("trainings", "gpt3_then_and_now", "GPT-3 on 240 p4d, then and now, and on others."),
}
"""Name -> study; its points are in ``accelsim/explore/saved``."""


def answer_of(name: str, prices: Path | None = None) -> Answer:
    """Return the answer of a study from the results that ship; ``prices``: the user's own, before those that ship."""
    from accelsim.explore.saved import results
    from accelsim.spec.yaml.instances import load_providers, offers

    return STUDIES[name].report(results.kept(name), offers(load_providers(prices)))


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

        with gather.also():
            found_prices = offers(load_providers(prices))
        gather.done()
        if store is None and sweep is None:
            return answer_of(name, prices)
        asked = results.sweep_of(name) if sweep is None else read_sweep(sweep)
        with progress(1) as stage:

            def told(done: int, every: int) -> None:
                stage(f"{done:,} of {every:,} points", done / max(every, 1))

            file = store or (sweep or Path(name)).with_suffix(".db")
            found = results.run(name, asked, file, workers, told)
        return saved.report(found, found_prices)


for each, its in STUDIES.items():
    _command(each, its)
