"""``accelsim kernel``: how long kernels take that run alone, one of them or a table."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_file_target, option, progress, set_option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


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
@set_option(" of the chip")
@option("--dtype", "Number format; default: fp16, or the first format of a CHIP without fp16.")
@option("--site", "Clock under load and host of the machine that holds the chip.", metavar="SITE")
@option("--csv source", "A table of kernels, one per row: op, dtype and sizes.", type=FILE, metavar="FILE")
@option("--out target", "The file to write the table with predictions to; default: stdout.", type=OUT, metavar="FILE")
@option("--sweep", "Increase one size of OP in steps, and show what each costs.", metavar="NAME=FIRST:LAST[:STEP]")
def kernel(
    gather: Gather, op: str | None, sizes: tuple[str, ...], chip: str, overrides: tuple[str, ...], dtype: str | None,
    site: str | None, source: Path | None, target: Path | None, sweep: str | None,
) -> Answer:  # fmt: skip
    """Predict how long kernels take alone on a GPU: tile, parts of K, waves, what binds, time with its interval.

    OP and its SIZES are one kernel: a matrix product (gemm, bmm, linear: M K N and a batch B), a convolution (conv2d: B
    C_in C_out kernel H_W stride padding), a function (softmax, layernorm, gelu, add, copy, ...: rows cols) or fused
    attention (tokens kv heads kv_heads head_dim). Kernels of a serving stack in a graph, with what belongs to them
    there, are serving_linear (M K N), serving_prefill (tokens kv heads kv_heads head_dim batch), serving_decode (kv
    heads kv_heads head_dim batch) and moe (tokens hidden inter topk experts tp ep). With --csv, kernels are a table's
    rows; with --sweep, one size grows.
    """
    from accelsim.report import kernel as said
    from accelsim.spec.yaml.chips import load_at

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
    loaded = load_at(chip, overrides, site)
    with progress(1) as stage:
        if source is not None:
            return said.table_answer(source, loaded, target, lambda text: stage(text, 0.0))
        if sweep is not None:
            return said.growing(str(op), dtype, sizes, sweep, loaded, target, lambda text: stage(text, 0.0))
        return said.kernel_answer(str(op), dtype, sizes, loaded)
