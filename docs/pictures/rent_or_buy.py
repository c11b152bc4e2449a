"""A picture of docs/rent-or-buy.md: cost of an hour over load, owned and rented, and the break-even load over years."""

from __future__ import annotations

from pathlib import Path

from accelsim.errors import Gather
from accelsim.report.at_work import Duty
from accelsim.report.owning import question
from accelsim.report.rent_or_buy import rent_or_buy


def draw(path: Path) -> None:
    """Write the picture."""
    asked = question(Gather(), "colocation-us", ["owning.load=0.6", "owning.years=4"])
    rent_or_buy(asked.choice(Duty("llama2-7b", "dgx-h100"))).picture().save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "rent-or-buy.png")
