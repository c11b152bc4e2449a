"""The report of a training step: its page, trace, traffic by wire, scaling; the same bytes twice."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from accelsim import files
from accelsim.cluster.buckets import POLICIES, Fusion
from accelsim.cluster.step.asked import Asked, Ready, ready
from accelsim.cluster.step.energy import wire_bytes
from accelsim.cluster.step.fusing import tuned
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.step import weak_scaling
from accelsim.errors import UsageError
from accelsim.report.cluster.page import page_data
from accelsim.report.picture import Panel, Picture, points
from accelsim.report.step import StepReport
from accelsim.report.text import percent
from accelsim.report.write_step import NAMES, check_target, parts_caption, scaling_sentence, step_files, write_trace

PLANS = (
    "dp=2,pp=2",
    "tp=2,pp=2,microbatches=4",
    "dp=4,zero=3",
    "dp=2,tp=2,sp,zero=1",
    "pp=2,dp=2,schedule=interleaved,chunks=2,microbatches=4",
)

PICTURES = {"where": ("Where", "How.", Picture(1, [Panel("Parts", [points([0, 1], [0, 1])])]))}


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[Ready, StepResult]]:
    found = {}
    for plan in PLANS:
        one = ready(Asked("gpt", "4x-edu", plan, 8, params={"layers": 4, "hidden": 32, "ffn": 64}))
        found[plan] = one, one.step()
    return found


@pytest.mark.parametrize("plan", PLANS)
def test_bytes_of_wires_add_up_to_those_of_links(made: dict[str, tuple[Ready, StepResult]], plan: str) -> None:
    one, step = made[plan]
    by_link = Counter[str]()
    for wire, size in zip(one.fleet.topology.wires, wire_bytes(*one), strict=True):
        by_link[wire.link] += size
    assert by_link.keys() == step.by_link_B.keys()
    for name, size in step.by_link_B.items():
        assert by_link[name] == pytest.approx(size, rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_bytes_of_wires_are_those_that_fused_gradients_send(policy: str) -> None:
    """Whatever is joined; fp16 halves gradients of four bytes; local SGD sends every second step."""
    moved = {}
    for plan, compression in (("dp=4", "none"), ("dp=4", "fp16"), ("dp=2,pp=2,period=2", "none")):
        fusion = Fusion(policy, compression=compression)  # type: ignore[arg-type]
        asked = Asked("gpt", "4x-edu", plan, 8, params={"layers": 2, "hidden": 32, "ffn": 64})
        one = ready(replace(asked, options=Options(gradients=fusion, gradient_B=4)))
        step = one.step()
        moved[plan, compression] = sum(step.by_link_B.values())
        assert step.check() == [] and sum(wire_bytes(*one)) == pytest.approx(moved[plan, compression], rel=1e-4)
    assert moved["dp=4", "fp16"] == pytest.approx(moved["dp=4", "none"] / 2, rel=1e-4)


@pytest.mark.parametrize("plan", PLANS)
def test_page_data_are_of_the_step(made: dict[str, tuple[Ready, StepResult]], plan: str) -> None:
    _, step = made[plan]
    data = page_data(step, ["Words."], PICTURES)
    lines, pictures = data["lines"], {each["name"]: each["panels"] for each in data["pictures"]}
    assert json.loads(json.dumps(data, allow_nan=False))["sentences"] == ["Words."]
    assert len(lines["names"]) == len(set(lines["names"])) == len(step.devices)
    for line, device in enumerate(step.devices):
        spent = [
            mark["columns"]["value"][at]
            for mark in pictures["bars"][0]["marks"]
            for at, number in enumerate(mark["columns"]["line"])
            if number == line
        ]
        assert sum(spent) == pytest.approx(step.time_s, rel=1e-12)
        row = pictures["timeline"][0]["marks"][line]
        assert sum(row["span"]) == step.time_fs and sum(row["steps"]) < step.time_fs
        (memory,) = pictures["buffers"][line]["marks"]
        assert max(a + b for a, b in zip(memory["low"], memory["size"], strict=True)) == device.memory.peak_B
    assert all(name in parts_caption(step) for name, fs in step.parts_fs.items() if fs)


def test_the_trace_has_a_process_for_each_kind_of_device(
    made: dict[str, tuple[Ready, StepResult]], tmp_path: Path
) -> None:
    _, step = made["dp=2,pp=2"]
    file = tmp_path / "timeline.json.gz"
    with file.open("wb") as stream:
        write_trace(step, stream)
    whole = json.loads(gzip.decompress(file.read_bytes()))
    events = whole["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["stage 0 (2 devices)", "stage 1 (2 devices)"]
    spans = [event for event in events if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in spans) <= step.time_fs / 1e9 + 1e-6
    counters = [event for event in events if event["ph"] == "C" and event["pid"] == 1]
    assert max(sum(event["args"].values()) for event in counters) == step.devices[0].memory.peak_B


def test_scaling_begins_with_one_replica_and_ends_with_the_plan(made: dict[str, tuple[Ready, StepResult]]) -> None:
    one, step = made["dp=4,zero=3"]
    steps = weak_scaling(*one)
    assert [each.plan.dp for each in steps] == [1, 2, 4]
    assert steps[-1].time_fs == step.time_fs and {each.batch // each.plan.dp for each in steps} == {2}
    rates = [each.samples_per_s / each.plan.devices for each in steps]
    assert f"efficiency of {percent(rates[-1] / rates[0])}." in scaling_sentence(steps)


def test_a_report_is_whole_and_has_the_same_bytes_again(
    made: dict[str, tuple[Ready, StepResult]], tmp_path: Path
) -> None:
    one, step = made["dp=2,pp=2"]
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        files.write_folder(folder, step_files(one, StepReport(step, fused=tuned(one))))
    for name in (each for each in NAMES if not each.endswith(".png")):
        first, second = ((folder / name).read_bytes() for folder in folders)
        assert first == second and first, name
    page = (folders[0] / "report.html").read_text(encoding="utf-8")
    assert (
        page.count('<section class="part"') == 8
        and "Fused gradients by threshold" in page
        and "stage 1 (2 devices)" in page
    )
    files.write_folder(folders[0], step_files(one, StepReport(step)))  # again in its own folder
    assert not (folders[0] / "plots" / "fusion.svg").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "diary.txt").write_text("mine")
    with pytest.raises(UsageError, match="report of a training step"):
        check_target(tmp_path / "other")


def test_a_chip_alone_has_no_traffic_to_show(tmp_path: Path) -> None:
    one = ready(Asked("digits-mlp?hidden=8", "edu-4x4", batch=4))
    step = one.step()
    folder = tmp_path / "step"
    files.write_folder(folder, step_files(one, StepReport(step)))
    assert {path.stem for path in (folder / "plots").iterdir()} == {"where_time_goes"}
    titles = [each["title"] for each in page_data(step, [], PICTURES)["last"]]
    assert titles == ["What the constants of the chips come of"]


def test_a_chip_without_fitted_constants_is_said_to_be_so(made: dict[str, tuple[Ready, StepResult]]) -> None:
    assert "edu-4x4 is not calibrated." in StepReport(made[PLANS[0]][1]).sentences()
