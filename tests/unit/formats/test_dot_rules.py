"""Rules of accumulation against real GPUs and against an exact oracle in whole numbers and fractions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats import dot_block, dot_plain
from accelsim.formats.dot import RULES, DotRule, operands, product, rules_for
from accelsim.formats.table import get
from tests.helpers.dot_oracle import F32, block_of, oracle, values
from tests.validation.tensor_cores import (
    GPU_DOTS,
    PARTS,
    compared,
    difference,
    product_difference,
    products,
    results,
    sets,
    tensor_cores,
)

ALIGNED = [name for name, row in RULES.items() if row.blocks]
EVERY = [
    (name, fmt, out)
    for name in ALIGNED
    if not name.endswith("-fp16")  # the same blocks under another name
    for fmt, by in RULES[name].blocks.items()
    for out in by
]
EVERY += [
    (f"tensor-core-{gpu}", "fp8_e4m3fnxfp8_e5m2", out) for gpu in ("ada", "h100", "b200") for out in ("fp32", "fp16")
]
PROMOTED = "tensor-core-h100-promoted"
PLAIN = [name for name, row in RULES.items() if not row.blocks]

measured = pytest.mark.skipif(not GPU_DOTS.exists(), reason="no ../shared/data/measured/tensorcore/gpu_dots.npz")


def operands_of(seed: int, name: str, fmt: str, out: str, K: int, spread: int) -> tuple[F32, F32, F32]:
    rng, rows = np.random.default_rng(seed), operands(fmt)
    a, b = values(rows[0], rng, (3, K), spread), values(rows[1], rng, (K, 2), spread)
    with np.errstate(over="ignore"):
        near = np.abs(a).max(initial=0) * np.abs(b).max(initial=0) * 2.0 ** rng.integers(-30, 4)
        c = rng.standard_normal((3, 2)) * near
        c = c.astype(np.float16).astype(np.float32) if out == "fp16" else c.astype(np.float32)
    return a, b, np.nan_to_num(c, posinf=1.0, neginf=-1.0) * (rng.random() < 0.8)


def same(left: F32, right: F32) -> bool:
    """Equal to the bit, all NaN alike."""
    alike = (left.view(np.uint32) == right.view(np.uint32)) | (np.isnan(left) & np.isnan(right))
    return bool(alike.all())


def check(a: F32, b: F32, c: F32, name: str, fmt: str, out: str) -> None:
    rows = [[oracle(a[m], b[:, n], float(c[m, n]), name, fmt, out) for n in range(2)] for m in range(len(a))]
    expected = np.array(rows, np.float32)
    assert same(product(a, b, name, fmt, out, c), expected)


@pytest.mark.parametrize(("name", "fmt", "out"), EVERY)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32), K=st.integers(1, 70), spread=st.sampled_from([0, 2, 8, 40]))
def test_tensor_cores_are_exact(name: str, fmt: str, out: str, seed: int, K: int, spread: int) -> None:
    check(*operands_of(seed, name, fmt, out, K, spread), name, fmt, out)


@pytest.mark.parametrize("fmt", ["fp8_e4m3fn", "fp8_e5m2", "fp8_e4m3fnxfp8_e5m2"])
@pytest.mark.parametrize("K", [1, 127, 128, 129, 300])
def test_promoted_sums_are_exact(fmt: str, K: int) -> None:
    for seed, spread in enumerate((0, 2, 8, 40)):
        check(*operands_of(seed, PROMOTED, fmt, "fp32", K, spread), PROMOTED, fmt, "fp32")


@pytest.mark.parametrize(("name", "fmt", "out"), EVERY)
def test_the_ends_of_the_range(name: str, fmt: str, out: str) -> None:
    row = operands(fmt)[0]
    ends = np.array([0.0, -0.0, row.min_subnormal, -row.min_normal, row.max, -row.max, 1.0], np.float32)
    a, b = np.tile(ends, (2, 1)), np.stack([ends, np.roll(ends, 1)], axis=1)
    for c in (0.0, 2.0**-149 if out == "fp32" else 2.0**-24, -65504.0):
        check(a, b, np.full((2, 2), c, np.float32), name, fmt, out)
    tiny = np.full((2, 3), row.min_subnormal, np.float32)
    check(tiny, tiny.T.copy(), np.zeros((2, 2), np.float32), name, fmt, out)


@pytest.mark.parametrize(("name", "fmt", "out"), EVERY)
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinity_and_nan_propagate(name: str, fmt: str, out: str, special: float) -> None:
    size = 2 * block_of(name, fmt, out).size + 1
    a, b = np.ones((3, size), np.float32), np.ones((size, 2), np.float32)
    a[0, 0], a[1, 0], b[0, 1], b[1, 1] = special, 1.0, 0.0, -1.0
    a[2, 0], a[2, 1] = special, special
    check(a, b, np.zeros((3, 2), np.float32), name, fmt, out)
    check(
        np.ones((1, 1), np.float32), np.ones((1, 2), np.float32), np.full((1, 2), special, np.float32), name, fmt, out
    )


def by_hand(a: F32, b: F32, c: float) -> np.float16:
    """FP8 to FP16 on Hopper, written out: two turns of 16 products, pairs in turn, then c in FP16."""
    total = np.float16(0)
    for turn in range(2):
        terms = [a[k].item() * b[k].item() for k in range(32) if k // 2 % 2 == turn] + [float(total)]
        largest = max([math.frexp(x)[1] - 1 for x in terms if x] + [-21])
        quantum = 2.0 ** (largest - 25)
        total = np.float16(sum(math.trunc(x / quantum) for x in terms) * quantum)
    return np.float16(total + np.float16(c))


@pytest.mark.parametrize("gpu", ["h100", "h200", "b200"])
def test_fp8_to_fp16_has_two_turns_of_pairs_and_c_behind(gpu: str) -> None:
    """Powers of two, so that the exponent of a product is the sum of those of its factors."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        a, b = (rng.choice([-1.0, 1.0], 32) * 2.0 ** rng.integers(-6, 6, 32) for _ in range(2))
        c = float(np.float32(rng.standard_normal() * 2.0 ** rng.integers(-8, 16)))
        got = product(a[None], b[:, None], f"tensor-core-{gpu}", "fp8", "fp16", c)
        with np.errstate(over="ignore"):
            assert got[0, 0] == np.float32(by_hand(a, b, c))
        assert same(got, product(a[None], b[:, None], f"tensor-core-{gpu}-fp16", "fp8", c=c))


