"""Decoders of the zoo: published sizes, closed forms of work and bytes, decoding against one long prompt."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import ModelError
from accelsim.program.roles import Roles
from accelsim.program.work import Transfer
from accelsim.workload.execute import run
from accelsim.workload.onnx.reference import compare, reference_outputs
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.weights import parameters
from accelsim.workload.zoo.rotary import Rotation
from accelsim.workload.zoo.style import Rope
from tests.helpers.macs import macs

SIZES = "layers=2,hidden=32,heads=4,ffn=24,vocab=64"
DECODERS = [f"llama?{SIZES},kv_heads=2", f"llama?{SIZES},kv_heads=1,bias=1", f"llama?{SIZES},kv_heads=4",
            f"gpt?{SIZES},kv_heads=4", f"gpt?{SIZES},kv_heads=2,bias=0"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama2-7b", 6.738415616),
        ("llama3-8b", 8.030261248),
        ("llama2-70b", 68.976648192),
        ("llama2-13b", 13.015864320),
        ("llama3-70b", 70.553706496),
        ("gpt2", 0.124439808),
        ("gpt2-medium", 0.354823168),
        ("gpt2-large", 0.774030080),
        ("gpt2-xl", 1.557611200),
        ("gpt3", 174.604259328),
    ],
)
def test_published_parameter_counts(name: str, billions: float) -> None:
    """Model cards of Llama 2 and 3 (6.74, 13.02, 68.98, 8.03 and 70.55 billion) and GPT-2 (124 M to 1.56 billion); Brown et al. 2020, table 2.1: 175 billion."""
    assert parameters(load_model(name)) == round(billions * 1e9)


def test_all_heads_keep_keys_of_their_own_where_the_model_has_no_groups() -> None:
    """Another number of heads needs no ``kv_heads`` beside it; that of grouped queries stays."""
    own, groups = (load_model(f"{name}?layers=1,hidden=128,heads=8,ffn=64,vocab=64") for name in ("gpt", "llama"))
    assert parameters(own) == parameters(load_model("gpt?layers=1,hidden=128,heads=8,kv_heads=8,ffn=64,vocab=64"))
    assert parameters(groups) == parameters(load_model("llama?layers=1,hidden=128,heads=8,kv_heads=2,ffn=64,vocab=64"))


@pytest.mark.parametrize(("name", "millions"), [("bert-base", 109.482240), ("bert-large", 335.141888)])
def test_parameters_of_bert(name: str, millions: float) -> None:
    """Uncased releases with pooler and without the language model's head: 110 and 340 million in Devlin et al. 2018."""
    assert parameters(load_model(name)) == round(millions * 1e6)


def test_bert_equals_onnxruntime_at_every_tensor() -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model("bert-base?layers=2,hidden=32,heads=4,ffn=48,vocab=40,context=9,seq=6", batch=2)
    feeds = synthetic(graph, 0)
    rows = compare(run(graph, feeds, keep=True), reference_outputs(graph, feeds, every_tensor=True).values)
    assert len(rows) == sum(len(node.writes) for node in graph.nodes)
    assert max(row.relative for row in rows) <= 1e-5
    with pytest.raises(ModelError, match="at most context=512"):
        load_model("bert-base?seq=513")


@pytest.mark.parametrize("name", ["llama2-7b", "gpt3"])
def test_large_models_compile_without_making_a_weight(name: str) -> None:
    graph = load_model(name, params={"layers": 2, "seq": 1, "past": 64})
    program = compile(graph, accelsim.load_chip("neuroncore-v2"), Options(values="off"))
    made = [tensor for tensor in program.graph.constants() if tensor.data is not None and tensor.elements > 1000]
    assert not made and parameters(graph) > 4e8


@pytest.mark.parametrize("model", DECODERS)
@pytest.mark.parametrize(("past", "seq"), [(0, 1), (0, 6), (5, 1), (3, 4)])
def test_every_tensor_equals_onnxruntime(model: str, past: int, seq: int) -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model(f"{model},past={past},seq={seq}", batch=2)
    feeds = synthetic(graph, 0)
    rows = compare(run(graph, feeds, keep=True), reference_outputs(graph, feeds, every_tensor=True).values)
    assert len(rows) == sum(len(node.writes) for node in graph.nodes)
    assert max(row.relative for row in rows) <= 1e-5


