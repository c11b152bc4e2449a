"""Saved runs with an edited ``summary.json`` or ``layers.csv``, repeated and compared."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from pathlib import Path

from accelsim.workload.limits import limited

from .command_lines import attempt, stock
from .mutate import flipped
from .spec_mutations import mutate_text, mutate_tree

MOST_COMMANDS, MOST_B = 4_000, 256 << 20
"""Limits of a case: an edited run may ask for any size."""
ASKED, AS_TEXT, AS_BYTES = 0.4, 0.15, 0.05
"""Shares of the cases that edit what a run was asked for, of files mutated as text, and as bytes."""
FIELDS = (
    ("set", ["clock=1 GHz"]), ("set", ["matrix.rows=0", "x"]), ("set", "clock=1 GHz"), ("set", {"a": 1}), ("dtype", "fp99"),
    ("dtype", 8), ("values", "exact"), ("values", ["off"]), ("seed", -1), ("seed", 1.5), ("seed", "1"), ("batch", 0), ("batch", "2"),
    ("shape", {"x": [1, 2]}), ("shape", {"x": -1}), ("shape", [1]), ("param", {"M": 2}), ("param", {"M": "2"}), ("param", ["M=2"]),
    ("mapping", "map.yaml"), ("mapping", "/dev/zero"), ("inputs", "in.npz"), ("inputs", "junk"), ("ranges_from", 3), ("on", "chip.yaml"),
    ("on", ["edu-4x4", "tpu-v1"]), ("on", None), ("on", "/etc/passwd"), ("model", "m.onnx"), ("model", "pipe"), ("model", "."), ("model", None),
    ("model", "llama?prompt=2,new=2"), ("model", "gemm?M=" + "9" * 30), ("layer_dtype", {"y": "fp32"}), ("layer_dtype", [["y", "fp32"]]),
    ("emulate", "yes"), ("percentile", 101), ("percentile", float("nan")), ("sparsity", "2:4"), ("edges", "inside"), ("dataflow", "os"),
    ("limit_commands", 0), ("limit_bytes", -1), ("energy", "energy/scaled-28nm"), ("energy", 7), ("memory_model", "bank"), ("new", 3),
    ("nonsense", 1), ("", ""), ("out", "/tmp/x"), ("weights", "random:2"), ("weights", 2), ("cores", 2), ("scheme", "affine"),
)  # fmt: skip
"""Fields of a request with values that are right for them, nearly, or not at all."""


def case(seed: int) -> None:
    """One edited report, repeated or compared in a directory of its own."""
    rng, here = random.Random(f"saved {seed}"), Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "work")
        shutil.copytree(stock(), folder, symlinks=True)
        shutil.copytree(folder / "report", folder / "other")
        os.mkfifo(folder / "pipe")
        edit(folder / "report", rng)
        os.chdir(folder)
        try:
            with limited(MOST_COMMANDS, MOST_B):
                attempt(_words(rng), folder)
        finally:
            os.chdir(here)


def _words(rng: random.Random) -> list[str]:
    if rng.random() < 0.5:
        return ["rerun", "report", *rng.choice(((), (), ("--json",), ("--out", "new"), ("--out", "report")))]
    runs = rng.choice((("report",), ("report", "other"), ("other", "report"), ("other", "report", "report")))
    return ["compare", *runs, *rng.choice(((), (), ("--plot", "new.svg"), ("--json",), ("--csv", "new.csv")))]


def edit(report: Path, rng: random.Random) -> None:
    """Mutate one file of a report."""
    file = report / rng.choice(("summary.json", "summary.json", "summary.json", "layers.csv", "ledger.csv"))
    text, draw = file.read_text(encoding="utf-8"), rng.random()
    if draw < AS_BYTES:
        file.write_bytes(flipped(text.encode(), rng))
        return
    if file.suffix == ".csv" or draw < AS_TEXT:
        text = mutate_text(text, rng)
    else:
        tree = json.loads(text)
        if rng.random() < ASKED:
            field, value = rng.choice(FIELDS)
            tree["run"]["asked"][field] = value
        else:
            key = rng.choice((None, "run", "run"))
            mutated = mutate_tree(tree if key is None else tree[key], rng)
            tree = mutated if key is None else {**tree, key: mutated}
        text = json.dumps(tree)
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
