"""``accelsim prices``: what instances cost, at whom, and since when."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, option
from accelsim.errors import Gather
from accelsim.report.answer import Answer
from accelsim.spec.instance import Term


@answers(
    "accelsim prices",
    "accelsim prices --chip h100-sxm --plot h100.png",
    "accelsim prices --provider aws --history --csv aws.csv",
    outputs="csv plot json",
)
@option("--chip chips", "Instances with this accelerator only. Repeatable.", multiple=True, metavar="NAME")
@option("--provider providers", "Instances of this provider only. Repeatable.", multiple=True, metavar="NAME")
@option("--term terms", "Prices of this term only. Repeatable.", multiple=True, type=click.Choice(get_args(Term)))
@option("--region regions", "Prices of this region only. Repeatable.", multiple=True, metavar="NAME")
@option("--history", "Earlier prices too, not only the newest.", is_flag=True)
@option("--prices own", "Your own prices, which stand before those that ship (see docs/prices.md).", type=FILE)
def prices(
    gather: Gather,
    chips: tuple[str, ...],
    providers: tuple[str, ...],
    terms: tuple[str, ...],
    regions: tuple[str, ...],
    history: bool,
    own: Path | None,
) -> Answer:
    """List what an hour of an instance costs: by accelerator, or one by one where you ask for some.

    Each price has its day, region, term and source. What has no price is said; nothing is guessed.
    """
    from accelsim.report import prices as report
    from accelsim.spec.yaml.instances import chosen, latest, load_providers, offers

    everything = gather.read(lambda: offers(load_providers(own)))
    found = gather.read(lambda: chosen(everything, chips, providers, terms, regions))
    gather.done()
    return report.prices(found if history else latest(found), everything, bool(chips or providers or terms or regions))
