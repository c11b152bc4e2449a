"""Serving on a cluster: parts add up, memory, pipelines, legal plans, words and files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

import accelsim
from accelsim.cli import main
from accelsim.cluster.collectives.software import estimate
from accelsim.cluster.plan.plan import parse_plan
from accelsim.cluster.serving.asked import served
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.pieces import Call, attention, embedding, feed_forward, head
from accelsim.cluster.serving.serve import Asked, Served, cache_B, needs, serve
from accelsim.cluster.serving.step import Layout
from accelsim.cluster.serving.what_if import what_ifs
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.memory import OutOfMemory
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.errors import UsageError
from accelsim.report.serving import answer, call_records, facts, sentences, summary_rows
from accelsim.spec.yaml.clusters import load_cluster
from tests.helpers.pictures import unpainted

SMALL = "llama2-70b?layers=4,hidden=1024,heads=8,kv_heads=8,ffn=2816,vocab=1024"


def model(text: str = SMALL) -> Transformer:
    found = transformer_of(text)
    assert found is not None
    return found


@cache
def small(plan: str, sequences: int = 4, new: int = 3, cluster: str = "dgx-a100", devices: int = 4) -> Served:
    loaded = load_cluster(cluster, [f"nodes.node.devices.gpu.count={devices}"])
    return serve(model(), fleet_of(loaded), parse_plan(plan), Asked(sequences, 64, new))


def test_at_the_wall_each_device_has_its_share_of_the_host() -> None:
    """Boards and an even share of what the node draws beside them, divided by what supplies pass on."""
    fleet = fleet_of(load_cluster("dgx-a100?devices=2"))
    found = serve(model(), fleet, parse_plan("tp=2"), Asked(4, 64, 3))
    assert fleet.wall is not None and fleet.wall == fleet_of(load_cluster("dgx-a100")).wall
    beside_J = 2 * fleet.wall.each_W * found.total_s
    assert found.wall_J == pytest.approx((found.total_J + beside_J) / fleet.wall.supply, rel=1e-9, abs=0)
    assert found.wall_per_token_J is not None and found.energy_per_token_J is not None
    assert found.energy_per_token_J < found.wall_per_token_J < 2 * found.energy_per_token_J
    told, all_of = dict(summary_rows(found)), facts(found)
    assert "90 %" in told["energy per token"] and "90 %" in told["at the wall, per token"]
    low_J, high_J = all_of["wall_per_token_interval_J"]
    assert low_J < all_of["wall_per_token_J"] == found.wall_per_token_J < high_J


def test_nothing_is_said_of_the_wall_where_nodes_do_not_state_it() -> None:
    fleet = fleet_of(load_cluster("4x-a100-nvlink"))
    found = serve(model(), fleet, parse_plan("tp=4"), Asked(4, 64, 2))
    assert fleet.wall is None and found.wall_J is None and facts(found)["wall_per_token_J"] is None
    assert not any("wall" in name for name, _ in summary_rows(found))


def test_a_chip_and_its_cluster_of_one_take_the_same_joules() -> None:
    """Within 2 %, whatever the host of the server draws."""
    alone = accelsim.generate(
        f"{SMALL},prompt=256,new=3", "a100-80-sxm", dtype="fp16", values="off", batch=4, fusion="serving"
    )
    one = serve(model(), fleet_of(load_cluster("dgx-a100?devices=1")), parse_plan("tp=1"), Asked(4, 256, 3))
    assert alone.energy_per_token_J is not None
    assert one.total_J == pytest.approx(alone.total_J, rel=0.02)
    assert one.energy_per_token_J == pytest.approx(alone.energy_per_token_J, rel=0.02)
    assert alone.energy_interval_J is not None and alone.energy_interval_J[0] < alone.energy_per_token_J


@pytest.mark.parametrize("plan", ["tp=4", "tp=2,pp=2", "tp=2,dp=2", "pp=4", "dp=4"])
def test_parts_are_the_whole(plan: str) -> None:
    found = small(plan)
    assert found.total_s == pytest.approx(found.time_to_first_token_s + found.decode_s)
    assert found.total_J == pytest.approx(sum(found.prefill_J.values()) + sum(found.decode_J.values()), rel=1e-9, abs=0)
    for call in (found.prefill, *found.decode.found):
        assert call.through_s == pytest.approx(
            sum(call.total(key) for key in ("compute_s", "collectives_s", "transfer_s"))
        )
        assert 0 < call.total("products_s") < call.total("compute_s")
        assert call.period_s >= call.slowest_s and call.first_s >= call.through_s
    assert found.decoded == 8 and found.decode.places == (64, 65)


def test_collectives_of_a_layer_are_two_of_its_group() -> None:
    found, plain = small("tp=4"), small("dp=4")
    nbytes = 4 * 64 * 1024 * 2
    each = estimate(found.fleet.topology, found.fleet.software, "all_reduce", nbytes, range(4)).time_s
    gathered = estimate(found.fleet.topology, found.fleet.software, "all_gather", 4 * 1024 * 2, range(4)).time_s
    assert found.prefill.total("collectives_s") == pytest.approx((1 + 2 * 4) * each + gathered, rel=1e-6)
    assert plain.prefill.total("collectives_s") == 0 and plain.prefill.total("transfer_s") == 0


def test_devices_share_weights_and_caches() -> None:
    def held(plan: str) -> dict[str, int]:
        found = small(plan)
        return {kind: sum(stage[kind] for stage in found.memory_B) for kind in found.memory_B[0]}

    alone, split, staged = held("dp=4"), held("tp=4"), held("pp=4")
    parameters = model().parameters
    assert alone["weights"] == 2 * parameters == staged["weights"]
    assert split["weights"] == pytest.approx(parameters / 2, rel=0.01)
    tokens = 2 * 4 * 1024 * 67 * 2
    assert alone["keys and values"] == tokens  # one of four sequences
    assert split["keys and values"] == tokens * 4 // 4 and staged["keys and values"] == 4 * tokens


def test_heads_of_keys_are_copied_where_there_are_fewer_than_devices() -> None:
    grouped = model(SMALL.replace("kv_heads=8", "kv_heads=2"))
    fleet = fleet_of(load_cluster("dgx-a100"))
    sizes = [cache_B(Devices(fleet), Layout(grouped, parse_plan(f"tp={tp}"), 1), 100, 0) for tp in (1, 2, 4)]
    assert sizes[0] == 2 * sizes[1] and sizes[1] == sizes[2]


def test_pipelines_hold_as_many_groups_as_stages() -> None:
    found = small("pp=4")
    call = found.decode.found[0]
    assert call.groups == 4 and len(call.stages) == 4
    assert call.period_s == pytest.approx(max(call.through_s, 4 * call.slowest_s))
    assert small("pp=4", 1).decode.found[0].groups == 1
    assert "4 groups of sequences on 4 stages" in " ".join(sentences(found))


def test_more_devices_per_layer_compute_less_and_a_straggler_is_waited_for() -> None:
    assert small("tp=4").prefill.total("compute_s") < small("dp=4", 16).prefill.total("compute_s")
    slow = load_cluster("dgx-a100", ["nodes.node.devices.gpu.count=4", "speeds={node0.gpu2: 0.5}"])
    found = serve(model(), fleet_of(slow), parse_plan("tp=4"), Asked(4, 64, 1))
    assert found.prefill.total("compute_s") == pytest.approx(2 * small("tp=4").prefill.total("compute_s"))


def test_long_generations_lie_on_lines() -> None:
    loaded = load_cluster("dgx-a100", ["nodes.node.devices.gpu.count=4"])
    found = serve(model(), fleet_of(loaded), parse_plan("tp=4"), Asked(4, 192, 200))
    assert len(found.decode.found) < 20 and found.decode.error <= 0.02  # blocks take 128 keys at a time: stairs
    assert len(found.decode.along(lambda call: call.period_s)) == 199
    assert "decode steps were simulated" in sentences(found)[-1]


def test_links_help_long_calls_and_a_quick_library_short_ones() -> None:
    found = small("tp=4", 4, 3)
    links, library = what_ifs(found, Devices(found.fleet, found.fleet.setting))
    assert 0 <= links.first < 1 and links.token is not None and library.token is not None
    assert library.token > links.token and library.token > 0
    told = " ".join(sentences(found, [links, library]))
    assert "With links twice as fast, " in told and "each further token takes" in told
    assert "nothing gets faster" not in told
    replicas = small("dp=4", 4, 3)
    told = " ".join(sentences(replicas, what_ifs(replicas, Devices(replicas.fleet, replicas.fleet.setting))))
    assert "With links twice as fast or half the latency of the library, nothing gets faster." in told


@pytest.mark.parametrize(
    "plan, sequences, words",
    [
        ("tp=3", 1, ["tp=3 of heads=8", "4, as many as the cluster has", "kv_heads"]),
        ("pp=8", 1, ["8 devices", "pp=8 of 4 layers"]),
        ("dp=4", 3, ["3 sequences on 4 replicas"]),
        ("tp=4,sp,zero=1", 1, ["sp in a plan for serving", "zero in a plan for serving"]),
    ],
)
def test_what_cannot_be_is_told_all_at_once(plan: str, sequences: int, words: list[str]) -> None:
    fleet = fleet_of(load_cluster("dgx-a100", ["nodes.node.devices.gpu.count=4"]))
    with pytest.raises(UsageError) as told:
        serve(model(), fleet, parse_plan(plan), Asked(sequences, 16, 1))
    assert all(word in str(told.value) for word in words), str(told.value)


def test_what_does_not_fit_is_refused_with_its_terms() -> None:
    with pytest.raises(
        OutOfMemory,
        match=r"device 2 and 1 more: .* of weights, .* of keys and values are .* and 1 more stage.* fewer seq",
    ):
        served("llama2-70b?prompt=16,new=2", "4x-edu", plan="tp=2,pp=2")


def test_gpt_has_learnt_positions_and_no_rotation() -> None:
    call = Call(model("gpt?layers=2"), 1, 8, 0, 2)
    ops = [node.op for piece in (embedding, attention, feed_forward, head) for node in piece(call).graph.nodes]
    assert "Gelu" in ops and "LayerNormalization" in ops and "Concat" not in ops
    fleet = fleet_of(load_cluster("dgx-a100", ["nodes.node.devices.gpu.count=2"]))
    with pytest.raises(UsageError, match="2,049 tokens"):
        serve(model("gpt?layers=2"), fleet, parse_plan("tp=2"), Asked(1, 2048, 2))
    assert serve(model("gpt?layers=2"), fleet, parse_plan("tp=2"), Asked(1, 16, 1)).tokens_per_s is None


def test_what_is_told_follows_from_the_figures(tmp_path: Path) -> None:
    text, count = f"{SMALL},prompt=64,new=3", "nodes.node.devices.gpu.count=4"
    command = ["run", text, "--on", "dgx-a100", "--set", count, "--plan", "tp=4", "--batch", "4", "--values", "off"]
    outputs = ["--out", str(tmp_path / "report"), "--csv", str(tmp_path / "calls.csv")]
    with unpainted():
        shown = CliRunner().invoke(main, [*command, *outputs]).stdout
    found, _ = served(text, "dgx-a100", (count,), "tp=4", 4)
    assert all(value in " ".join(shown.split()) for _, value in summary_rows(found)[2:4])
    words = " ".join(shown.split())
    assert "An all-reduce of a decode step (8.19 kB, 4 devices) takes" in words
    assert "of it is launch and step latency, which faster links do not shorten." in words
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "serving.json", "calls.csv", "where_time_goes.svg"
    }  # fmt: skip
    with (tmp_path / "calls.csv").open(newline="") as file:
        assert [row["call"] for row in csv.DictReader(file)] == ["prefill", "decode", "decode"]
    printed = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert printed["tokens_per_s"] == pytest.approx(facts(found)["tokens_per_s"])
    low, high = printed["time_to_first_token_interval_s"]
    assert low < printed["time_to_first_token_s"] < high
    low, high = printed["token_interval_s"]
    assert low < printed["token_s"] < high
    assert printed["tokens_interval_per_s"] == [4 / high, 4 / low]
    assert "tokens/s (90 %: " in dict(summary_rows(found))["decoding"]


@pytest.mark.parametrize("figure", [lambda call: call.energy_J, lambda call: call.period_s])
def test_two_runs_are_one(figure: Callable[..., float]) -> None:
    again = serve(model(), small("tp=4").fleet, parse_plan("tp=4"), Asked(4, 64, 3))
    assert again.decode.along(figure) == small("tp=4").decode.along(figure)
    assert call_records(again) == call_records(small("tp=4"))


@pytest.mark.parametrize(("dtype", "size"), [("fp32", "16.4 kB"), ("bf16", "8.19 kB"), ("fp8_e4m3fn", "8.19 kB")])
def test_the_all_reduce_that_is_told_has_the_size_of_the_format(dtype: str, size: str) -> None:
    changes = ("nodes.node.devices.gpu.count=4",)
    found, _ = served(f"{SMALL},prompt=64,new=2", "dgx-h100", changes, "tp=4", 4, Setting(dtype))
    told = " ".join(map(str, answer(found, (), None).shown))
    assert f"An all-reduce of a decode step ({size}, 4 devices)" in told


@pytest.mark.parametrize(
    ("library", "fusion", "title"), [("", "", "vLLM"), ("nccl", "", "NCCL"), ("", "compiled", "NCCL")]
)
def test_the_all_reduce_is_that_of_the_stack_whose_kernels_run(library: str, fusion: str, title: str) -> None:
    changes = ("nodes.node.devices.gpu.count=4",)
    setting = Setting(fusion=fusion)
    found, _ = served(f"{SMALL},prompt=64,new=2", "dgx-h100", changes, "tp=4", 4, setting, library)
    (row,) = (value for name, value in summary_rows(found) if name == "collectives")
    assert row.startswith(title)


def test_narrow_weights_and_keys_take_less_room_and_messages_stay_as_they_are() -> None:
    loaded = load_cluster("dgx-h100", ["nodes.node.devices.gpu.count=4"])
    call = Call(model(), 4, 1, 64, 4)

    def needed(setting: Setting) -> tuple[int, int, int]:
        devices = Devices(fleet_of(loaded, setting), setting)
        layout = Layout(model(), parse_plan("tp=4"), 4)
        weights = needs(devices, layout, 64, 2, permanent=True)[0]["weights"]
        return weights, cache_B(devices, layout, 66, 0), devices.message_B(call.rows * call.model.hidden)

    wide, narrow = needed(Setting("bf16")), needed(Setting("int4xbf16", kv_dtype="fp8"))
    assert wide == (4 * narrow[0], 2 * narrow[1], narrow[2])
    assert needed(Setting("fp8"))[1:] == wide[1:] and 2 * needed(Setting("fp8"))[0] == wide[0]
