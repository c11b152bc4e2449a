"""Attention in one kernel, in closed form: into how many parts keys are cut, and what makes it longer."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.engines.simt.attention import Attended, attention_times
from accelsim.kernels.predict import Kernels, Prediction
from accelsim.kernels.table import several
from accelsim.workload.zoo.build import Builder
from tests.helpers.simt_cases import AROUND, GPU


def predicted(chip: str = "a100-80-sxm", overrides: tuple[str, ...] = (), **sizes: int) -> Prediction:
    cells = {"tokens": 2048, "heads": 32, "kv_heads": 32, "head_dim": 128, "causal": 0, **sizes}
    table = several("attention", "fp16", [{name: str(value) for name, value in cells.items()}])
    loaded = accelsim.load_chip(chip, list(overrides))
    return Kernels(table, loaded).predicted(loaded)


def seconds(**sizes: int) -> float:
    return float(predicted(**sizes).seconds[0])


@pytest.mark.parametrize(
    ("sizes", "parts"),
    (
        ({}, 1),  # 512 blocks fill 108 multiprocessors
        ({"tokens": 512, "heads": 4, "kv_heads": 4}, 4),  # 16 blocks: 64 of 108, each with two steps of keys
        ({"tokens": 1, "kv": 8192, "heads": 32}, 3),
        ({"tokens": 1, "kv": 64, "heads": 1, "kv_heads": 1}, 1),  # one step of keys
        ({"tokens": 1, "kv": 2**20, "heads": 108, "kv_heads": 108}, 1),
    ),
)
def test_keys_are_cut_where_blocks_are_few(sizes: dict[str, int], parts: int) -> None:
    assert int(predicted(**sizes).times.splits[0]) == parts


def test_a_causal_mask_saves_half_of_long_sequences_and_less_of_short_ones() -> None:
    saved = [seconds(tokens=n, causal=1) / seconds(tokens=n) for n in (256, 2048, 16384)]
    assert saved == sorted(saved, reverse=True)
    assert saved[-1] == pytest.approx(0.5, abs=0.03) and saved[0] > 0.6


def test_the_longest_causal_block_bounds_few_heads() -> None:
    """One head whose blocks all run at once takes as long as its last one, which sees all keys, with the keys cut or
    not."""
    times = predicted(tokens=4096, heads=3, kv_heads=3, causal=1), predicted(tokens=4096, heads=3, kv_heads=3)
    few, every = (float(each.seconds[0]) * float(each.times.splits[0]) for each in times)
    assert few == pytest.approx(every, rel=0.15)


def test_heads_that_share_keys_move_less_and_decode_faster() -> None:
    shared, own = (seconds(tokens=1, kv=16384, heads=32, kv_heads=kv) for kv in (4, 32))
    assert shared < own / 3


def test_an_a100_reaches_half_to_three_quarters_of_its_peak_on_long_sequences() -> None:
    """Dao, FlashAttention-2 (2023), abstract: 50 to 73 %."""
    for depth in (64, 128):
        for n in (2048, 4096, 8192, 16384):
            batch = 16384 // n
            flops = 4 * batch * 2048 * n * n
            rate = flops / seconds(tokens=n, batch=batch, heads=2048 // depth, kv_heads=2048 // depth, head_dim=depth)
            assert 0.38 < rate / 311.9e12 < 0.73


def test_a_lower_share_of_the_rate_of_products_is_never_faster() -> None:
    times = [float(predicted(overrides=(f"sm.attention={share}",)).seconds[0]) for share in (1.0, 0.5, 0.25)]
    assert np.all(np.diff(times) > 0)


def test_functions_behind_attention_are_part_of_its_kernel() -> None:
    b = Builder("attention")
    x = b.input("x", (2, 32, 16))
    scores = b.matmul(x, b.op("Transpose", [x], "turned", perm=[0, 2, 1]), "scores")
    mixed = b.matmul(b.op("Softmax", [scores], "shares", axis=-1), x, "mixed")
    graph = b.finish(b.op("Relu", [mixed], "positive"))
    run = accelsim.run(graph, on="a100-80-sxm", dtype="fp16", values="fast")
    (step,) = [step for step in run.program.steps if step.engine == "sm"]
    assert [part.op for part in step.node.epilogue] == ["Softmax", "MatMul", "Relu"]
    (values,) = run.outputs.values()
    given = run.feeds["x"].astype(np.float64)
    weights = np.exp(given @ given.swapaxes(1, 2))
    expected = np.maximum(0, weights / weights.sum(-1, keepdims=True) @ given)
    np.testing.assert_allclose(values, expected, atol=5e-3)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_blocks_take_products_softmax_and_both_ends_and_parts_are_joined(parts: int) -> None:
    """One wave of 4 blocks at 1 GHz: 100 clocks of products at half of the rate, 10 of softmax, 20 and 30 at the ends; little
    is moved."""
    blocks, longest = (np.array([each]) for each in (4.0, 0.1))
    given = {"multiplying": np.array([100.0 * GPU.attention]), "softmax": np.array([10.0])}
    moved = {"bytes": np.array([64.0]), "joined_B": np.array([2560.0])}
    given["others"] = np.array([float(parts > 1)])
    rest = {name: np.array([0.0]) for name in Attended._fields if name not in (*given, *moved)}
    found = Attended(
        **{**rest, **given, **moved, "blocks": blocks, "longest": longest, "parts": np.array([float(parts)])}
    )
    times = attention_times(GPU, AROUND, "fp16", found)
    assert times.computing == pytest.approx((200 + 10 + 20 + 30) * 1e-9)
    assert times.joining == pytest.approx(GPU.reduction + 10e-9 if parts > 1 else 10e-9)


def test_the_backward_pass_takes_five_products_for_two() -> None:
    """A row of a table with a direction: as many multiplications more, in about as much more time."""
    cells = {"batch": "4", "tokens": "4096", "heads": "32", "head_dim": "128"}
    chip = accelsim.load_chip("a100-80-sxm")
    table = several("attention", "bf16", [{**cells, "direction": way} for way in ("fwd", "bwd")])
    found = Kernels(table, chip).predicted(chip)
    there, back = found.seconds
    assert 2 < back / there < 4
    assert found.times.bound[1] == pytest.approx(2.5 * found.times.bound[0], rel=0.05)


@pytest.mark.parametrize("fusion", ["sdpa", "serving"])
def test_keys_before_a_window_are_not_multiplied(fusion: str) -> None:
    """The ledger of a run counts pairs of queries and keys that see each other."""
    model, tokens, window, heads, depth = "gemma3-1b?seq=2048,layers=1", 2048, 512, 4, 256
    run = accelsim.run(model, on="h200-sxm", values="off", dtype="fp16", fusion=fusion, edges="outside")
    seen = tokens * window - window * (window - 1) // 2
    skipped = sum(row.count for row in run.ledger if row.action == "mac.skipped")
    assert skipped == pytest.approx(2 * heads * depth * (tokens**2 - seen), rel=1e-3)
