"""Bad input: what, where, what was expected; all at once; exit code 2; nothing half-written."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper
from pydantic import BaseModel, PlainSerializer

from accelsim.cli import Stopped, ended_by_signals, main
from accelsim.errors import HazardError
from accelsim.spec.yaml.load import load_chip, show
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.sources.load import load_model

Refused = Callable[..., list[str]]
CHIP = show(load_chip("tpu-v1"))


def spec_with(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = CHIP
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def place(path: Path, inside: str) -> str:
    """'file:line:column' of the only occurrence of a text."""
    text = path.read_text(encoding="utf-8")
    before = text[: text.index(inside)].splitlines()
    return f"{path}:{len(before)}:{len(before[-1]) + 1}"


def small_onnx(path: Path, op: str = "Relu", domain: str = "", dims: tuple[object, ...] = (1, 4)) -> Path:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node(op, ["x"], ["y"], name="the_node", domain=domain)]
    imports = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes, "small", [value], [out])
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def test_unknown_chip_and_model_are_told_together_with_the_nearest_names(refused: Refused) -> None:
    lines = refused("run", "resnet5", "--on", "tpuv1")
    assert len(lines) == 2
    assert lines[0].startswith("error: no chip 'tpuv1'; expected one of ")
    assert lines[0].endswith("did you mean 'tpu-v1'?")
    assert lines[1].startswith("error: no model 'resnet5'")
    assert lines[1].endswith("did you mean 'resnet50'?")


def test_every_kind_of_wrong_option_is_told_at_once(refused: Refused, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    lines = refused(
        "run", "cnn", "--on", "tpu-v1", "--shape", "x", "--param", "resolution=big", "--values", "exat",
        "--dataflow", "sw", "--array-timing", "overlaped", "--set", "matrix.rowz=4",
        "--out", file, "--mapping", tmp_path / "none",
    )  # fmt: skip
    assert len(lines) == 8
    text = "\n".join(lines)
    for part in ("--shape 'x'; expected NAME=1,3,224,224", "--param 'resolution=big'", "did you mean 'exact'?",
                 "did you mean 'ws'?", "did you mean 'overlapped'?", "did you mean 'cores.core.engines.matrix.rows'?",
                 f"{file}: is a file; expected a directory", "none: cannot read the mapping"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("command", [("run", "cnn", "--on"), ("spec", "check"), ("spec", "show")])
def test_five_planted_errors_come_with_line_and_column(
    refused: Refused, tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = spec_with(
        tmp_path,
        ("      latency: 49.6 ns", "      latency: 49.6"),
        ("  lanes: 256", "  lains: 256"),
        ("      bandwidth: 34 GB/s", "      bandwidth: -34 GB/s"),
        ("    capacity: 24 MiB", "    capacity: 24"),
        ("    slots: 4", "    slots: xyz"),
    )
    lines = refused(*command, path)
    assert len(lines) == 5
    for text in ("49.6\n", "lains", "-34 GB/s", "24\n", "xyz"):
        assert sum(line.startswith(f"error: {place(path, text)}: ") for line in lines) == 1, (text, lines)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("      bandwidth: 34 GB/s", "      bandwidth: -34 GB/s", "bandwidth"),
        ("    capacity: 24 MiB", "    capacity: 24", "has no unit; expected a number of bytes in B"),
    ],
)
def test_one_wrong_quantity_is_one_line(refused: Refused, tmp_path: Path, old: str, new: str, says: str) -> None:
    lines = refused("run", "cnn", "--on", spec_with(tmp_path, (old, new)))
    assert len(lines) == 1
    assert says in lines[0]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("run cnn --on tpu-v1?rows=4", "'tpu-v1?rows=4': a chip takes nothing after '?'; expected 'tpu-v1', with"),
        ("run cnn --on net.json", "'net.json' is no spec file; expected a chip's name (see 'accelsim chips') or a"),
        ("run gpt --on dgx-a100?devices=0 --train --values off", "'dgx-a100?devices=0': devices=0; expected a"),
        ("run gpt --on dgx-a100 --values off", "gpt on a cluster needs a task; expected --train for a training"),
        ("collective all_reduce --on dgx-a100 --size -5", "--size: '-5' is negative; expected 1 B or more"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_typed(refused: Refused, command: str, says: str) -> None:
    (line,) = refused(*command.split())
    assert line.startswith(f"error: {says}")


def test_an_override_that_names_no_field(refused: Refused) -> None:
    lines = refused("run", "cnn", "--on", "tpu-v1", "--set", "memories.ddr3.memory.bandwith=1 GB/s", "--set", "x")
    assert len(lines) == 2
    assert any("did you mean 'memories.ddr3.memory.bandwidth'?" in line for line in lines)


def test_an_unknown_op_is_named_with_node_and_opset(refused: Refused, tmp_path: Path) -> None:
    lines = refused("run", small_onnx(tmp_path / "m.onnx", "Frobnicate", "org.example"), "--on", "tpu-v1")
    assert len(lines) == 1
    for part in ("the_node", "Frobnicate", "org.example", "opset 1"):
        assert part in lines[0]


def test_an_op_that_only_the_host_knows_runs_there(cli: Callable[..., object], tmp_path: Path) -> None:
    result = cli("run", small_onnx(tmp_path / "m.onnx", "Det", dims=(4, 4)), "--on", "tpu-v1", "--json")
    assert result.exit_code == 0  # type: ignore[attr-defined]
    assert '"steps_on_host": 1' in result.stdout  # type: ignore[attr-defined]


def test_dynamic_shapes_ask_for_a_shape(refused: Refused, cli: Callable[..., object], tmp_path: Path) -> None:
    path = small_onnx(tmp_path / "m.onnx", dims=("batch", "length"))
    (line,) = refused("run", path, "--on", "tpu-v1")
    assert "input 'x' has shape [batch, length]" in line
    assert "--shape x=" in line
    result = cli("run", path, "--on", "tpu-v1", "--shape", "x=2,3")
    assert result.exit_code == 0  # type: ignore[attr-defined]


def test_a_truncated_onnx_file(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    whole = export_onnx(load_model("cnn")).SerializeToString()
    path.write_bytes(whole[: len(whole) // 2])
    (line,) = refused("run", path, "--on", "tpu-v1")
    assert str(path) in line
    assert "truncated" in line


def test_a_layer_that_cannot_fit_says_which_buffer_and_by_how_much(
    refused: Refused, cli: Callable[..., object]
) -> None:
    """conv1 goes in blocks of a few pixels; the pooling behind conv2 needs its images whole."""
    (line,) = refused("run", "cnn", "--on", "edu-4x4", "--set", "act_sram.capacity=64 B", "--out", "never-made")
    found = re.search(r"conv2 does not fit: act_sram needs ([\d,]+) B, 64 B are available \(tile ", line)
    assert found is not None
    assert not Path("never-made").exists()
    least_B = int(found[1].replace(",", ""))
    (line,) = refused("run", "cnn", "--on", "edu-4x4", "--set", f"act_sram.capacity={least_B - 1} B")
    assert f"conv2 does not fit: act_sram needs {least_B} B, {least_B - 1} B are available" in line
    result = cli("run", "cnn", "--on", "edu-4x4", "--set", f"act_sram.capacity={least_B} B")
    assert result.exit_code == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", ["--out", "--save-mapping"])
def test_a_place_below_a_file_is_refused_before_the_simulation(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    def never(*args: object) -> None:
        raise AssertionError("simulated although the result has no place")

    monkeypatch.setattr("accelsim.request.job.simulate", never)
    monkeypatch.setattr("accelsim.request.job.compile", never)
    file = tmp_path / "file"
    file.touch()
    (line,) = refused("run", "cnn", "--on", "tpu-v1", option, file / "deep")
    assert f"{file / 'deep'}: " in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(refused: Refused, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    (line,) = refused("run", "cnn", "--on", "tpu-v1", "--out", tmp_path / "report")
    assert "cannot be written" in line


def test_a_directory_of_something_else_is_left_alone(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    (line,) = refused("run", "cnn", "--on", "tpu-v1", "--out", tmp_path)
    assert "holds no report" in line
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


INTERRUPT = """
import signal, sys
from accelsim.machine.values.exact import Exact
from accelsim.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
before, seen = Exact.complete, []

