"""Attention in one kernel: what becomes one, what it computes, moves and counts, and how long it takes."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.compiler.graph import attend
from accelsim.compiler.passes import transform
from accelsim.compiler.state import Options
from accelsim.formats import codec, dot
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import one
from accelsim.machine.run import Run
from accelsim.workload import execute
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_attention
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs

A100 = "a100-80-sxm"
TOKENS, HEADS, DEPTH = 256, 4, 64


def attention(tokens: int = TOKENS, kv: int = TOKENS, heads: int = HEADS, causal: bool = False) -> Graph:
    """softmax(q k^T / 8 + mask) v."""
    g = Graphs()
    q, k, v = (g.input(name, (1, heads, rows, DEPTH)) for name, rows in (("q", tokens), ("k", kv), ("v", kv)))
    turned = g.op("Transpose", [k], "kT", perm=(0, 1, 3, 2))
    scores = g.op("Mul", [g.matmul(q, turned, "scores"), g.constant("eighth", np.float32(1 / 8))], "scaled")
    if causal:
        mask = np.triu(np.full((tokens, kv), -1e9, np.float32), kv - tokens + 1)
        scores = g.op("Add", [scores, g.constant("mask", mask)], "masked")
    return g.finish(g.matmul(g.op("Softmax", [scores], "shares", axis=3), v, "mixed"))


@pytest.mark.parametrize("form", ("int8", "fp8_e4m3fn"))
def test_a_network_in_eight_bits_has_it_too_with_the_same_values(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes between the products are rounded alike, and no memory holds scores."""
    runs = []
    for formats in (attend.ATTENDED, ()):
        monkeypatch.setattr(attend, "ATTENDED", formats)
        runs.append(accelsim.run("bert?layers=1,hidden=64,heads=2,seq=16", on="h100-sxm", dtype=form))
    fused, apart = runs
    assert any(is_attention(step.node) for step in fused.program.steps)
    assert not any(is_attention(step.node) for step in apart.program.steps)
    assert fused.seconds < apart.seconds
    for name, values in fused.outputs.items():
        np.testing.assert_array_equal(values, apart.outputs[name])


def attentions(graph: Graph, chip: str = A100, **options: str) -> list[Node]:
    after = transform(graph, accelsim.load_chip(chip), Options(**{"dtype": "fp16", "values": "off", **options}))  # type: ignore[arg-type]
    return [node for node in after.nodes if is_attention(node)]


def simulated(graph: Graph, **options: object) -> Run:
    return accelsim.run(graph, on=A100, **{"dtype": "fp16", "values": "off", **options})  # type: ignore[arg-type]


def counted(run: Run, action: str, component: str = "") -> int:
    return sum(row.count for row in run.ledger if row.action == action and component in ("", row.component))


@pytest.mark.parametrize("model", ("bert?layers=2,seq=32", "gpt?layers=2,seq=32", "llama3-8b?layers=2,seq=32,past=0"))
def test_each_layer_of_a_transformer_has_one(model: str) -> None:
    found = attentions(load_model(model))
    assert len(found) == 2
    assert all(node.epilogue[-1].op == "MatMul" for node in found)
    assert all("Softmax" in node.label() for node in found)


@pytest.mark.parametrize(
    ("chip", "options"), ((A100, {"fusion": "eager"}), (A100, {"dtype": "fp32"}), ("neuroncore-v2", {"dtype": "bf16"}))
)
def test_where_there_is_no_such_kernel_there_is_none(chip: str, options: dict[str, str]) -> None:
    assert not attentions(attention(), chip, **options)


def test_scores_that_somebody_else_reads_are_written() -> None:
    graph = attention()
    graph.outputs.append("shares")
    assert not attentions(graph)


def test_a_softmax_of_columns_is_no_attention() -> None:
    graph = attention()
    soft = next(node for node in graph.nodes if node.op == "Softmax")
    soft.attrs["axis"] = 2
    assert not attentions(graph)


