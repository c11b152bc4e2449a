"""Help in groups: what an option is about, the same in every command."""

from __future__ import annotations

import click

from accelsim.request.fields import FORMER, OPTIONS
from accelsim.request.option import COMPUTED, FORMATS, MAPPED, RUNS
from accelsim.request.recording import flag

OTHERS: dict[str, tuple[str, ...]] = {
    RUNS: (
        "dram", "chip", "batches", "data", "steps", "lr", "optimiser", "trace", "memory", "outstanding", "injection",
        "limit", "load", "lengths", "requests", "replicas", "router", "most",
        "scheduler", "before", "after", "cores", "urgent", "capacity",
        "prices", "model", "train", "whole", "tokens", "plan", "routing", "schedule", "microbatches", "compare",
        "gradients", "threshold", "cycle", "compression", "gradient-bits", "tune-gradients",
        "overlap-gather", "attention", "library", "overlap-tensor", "offload-activations",
    ),
    FORMATS: ("dtypes", "format", "precision", "loss-scale", "qat", "keep", "budget"),
    MAPPED: ("page-policy", "cap", "timeout", "window", "refresh"),
    COMPUTED: ("check", "no-advice", "details"),
    "What is shown and written": (
        "layers", "json", "csv", "plot", "out", "png", "save-mapping", "save-trace", "clocks", "channel", "list",
    ),
}  # fmt: skip
"""Title -> long names of its options that are no fields of a request; those say themselves where they belong."""
GROUPS = {
    title: {*names, *(name.replace("_", "-") for name, row in OPTIONS.items() if row.group == title)}
    for title, names in OTHERS.items()
}
"""Title -> long names of its options."""

MANY = 12
"""From so many options on, the help of a command is grouped."""


RENAMED = {flag(old): flag(new) for old, new in FORMER.items()}
"""Former option of a field of a request -> its option."""


class Grouped(click.Command):
    """A command whose help shows its options in the groups of ``GROUPS``, where they are many.

    Scripts may still use former names of options, which no help shows.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments after renaming options of former versions."""
        known = {opt for param in self.get_params(ctx) for opt in param.opts}
        return super().parse_args(ctx, [_renamed(arg, known) for arg in args])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, those without a group last."""
        shown = [
            (param, record)
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx))
        ]
        if len(shown) < MANY:
            super().format_options(ctx, formatter)
            return
        rest = list(shown)
        for title, names in GROUPS.items():
            mine = [item for item in rest if {f"--{name}" for name in names} & set(item[0].opts)]
            rest = [item for item in rest if item not in mine]
            if mine:
                with formatter.section(title):
                    formatter.write_dl([record for _, record in mine])
        if rest:
            with formatter.section("Other options"):
                formatter.write_dl([record for _, record in rest])


def _renamed(arg: str, known: set[str]) -> str:
    """A word of the command line, a former option of a field as the one that the command knows."""
    name, equals, value = arg.partition("=")
    return f"{RENAMED[name]}{equals}{value}" if RENAMED.get(name) in known else arg
