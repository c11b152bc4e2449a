"""What an output option may do to what is there: no input is lost, nothing is left half written, what is said is true."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper

from accelsim import files

pytestmark = pytest.mark.usefixtures("unpainted")

Cli = Callable[..., Result]
Refused = Callable[..., list[str]]

QUICK = ("gemm?M=2,N=2,K=2", "--on", "edu-4x4", "--values", "off", "--no-advice")


def small_model(path: Path) -> Path:
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])], [weight],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an input of each kind, in which one is."""
    monkeypatch.chdir(tmp_path)
    small_model(tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.ones((2, 4), np.float32))
    (tmp_path / "map.yaml").write_text("y: {Tm: 2}\n")
    (tmp_path / "t.trace").write_text("0x0 R\n0x40 W\n")
    shutil.copy(Path(__file__).parents[3] / "hwspecs" / "chips" / "edu-4x4.yaml", tmp_path / "chip.yaml")
    (tmp_path / "link.yaml").symlink_to("chip.yaml")
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    return tmp_path


RUN = ("run", "m.onnx", "--on", "chip.yaml")
SAME = [
    (*RUN, "--save-mapping", "m.onnx"), (*RUN, "--save-mapping", "./m.onnx"), (*RUN, "--save-mapping", "chip.yaml"),
    (*RUN, "--save-mapping", "link.yaml"), (*RUN, "--save-mapping", "weights.bin"),
    (*RUN, "--mapping", "map.yaml", "--save-mapping", "map.yaml"),
    (*RUN, "--inputs", "in.npz", "--memory-model", "bank", "--save-trace", "in.npz"),
    (*RUN, "--ranges-from", "in.npz", "--memory-model", "bank", "--save-trace", "in.npz"),
    ("quantize", "m.onnx", "--out", "m.onnx"), ("quantize", "m.onnx", "--out", "link.onnx"),
    ("quantize", "m.onnx", "--data", "in.npz", "--out", "in.npz"), ("train", "m.onnx", "--out", "m.onnx"),
    ("export-trace", "t.trace", "--format", "dramsim3", "--out", "t.trace"),
    ("run", "cnn", "--on", "edu-4x4", "--set", "memories.dram.memory=map.yaml", "--save-mapping", "map.yaml"),
]  # fmt: skip


@pytest.mark.parametrize("words", SAME, ids=" ".join)
def test_an_input_is_never_the_output(refused: Refused, place: Path, words: tuple[str, ...]) -> None:
    before = contents(place)
    lines = refused(*words)
    assert any("is an input of this command" in line and Path(words[-1]).name in line for line in lines), lines
    assert contents(place) == before
    assert (place / "link.onnx").is_symlink()


@pytest.mark.parametrize("name", ["cnn", "edu-4x4", "1234"])
def test_a_report_may_have_the_name_of_what_is_run(name: str, place: Path, cli: Cli, refused: Refused) -> None:
    """The second run finds a directory called like its model, its chip or a number: that is no input of it."""
    words = ("run", "cnn", "--on", "edu-4x4", "--values", "off", "--no-advice", "--seed", "1234", "--out", name)
    for _ in range(2):
        assert cli(*words).exit_code == 0
    before = (place / name / "summary.json").read_bytes()
    (line,) = refused("compare", name, "--csv", f"{name}/summary.json")
    assert "is an input of this command" in line
    assert (place / name / "summary.json").read_bytes() == before


def test_a_spec_file_of_the_tool_is_never_the_output(refused: Refused) -> None:
    spec = Path(__file__).parents[3] / "hwspecs" / "chips" / "edu-4x4.yaml"
    before = spec.read_bytes()
    (line,) = refused("run", *QUICK, "--save-mapping", spec)
    assert "is an input of this command" in line
    assert spec.read_bytes() == before


def test_what_a_spec_names_is_an_input_too(refused: Refused, place: Path) -> None:
    (place / "mine.yaml").write_text((place / "chip.yaml").read_text().replace("memories/", "./memories/"))
    (place / "chip.yaml").write_text("use: ./deep/part\n")
    (place / "deep").mkdir()
    (place / "deep" / "part.yaml").write_text("x: 1\n")
    lines = refused(*RUN, "--save-mapping", "deep/part.yaml")
    assert any("deep/part.yaml: the output is an input" in line for line in lines)


def test_two_outputs_have_two_names(refused: Refused, place: Path) -> None:
    lines = refused(*RUN, "--memory-model", "bank", "--save-mapping", "./o.npz", "--save-trace", "o.npz")
    assert [line for line in lines if "is named by two options" in line]


def test_devices_links_and_pipes_as_targets(cli: Cli, refused: Refused, tmp_path: Path) -> None:
    assert cli("run", *QUICK, "--save-mapping", "/dev/null").exit_code == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    assert cli("run", *QUICK, "--save-mapping", tmp_path / "link").exit_code == 0
    assert (tmp_path / "link").is_symlink()
    assert "order:" in (tmp_path / "real").read_text()
    os.mkfifo(tmp_path / "pipe")
    (line,) = refused("export-trace", "seq_read", "--on", "ddr3-1600", "--format", "dramsim3", "--out", tmp_path / "pipe")  # fmt: skip
    assert "nobody reads from this pipe" in line