def test_values_are_sums_of_the_tensor_core_with_a_softmax_in_fp32_between() -> None:
    graph = attention(tokens=24, kv=32, heads=2)
    rng = np.random.default_rng(5)
    feeds = {name: rng.normal(size=graph.tensors[name].shape).astype(np.float32) for name in graph.inputs}
    run = simulated(graph, values="exact", inputs=feeds)
    q, k, v = (codec.cast(feeds[name], "fp16")[0] for name in "qkv")
    rule = accelsim.load_chip(A100).cores["core"].engines["sm"].formats["fp16"].dot  # type: ignore[attr-defined]
    scores = dot.product(q, k.transpose(0, 2, 1), rule, "fp16")[None] * np.float32(1 / 8)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares = codec.cast(shares / shares.sum(-1, keepdims=True, dtype=np.float32), "fp16")[0]
    wanted = codec.cast(dot.product(shares, v, rule, "fp16"), "fp16")
    (found,) = run.outputs.values()
    np.testing.assert_allclose(found[0], wanted, rtol=2**-9, atol=2**-12)
    assert (found[0] == wanted).mean() > 0.97  # the softmax may differ in its last bit
    (real,) = execute.run(graph, feeds).values()
    np.testing.assert_allclose(found, real, atol=5e-3)


def test_only_queries_keys_values_and_results_are_moved() -> None:
    graph = attention()
    one_kernel, apart = simulated(graph), simulated(graph, fusion="eager")
    each = HEADS * TOKENS * DEPTH * 2
    scale = 4
    assert counted(one_kernel, "read", "hbm") == 3 * each + each + scale  # the result goes on to the host
    assert counted(one_kernel, "write", "hbm") == each + 3 * each  # operands come from there
    assert one_kernel.seconds < apart.seconds


def test_behind_a_causal_mask_half_is_skipped_and_the_mask_is_not_read() -> None:
    plain, masked = simulated(attention()), simulated(attention(causal=True))
    every = 2 * HEADS * TOKENS * TOKENS * DEPTH
    hidden = HEADS * TOKENS * (TOKENS - 1) * DEPTH
    assert (counted(plain, "mac.fp16"), counted(plain, "mac.skipped")) == (every, 0)
    assert (counted(masked, "mac.fp16"), counted(masked, "mac.skipped")) == (every - hidden, hidden)
    assert counted(masked, "mac.padding") < every // 2
    assert counted(masked, "read", "hbm") == counted(plain, "read", "hbm")


def test_another_mask_is_read() -> None:
    graph = attention(causal=True)
    mask = graph.tensors["mask"]
    mask.source, mask.data = None, mask.value()[:, ::-1].copy()
    run = simulated(graph)
    assert counted(run, "mac.skipped") == 0
    assert counted(run, "read", "hbm") == counted(simulated(attention()), "read", "hbm") + 4 * TOKENS**2


@pytest.mark.parametrize(("tokens", "kv", "heads"), ((2048, 2048, 32), (512, 512, 96), (1, 4096, 32), (128, 8192, 16)))
def test_a_step_takes_as_long_as_the_kernel_alone(tokens: int, kv: int, heads: int) -> None:
    run = simulated(attention(tokens, kv, heads))
    (index,) = (index for index, step in enumerate(run.program.steps) if is_attention(step.node))
    spans = [part for part in run.slices if part.op == index and part.engine == "sm"]
    seconds = (max(part.end for part in spans) - min(part.start for part in spans)) * 1e-15
    cells = {
        "batch": "1", "tokens": str(tokens), "kv": str(kv), "heads": str(heads), "kv_heads": str(heads),
        "head_dim": str(DEPTH), "causal": "0",
    }  # fmt: skip
    chip = accelsim.load_chip(A100)
    alone = Kernels(one("attention", "fp16", cells), chip).predicted(chip).seconds[0]
    assert seconds == pytest.approx(alone, rel=0.1)
