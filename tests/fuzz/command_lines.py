"""Random command lines, drawn from the tree of commands itself, through click in this process.

Each begins as one that works and gets further options, values of other sorts, files of other kinds, words too few or too
many. Besides ending without a traceback it must keep every input as it was, leave nothing half made, and write nothing at
all where it was refused.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import click
import numpy as np
import onnx
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from accelsim.cli import COMMANDS, main
from accelsim.cli.common import Output
from accelsim.cli.dram import replay_on
from accelsim.errors import UsageError

GEMM = "gemm?M=3,N=4,K=5"
BASES = (
    ("run", GEMM, "--on", "edu-4x4"), ("run", GEMM, "--on", "edu-mixed", "--memory-model", "bank"),
    ("run", "m.onnx", "--on", "chip.yaml"), ("run", "m.onnx", "--on", "edu-4x4", "--inputs", "in.npz"),
    ("run", "m.onnx", "--on", "edu-4x4", "--mapping", "map.yaml"), ("run", "shapes.csv", "--on", "edu-4x4", "--values", "off"),
    ("compare", "report"), ("compare", "report", "report"), ("formats",), ("formats", "show", "fp16", "0.3"),
    ("quantize", "m.onnx", "--out", "new.onnx"), ("quantize", "m.onnx", "--data", "in.npz", "--out", "new.onnx"),
    ("accuracy", "m.onnx", "--on", "edu-mixed", "--data", "data.npz", "--dtypes", "int8"),
    ("train", "m.onnx", "--data", "data.npz", "--steps", "2"), ("chips",), ("models",), ("spec", "show", "edu-4x4"),
    ("spec", "check", "chip.yaml"), ("spec", "schema", "links"), ("dram", "ddr3-1600", "--limit", "20"),
    ("dram", "ddr4-3200", "--trace", "t.trace"), ("dram", "ddr3-1600", "--trace", "run.npz"),
    ("dram", "compare", "ddr3-1600", "--limit", "20"), ("dram", "list"), ("sram", "--capacity", "1MiB"),
    ("sram", "conflicts", "--rows", "8", "--length", "16"), ("energy", "table"), ("link", "pcie-gen4-x16"),
    ("noc", "mesh-4x4", "--load", "0.1", "--clocks", "100"), ("noc", "ring", "8", "--load", "0.2", "--clocks", "100"),
    ("batching", GEMM, "--on", "tpu-v1", "--batches", "1,2"), ("array", "5", "6", "7", "--rows", "4", "--cols", "4"),
    ("export-trace", "t.trace", "--format", "dramsim3"), ("export-trace", "run.npz", "--format", "ramulator2"),
    ("validate", "--list"), ("rerun", "report"), ("memories",), ("run", "llama?prompt=2,new=2,layers=1", "--on", "edu-4x4", "--values", "off"),
    ("run", GEMM, "--on", "edu-4x4,edu-mixed"), ("run", GEMM, "--on", "edu-4x4", "--set", "matrix.rows=2", "--set", "matrix.rows=8"),
    ("run", "moe?layers=1,seq=4", "--on", "edu-4x4", "--values", "off"),
)  # fmt: skip
"""Command lines that work, each in less than a second or two."""

LEFT_OUT = {("dram", "lessons"), ("energy", "eyeriss")}
"""Commands that take longer than all the rest."""

VALUES = {
    "dtype": ("int8", "fp32", "bf16", "int4xint8", "mxfp8"), "values": ("exact", "fast", "off"), "on": ("edu-4x4", "chip.yaml", "edu-mixed"),
    "chip": ("edu-4x4", "chip.yaml"), "weights": ("model", "random:3"), "shapes": ("x=2,4", "x=1,4"), "params": ("M=2", "hidden=3"),
    "overrides": ("clock=1 GHz", "memories.dram.memory.latency=1 ns", "controller.window=4", "pcie.tags=8", "matrix.rows=2"),
    "energy": ("energy/scaled-28nm", "energy/horowitz-45nm"), "layer_dtypes": ("y=int8", "y=fp32"), "ranges": ("mse", "entropy", "percentile"),
    "scheme": ("symmetric", "affine"), "edges": ("host", "outside"), "sparsity": ("2:4", "1:2"), "dataflow": ("ws", "os", "is"),
    "array_timing": ("scalesim", "sequential", "overlapped"), "schedule": ("scalesim", "sequential", "overlapped"),
    "memory_model": ("ideal", "bandwidth", "pattern", "bank"), "model": ("bank", "pattern", "ideal"), "form": ("qdq", "qoperator", "drampower"),
    "trace": ("seq_read", "t.trace", "run.npz"), "mapping": ("map.yaml", "rochrababgco"), "capacity": ("64KiB",), "cell": ("itrs-hp",),
    "batches": ("1,2", "4"), "sizes": ("4 KiB", "1 MiB"), "rounding": ("rz", "rna"), "overflow": ("inf", "saturate"), "clocks": ("0:50",),
    "page_policy": ("open", "closed"), "refresh": ("none", "all_bank"), "inputs": ("in.npz",), "ranges_from": ("in.npz",), "data": ("data.npz",),
    "pattern": ("uniform", "transpose"), "keep": ("fp16",), "qat": ("int8",), "optimiser": ("adam", "sgd"), "precision": ("mixed", "bf16"),
    "loss_scale": ("dynamic", "none"), "dtypes": ("int8", "fp32,int8"), "dram": ("ddr3-1600",),
}  # fmt: skip
"""Name of a parameter -> values that are right for it, or nearly."""

OUTPUTS = (
    "new", "new.npz", "new.png", "new.svg", "new.onnx", "new.csv", "new.json", "old", "olddir", "new/deep", "m.onnx", "chip.yaml", "in.npz",
    "link.onnx", "loop", "dangling", "closed/x", ".", "..", "/dev/null", "/dev/full", "pipe", "/dev/stdout", "report", "data.npz", "map.yaml",
)  # fmt: skip
FILES = (
    "m.onnx", "in.npz", "data.npz", "run.npz", "map.yaml", "chip.yaml", "shapes.csv", "t.trace", "junk", "empty", "report", "olddir", ".",
    "link.onnx", "loop", "dangling", "/dev/null", "/dev/zero", "missing", "m.onnx/x", "/",
)  # fmt: skip
HOSTILE = (
    "", " ", "-", "--", "0", "-1", "1e309", "nan", "inf", "9" * 30, "9" * 5000, "1" + "0" * 400, "٣", "²", "\0", "\n", "\x1b[31m", "ä" * 300,
    "x" * 300, "x" * 70_000, "../../etc/passwd", "$(id)", "%s%n", "{}", "[]", "[" * 3000, "null", "true", "=", "==", "=x", "x=", "x=()", "x=1,,2", "x=-1",
    "a=b=c", ",", ",,,", "1,2,3", "0x10", "1_0", "1:1", "5:2", "a:b", "fp8_e5m2b999", "fp99_e1m1", "int8xint8xint8", "x" * 2000 + "x", "?", "gemm?", "gemm?M=",
    "gemm?M=0", "gemm?M=" + "9" * 5000, "cnn?x=1", "\ud800", "😀", "random:", "random:-1", "random:x", "random:" + "9" * 5000, "clock=", "clock=0 Hz",
    "clock=nan", "matrix=null", "memories={}", "cores=0", "cores=2", "a.b.c.d=1", ".=1", "matrix.rows=" + "9" * 40, "1 GB/s", "--help", "-h", "--version",
)  # fmt: skip
LINKS = {"link.onnx": "m.onnx"}
"""Link to a file of its own -> the file."""
BOUNDED = {"steps": "2", "limit": "20", "batch": "2", "cores": "2"}
"""Options that decide how long a command takes: a value that keeps it short, else a hostile one."""


def case(seed: int) -> None:
    """One command line in a directory of its own."""
    rng = random.Random(f"command lines {seed}")
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "work")
        shutil.copytree(stock(), folder, symlinks=True)
        os.mkfifo(folder / "pipe")
        os.chdir(folder)
        try:
            attempt(line(rng), folder)
        finally:
            os.chdir(here)


def line(rng: random.Random) -> list[str]:
    """The words of a command line."""
    words = list(rng.choice(BASES))
    command = _command(words)
    options = [param for param in command.params if isinstance(param, click.Option)]
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 5))):
        if options:
            words += _option(rng.choice(options), rng)
    for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2))):
        _spoil(words, rng)
    return words


def _command(words: list[str]) -> click.Command:
    found: click.Command = getattr(import_module(COMMANDS[words[0]][0]), words[0].replace("-", "_"))
    if isinstance(found, click.Group) and len(words) > 1:
        return found.commands.get(words[1]) or (replay_on(words[1]) if words[0] == "dram" else found)
    return found


def _option(option: click.Option, rng: random.Random) -> list[str]:
    name = option.name or ""
    flag = rng.choice(option.opts)
    if option.is_flag:
        return [flag]
    if name in BOUNDED and rng.random() < 0.7:
        return [flag, BOUNDED[name]]
    return [flag, _value(option, name, rng)]


def _value(option: click.Option, name: str, rng: random.Random) -> str:
    draw = rng.random()
    if isinstance(option.type, Output):
        return rng.choice(OUTPUTS if draw < 0.85 else HOSTILE)
    if name in VALUES and draw < 0.6:
        return rng.choice(VALUES[name])
    if draw < 0.75 and isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        return str(rng.choice((1, 2, 3, 7, 16, 0.5)))
    return rng.choice(FILES if draw < 0.85 or (isinstance(option.type, click.Path) and draw < 0.95) else HOSTILE)


def _spoil(words: list[str], rng: random.Random) -> None:
    """Change one word, or take it away, or add one."""
    at = rng.randrange(1, len(words)) if len(words) > 1 else 0
    match rng.randrange(5):
        case 0 if at:
            del words[at]
        case 1 if at:
            words[at] = rng.choice(HOSTILE)
        case 2 if at:
            words[at] = rng.choice(FILES)
        case 3:
            words.insert(at + 1, rng.choice(HOSTILE + FILES))
        case _ if at and words[at]:
            place = rng.randrange(len(words[at]))
            words[at] = words[at][:place] + rng.choice("=,.:-/?x0 ") + words[at][place + rng.randrange(2) :]


def attempt(words: list[str], folder: Path) -> None:
    """Run a command line in ``folder``. Raises AssertionError as the module says, UsageError where it is refused."""
    if tuple(words[:2]) in LEFT_OUT or (words[0] == "validate" and "--list" not in words):
        words = [*words, "--nonsense"]
    before = dict(_contents(folder))
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    after = dict(_contents(folder))
    pairs = dict.fromkeys(zip(["", *words], words, strict=False))  # an option twice with one file names it once
    named = [LINKS.get(word, word) for _, word in pairs]  # an output follows a link
    shown = [word[:80] for word in words]
    assert result.exit_code in (0, 1, 2), f"exit code {result.exit_code}: {shown}"
    assert "Traceback" not in result.stderr, shown
    assert "out of memory" not in result.stderr, shown
    left = [name for name in after if ".accelsim-" in name]
    assert not left, f"{shown} left {left}"
    lost = [
        name
        for name, content in before.items()
        if after.get(name) != content and not name.startswith(("old", "dangling", "report")) and named.count(name) != 1
    ]
    assert not lost, f"{shown} changed {lost}"
    if result.exit_code == 2:
        assert after == before, f"{shown} was refused and wrote {sorted(set(after) ^ set(before))}"
        several = words[:2] == ["spec", "check"]  # tells of each file
        assert several or result.stdout == "", f"{shown} was refused after it printed {result.stdout[:200]!r}"
        told = result.stderr.strip()
        assert told, f"{shown} was refused without a word"
        raise UsageError(told[:300])


def _contents(folder: Path) -> Iterator[tuple[str, object]]:
    """Every file below with its content, every link with its target."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            yield name, str(path.readlink())
        elif path.is_file():
            yield name, path.read_bytes()
        else:
            yield name, path.stat().st_mode


