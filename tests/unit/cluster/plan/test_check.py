"""Plans that are impossible: each reason, all at once."""

from __future__ import annotations

import pytest

from accelsim.cluster.plan.check import check, sizes_of
from accelsim.cluster.plan.plan import parse_plan
from accelsim.errors import UsageError
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.helpers.batch_statistics import batch_statistics
from tests.helpers.cluster_training import MODELS

CASES: dict[str, tuple[str, list[str]]] = {
    "digits-cnn": (
        "dp=3,tp=3,pp=4,microbatches=5,schedule=gpip,sp",
        ["dp=3 x tp=3 x pp=4 are 36 devices; expected 8", "tp=3 of channels=8", "pp=4 of 3 layers; expected at most 3",
         "a batch of 64 on 3 replicas", "no schedule 'gpip'", "did you mean 'gpipe'?"],
    ),
    "gpt?layers=2,train=1": (
        "tp=8,chunks=3",
        ["tp=8 of heads=4; expected a number that divides 4", "tp=8 of kv_heads=4", "pp=1 x chunks=3 of 2 layers",
         "chunks: 1f1b has one model chunk per device"],
    ),
    "digits-mlp": (
        "dp=2,pp=2,chunks=2,microbatches=3,schedule=interleaved,tp=2",
        ["3 microbatches of 32 samples of a replica", "pp=2 x chunks=2 of 3 layers", "a multiple of the stages"],
    ),
    "digits-mlp?layers=8": (
        "pp=8,zero=2,period=3,sp",
        ["sp without tensor parallelism", "zero=2 with one replica", "period=3 with one replica",
         "zero=2 with period=3"],
    ),
    "digits-mlp?layers=9": (
        "pp=4,dp=2,schedule=pipedream,microbatches=2,period=2",
        ["2 microbatches with pipedream, where each is an update", "period=2 with pipedream"],
    ),
    "gpt?train=1": ("pp=2,dp=4,schedule=pipedream", ["several layers read embedding.weight"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_everything_wrong_is_told_at_once(name: str) -> None:
    text, messages = CASES[name]
    with pytest.raises(UsageError) as caught:
        check(parse_plan(text), load_model(name), 64, 8, sizes_of(name))
    told = str(caught.value)
    assert [part for part in messages if part not in told] == []


def test_precisions_with_a_loss_scale_and_unknown_ones() -> None:
    graph = load_model("digits-mlp")
    for precision, message in (("mixed", "needs a loss scale"), ("fp31", "did you mean 'fp32'?")):
        with pytest.raises(UsageError, match=message.replace("?", r"\?")):
            check(parse_plan("dp=2"), graph, 64, 2, precision=precision)


@pytest.mark.parametrize("text", ["dp=2,pp=2", "tp=4", "dp=2,tp=2,sp", "pp=2,dp=2,microbatches=8,schedule=zb-h1"])
def test_what_is_possible_passes(text: str) -> None:
    check(parse_plan(text), load_model("digits-cnn"), 64, 4, sizes_of("digits-cnn"))


def test_samples_that_see_each_other_cannot_be_replicated() -> None:
    b = Builder("centred")
    x = b.dense(b.input("x", (2, 4)), 4, "a")
    mean = b.op("ReduceMean", [x], "mean", axes=[0], keepdims=1)
    graph = b.finish(b.dense(b.op("Sub", [x, mean], "centred"), 3, "b"))
    for text in ("dp=2", "microbatches=2"):
        with pytest.raises(UsageError, match="samples of centred cannot be told apart: mean: ReduceMean"):
            check(parse_plan(text), graph, 4)
    check(parse_plan("pp=2"), graph, 4)


@pytest.mark.parametrize("name", [*MODELS, "mobilenet?resolution=32", "alexnet", "resnet18", "vit-b16?layers=1"])
def test_samples_of_networks_are_apart(name: str) -> None:
    check(parse_plan("dp=2"), load_model(MODELS.get(name, name)), 4)


def test_statistics_of_the_batch_are_refused_and_those_of_the_model_pass() -> None:
    b = Builder("normal")
    x = b.batch_norm(b.conv(b.input("x", (2, 3, 4, 4)), 4, 3, "conv", pad=1), "bn")
    graph = b.finish(b.dense(b.op("Flatten", [x], "flat", axis=1), 3, "fc"))
    check(parse_plan("dp=2"), graph, 4)
    with pytest.raises(UsageError, match="cannot be told apart"):
        check(parse_plan("dp=2"), batch_statistics(graph)[0], 4)


def test_a_file_has_no_sizes() -> None:
    assert sizes_of("net.onnx") == {}
    assert sizes_of("llama?heads=8") == {"heads": 8, "kv_heads": 2, "hidden": 64, "ffn": 176}