@pytest.mark.parametrize("name", [name for name in ALIGNED if name.endswith("-fp16")])
def test_fp16_accumulators_are_the_unit_with_fp16_results(name: str) -> None:
    rng, unit = np.random.default_rng(4), name.removesuffix("-fp16")
    assert RULES[name].native == "fp16"
    for fmt in RULES[name].blocks:
        assert RULES[name].outputs(fmt) == ("fp16",)
        a, b = (values(get(fmt), rng, shape, 6) for shape in ((5, 70), (70, 4)))
        assert same(product(a, b, name, fmt), product(a, b, unit, fmt, "fp16"))


def test_what_is_assumed_of_b200_is_said_with_the_rule() -> None:
    row = RULES["tensor-core-b200"]
    assert "assumed" in row.title
    assert "one block of 32 is an assumption" in row.assumption


@measured
@pytest.mark.parametrize("key", sets() if GPU_DOTS.exists() else [])
def test_real_gpus_are_met_to_the_bit(key: str) -> None:
    assert difference(key) == 0
    assert compared(key) == 600


@measured
def test_the_check_passes() -> None:
    outcome = tensor_cores()
    assert outcome.rows == outcome.equal == 7200 + 20 * 4096


@measured
@pytest.mark.parametrize("key", [key for key in sets() if key.endswith("_fp32")] if GPU_DOTS.exists() else [])
def test_no_plain_sum_meets_a_gpu(key: str) -> None:
    """A rule that is too simple is seen: sequential FP32 differs in a third of all rows and more."""
    assert difference(key, "fp32-sequential") > 600 // 3


def test_without_the_data_of_others_own_products_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.validation.tensor_cores.GPU_DOTS", tmp_path / "gpu_dots.npz")
    outcome = tensor_cores()
    assert outcome.rows == outcome.equal == 20 * 4096
    assert outcome.details[-1].startswith("not compared: other people's data")


@pytest.mark.parametrize("key", products())
def test_products_of_cublas_are_met_to_the_bit(key: str) -> None:
    assert results(key) == 64 * 64
    assert product_difference(key) == 0