@cache
def stock() -> Path:
    """A directory with a file of each kind; of the process, removed by nobody but the system."""
    folder = Path(tempfile.mkdtemp(prefix="accelsim-fuzz-"), "stock")
    folder.mkdir()
    _model(folder / "m.onnx")
    rng = np.random.default_rng(1)
    np.savez(folder / "in.npz", x=rng.standard_normal((2, 4)).astype(np.float32))
    np.savez(folder / "data.npz", x=rng.standard_normal((40, 4)).astype(np.float32), y=rng.integers(0, 4, 40))
    np.savez(folder / "run.npz", **{"dram.address": np.arange(20) * 64, "dram.write": np.arange(20) % 3 == 0})
    (folder / "map.yaml").write_text("y: {tm: 2}\n")
    shutil.copy(Path(__file__).parents[2] / "hwspecs" / "chips" / "edu-4x4.yaml", folder / "chip.yaml")
    (folder / "shapes.csv").write_text("Layer, M, N, K,\na, 3, 4, 5,\n")
    (folder / "t.trace").write_text("0x0 R\n0x40 W\n" * 10)
    (folder / "junk").write_bytes(bytes(range(256)) * 4)
    (folder / "empty").touch()
    (folder / "old").write_text("old")
    (folder / "olddir").mkdir()
    (folder / "olddir" / "mine").write_text("mine")
    (folder / "closed").write_text("no directory")
    (folder / "link.onnx").symlink_to("m.onnx")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nothing/there")
    words = ["run", GEMM, "--on", "edu-4x4", "--values", "off", "--out", str(folder / "report")]
    assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
    return folder


def _model(path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="y")], "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])], [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