@pytest.mark.parametrize("model", DECODERS)
@pytest.mark.parametrize("pieces", [(5, 1, 1), (3, 4), (1, 1, 5)])
def test_calls_with_a_cache_equal_one_long_prompt(model: str, pieces: tuple[int, ...]) -> None:
    """Logits and caches: a prompt in one go, in two pieces, or token by token."""
    whole = load_model(f"{model},seq={sum(pieces)}", batch=2)
    tokens = synthetic(whole, 0)["tokens"]
    expected = run(whole, {"tokens": tokens})
    past, caches = 0, {}
    for seq in pieces:
        graph = load_model(f"{model},past={past},seq={seq}", batch=2)
        found = run(graph, {"tokens": tokens[:, past : past + seq], **caches})
        caches = dict(
            zip(list(graph.states) or _names(graph), [found[name] for name in graph.outputs[1:]], strict=True)
        )
        past += seq
    for ours, theirs in zip(graph.outputs, whole.outputs, strict=True):
        np.testing.assert_allclose(found[ours], expected[theirs], rtol=1e-4, atol=1e-5)


def _names(graph: object) -> list[str]:
    return [f"l{layer}.{part}_past" for layer in range(2) for part in "kv"]


@pytest.mark.parametrize("model", DECODERS)
def test_work_is_the_closed_form(model: str) -> None:
    """Per token: a product with every weight matrix, and of each head with the keys and values before it."""
    hidden, heads, ffn, vocab, seq, past = 32, 4, 24, 64, 6, 5
    kv_heads = int(model.split("kv_heads=")[1][0])
    depth = hidden // heads
    projections = 2 * hidden * hidden + 2 * hidden * kv_heads * depth + (3 if "llama" in model else 2) * hidden * ffn
    for queries, before in ((1, past), (seq, 0), (seq, past)):
        attention = 2 * hidden * queries * (before + queries)
        graph = load_model(f"{model},past={before},seq={queries}")
        assert macs(graph) == 2 * (queries * projections + attention) + hidden * vocab


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_decode_call_moves_weights_and_cache_once_and_nothing_else(kv_heads: int) -> None:
    """bf16: all weights (of the embedding one row), rotations, the cache with its new rows; those rows are written.

    The logits are too large to stay: they pass the memory on their way to the host, once each way.
    """
    past, batch, depth = 7, 3, 8
    graph = load_model(f"llama?{SIZES},kv_heads={kv_heads},past={past},seq=1", batch=batch)
    chip = accelsim.load_chip("neuroncore-v2")
    program = compile(graph, chip, Options(values="off"))
    moved = {False: 0, True: 0}
    for command in program.commands:
        if isinstance(command.work, Transfer) and command.work.memory == "hbm":
            moved[command.work.write] += command.work.nbytes
    rows = 2 * 2 * batch * kv_heads * depth
    weights = parameters(graph) - 64 * 32 + batch * 32
    turns = 2 * 2 * 2 * depth  # sines and cosines for queries and keys of each layer
    scales, logits = 2 * 4, batch * 64 * 2  # one over the root of the depth, fp32, for each layer
    assert moved[True] == 2 * rows + logits
    assert moved[False] == 2 * (weights + (past + 1) * rows + turns) + scales + logits


@pytest.mark.parametrize(
    ("chip", "dtype"),
    [("neuroncore-v2", "int8"), ("a100-80-sxm", "int8"), ("h100-sxm", "fp8_e4m3fn"), ("a100-80-sxm", "fp16")],
)
@pytest.mark.parametrize("past", [7, 40])
def test_nothing_but_logits_leaves_the_chip_in_any_format(chip: str, dtype: str, past: int) -> None:
    """States in codes are numbers to who asks for them, which takes no way: they stay where they are."""
    graph = load_model(f"llama?{SIZES},kv_heads=2,past={past},seq=1", batch=3)
    run = accelsim.run(graph, on=chip, dtype=dtype, values="off")
    out_B = 3 * 64 * (2 if dtype == "fp16" else 1)
    assert run.summary()["traffic"]["pcie_memory"]["write_B"] == out_B
    assert set(run.program.results) == set(run.program.graph.outputs)