@pytest.mark.parametrize("key", products())
def test_no_sequential_sum_meets_cublas(key: str) -> None:
    assert product_difference(key, "fp32-sequential") > results(key) // 2


@pytest.mark.parametrize(("rounding", "wrong"), [("rna", 99), ("rz", 4096)])
def test_operands_of_tf32_are_rounded_to_even(rounding: str, wrong: int) -> None:
    """Four of these operands lie in the middle between two values of tf32; all others tell to nearest from truncated."""
    assert product_difference("tf32_256_mm", rounding=rounding) == wrong


@pytest.mark.parametrize("key", PARTS)
def test_cublas_cuts_small_products_of_tf32_into_parts(key: str) -> None:
    assert product_difference(key, every=0) > results(key) // 2
    assert product_difference(key, every=2 * PARTS[key]) > results(key) // 4


def test_sums_of_128_are_added_outside_without_fast_accumulation() -> None:
    key, unit = "fp8_e4m3fn_256_slow", "tensor-core-h100"
    assert product_difference(key, unit) > results(key) // 2
    assert product_difference(key, unit, every=128) == 0
    assert all(product_difference(key, unit, every=every) > results(key) // 2 for every in (32, 64))


def test_h200_has_the_blocks_of_h100() -> None:
    assert RULES["tensor-core-h200"].blocks == RULES["tensor-core-h100"].blocks


@pytest.mark.parametrize("name", ["fp32", "fp32-sequential", "tensor-core-a100"])
def test_parts_are_sums_of_their_own_added_in_fp32(name: str) -> None:
    rng = np.random.default_rng(6)
    a, b, c = (values(get("fp16"), rng, shape, 6) for shape in ((2, 3, 50), (50, 4), (3, 4)))
    total = np.broadcast_to(c, (2, 3, 4))
    for k in range(0, 50, 16):
        total = total + product(a[..., k : k + 16], b[k : k + 16], name, "fp16")
    assert same(product(a, b, name, "fp16", c=c, every=16), total)
    assert np.array_equal(product(np.zeros((3, 0)), np.zeros((0, 4)), name, "fp16", c=c, every=16), c)


@pytest.mark.parametrize(
    ("rule", "fmt", "every"), [("fp32", "fp16", -1), ("tensor-core-h100-fp16", "fp16", 8), ("int32", "int8", 8)]
)
def test_parts_that_cannot_be_are_said(rule: str, fmt: str, every: int) -> None:
    with pytest.raises(UsageError, match="parts"):
        product(np.zeros((1, 1)), np.zeros((1, 1)), rule, fmt, every=every)


def test_a_sparser_block_is_another_result() -> None:
    """Every parameter of the table matters: the rules of two neighbouring GPUs differ."""
    rng = np.random.default_rng(3)
    a, b = values(get("fp16"), rng, (64, 64), 8), values(get("fp16"), rng, (64, 64), 8)
    results = [product(a, b, f"tensor-core-{gpu}", "fp16") for gpu in ("v100", "a100", "h100")]
    assert not any(np.array_equal(results[i], results[j]) for i, j in ((0, 1), (1, 2), (0, 2)))


@pytest.mark.parametrize("name", ["fp32-sequential", "fp16-accumulate"])
@given(seed=st.integers(0, 2**32), K=st.integers(0, 20))
@settings(max_examples=20)
def test_sequential_rules_round_each_step(name: str, seed: int, K: int) -> None:
    rng, kind = np.random.default_rng(seed), np.float16 if name == "fp16-accumulate" else np.float32
    a, b, c = (rng.standard_normal(shape).astype(np.float16) for shape in ((3, K), (K, 2), (3, 2)))
    expected = np.array([[kind(c[m, n]) for n in range(2)] for m in range(3)])
    for m in range(3):
        for n in range(2):
            for k in range(K):
                expected[m, n] = kind(expected[m, n] + kind(kind(a[m, k]) * kind(b[k, n])))
    result = product(a, b, name, "fp16", c=c)
    assert same(result, expected.astype(np.float32))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_int32_is_exact_and_wraps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-(2**15), 2**15, (3, 50)), rng.integers(-(2**15), 2**15, (50, 2))
    exact = [[sum(int(x) * int(y) for x, y in zip(a[m], b[:, n], strict=True)) for n in range(2)] for m in range(3)]
    wrapped = [[(value + 2**31) % 2**32 - 2**31 for value in row] for row in exact]
    assert product(a, b, "int32", "int16").tolist() == wrapped
    assert product(a, b, "int32", "int16").dtype == np.int32


