"""JSON that commands print for every chip, GPUs, clusters, collectives, plans and lists, to compare two checkouts.

``python -m tests.helpers.unchanged_commands record FILE [WORD ...]`` writes what the commands that hold all words give.
``python -m tests.helpers.unchanged_commands compare FILE FILE`` tells each number that differs by more than 1e-9 of it,
each other value that differs and each key that only one file has. The order of keys does not count.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from accelsim.cli import main as accelsim
from accelsim.spec.yaml.load import list_chips

NEAR = 1e-9
"""Share of a number by which two checkouts may differ: sums taken in another order."""

NETWORKS = ("mlp?hidden=64,layers=2", "cnn", "gpt?seq=1,past=40", "bert?layers=1,hidden=64,heads=4,seq=9")
LARGER = ("resnet50", "llama3-8b?layers=2,seq=64 --ignore-capacity")
LARGER_ON = ("a100-80-sxm", "h100-sxm", "v100-sxm2-16", "t4", "mi300x", "tpu-v3", "inferentia2", "ipu-mk2", "k80")
CLUSTERS = ("4x-edu", "dgx-a100", "dgx-h100", "dgx1-v100", "tpu-v3-pod")
PLANS = ("dp=4", "tp=2,dp=2", "pp=2,dp=2")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
OTHERS = (
    "chips", "models", "formats", "memories", "clusters", "energy table", "dram list", "formats show fp16 70000",
    "link pcie-gen4-x16", "noc mesh-4x4 --load 0.1 --clocks 100", "sram --capacity 1MiB --banks 4 --node 28",
    "dram ddr3-1600 --limit 400", "dram compare ddr3-1600 --limit 20", "array --rows 16 --cols 16 --dataflow ws,os 64 32 48",
    "batching cnn --on tpu-v1 --batches 1,2", "plan digits-cnn --on 4x-edu --batch 4 --pipedream",
    "plan digits-mlp --on 4x-edu --batch 4", "study crossover mlp?hidden=16 --on haswell-e5-2699v3,t4 --batches 1,2",
    "study precision mlp?hidden=16 --on edu-mixed,t4 --dtypes fp16,int8",
    "spec show edu-4x4", "clusters 4x-edu",
)  # fmt: skip


def commands() -> Iterator[str]:
    """Return the commands, without ``--json``."""
    for chip in list_chips():
        for network in NETWORKS:
            yield f"run {network} --on {chip.name} --values off --limit-commands 4000000"
    for chip_name in LARGER_ON:
        for network in LARGER:
            yield f"run {network} --on {chip_name} --values off"
        yield f"kernel gemm 1024 1024 1024 --on {chip_name}"
    for cluster in CLUSTERS:
        for plan in PLANS:
            yield f"run mlp?inputs=16,hidden=8,layers=4 --on {cluster} --plan {plan} --train --batch 8 --values off"
        for operation in COLLECTIVES:
            yield f"collective {operation} --on {cluster} --size 64MB"
    yield from OTHERS


def record(path: Path, words: list[str]) -> None:
    """Write exit code, JSON (or text, where there is none) and error text of the commands that hold all ``words``."""
    found = {}
    for command in commands():
        if all(word in command for word in words):
            done = CliRunner().invoke(accelsim, [*shlex.split(command), "--json"])
            text: object = done.stdout
            if done.stdout.startswith(("{", "[")):
                text = json.loads(done.stdout)
            found[command] = {"code": done.exit_code, "out": text, "err": done.stderr}
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found)} commands, {sum(entry['code'] == 0 for entry in found.values())} without an error")


def differences(was: object, now: object, where: str) -> Iterator[str]:
    """Return one line for each value below ``where`` that is not what it was."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*was, *(key for key in now if key not in was)]:
            if key in was and key in now:
                yield from differences(was[key], now[key], f"{where}.{key}")
            else:
                yield f"{where}.{key}: {'new' if key in now else 'gone'}"
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (left, right) in enumerate(zip(was, now, strict=True)):
            yield from differences(left, right, f"{where}[{index}]")
    elif isinstance(was, int | float) and isinstance(now, int | float):
        if abs(was - now) > NEAR * max(abs(was), abs(now)):
            yield f"{where}: {was!r} -> {now!r}"
    elif was != now:
        yield f"{where}: {was!r} -> {now!r}"


def compare(was: Path, now: Path) -> int:
    """Print what differs between two files of ``record``; 1 where something does."""
    old, new = json.loads(was.read_text()), json.loads(now.read_text())
    found = [line for command in old if command in new for line in differences(old[command], new[command], command)]
    print("\n".join(found) or f"{len({*old} & {*new})} commands: no difference")
    return bool(found)


if __name__ == "__main__":
    action, *rest = sys.argv[1:]
    if action == "record":
        record(Path(rest[0]), rest[1:])
    else:
        sys.exit(compare(Path(rest[0]), Path(rest[1])))
