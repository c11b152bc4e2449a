"""Help in groups: what an option is about, the same in every command."""

from __future__ import annotations

import click

GROUPS: dict[str, tuple[str, ...]] = {
    "What runs, and where": (
        "on", "dram", "chip", "batch", "batches", "shape", "param", "weights", "inputs", "data", "seed", "steps",
        "lr", "optimiser", "trace", "memory", "outstanding", "injection", "limit", "set", "energy",
        "memory-model", "model",
    ),
    "Number formats": (
        "dtype", "dtypes", "format", "layer-dtype", "emulate", "calibrate", "calibration", "percentile", "scheme",
        "per-tensor",
        "bias-correction", "edges", "sparsity", "precision", "loss-scale", "qat", "keep", "budget",
    ),
    "Mapping and timing": (
        "array-timing", "dataflow", "mapping", "page-policy", "cap", "timeout", "window", "refresh",
    ),
    "What is computed and checked": (
        "values", "check", "no-advice", "details", "limit-commands", "limit-bytes", "ignore-capacity",
    ),
    "What is shown and written": (
        "layers", "json", "csv", "plot", "out", "save-mapping", "save-trace", "clocks", "channel", "list",
    ),
}  # fmt: skip
"""Title -> long names of its options."""

MANY = 12
"""From so many options on, the help of a command is grouped."""


class Grouped(click.Command):
    """A command whose help shows its options in the groups of ``GROUPS``, where they are many."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, group by group; what is in none comes last."""
        shown = [(param, record) for param in self.get_params(ctx) if (record := param.get_help_record(ctx))]
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