def test_splitting_into_bf16_parts_is_exact_and_worth_it() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    parts = dot_plain.split(a, 3)
    assert np.array_equal(sum(part.astype(np.float64) for part in parts), a)
    exact = a.astype(np.float64) @ b
    errors = {
        name: np.abs(product(a, b, name, "fp32") - exact).max() for name in ("bf16-fp32", "bf16x3", "bf16x6", "fp32")
    }
    assert errors["bf16-fp32"] > 100 * errors["bf16x3"] > 1000 * errors["bf16x6"] > 0
    assert errors["bf16x6"] < 4 * errors["fp32"]
    assert np.isposinf(dot_plain.split(np.array([np.inf], np.float32), 2)[0][0])


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("shapes", [((2, 3, 5, 7), (7, 4)), ((3, 5, 7), (2, 3, 7, 4)), ((2, 1, 5, 7), (3, 7, 4))])
def test_batches_are_products_of_their_own(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng, fmt = np.random.default_rng(1), next(iter(RULES[name].blocks), "int8" if name == "int32" else "fp16")
    a, b = (rng.integers(-8, 9, shape) for shape in shapes)
    result = product(a, b, name, fmt)
    assert np.array_equal(result, a @ b)
    assert result.shape == (a @ b).shape


def without_compiler(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("accelsim.formats.dot_block.compiled", lambda name: None)


@pytest.mark.parametrize("name", ALIGNED)
def test_tiles_do_not_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    fmt = next(iter(RULES[name].blocks))
    a, b = (values(get(fmt), rng, shape, 6) for shape in ((2, 9, 33), (2, 33, 11)))
    whole = product(a, b, name, fmt)
    without_compiler(monkeypatch)
    for tile in (1, 7, 40, 100):
        monkeypatch.setattr("accelsim.formats.dot_block.TILE", tile)
        assert same(product(a, b, name, fmt), whole)


@pytest.mark.xdist_group("compiled")  # one process compiles the loops
@pytest.mark.parametrize("name", ALIGNED)
@pytest.mark.parametrize("spread", [1, 8, 20])
@pytest.mark.parametrize("shape", [(2, 9, 33, 41), (1, 70, 24, 300)])
def test_short_numbers_are_added_to_the_same_bits(
    name: str, spread: int, shape: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products in FP32 and sums in int32, where both are exact, compiled and not, against float64 throughout; zeros,
    subnormals of the operands, and sums that are too small or too large for it are among them."""
    rng, fmt = np.random.default_rng(3), next(iter(RULES[name].blocks))
    batch, rows, depth, columns = shape
    a, b = (values(get(fmt), rng, each, spread) for each in ((batch, rows, depth), (batch, depth, columns)))
    a[rng.random(a.shape) < 0.1] = 0
    a[:, 2] = 0
    for start in (0.0, 1e-39, 3e-30, 1.0, 1e35):
        c = np.full((batch, rows, columns), start, np.float32)
        compiled = product(a, b, name, fmt, c=c)
        with monkeypatch.context() as patch:
            without_compiler(patch)
            assert same(product(a, b, name, fmt, c=c), compiled)
            patch.setattr("accelsim.formats.dot_block._are_narrow", lambda *_: False)
            assert same(product(a, b, name, fmt, c=c), compiled)


@pytest.mark.xdist_group("compiled")
def test_the_compiled_loops_are_used_where_they_are_exact_and_only_there() -> None:
    loops = pytest.importorskip("accelsim.formats.dot_compiled", reason="numba is not installed (extra `fast`)")
    assert dot_block.compiled("dot_compiled") is loops
    rng, block = np.random.default_rng(4), block_of("tensor-core-a100", "fp16", "fp32")
    a, b = (values(get("fp16"), rng, each, 3) for each in ((1, 5, 32), (1, 32, 7)))
    c, least = np.zeros((1, 5, 7), np.float32), (get("fp16").min_normal, get("fp16").min_normal)
    assert dot_block._compiled(a, b, c, block, least) is not None
    for wrong in (np.inf, np.nan, 2.0**41):
        worse = a.copy()
        worse[0, 3, 4] = wrong
        assert dot_block._compiled(worse, b, c, block, least) is None
    assert dot_block._compiled(a.astype(np.float64), b, c, block, least) is None
    assert dot_block._compiled(a * np.float32(1 + 2**-20), b, c, block, least) is None  # 24 bits times 11
    assert dot_block._compiled(a, b, c + np.float32(1e30), block, least) is None


@pytest.mark.parametrize("name", PLAIN)
def test_no_products_leave_c(name: str) -> None:
    fmt = "int8" if name == "int32" else "fp32"
    c = np.arange(6).reshape(2, 3)
    assert np.array_equal(product(np.zeros((2, 0)), np.zeros((0, 3)), name, fmt, c=c), c)


def test_fp16_accumulators_lose_what_fp32_keeps() -> None:
    """rms error / sqrt(K) of normal data grows as sqrt(K): FP16 2.4e-3 at K = 256, FP32 ten thousand times less."""
    rng, errors = np.random.default_rng(0), {}
    for K in (256, 4096):
        a, b = (rng.standard_normal(shape).astype(np.float16).astype(np.float32) for shape in ((24, K), (K, 24)))
        exact = a.astype(np.float64) @ b
        for name in ("fp16-accumulate", "fp32-sequential", "tensor-core-v100", "tensor-core-h100"):
            wrong = product(a, b, name, "fp16") - exact
            errors[name, K] = float(np.sqrt(np.mean(wrong**2) / K))
    growth = {name: errors[name, 4096] / error for (name, K), error in errors.items() if K == 256}
    for name in ("fp16-accumulate", "fp32-sequential", "tensor-core-v100"):
        assert growth[name] == pytest.approx(4.0, rel=0.3)
    assert growth["tensor-core-h100"] > 10  # results are truncated: errors toward zero, they do not cancel
    assert errors["fp16-accumulate", 256] == pytest.approx(2.4e-3, rel=0.25)
    assert errors["fp16-accumulate", 256] / errors["fp32-sequential", 256] == pytest.approx(2**13, rel=0.25)


def test_rules_for_a_format() -> None:
    assert rules_for("int8") == rules_for("int4xint8") == ("int32",)
    assert rules_for("fp8") == tuple(name for name in PLAIN if name != "int32") + tuple(
        row for row in ALIGNED if "v100" not in row and "a100" not in row
    )
    assert "tensor-core-v100" not in rules_for("bf16")
    assert [row.name for row in operands("int4xint8")] == ["int8", "int4"]
    assert "tensor-core-h100" in rules_for("fp8_e4m3fnxfp8_e5m2")


@pytest.mark.parametrize(
    ("rule", "fmt", "out", "words"),
    [
        ("tensor-core-h10", "fp16", None, "tensor-core-h100"),
        ("fp32", "fp17", None, "fp16"),
        ("tensor-core-v100", "bf16", None, "tensor-core-a100"),
        ("tensor-core-h100", "bf16", "fp16", "no fp16 output"),
        ("tensor-core-h100-fp16", "fp8", "fp32", "no fp32 output"),
        ("tensor-core-h100-fp16", "bf16", None, "fp8_e4m3fn"),
        ("tensor-core-h100", "fp16", "bf16", "fp32 or fp16"),
        ("int32", "fp16", None, "integer formats"),
        ("fp32", "int8", None, "float formats"),
        ("int32", "int8", "fp32", "int32"),
    ],
)
def test_what_does_not_exist_is_said(rule: str, fmt: str, out: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        product(np.zeros((1, 1)), np.zeros((1, 1)), rule, fmt, out)


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((3,), (3, 1)), ((2, 1, 3), (3, 3, 1))])
def test_shapes_that_do_not_multiply_are_said(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(UsageError, match="do not multiply"):
        product(np.zeros(shapes[0]), np.zeros(shapes[1]), "fp32", "fp32")


@pytest.mark.parametrize("row", RULES.values(), ids=lambda row: row.name)
def test_every_rule_says_where_it_is_from(row: DotRule) -> None:
    assert row.title
    assert row.source
    assert (row.kernel is None) == bool(row.blocks)
