"""Answers of saved studies: a table, sentences and a picture each, from results and prices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from accelsim.explore.saved.results import Result
    from accelsim.report.answer import Answer
    from accelsim.spec.yaml.instances import Offer


class Saved(NamedTuple):
    """A study that ships: the module and the function that make its answer, its question, and options or axes that its
    sweep ``needs``."""

    module: str
    function: str
    asks: str
    needs: tuple[str, ...] = ()

    @property
    def report(self) -> Callable[[Sequence[Result], Sequence[Offer]], Answer]:
        """Return the function that makes the answer of results and prices."""
        return getattr(import_module(f"accelsim.report.saved.{self.module}"), self.function)  # type: ignore[no-any-return]


STUDIES = {
    "cost-by-year": Saved("years", "cost_by_year", "The cheapest ResNet-50 image on chips of 2014 to 2025."),
    "bus-or-sports-car": Saved("batches", "bus_or_sports_car", "One at a time or many: which chip from which batch."),
    "cpu-or-gpu": Saved("fleets", "cpu_or_gpu", "Up to how many requests a day a CPU alone is cheaper than a GPU."),
    "gpt3-then-and-now": Saved(
        "trainings", "gpt3_then_and_now", "GPT-3 on 240 p4d, then and now, and on others.", ("train", "tokens", "plan")
    ),
}
"""Name -> study; its points are in ``accelsim/explore/saved``."""


def answer_of(name: str, prices: Path | None = None) -> Answer:
    """Return the answer of a study from the results that ship; ``prices``: the user's own, before those that ship."""
    from accelsim.explore.saved import results
    from accelsim.spec.yaml.instances import load_providers, offers

    return STUDIES[name].report(results.kept(name), offers(load_providers(prices)))
