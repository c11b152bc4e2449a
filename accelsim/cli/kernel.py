"""``accelsim kernel``: how long kernels take that run alone, one of them or a table."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    FILE,
    OUT,
    check_file_target,
    check_outputs,
    example,
    json_option,
    paragraphs,
    progress,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError, count_of, nearest

if TYPE_CHECKING:
    from accelsim.kernels.predict import Kernels
    from accelsim.kernels.table import Table
    from accelsim.spec.chip import Chip

SIZES: Mapping[str, tuple[str, ...]] = {
    "product": ("M", "K", "N", "B"),
    "function": ("rows", "cols"),
    "convolution": ("B", "C_in", "C_out", "kernel", "H_W", "stride", "padding"),
    "attention": ("tokens", "kv", "heads", "kv_heads", "head_dim", "batch"),
    "layer": ("M", "K", "N"),
    "prefill": ("tokens", "kv", "heads", "kv_heads", "head_dim", "batch"),
    "decode": ("kv", "heads", "kv_heads", "head_dim", "batch"),
    "experts": ("tokens", "hidden", "inter", "topk", "experts", "tp", "ep"),
}
"""Kind of kernel -> what its sizes are, in the order in which they may stand."""


@click.command(epilog=example(
    "accelsim kernel gemm 8192 12288 1536 --on a100-80-sxm --dtype fp16",
    "accelsim kernel softmax rows=4096 cols=2048 --on v100-pcie --dtype fp32",
    "accelsim kernel conv2d 64 256 256 3 14 1 1 --on t4 --dtype fp32",
    "accelsim kernel gemm 4096 4096 --sweep N=64:8192:64 --on a100-80-sxm --plot staircase.png",
    "accelsim kernel serving_decode kv=8192 heads=32 head_dim=128 batch=64 --on l40s",
    "accelsim kernel --csv kernels.csv --on h100-sxm --out predicted.csv",
))  # fmt: skip
@click.argument("op", required=False)
@click.argument("sizes", nargs=-1)
@click.option(
    "--on",
    "chip",
    required=True,
    metavar="CHIP",
    help="A chip with an engine that runs kernels, or a spec file.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field of the chip. Repeatable."
)
@click.option("--dtype", help="Number format; default: fp16, or the first format of a CHIP without fp16.")
@click.option("--site", metavar="SITE", help="Clock under load and host of the machine that holds the chip.")
@click.option(
    "--csv", "source", type=FILE, metavar="FILE", help="A table of kernels, one per row: op, dtype and sizes."
)
@click.option(
    "--out",
    type=OUT,
    metavar="FILE",
    help="The file to write the table with predictions to; default: stdout.",
)
@click.option(
    "--sweep",
    metavar="NAME=FIRST:LAST[:STEP]",
    help="Increase one size of OP step by step, and show what each step costs.",
)
@click.option("--plot", type=OUT, metavar="FILE", help="With --sweep: draw the times as a staircase.")
@json_option
def kernel(
    op: str | None, sizes: tuple[str, ...], chip: str, overrides: tuple[str, ...], dtype: str | None, site: str | None,
    source: Path | None, out: Path | None, sweep: str | None, plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Predict how long kernels take alone on a GPU: tile, parts of K, waves, what binds, time with its interval.

    OP and its SIZES are one kernel: a matrix product (gemm, bmm, linear: M K N and a batch B), a convolution (conv2d: B
    C_in C_out kernel H_W stride padding), a function (softmax, layernorm, gelu, add, copy, ...: rows cols) or fused
    attention (tokens kv heads kv_heads head_dim). Kernels of a serving stack in a graph, with what belongs to them
    there, are serving_linear (M K N), serving_prefill (tokens kv heads kv_heads head_dim batch), serving_decode (kv
    heads kv_heads head_dim batch) and moe (tokens hidden inter topk experts tp ep). With --csv, kernels are a table's
    rows; with --sweep, one size grows.
    """  # fmt: skip
    from accelsim.kernels.predict import Kernels, usual_format
    from accelsim.kernels.table import one, read_table

    if (op is None) == (source is None):
        raise UsageError(Problem("one kernel or a table", expected="OP and its sizes, or --csv FILE"))
    check_outputs(plot, None)
    if out is not None:
        check_file_target(out)
    if out is not None and source is None and sweep is None:
        raise UsageError(Problem("--out without a table", expected="--csv FILE or --sweep"))
    if as_json and (source is not None or sweep is not None):
        raise UsageError(Problem("--json with a table or a sweep", expected="one kernel, or --out FILE.csv"))
    if (plot is not None or sweep is not None) and (sweep is None or op is None):
        raise UsageError(Problem("--sweep and --plot go with a kernel", expected="OP, sizes and --sweep"))
    loaded = _chip(chip, overrides, site)
    if source is not None:
        _table(read_table(source), loaded, out)
    elif op is not None and sweep is not None:
        _sweep(op, dtype or usual_format(loaded), sizes, sweep, loaded, out, plot)
    elif op is not None:
        _one(Kernels(one(op, dtype or usual_format(loaded), _cells(op, sizes)), loaded), as_json)


