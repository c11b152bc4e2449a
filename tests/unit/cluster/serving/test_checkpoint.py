"""Formats of a model's own checkpoint: which weights are narrow, their bytes, their room, the time of steps."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.checkpoint import CHECKPOINT, mixed_of, module_of
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.pieces import Call, block, embedding, head
from accelsim.cluster.serving.serve import needs
from accelsim.cluster.serving.step import Layout
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.errors import ModelError, UsageError
from accelsim.serving.asked import Question, served
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.clusters import load_devices
from accelsim.workload.zoo.style import Quantised

SMALL = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256,
}  # fmt: skip


def model_of(name: str) -> Transformer:
    found = transformer_of(name)
    assert found is not None
    return found


def devices(on: str = "h100-sxm", dtype: str = CHECKPOINT) -> Devices:
    setting = Setting(dtype=dtype)
    return Devices(fleet_of(load_devices(on), setting), setting)


def quantised(folder: Path, **config: object) -> Transformer:
    (file := folder / "small.json").write_text(json.dumps({**SMALL, "quantization_config": config}), encoding="utf-8")
    return model_of(str(file))


@pytest.mark.parametrize(("name", "GB"), [("gpt-oss-20b", 13.8), ("gpt-oss-120b", 65.2)])
def test_weights_take_the_bytes_of_the_checkpoint(name: str, GB: float) -> None:
    """12.8 and 60.8 GiB in arXiv 2508.10925, table 1."""
    (parts,) = needs(devices(), Layout(model_of(name), Plan(), 1), 16, 0, permanent=True)
    assert parts["weights"] / 1e9 == pytest.approx(GB, abs=0.06)


def test_experts_alone_are_narrow_in_mxfp4() -> None:
    model = model_of("gpt-oss-20b")
    mixed, call = mixed_of(model, load_chip("h100-sxm")), Call(model, 1, 4, 10)
    assert mixed.narrow == "mxfp4xfp16"
    assert mixed.narrow_weights(block(call, model.kinds[0]).graph) == {
        "own.gate.weight", "own.up.weight", "own.down.weight",
    }  # fmt: skip
    for each in (embedding(call), head(call)):
        assert mixed.request(each.graph) == ("fp16", {})


def test_linear_layers_are_narrow_in_awq_but_those_kept(tmp_path: Path) -> None:
    """A model of 2 layers: 64 x (64 + 32 + 32 + 64) for attention, 3 x 64 x 96 for the rest, in 4 bits."""
    model = quantised(tmp_path, quant_method="awq", bits=4, modules_to_not_convert=None)
    assert model.style.quantised == Quantised("awq", 4)
    attention, rest, others = 64 * 192, 3 * 64 * 96, 2 * 256 * 64 + 5 * 64
    (parts,) = needs(devices(), Layout(model, Plan(), 1), 16, 0, permanent=True)
    assert parts["weights"] == pytest.approx(2 * (attention + rest) / 2 + 2 * others, rel=1e-3)
    kept = quantised(tmp_path, quant_method="gptq", bits=8, modules_to_not_convert=["model.layers.*.self_attn"])
    (parts,) = needs(devices(), Layout(kept, Plan(), 1), 16, 0, permanent=True)
    assert parts["weights"] == pytest.approx(2 * (2 * attention + rest) + 2 * others, rel=1e-3)


def test_a_whole_layer_in_one_format_is_one_request(tmp_path: Path) -> None:
    """So that products that share an operand still become one."""
    model = quantised(tmp_path, quant_method="awq", bits=4)
    graph = block(Call(model, 1, 4, 10), model.kinds[0]).graph
    assert mixed_of(model, load_chip("h100-sxm")).request(graph) == ("int4xfp16", {})


def test_narrow_experts_leave_more_room_and_take_less_time() -> None:
    asked = Question("gpt-oss-20b?layers=2", "h100-sxm", lengths="fixed:64,4", requests=2)
    own, wide = (served(replace(asked, setting=Setting(dtype=each))) for each in (CHECKPOINT, "fp16"))
    params = 2 * 32 * 3 * 2880 * 2880
    saved_B = (own.last.blocks - wide.last.blocks) * own.last.block_B
    assert saved_B == pytest.approx(params * (2 - 4.25 / 8), rel=0.01)
    assert own.service.span_s < wide.service.span_s
    everywhere = served(replace(asked, setting=Setting(dtype="mxfp4xfp16"))).last
    assert everywhere.blocks > own.last.blocks, "the embedding is narrow too"


def test_what_has_no_such_formats_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="states no quantised weights"):
        mixed_of(model_of("llama3-8b"), load_chip("h100-sxm"))
    with pytest.raises(UsageError, match=r"16 bits|does not compute"):
        mixed_of(model_of("gpt-oss-20b"), load_chip("edu-4x4"))
    with pytest.raises(ModelError, match=r"small.json:1: model\.layers\.1\.mlp alone"):
        quantised(tmp_path, quant_method="awq", bits=4, modules_to_not_convert=["model.layers.1.mlp"])


@pytest.mark.parametrize(("weight", "op", "module"), [
    ("own.q.weight", "MatMul", "self_attn.q_proj"), ("own.gate.weight", "MatMul", "mlp.gate_proj"),
    ("own.gate.weight", "ExpertMatMul", "mlp.experts.gate_proj"), ("own.router.weight", "MatMul", "mlp.router"),
    ("own.shared.up.weight", "MatMul", "mlp.shared_experts.up_proj"),
])  # fmt: skip
def test_weights_have_the_modules_of_hugging_face(weight: str, op: str, module: str) -> None:
    assert module_of(weight, op) == module


def test_bytes_of_a_piece_are_whole_without_a_checkpoint() -> None:
    model, own = model_of("gpt-oss-20b"), devices(dtype="bf16")
    piece = head(Call(model, 1, 1, 0))
    assert ceil(own.weights_B(model, piece)) == 2 * piece.learnt
