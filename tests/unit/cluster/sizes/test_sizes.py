"""Closed forms of sizes against the figures that were published with them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from accelsim.errors import UsageError
from tests.helpers.closed_sizes import RECOMPUTE, Transformer, layer_activation_B
from tests.helpers.transformer_flops import hfu, layer_forward_flops, mfu, training_flops, training_s
from tests.helpers.transformer_sizes import first_stage_activation_B, kv_cache_B, state_B, tensor_parallel_B
from tests.helpers.zero_sizes import STAGES, gathered_layers_fs, zero_B, zero_traffic

GIB = 2**30
MODELS = {
    "22B": (Transformer(48, 6144, 64, 2048), 4, 1, 1),
    "175B": (Transformer(96, 12288, 96, 2048), 1, 8, 3),
    "530B": (Transformer(105, 20480, 128, 2048), 1, 35, 3),
    "1T": (Transformer(128, 25600, 160, 2048), 1, 64, 1),
}
"""Table 3 of Korthikanti et al.: model, microbatch, stages, chunks; tensor-parallel size 8."""
FIGURE_1 = {
    "22B": (Fraction(237, 4), Fraction(153, 16)),
    "175B": (Fraction(2139, 32), Fraction(1581, 128)),
    "530B": (Fraction(58380, 512), Fraction(23630, 1024)),
    "1T": (Fraction(525, 4), Fraction(425, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_activations_of_figure_1(name: str) -> None:
    """GiB of tensor parallelism alone, and with sequence parallelism and selective recomputation."""
    model, microbatch, pp, chunks = MODELS[name]
    base = first_stage_activation_B(model, microbatch, 8, pp, chunks)
    present = first_stage_activation_B(model, microbatch, 8, pp, chunks, sp=True, recompute="selective")
    assert (Fraction(base, GIB), Fraction(present, GIB)) == FIGURE_1[name]


def test_figure_1_is_what_the_paper_prints() -> None:
    printed = [(59.25, 9.5625), (66.84375, 12.3516), (114.023, 23.076), (131.25, 26.5625)]
    for exact, rounded in zip(FIGURE_1.values(), printed, strict=True):
        assert [float(one) for one in exact] == pytest.approx(rounded, abs=5e-4)


def test_activations_of_a_layer() -> None:
    """Table 2: bytes of s b h (10 + 24/t + 5as/(ht)) and what takes away from it."""
    model = Transformer(2, 64, 4, 32, 100)
    sbh = 32 * 3 * 64
    assert layer_activation_B(model, 3) == sbh * (34 + 10)
    assert layer_activation_B(model, 3, tp=2) == sbh * (10 + 12 + 5)
    assert layer_activation_B(model, 3, tp=2, sp=True) == sbh * 22
    assert layer_activation_B(model, 3, tp=2, recompute="selective") == sbh * 22
    assert layer_activation_B(model, 3, tp=2, sp=True, recompute="selective") == sbh * 17
    assert layer_activation_B(model, 3, tp=2, recompute="full") == 2 * sbh
    assert layer_activation_B(model, 1, tp=7) == 32 * 64 * (10 + Fraction(34, 7))
    assert tensor_parallel_B(Transformer(96, 12288, 96, 2048)) * 2 == 100_663_296


def test_parameters_gradients_and_optimiser() -> None:
    """GiB per device: 22B and 175B have the same."""
    printed = {"22B": 45.5625, "175B": 45.5625, "530B": 31.640625, "1T": 32.958984375}
    for name, (model, _, pp, _) in MODELS.items():
        assert state_B(model, 8, pp) == Fraction(printed[name]) * GIB
    assert Transformer(96, 12288, 96, 2048).parameters == pytest.approx(174.6e9, rel=1e-3)


@pytest.mark.parametrize("stage", STAGES)
def test_bytes_of_zero(stage: int) -> None:
    """Figure 1 of ZeRO: 7.5 G parameters on 64 devices, 120, 31.4, 16.6 and 1.9 GB."""
    found = zero_B(7_500_000_000, 64, stage)
    printed = [120.0, 31.4, 16.6, 1.9][stage]
    assert float(found.total_B) / 1e9 == pytest.approx(printed, abs=0.05)
    assert zero_B(7, 1, stage).total_B == 7 * 16
    assert zero_traffic(640, 64, stage) == (3 if stage == 3 else 2) * 630


def test_zero_with_other_sizes_and_shares_that_do_not_divide() -> None:
    found = zero_B(10, 3, 3, weight_B=4, gradient_B=4, optimiser_B=8)
    assert found == (Fraction(40, 3), Fraction(40, 3), Fraction(80, 3))
    assert zero_B(10, 3, 1).optimiser_B == 40
    with pytest.raises(UsageError, match="zero: 4; expected one of 0, 1, 2, 3"):
        zero_B(10, 3, 4)


def test_parameters_gathered_one_layer_ahead() -> None:
    assert gathered_layers_fs([10, 10, 10], [3, 3, 3]) == 33
    assert gathered_layers_fs([10, 10, 10], [3, 15, 3]) == 3 + 15 + 10 + 10


def test_operations_of_a_step() -> None:
    """The two printed equations, exactly."""
    model, batch = Transformer(96, 12288, 96, 2048), 1536
    s, h, L, V = model.seq, model.hidden, model.layers, model.vocab
    plain = 72 * batch * s * L * h**2 * (1 + Fraction(s, 6 * h) + Fraction(V, 12 * L * h))
    assert training_flops(model, batch) == plain
    full = 96 * batch * s * L * h**2 * (1 + Fraction(s, 6 * h) + Fraction(V, 16 * L * h))
    assert training_flops(model, batch, "full") == full
    selective = plain + 4 * batch * s**2 * L * h
    assert training_flops(model, batch, "selective") == selective
    assert layer_forward_flops(model, 2) == 48 * s * h**2 + 8 * s**2 * h


def test_utilisation() -> None:
    """Of 1T on 512 A100, 512 sequences in 71.49 s: 56.3 % MFU (Korthikanti et al., table 5)."""
    given = (MODELS["1T"][0], 512, 71.49, 512, 312e12)
    assert mfu(*given) == pytest.approx(0.563, abs=0.0005)
    assert hfu(*given, recompute="none") == mfu(*given)
    shares = [hfu(*given, recompute=each) / mfu(*given) for each in RECOMPUTE]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(4 / 3, rel=0.01)


def test_keys_and_values() -> None:
    """Llama-2-70B: 320 KiB per token; heads that cannot be cut any further are copied."""
    assert kv_cache_B(80, 8, 128, 1) == 320 * 1024
    assert kv_cache_B(80, 8, 128, 2048, batch=4, tp=8) == 320 * 1024 * 2048 * 4 // 8
    assert kv_cache_B(80, 8, 128, 1, tp=16) == kv_cache_B(80, 8, 128, 1, tp=8)
    assert kv_cache_B(1, 1, 3, 1, element_B=Fraction(1, 2)) == 3


def test_bad_sizes_are_refused_all_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        Transformer(0, 4, -1, 2)
    assert [problem.where for problem in caught.value.problems] == ["layers", "heads"]
    with pytest.raises(UsageError, match="tp: 0"):
        state_B(Transformer(1, 4, 1, 2), tp=0)
    with pytest.raises(UsageError, match=r"unknown recompute 'ful'.*did you mean 'full'"):
        training_flops(Transformer(1, 4, 1, 2), 1, "ful")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameters", "tokens", "devices", "flops", "days"),
    [
        (175e9, 300e9, 1024, 140e12, 34),  # Megatron-LM, SC 2021, section 5.1: GPT-3, "34 days"
        (1008e9, 450e9, 3072, 163e12, 84),  # the same: a trillion parameters, "84 days"
        (175e9, 300e9, 1920, 101e12, 25),  # AWS: GPT-3 on 240 p4d, "about 25 days": a third of the peak of an A100
    ],
)
def test_days_of_a_training_are_those_that_were_published(
    parameters: float, tokens: float, devices: int, flops: float, days: int
) -> None:
    seconds = training_s(int(parameters), int(tokens), devices, flops)
    assert round(seconds / 86400) == days


def test_less_that_is_computed_again_is_sooner_done() -> None:
    full, none = (training_s(10**9, 10**9, 8, 1e14, recompute) for recompute in ("full", "none"))
    assert full == pytest.approx(none * 4 / 3)