def _chip(chip: str, overrides: tuple[str, ...], site: str | None) -> Chip:
    from accelsim.spec.site import with_site
    from accelsim.spec.yaml.chips import load_site
    from accelsim.spec.yaml.load import load_chip

    loaded = load_chip(chip, overrides)
    return loaded if site is None else with_site(loaded, load_site(site))


def _cells(op: str, sizes: tuple[str, ...]) -> dict[str, str]:
    """The sizes of a kernel as the cells of a row: NAME=VALUE, or in the order of their kind. Raises UsageError."""
    from accelsim.kernels.ops import FAMILY_OF

    if op not in FAMILY_OF:
        raise UsageError(Problem(f"op {op!r} is no kernel", "", ", ".join(FAMILY_OF), nearest(op, FAMILY_OF)))
    names = _names(op, sizes)
    plain = [text for text in sizes if "=" not in text]
    if len(plain) > len(names):
        raise UsageError(Problem(f"{len(plain)} sizes of a {op}", "", " ".join(names)))
    return dict(zip(names, plain, strict=False)) | dict(text.split("=", 1) for text in sizes if "=" in text)


def _names(op: str, sizes: tuple[str, ...]) -> tuple[str, ...]:
    """The sizes of an op that there is, in the order in which they may stand."""
    from accelsim.kernels.ops import FAMILY_OF

    return ("bytes",) if op == "copy" and len(sizes) == 1 else SIZES[FAMILY_OF[op]]


def _sweep(
    op: str, dtype: str, sizes: tuple[str, ...], over: str, chip: Chip, out: Path | None, plot: Path | None
) -> None:
    """The kernel while a size grows; sizes without names are those that do not, in their order."""
    from accelsim import files
    from accelsim.kernels.ops import FAMILY_OF
    from accelsim.kernels.sweep import parsed, sentences, swept
    from accelsim.kernels.told import columns

    _cells(op, ())
    names = SIZES[FAMILY_OF[op]]
    wanted = parsed(over, names)
    others = [name for name in names if name != wanted.name]
    plain = [text for text in sizes if "=" not in text]
    named = [f"{name}={text}" for name, text in zip(others, plain, strict=False)]
    with progress(1) as stage:
        stage(f"predict {count_of(len(wanted.sizes), 'kernel')}", 0.0)
        found = swept(op, dtype, _cells(op, (*named, *(text for text in sizes if "=" in text))), wanted, chip)
    click.echo(paragraphs(sentences(found)))
    if out is not None:
        files.write_file(out, files.records(columns(found.kernels)))
        click.echo(f"{count_of(len(found.sizes), 'kernel')}: {out}")
    if plot is not None:
        from accelsim.report.kernel_plot import staircase
        from accelsim.report.style import save

        save(staircase(found), plot)
        click.echo(f"picture: {plot}")


def _table(table: Table, chip: Chip, out: Path | None) -> None:
    """Write the rows with what is predicted."""
    from accelsim import files
    from accelsim.kernels.predict import Kernels
    from accelsim.kernels.told import columns

    with progress(1) as stage:
        stage(f"predict {count_of(len(table.ops), 'kernel')}", 0.0)
        rows = columns(Kernels(table, chip))
    if out is None:
        stream = BytesIO()
        files.records(rows)(stream)
        click.echo(stream.getvalue(), nl=False)
        return
    files.write_file(out, files.records(rows))
    click.echo(f"{count_of(len(table.ops), 'kernel')}: {out}")


def _one(kernels: Kernels, as_json: bool) -> None:
    from accelsim.kernels.told import ends, interval_sentences, sentences
    from accelsim.report.table import text_table
    from accelsim.units import show as shown

    found = kernels.predicted(kernels.chip)
    interval, times = ends(kernels, found), found.times
    seconds, low, high = (float(each[0]) for each in (times.seconds, interval.low, interval.high))
    told = sentences(kernels, found, 0)
    calibrated = bool(interval.calibrated[0])
    facts: dict[str, Any] = {
        "chip": kernels.chip.name, **kernels.table.cells[0],
        "predicted_us": seconds * 1e6, "low_us": low * 1e6, "high_us": high * 1e6, "calibrated": calibrated,
        "interval": str(interval.spread[0]),
        "tile": str(times.tile[0]), "split": int(times.splits[0]), "waves": float(times.waves[0]),
        "binds": str(times.binds[0]), "bound_us": float(times.bound[0]) * 1e6,
    }  # fmt: skip
    if as_json:
        show_json(facts)
        return
    cells, family = kernels.table.cells[0], kernels.table.groups[0].family
    sizes = ", ".join(f"{name} {value}" for name, value in cells.items() if name not in ("op", "dtype"))
    rows = [
        ("sizes", sizes),
        ("time", f"{shown(seconds, 's', 3)}, 90 %: {shown(low, 's', 3)} to {shown(high, 's', 3)}"),
    ]
    if facts["tile"]:
        rows += [
            ("tile", facts["tile"]),
            ("parts of the keys" if family == "attention" else "parts of K", str(facts["split"])),
            ("waves", f"{facts['waves']:.3g}"),
        ]
    rows += [("binds", facts["binds"])]
    show(text_table((cells["op"], f"{cells['dtype']} on {kernels.chip.title}"), rows, width()), width())
    told += interval_sentences(kernels.chip, str(interval.spread[0]))
    click.echo("\n" + paragraphs(told))
