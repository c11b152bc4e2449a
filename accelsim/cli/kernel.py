"""``accelsim kernel``: how long kernels take that run alone, one of them or a table."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_file_target, option, progress
from accelsim.errors import Gather, UsageError, count_of, nearest
from accelsim.report.answer import Answer

if TYPE_CHECKING:
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


@answers(
    "accelsim kernel gemm 8192 12288 1536 --on a100-80-sxm --dtype fp16",
    "accelsim kernel softmax rows=4096 cols=2048 --on v100-pcie --dtype fp32",
    "accelsim kernel conv2d 64 256 256 3 14 1 1 --on t4 --dtype fp32",
    "accelsim kernel gemm 4096 4096 --sweep N=64:8192:64 --on a100-80-sxm --plot staircase.png",
    "accelsim kernel serving_decode kv=8192 heads=32 head_dim=128 batch=64 --on l40s",
    "accelsim kernel --csv kernels.csv --on h100-sxm --out predicted.csv",
    outputs="plot json",
    helps={"plot": "With --sweep: draw the times as a staircase."},
)
@click.argument("op", required=False)
@click.argument("sizes", nargs=-1)
@option("--on chip", "A chip with an engine that runs kernels, or a spec file.", required=True, metavar="CHIP")
@option("--set overrides", "Change a field of the chip. Repeatable.", multiple=True, metavar="PATH=VALUE")
@option("--dtype", "Number format; default: fp16, or the first format of a CHIP without fp16.")
@option("--site", "Clock under load and host of the machine that holds the chip.", metavar="SITE")
@option("--csv source", "A table of kernels, one per row: op, dtype and sizes.", type=FILE, metavar="FILE")
@option("--out target", "The file to write the table with predictions to; default: stdout.", type=OUT, metavar="FILE")
@option(
    "--sweep", "Increase one size of OP step by step, and show what each step costs.", metavar="NAME=FIRST:LAST[:STEP]"
)
def kernel(
    gather: Gather, op: str | None, sizes: tuple[str, ...], chip: str, overrides: tuple[str, ...], dtype: str | None,
    site: str | None, source: Path | None, target: Path | None, sweep: str | None,
) -> Answer | None:  # fmt: skip
    """Predict how long kernels take alone on a GPU: tile, parts of K, waves, what binds, time with its interval.

    OP and its SIZES are one kernel: a matrix product (gemm, bmm, linear: M K N and a batch B), a convolution (conv2d: B
    C_in C_out kernel H_W stride padding), a function (softmax, layernorm, gelu, add, copy, ...: rows cols) or fused
    attention (tokens kv heads kv_heads head_dim). Kernels of a serving stack in a graph, with what belongs to them
    there, are serving_linear (M K N), serving_prefill (tokens kv heads kv_heads head_dim batch), serving_decode (kv
    heads kv_heads head_dim batch) and moe (tokens hidden inter topk experts tp ep). With --csv, kernels are a table's
    rows; with --sweep, one size grows.
    """
    from accelsim.kernels.predict import Kernels, usual_format
    from accelsim.kernels.table import one, read_table
    from accelsim.report.kernel import kernel_answer

    asked = click.get_current_context().params
    table, growing = source is not None, sweep is not None
    two = (op is None) != table
    gather.refuse(two, "one kernel or a table", "", "OP and its sizes, or --csv FILE")
    apart = target is not None and not table and not growing
    gather.refuse(apart, "--out without a table", "", "--csv FILE or --sweep")
    wide = asked["json"] and (table or growing)
    gather.refuse(wide, "--json with a table or a sweep", "", "one kernel, or --out FILE.csv")
    drawn = (asked["plot"] is not None or growing) and (not growing or op is None)
    gather.refuse(drawn, "--sweep and --plot go with a kernel", "", "OP, sizes and --sweep")
    gather.check(target, check_file_target, last=True)
    gather.done()
    loaded = _chip(chip, overrides, site)
    if source is not None:
        _table(read_table(source), loaded, target)
        return None
    assert op is not None
    if sweep is not None:
        return _sweep(op, dtype or usual_format(loaded), sizes, sweep, loaded, target)
    return kernel_answer(Kernels(one(op, dtype or usual_format(loaded), _cells(op, sizes)), loaded))


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
        raise UsageError(f"op {op!r} is no kernel", "", ", ".join(FAMILY_OF), nearest(op, FAMILY_OF))
    names = ("bytes",) if op == "copy" and len(sizes) == 1 else SIZES[FAMILY_OF[op]]
    plain = [text for text in sizes if "=" not in text]
    if len(plain) > len(names):
        raise UsageError(f"{len(plain)} sizes of a {op}", "", " ".join(names))
    return dict(zip(names, plain, strict=False)) | dict(text.split("=", 1) for text in sizes if "=" in text)


def _sweep(op: str, dtype: str, sizes: tuple[str, ...], over: str, chip: Chip, target: Path | None) -> Answer:
    """The kernel while a size grows; sizes without names are those that do not, in their order."""
    from accelsim import files
    from accelsim.kernels.explain import columns
    from accelsim.kernels.ops import FAMILY_OF
    from accelsim.kernels.sweep import parsed, swept
    from accelsim.report.kernel import growing

    _cells(op, ())
    names = SIZES[FAMILY_OF[op]]
    wanted = parsed(over, names)
    others = [name for name in names if name != wanted.name]
    plain = [text for text in sizes if "=" not in text]
    named = [f"{name}={text}" for name, text in zip(others, plain, strict=False)]
    with progress(1) as stage:
        stage(f"predict {count_of(len(wanted.sizes), 'kernel')}", 0.0)
        found = swept(op, dtype, _cells(op, (*named, *(text for text in sizes if "=" in text))), wanted, chip)
    if target is not None:
        files.write_file(target, files.records(columns(found.kernels)))
    return growing(found, target)


def _table(table: Table, chip: Chip, target: Path | None) -> None:
    """Write the rows with what is predicted."""
    from accelsim import files
    from accelsim.kernels.explain import columns
    from accelsim.kernels.predict import Kernels

    with progress(1) as stage:
        stage(f"predict {count_of(len(table.ops), 'kernel')}", 0.0)
        rows = columns(Kernels(table, chip))
    if target is None:
        stream = BytesIO()
        files.records(rows)(stream)
        click.echo(stream.getvalue(), nl=False)
        return
    files.write_file(target, files.records(rows))
    click.echo(f"{count_of(len(table.ops), 'kernel')}: {target}")
