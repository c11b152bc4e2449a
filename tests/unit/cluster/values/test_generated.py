"""Generations under a plan with values: logits and tokens are those of one device, call by call."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.cluster.plan.context import chunks
from accelsim.cluster.plan.objective import double
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.cluster.values.generated import call_of, generated, problems
from accelsim.cluster.values.lockstep import Lockstep
from accelsim.errors import TooLarge
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo import ZOO

SIZES = {"layers": 2, "hidden": 16, "heads": 4, "vocab": 24}
MODELS = {
    "gpt": {"kv_heads": 4, "ffn": 32},
    "llama": {"kv_heads": 2, "ffn": 24},
    "moe": {"kv_heads": 2, "ffn": 12, "experts": 4, "top_k": 2},
    "deepseek-v2-lite": {"kv_heads": 4, "ffn": 24, "expert_ffn": 8, "experts": 4, "top_k": 2},
    "gpt-oss-20b": {"kv_heads": 2, "ffn": 24, "head_dim": 4, "experts": 4, "top_k": 2},
}
EXPERTS = ("moe", "deepseek-v2-lite", "gpt-oss-20b")
CASES = [
    *((name, plan, 1) for name in ("gpt", "llama", "moe", "deepseek-v2-lite") for plan in ("cp=2", "cp=4")),
    *((name, plan, 3) for name in MODELS for plan in ("tp=2", "dp=2,tp=4,pp=2")),
    *((name, plan, 3) for name in EXPERTS for plan in ("ep=2", "dp=2,ep=2")),
]


def model(name: str) -> Transformer:
    found = transformer_of(name, {**SIZES, **MODELS[name]})
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "plan", "new"), CASES)
@pytest.mark.parametrize(("precision", "bound"), [("fp64", 1e-12), ("fp32", 1e-5)])
def test_all_devices_compute_what_one_does(name: str, plan: str, new: int, precision: str, bound: float) -> None:
    found = generated(model(name), parse_plan(plan), 8, new, 4, precision)
    assert found.difference <= bound * found.largest and found.largest > 0.1
    assert found.same == found.tokens.size == 4 * new
    if plan.startswith("cp") or "tp" in plan:
        assert found.difference > 0  # sums in another order


@pytest.mark.parametrize("name", ["gpt", "deepseek-v2-lite"])
def test_logits_of_all_tokens_and_caches_by_chunks(name: str) -> None:
    sizes, plan = {**dict(model(name).params), "seq": 16, "past": 0, "train": 1}, Plan(cp=4)
    graph, tokens = load_model(name, batch=2, params=sizes, weights="random:0"), np.arange(32).reshape(2, 16) % 24
    (alone,) = Lockstep(double(graph)).run([{"tokens": tokens}])
    call = call_of(name, sizes, plan, 2)
    for rank, found in enumerate(Lockstep(double(call.graph)).run(call.given({"tokens": tokens}))):
        whole = alone["scores"].reshape(2, 16, 24)[:, chunks(16, 4, rank)]
        np.testing.assert_allclose(found["scores"].reshape(2, 4, 24), whole, rtol=0, atol=1e-12)
    assert chunks(16, 4, 1).tolist() == [2, 3, 12, 13]
    with_caches = {**sizes, "train": 0}
    graph = load_model(name, batch=2, params=with_caches, weights="random:0")
    (alone,) = Lockstep(graph).run([{"tokens": tokens}])
    call = call_of(name, with_caches, plan, 2)
    joined = call.whole(Lockstep(call.graph).run(call.given({"tokens": tokens})))
    assert len(joined) == len(alone) > 2
    for mine, other in zip(joined.values(), alone.values(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-5)


def test_ranks_share_and_send() -> None:
    """Each rank has a part of the experts, of the tensors, or of the tokens."""
    sizes = {**dict(model("moe").params), "seq": 8, "past": 0}
    whole = load_model("moe", batch=4, params=sizes)
    shapes = {plan: call_of("moe", sizes, parse_plan(plan), 4).graph.tensors for plan in ("ep=2", "tp=2", "cp=2")}
    assert whole.tensors["l0.gate.weight"].shape == (4, 16, 12) == shapes["cp=2"]["l0.gate.weight"].shape
    assert shapes["ep=2"]["l0.gate.weight"].shape == (2, 16, 12) and shapes["tp=2"]["l0.gate.weight"].shape == (
        4,
        16,
        6,
    )
    assert [each["tokens"].shape for each in shapes.values()] == [(2, 8), (4, 8), (4, 4)]
    ops = {node.op for node in call_of("moe", sizes, parse_plan("cp=2"), 4).graph.nodes}
    assert "RingAttention" in ops and "Softmax" not in ops


def test_what_is_refused() -> None:
    told = [str(each) for each in problems(parse_plan("tp=2,cp=2"), 3)]
    assert len(told) == 2 and "tp=2 with cp=2" in told[0] and "new=3 tokens with cp=2" in told[1]
    assert not [*problems(parse_plan("dp=2,tp=2,pp=2"), 3)] and not [*problems(parse_plan("cp=2"), 1)]
    large = transformer_of("llama3-8b")
    assert large is not None and ZOO["llama3-8b"].generates
    with pytest.raises(TooLarge, match="llama3-8b with values"):
        generated(large, Plan(tp=2), 8, 1, 1)


def test_the_command_says_how_values_agree() -> None:
    text = "moe?layers=1,hidden=16,heads=4,kv_heads=2,ffn=12,experts=4,top_k=2,vocab=24,prompt=8,new=2"
    asked = ["run", text, "--on", "4x-edu", "--plan", "ep=4", "--batch", "4", "--no-advice"]
    shown = CliRunner().invoke(main, [*asked, "--values", "fast"]).stdout
    assert "8 of 8 tokens are those of one device; scores differ by at most" in " ".join(shown.split())
    facts = json.loads(CliRunner().invoke(main, [*asked, "--values", "fast", "--json"]).stdout)
    assert facts["tokens"] == facts["tokens_of_one_device"] and facts["largest_difference"] < 1e-4
    assert "tokens" not in json.loads(CliRunner().invoke(main, [*asked, "--values", "off", "--json"]).stdout)
    refused = CliRunner().invoke(main, [*asked, "--values", "exact"])
    assert refused.exit_code == 2 and "--values off, or fast: in fp32" in refused.output