def complete(self, command):
    seen.append(command)
    if len(seen) == 4:
        signal.raise_signal(signal.SIGINT)
    before(self, command)

Exact.complete = complete
main(["run", "cnn", "--on", "tpu-v1", "--out", sys.argv[1], "--save-mapping", sys.argv[2]])
"""


def test_an_interrupt_in_mid_run_writes_nothing(tmp_path: Path) -> None:
    args = [sys.executable, "-c", INTERRUPT, str(tmp_path / "report"), str(tmp_path / "mapping.yaml")]
    done = subprocess.run(args, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert done.stderr == "interrupted; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


class Interrupted(BaseModel):
    """A model that is interrupted while pydantic calls Python, which makes an error of its own of whatever that raises."""

    value: Annotated[int, PlainSerializer(lambda value: signal.raise_signal(signal.SIGINT))] = 1


def test_an_interrupt_inside_a_library_is_one() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Stopped) as stopped, ended_by_signals():
            Interrupted().model_dump_json()
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped.value.number == signal.SIGINT


@pytest.mark.parametrize(("stream", "code"), [("stdin", 0), ("stdout", 74), ("stderr", 0)])
def test_only_a_closed_stdout_is_an_error(
    stream: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after ``>&-``: commands ask streams whether they are a terminal, and print at least their help."""
    monkeypatch.setattr(sys, stream, None)
    with pytest.raises(SystemExit) as ended:
        main(["energy", "--help"])
    with getattr(sys, stream) as opened:
        assert not opened.isatty()
    assert ended.value.code == code
    told = f"error: the output cannot be written: {os.strerror(errno.EBADF)}\n"
    assert capsys.readouterr().err == (told if code else "")


