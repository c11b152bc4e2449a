"""``accelsim compare``: reports of several runs side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import count_or_all, option
from accelsim.errors import Gather
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.report.compare import Source

LAYERS = 10
"""Layers that ``--layers`` shows where it is not told how many."""


class _BareLayers(click.Command):
    """A command whose ``--layers`` may stand without a value, also before a RUN."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with the value that a bare ``--layers`` means."""
        told = []
        for word, behind in zip(args, [*args, ""][1:], strict=True):
            bare = word == "--layers" and not (behind == "all" or behind.isdecimal())
            told.append(f"--layers={LAYERS}" if bare else word)
        return super().parse_args(ctx, told)


def _asked_layers(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    return None if value is None else count_or_all(ctx, param, value) or sys.maxsize


@answers(
    "accelsim compare reports/resnet50-tpu-v1 reports/resnet50-haswell",
    "accelsim compare reports/cnn reports/cnn-8x8 --layers all",
    "accelsim compare reports/* --plot comparison.svg --csv comparison.csv",
    "accelsim compare resnet50 --on k80,p100,v100-sxm2-16,t4,a100-80-sxm,h100-sxm --plot decade.png",
    outputs="csv plot json",
    cls=_BareLayers,
    helps={"plot": "Draw latency and energy relative to the first run: FILE.png or FILE.svg."},
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@option("--on chips", "RUN is a model, which runs on these chips first, without values.", metavar="A,B")
@option("--dtype", "With --on: number format; default: the one that each chip prefers.", "")
@option("--batch", "With --on: first dimension of every input.", least=1)
@option(
    "--layers",
    f"Of two runs of one model: the layers that differ most in time, side by side; without a number {LAYERS}.",
    callback=_asked_layers,
    metavar="[N|all]",
)
def compare(
    gather: Gather, runs: tuple[str, ...], chips: str | None, dtype: str, batch: int | None, layers: int | None
) -> Answer:
    """Compare each RUN (a directory that 'accelsim run --out' wrote) with the first.

    Runs are called by what differs: chip, model, format, batch and every setting. Energies are per inference (of a
    single product: per product, of a list of layers: per pass); where two do not rest on the same figures, their ratio
    is marked and the reason is given. With --layers, --csv writes the layers, all of them. With --on, a model is run on
    each chip and these runs are compared.
    """
    from accelsim.report import comparison
    from accelsim.request.variants import on_each

    sources: Sequence[Source] = runs
    if chips is not None:
        gather.refuse(len(runs) != 1, f"{len(runs)} models with --on", expected="one model")
        sources = on_each(gather, chips.split(","), model=runs[0], dtype=dtype, batch=batch)
    return gather.read(lambda: comparison.compare(sources, layers))