def test_keys_and_values_of_a_prompt_stay_in_the_memory_of_the_chip() -> None:
    """They are written there by the layer that makes them, before the next one."""
    program = compile(load_model(f"llama?{SIZES},kv_heads=2,seq=6"), accelsim.load_chip("neuroncore-v2"),
                      Options(values="off"))  # fmt: skip
    kept = {name: program.regions[program.results[name][0]].memory for name in program.graph.kept}
    assert len(kept) == 4 and set(kept.values()) == {"hbm"}
    for command in program.commands:
        if command.kind == "Store" and command.effect.tensor in kept:
            assert program.steps[command.op].name.startswith(command.effect.tensor.split(".")[0])
    assert {program.regions[region].memory for region in program.results["logits"]} == {Roles(program.chip).host_home}


@pytest.mark.parametrize(("past", "seq"), [(0, 5), (4, 1)])
@pytest.mark.parametrize(("chip", "dtype"), [("edu-4x4", "int8"), ("edu-mixed", "fp16"), ("neuroncore-v2", "bf16"),
                                             ("tpu-v1", "int8")])  # fmt: skip
def test_values_hold_on_chips(chip: str, dtype: str, past: int, seq: int) -> None:
    from accelsim.explore.against_reference import check_run
    from accelsim.request.job import execute, prepare

    job = prepare(accelsim.request.job.Request(f"llama?{SIZES},kv_heads=2,past={past},seq={seq}", chip, dtype=dtype))
    assert check_run(execute(job, keep=True), job.graph).holds


def test_rotation_turns_pairs_by_their_position() -> None:
    """x cos + swapped sin is the complex product (x1 + i x2) e^(i position rate), half by half (Su et al., eq. 34)."""
    depth, theta, past = 8, 100.0, 3
    cos, sin = (Rotation(2, past, depth, Rope(theta), sine)()[:, 0] for sine in (False, True))
    x = np.random.default_rng(0).normal(size=(2, depth))
    turned = x * cos + np.concatenate([x[:, 4:], x[:, :4]], axis=1) * sin
    rates = theta ** (-2 * np.arange(4) / depth)
    pairs = (x[:, :4] + 1j * x[:, 4:]) * np.exp(1j * np.arange(past, past + 2)[:, None] * rates)
    np.testing.assert_allclose(turned, np.concatenate([pairs.real, pairs.imag], axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("llama?hidden=10,heads=3", "heads that divide hidden"), ("llama?heads=4,kv_heads=3", "kv_heads that divide"),
        ("bert-base?heads=5", "heads that divide hidden"), ("llama?hidden=12,heads=4,kv_heads=4", "an even number"), ("gpt?past=2000,seq=100", "at most 2,048 tokens"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_told(model: str, text: str) -> None:
    with pytest.raises(ModelError, match=text):
        load_model(model)


@pytest.mark.parametrize("name", ["gpt", "llama", "moe"])
def test_a_training_has_the_logits_of_all_tokens(name: str) -> None:
    whole = load_model(f"{name}?seq=4,train=1", batch=3, weights="random:2")
    assert whole.outputs == ["scores"] and whole.tensors["scores"].shape == (12, 256) and not whole.kept
    tokens = np.random.default_rng(0).integers(0, 256, (3, 4))
    scores = run(whole, {"tokens": tokens})["scores"].reshape(3, 4, 256)
    for seq in (1, 3, 4):
        call = load_model(f"{name}?seq={seq}", batch=3, weights="random:2")
        last = run(call, {"tokens": tokens[:, :seq]})["logits"]
        np.testing.assert_allclose(scores[:, seq - 1 : seq], last, rtol=1e-4, atol=1e-4)


def test_a_training_has_no_past_and_is_on_or_off() -> None:
    with pytest.raises(ModelError, match="train=1, past=3"):
        load_model("gpt?train=1,past=3")
    with pytest.raises(ModelError, match="train=2"):
        load_model("gpt?train=2")