@contextmanager
def files_of_at_most(size_B: int) -> Iterator[None]:
    """Every file that grows beyond it is refused by the system, as on a full disk. Python would cut off byte code of
    modules that are imported meanwhile, without a word."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_B, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


WRITERS = [
    ("run", *QUICK, "--out", "out"), ("run", *QUICK, "--save-mapping", "out"),
    ("run", *QUICK, "--memory-model", "bank", "--save-trace", "out.npz"),
    ("link", "pcie-gen4-x16", "--out", "out"), ("sram", "--capacity", "1MiB", "--out", "out"),
    ("noc", "mesh-4x4", "--load", "0.1", "--clocks", "100", "--out", "out"), ("energy", "table", "--out", "out"),
    ("dram", "ddr3-1600", "--limit", "10", "--out", "out"), ("dram", "compare", "ddr3-1600", "--limit", "10", "--out", "out"),
    ("train", "digits-mlp", "--steps", "1", "--out", "out"), ("train", "digits-mlp", "--steps", "1", "--plot", "out.png"),
    ("batching", "cnn", "--on", "tpu-v1", "--batches", "1", "--plot", "out.png"),
    ("formats", "show", "fp16", "1", "--plot", "out.svg"), ("quantize", "digits-mlp", "--out", "out"),
    ("export-trace", "seq_read", "--on", "ddr3-1600", "--format", "dramsim3", "--out", "out"),
]  # fmt: skip


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_a_full_disk_is_told_and_leaves_what_was_there(
    cli: Cli, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    pytest.importorskip("sklearn.datasets")  # imported now: with the limit set it warns
    monkeypatch.chdir(tmp_path)
    with files_of_at_most(20):
        lines = refused(*words)
    assert len(lines) == 1
    assert f"error: {words[-1]}: cannot be written: File too large" in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_a_full_stdout_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "accelsim", "models"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 74
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("word", ["models", "--help", "--version"])
def test_a_pipe_that_nobody_reads_ends_a_command_in_silence(word: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "accelsim", word], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (74, b"")


def test_what_is_in_the_way_in_an_old_report_is_told_before_the_run(cli: Cli, refused: Refused, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli("run", *QUICK, "--out", out).exit_code == 0
    (out / "layers.csv").unlink()
    os.mkfifo(out / "layers.csv")
    os.mkfifo(out / "mine")
    (out / "plots" / "my own.svg").write_text("mine")
    (line,) = refused("run", *QUICK, "--out", out)
    assert "layers.csv: is a pipe; expected a file, or nothing" in line
    (out / "layers.csv").unlink()
    assert cli("run", *QUICK, "--out", out).exit_code == 0
    assert (out / "plots" / "my own.svg").read_text() == "mine"


# signals


SLOW = "resnet50"
STOP = """
import os, signal, sys
signal.signal(signal.{signal}, {heard})  # as in a shell; who tests in the background may have it ignored
import {module} as module
{also}
first = module.{name}
def stopped(*args, **named):
    {before}
    os.kill(os.getpid(), signal.{signal})
    {after}
module.{name} = stopped
from accelsim.cli import main
main(sys.argv[1:])
"""


HEARD = {signal.SIGINT: "signal.default_int_handler"}


UNPAINTED = "from matplotlib.figure import Figure\nFigure.savefig = lambda figure, file, **_: file.write(b'<svg/>')"


def stopped(
    number: signal.Signals, after: bool, words: list[str], module: str = "accelsim.files", name: str = "write_folder"
) -> subprocess.CompletedProcess[str]:
    """A command that gets a signal before or after its report took its place, or before another function is called."""
    call = "done = first(*args, **named)"
    code = STOP.format(
        module=module, name=name, also=UNPAINTED if after else "", signal=number.name, heard=HEARD.get(number, "signal.SIG_DFL"),
        before=call if after else "pass", after="return done" if after else "return first(*args, **named)",
    )  # fmt: skip
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "terminated")]
)  # fmt: skip
def test_what_an_interrupt_says_is_true(tmp_path: Path, number: signal.Signals, word: str) -> None:
    out = tmp_path / "out"
    words = ["run", *QUICK, "--out", str(out), "--save-mapping", str(tmp_path / "map.yaml")]
    done = stopped(number, False, words)
    assert (done.returncode, done.stderr) == (128 + number, f"{word}; nothing was written\n")
    assert list(tmp_path.iterdir()) == []
    done = stopped(number, True, words)
    assert (done.returncode, done.stderr) == (128 + number, f"{word}; {out} was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_signal_amid_the_writing_leaves_nothing(tmp_path: Path) -> None:
    """Sent while the first file is made."""
    words = ["run", *QUICK, "--out", str(tmp_path / "out")]
    done = stopped(signal.SIGTERM, False, words, "accelsim.files.writing", "_write")
    assert (done.returncode, done.stderr) == (143, "terminated; nothing was written\n")
    assert list(tmp_path.iterdir()) == []


def test_every_writer_is_the_one_writer() -> None:
    """No other module opens a file to write, renames or removes one."""
    package = Path(files.__file__).parents[1]
    words = (
        ".write_text(", ".write_bytes(", ".mkdir(", ".unlink(", ".rename(", "shutil.", "mkstemp(", "mkdtemp(",
        "TemporaryDirectory(", "onnx.save(", "np.save(", 'open("w', 'open("a', 'open("x', '.savefig(path',
    )  # fmt: skip
    found = [
        f"{path.relative_to(package)}: {word}"
        for path in sorted(package.rglob("*.py"))
        if path.parent != Path(files.__file__).parent
        for word in words
        if word in path.read_text(encoding="utf-8").replace("shutil.get_terminal_size", "").replace("shutil.which", "").replace("formatter.write_text(", "")
    ]  # fmt: skip
    assert found == []
