"""A saved run says what was run, and is repeated from that."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import accelsim
from accelsim.errors import UsageError
from accelsim.request import IN_MEMORY, Request, command, differences, how_to_repeat, record, repeated
from accelsim.request.job import prepare
from accelsim.spec.yaml.where import find
from accelsim.workload.onnx.exporting.model import export_onnx

Cli = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("unpainted")


def asked(**more: object) -> dict[str, object]:
    return prepare(Request("mlp?hidden=16", "edu-4x4", values="off", **more)).asked  # type: ignore[arg-type]


def test_record_gives_the_line_that_asks_for_the_same() -> None:
    found = asked(dtype="int8", set=["clock=50 MHz"], layer_dtype={"fc1": "fp32"}, batch=2, emulate=True)
    assert found["command"] == (
        "accelsim run 'mlp?hidden=16' --on edu-4x4 --dtype int8 --values off --batch 2 --set 'clock=50 MHz' "
        "--layer-dtype fc1=fp32 --emulate"
    )
    again = repeated(json.loads(json.dumps(found)), "here")
    assert prepare(again).asked == found


def test_a_field_that_is_set_twice_is_one_run_on_the_command_line_too() -> None:
    """The last setting holds; '--set' of both would be a table of two runs."""
    found = prepare(
        Request("mlp?hidden=16", "edu-4x4", values="off", set=["clock=50 MHz", "cores=2", "clock = 20 MHz"])
    )
    assert found.chip.clock == 20e6
    assert found.asked["command"].endswith("--set cores=2 --set 'clock = 20 MHz'")


def test_runs_of_other_settings_can_be_told_apart() -> None:
    records = [asked(), asked(set=["clock=50 MHz"]), asked(dtype="int8"), asked(seed=3), asked(dataflow="os")]
    assert len({json.dumps(each["asked"]) for each in records}) == len(records)
    assert len({each["chip_sha256"] for each in records}) == 2
    assert asked(batch=3)["model_sha256"] != records[0]["model_sha256"]


def test_what_was_given_in_memory_is_named_and_not_repeated() -> None:
    graph, chip = accelsim.load_model("mlp?hidden=16"), accelsim.load_chip("edu-4x4")
    found = record(Request(graph, chip, scales={"x": np.ones(1)}), chip, graph)
    assert (found["command"], found["in_memory"]) == ("", ["model", "on", "scales"])
    assert found["asked"]["model"] == IN_MEMORY
    with pytest.raises(UsageError, match="model was given in memory"):
        repeated(found, "here")


def test_files_are_recorded_with_their_hash(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 784), np.float32))
    name = str(tmp_path / "in.npz")
    before = prepare(Request("mlp?hidden=16", "edu-4x4", inputs=name)).asked
    np.savez(tmp_path / "in.npz", x=np.ones((1, 784), np.float32))
    after = prepare(Request("mlp?hidden=16", "edu-4x4", inputs=name)).asked
    assert differences(before, after) == [f"file {name} has changed"]


def test_field_without_an_option_has_no_command() -> None:
    assert command({"model": "m", "on": "c", "mapping": {"y": {"tm": 8}}}) == ""
    assert command({"model": "m", "on": "c", "shape": {"x": (), "y": (1, 2)}}).endswith("--shape 'x=()' --shape y=1,2")


def test_rerun_finds_every_figure_as_it_was(cli: Cli, tmp_path: Path) -> None:
    report = tmp_path / "report"
    assert (
        cli("run", "mlp?hidden=16", "--on", "edu-4x4", "--dtype", "int8", "--no-advice", "--out", report).exit_code == 0
    )
    result = cli("rerun", report, "--out", tmp_path / "again")
    assert result.exit_code == 0
    assert "Every figure of the summary is what it was." in result.stdout
    assert (report / "summary.json").read_bytes() == (tmp_path / "again" / "summary.json").read_bytes()
    assert json.loads(cli("rerun", report, "--json").stdout)["equal"] is True


def test_rerun_names_what_differs(cli: Cli, tmp_path: Path) -> None:
    report = tmp_path / "report"
    cli("run", "mlp?hidden=16", "--on", "edu-4x4", "--no-advice", "--out", report)
    saved = json.loads((report / "summary.json").read_text())
    saved["latency_s"], saved["run"]["chip_sha256"] = 1.5, "0"
    (report / "summary.json").write_text(json.dumps(saved))
    result = cli("rerun", report)
    assert result.exit_code == 1
    assert "latency_s  1.5" in result.stdout
    assert "the chip is not what it was" in result.stdout


def test_rerun_simulates_changes_of_the_chip_where_the_report_has_them(cli: Cli, tmp_path: Path) -> None:
    advised, plain = tmp_path / "advised", tmp_path / "plain"
    model = ["run", "mlp?hidden=16", "--on", "edu-4x4", "--values", "off"]
    cli(*model, "--out", advised)
    cli(*model, "--out", plain, "--no-advice")
    assert json.loads((advised / "summary.json").read_text())["what_ifs"]
    assert cli("rerun", advised).exit_code == cli("rerun", plain).exit_code == 0
    saved = json.loads((advised / "summary.json").read_text())
    saved["what_ifs"][1]["latency_s"] = 1.5
    (advised / "summary.json").write_text(json.dumps(saved))
    result = cli("rerun", advised)
    assert result.exit_code == 1 and "what_ifs.2.latency_s  1.5" in result.stdout


def test_rerun_of_what_is_no_report_or_of_an_older_one_says_so(cli: Cli, tmp_path: Path) -> None:
    assert cli("rerun", tmp_path).exit_code == 2
    (tmp_path / "summary.json").write_text('{"tool": "accelsim"}')
    result = cli("rerun", tmp_path)
    assert result.exit_code == 2
    assert "latency_s is missing; expected a report of this version" in result.stderr


def test_a_table_of_energies_is_recorded_too(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    shutil.copy(find("energy/horowitz-45nm"), table)
    found = asked(energy=str(table))
    assert list(found["files"]) == [str(table)]


def test_files_are_recorded_beside_a_graph_in_memory(tmp_path: Path) -> None:
    chip = tmp_path / "mine.yaml"
    chip.write_text("use: chips/edu-4x4\nname: mine\nsource: a test\nas_of: 2026-11\n")
    found = prepare(Request(accelsim.load_model("mlp?hidden=16"), str(chip), values="off")).asked
    assert list(found["files"]) == [str(chip)]


def test_external_data_of_a_model_are_recorded_with_it(tmp_path: Path) -> None:
    import onnx

    proto = export_onnx(accelsim.load_model("mlp?hidden=16"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    request = Request(str(tmp_path / "m.onnx"), "edu-4x4", values="off")
    before = prepare(request).asked
    assert set(before["files"]) == {str(tmp_path / "m.onnx"), str(tmp_path / "m.data")}
    content = bytearray((tmp_path / "m.data").read_bytes())
    content[-1] ^= 1
    (tmp_path / "m.data").write_bytes(content)
    assert differences(before, prepare(request).asked) == [f"file {tmp_path / 'm.data'} has changed"]


def test_what_has_no_command_says_why(tmp_path: Path) -> None:
    scaled = accelsim.run("mlp?hidden=16", "edu-4x4", values="off", scales={"fc1": 0.5})
    assert how_to_repeat(scaled.asked) == "(no command line: no option gives scales)"
    assert "accelsim rerun" in scaled.report(tmp_path / "a").read_text()
    loaded = accelsim.run("mlp?hidden=16", accelsim.load_chip("edu-4x4"), values="off")
    assert how_to_repeat(loaded.asked) == "(no command line: on given in memory)"
    assert "accelsim rerun" not in loaded.report(tmp_path / "b").read_text()


def test_numbers_of_numpy_are_numbers() -> None:
    found = asked(param={"layers": np.int64(2)}, batch=np.int32(3))
    assert (found["in_memory"], found["asked"]["param"], found["asked"]["batch"]) == ([], {"layers": 2}, 3)
