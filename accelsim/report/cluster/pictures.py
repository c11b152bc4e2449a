"""Pictures of a training step: where its time goes, how it scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accelsim.cluster.step.result import PARTS as MEANING
from accelsim.cluster.step.result import StepResult
from accelsim.report.cluster.looks import PARTS
from accelsim.report.style import BLUE, GREY, figure, log_axis, prefixed, styled, subtitle
from accelsim.report.text import count_of, percent, si
from accelsim.time import FS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 0.04
"""Share of the step from which a part has its number written on it."""


def parts_figure(results: Sequence[StepResult], labels: Sequence[str] = ()) -> Figure:
    """A bar for each step, of the parts that its time goes to; they add up to the step."""
    with styled():
        fig, (axes,) = figure(1.7 + 0.45 * len(results))
        factor, unit = prefixed([result.time_s for result in results], "s")
        named = labels or [str(result.plan) for result in results]
        used = [name for name in PARTS if any(result.parts_fs[name] for result in results)]
        for row, result in enumerate(results):
            left = 0.0
            for name in used:
                wide = result.parts_fs[name] * FS * factor
                look = PARTS[name]
                axes.barh(row, wide, 0.7, left=left, color=look.color, hatch=look.hatch, edgecolor="white", lw=0.5,
                          label=name if not row else None)  # fmt: skip
                share = result.parts_fs[name] / result.time_fs
                if share >= LEAST:
                    axes.text(left + wide / 2, row, percent(share), ha="center", va="center", fontsize=7.5,
                              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
                left += wide
        axes.set_yticks(range(len(results)), named)
        axes.invert_yaxis()
        axes.set_xlabel(f"time of a step ({unit})")
        one = results[0]
        axes.set_title(f"Where a step of {one.model} on {one.cluster} goes")
        fig.legend(loc="outside lower center", ncols=len(used))
        return fig


def parts_caption(result: StepResult) -> str:
    """What the parts are, those that the step has."""
    told = [f"{name}: {MEANING[name]}" for name, fs in result.parts_fs.items() if fs]
    return "Parts add up to the step. " + "; ".join(told) + "."


def scaling_figure(results: Sequence[StepResult]) -> Figure:
    """Samples per second against devices, and how much of the first step's rate per device is left."""
    with styled():
        fig, (rate, left) = figure(3.2, 1, 2)
        counts = [result.plan.devices for result in results]
        rates = [result.samples_per_s for result in results]
        first = rates[0] / counts[0]
        rate.plot(
            counts, [first * count for count in counts], "--", color=GREY, label="as many times as devices"
        )
        rate.plot(counts, rates, "o-", color=BLUE, label="simulated")
        rate.set_xscale("log", base=2)
        rate.set_yscale("log", base=2)
        log_axis(rate.yaxis)
        rate.set_xticks(counts, [f"{count:,}" for count in counts])
        rate.set_xlabel("devices")
        rate.set_ylabel(f"{results[0].unit} per second")
        rate.legend(loc="upper left")
        shares = [100 * value / (first * count) for value, count in zip(rates, counts, strict=True)]
        left.plot(counts, shares, "o-", color=BLUE)
        left.set_xscale("log", base=2)
        left.set_xticks(counts, [f"{count:,}" for count in counts])
        left.set_ylim(0, 1.05 * max(100.0, *shares))
        left.set_xlabel("devices")
        left.set_ylabel("scaling efficiency (%)")
        for axes in (rate, left):
            axes.grid(True)
            axes.minorticks_off()
        rate.set_title("More replicas, each with the same batch", pad=18)
        subtitle(
            rate,
            f"{results[-1].model}, {results[-1].batch // results[-1].plan.dp:,} {results[-1].unit} a replica",
        )
        return fig


def scaling_sentence(results: Sequence[StepResult]) -> str:
    """What the picture says."""
    one, many = results[0], results[-1]
    share = many.samples_per_s / many.plan.devices / (one.samples_per_s / one.plan.devices)
    return (
        f"From {count_of(one.plan.devices, 'device')} to {many.plan.devices:,} the rate grows from "
        f"{si(one.samples_per_s)} to {si(many.samples_per_s)} {many.unit} per second: "
        f"a scaling efficiency of {percent(share)}."
    )