def test_no_memory_left_is_one_line(cli: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("accelsim.request.job.simulate", hungry)
    result = cli("run", "cnn", "--on", "tpu-v1")
    assert result.exit_code == 1  # type: ignore[attr-defined]
    assert result.stderr.startswith("error: out of memory")  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", [HazardError("load", "x version 2", "nobody"), KeyError("x")])
def test_a_fault_of_accelsim_is_no_bad_input(
    cli: Callable[..., object], monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def wrong(*args: object) -> None:
        raise fault

    monkeypatch.setattr("accelsim.request.job.simulate", wrong)
    result = cli("run", "cnn", "--on", "tpu-v1")
    assert result.exit_code == 70  # type: ignore[attr-defined]
    told = result.stderr  # type: ignore[attr-defined]
    assert f"internal error: {type(fault).__name__}: {fault}\nThis is a fault of accelsim" in told
    assert "Please report it" in told and not re.search("^error:", told, re.MULTILINE)


INPUTS = [
    ({"x": np.zeros((1, 1, 28, 28))}, "holds float64 values; expected fp32", False),
    ({}, "input 'x' is missing; expected an array of shape [1, 1, 28, 28]", True),
    ({"x": np.zeros((1, 28, 28))}, "input 'x' has shape [1, 28, 28]; expected [1, 1, 28, 28]", True),
    ({"X": np.zeros((1, 1, 28, 28))}, "the model has no input 'X'; expected one of x; did you mean 'x'?", True),
]


@pytest.mark.parametrize(("arrays", "says", "wrong"), INPUTS)
def test_inputs_that_do_not_fit(
    cli: Callable[..., object], tmp_path: Path, arrays: dict[str, np.ndarray], says: str, wrong: bool
) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, **arrays)
    result = cli("run", "cnn", "--on", "edu-4x4", "--inputs", path)
    assert result.exit_code == (2 if wrong else 0)  # type: ignore[attr-defined]
    assert (f"inputs: {says}" in result.stderr) == wrong  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_inputs_that_are_no_npz(refused: Refused, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    (line,) = refused("run", "cnn", "--on", "tpu-v1", "--inputs", path)
    assert f"{path}: " in line
    assert "expected an npz file" in line


def test_a_single_array_or_pickles_are_no_inputs(refused: Refused, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "pickle.npz", x=np.array([{}], dtype=object))
    np.savez(tmp_path / "text.npz", x=np.full((1, 1, 28, 28), "a"))
    for name, says in (
        ("one.npy", "without a name"),
        ("pickle.npz", "array 'x' holds object values; expected numbers"),
        ("text.npz", "array 'x' holds <U1 values; expected numbers"),
    ):
        (line,) = refused("run", "cnn", "--on", "tpu-v1", "--inputs", tmp_path / name)
        assert says in line
    (line,) = refused("run", "cnn", "--on", "tpu-v1", "--inputs", tmp_path / "none.npz")
    assert "No such file" in line


def test_indices_outside_their_table(refused: Refused, tmp_path: Path) -> None:
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [2])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    table = onnx.numpy_helper.from_array(np.zeros((5, 3), np.float32), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"], name="look_up")], "g", [ids], [out], [table]
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for values, says in (([0, 5], "holds indices from 0 to 5; expected 0 to 4"), ([0.5, 1.0], "holds float64 values")):
        np.savez(tmp_path / "in.npz", ids=np.array(values))
        (line,) = refused("run", path, "--on", "edu-4x4", "--inputs", tmp_path / "in.npz")
        assert says in line


@pytest.mark.parametrize(
    "args",
    [
        ("run",), ("run", "cnn"), ("run", "cnn", "--on", "tpu-v1", "--batch", "0"), ("rn",), ("run", "--nonsense"),
        ("array", "1", "2"), ("array", "--rows", "0", "1", "1", "1"), ("array", "--dataflow", "sw", "1", "1", "1"),
        ("array", "--watch", "--rows", "9", "--cols", "9", "1", "1", "1"), ("array", "--watch", "9999", "1", "1"),
        ("array", "--watch", "--rows", "2", "--cols", "2", "--schedule", "scalesim", "2", "2", "2"),
        ("array", "--csv", "in.csv"), ("array", "--shapes", "in.csv", "--csv", "out.csv", "1", "1", "1"),
        ("compare", "nowhere"), ("compare",), ("compare", "nowhere", "--plot", "x.pdf"), ("spec", "check", "nowhere"),
        ("spec", "schema", "chip"), ("validate", "scalesimm"), ("validate", "--rows", "x.csv"),
        ("validate", "scalesim", "--rows", "x.csv", "--csv", "y.csv"), ("validate", "rtl-machine", "--rows", "x.csv"),
        ("run", "cnn", "--on", "tpu-v1", "--check", "--values", "off"),
        ("run", "cnn", "--on", "tpu-v1", "--dtype", "fp32"), ("run", "cnn", "--on", "tpu-v1", "--weights", "rnd"),
        ("run", "cnn", "--on", "haswell-e5-2699v3", "--dataflow", "os"),
        ("run", "cnn", "--on", "tpu-v1", "--param", "colour=3"), ("run", "cnn", "--on", "tpu-v1", "--shape", "x=1,2"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_whatever_is_wrong_the_exit_code_is_2(refused: Refused, args: tuple[str, ...]) -> None:
    lines = refused(*args)
    assert any(line.lower().startswith("error: ") for line in lines)


def test_bytes_of_names_that_are_no_text_are_escaped() -> None:
    """What an undecodable byte of the command line becomes in Python, which no UTF-8 can hold."""
    result = CliRunner().invoke(main, ["spec", "check", "\udcff.yaml", "--json"])
    assert result.exit_code == 2
    (told,) = json.loads(result.stdout)
    assert "\udcff.yaml" in json.dumps(told, ensure_ascii=False)
