"""``accelsim rent-or-buy``: owned machines against rented ones, for some work at some load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, Number, flag, option, progress, set_option, whole_list
from accelsim.errors import Gather
from accelsim.report.answer import Answer

TERMS = ("on-demand", "spot", "reserved-1y", "reserved-3y")


@answers(
    "accelsim rent-or-buy llama2-7b --on dgx-h100 --load 0.6 --years 4",
    "accelsim rent-or-buy 'llama2-70b?prompt=512,new=128' --on dgx-h100 --batch 64 --plot choice.png",
    "accelsim rent-or-buy resnet50 --on h100-sxm --batch 64 --price '30000 USD' --rent '2.50 USD/h'",
    "accelsim rent-or-buy 'gpt?layers=12' --on aws:p5.48xlarge --train --set owning.interest=0.05",
    outputs="csv plot json",
)
@click.argument("model")
@option("--on", "A cluster, a chip or an instance: the machines to buy.", required=True, metavar="NAME")
@option("--load", "Share of the hours in which accelerators work, 0 to 1.", type=Number(0, 1, min_open=True))
@option("--years", "Years in use.", type=Number(0.5, 30))
@option("--site", "Assumptions about owned machines: a name of hwspecs/sites or a file.", "colocation-us")
@set_option(" of the site, such as owning.interest=0.05")
@option("--price", "What the machines cost; default: as the site says.", "", metavar="'280000 USD'")
@option("--rent", "A rent of your own, for an accelerator.", "", metavar="'2.50 USD/h'")
@option("--term", "Term of the rents.", "on-demand", type=click.Choice(TERMS))
@option("--providers", "Providers of the rents; default: all.", "", metavar="NAME,...")
@option("--prices own", "Your own prices, which stand before those that ship (see docs/prices.md).", type=FILE)
@option("--grid", "CO2 of the energy, to have its grams.", "", metavar="'400 g/kWh'")
@option("--batch", "Samples or sequences at once; default for decoders: as many as fit, up to 32 per replica.", least=1)
@option("--dtype", "Number format; default: that of the chip.", "")
@option("--plan", "On a cluster: how devices share the work, as for 'accelsim run'.", "")
@flag("--train", "The work is training.")
def rent_or_buy(
    gather: Gather, load: float | None, years: float | None, site: str, overrides: tuple[str, ...], price: str,
    rent: str, term: str, providers: str, own: Path | None, grid: str, **job: Any,
) -> Answer:  # fmt: skip
    """Compare the cost of owned machines with rents, for MODEL at a load: where the break-even lies.

    The run is simulated; its power and time set the costs of energy, samples and tokens. Every other assumption is
    printed with its source, and --set changes it.
    """
    from accelsim.report.at_work import Duty
    from accelsim.report.owning import question
    from accelsim.report.rent_or_buy import rent_or_buy as report
    from accelsim.spec.yaml.clusters import load_devices
    from accelsim.workload.sources.load import check_there

    changes = [*overrides, *(f"owning.{key}={value}" for key, value in (("load", load), ("years", years)) if value)]
    sellers = tuple(whole_list(providers))
    gather.check(job["model"], check_there)
    gather.check(job["on"], load_devices)
    asked = question(gather, site, changes, own, price, rent, grid, sellers)
    with progress(1) as stage:
        stage("simulate", 0.0)
        return report(asked.choice(Duty(**job), term, sellers))
