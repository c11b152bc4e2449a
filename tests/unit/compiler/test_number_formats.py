"""Which formats a chip computes in: requests, what holds what, and what is said when a chip cannot."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from accelsim.compiler.numbers.formats import (
    canonical,
    check_formats,
    holds,
    is_code,
    is_integer,
    memory_format,
    multiplies,
    operands_of,
    pair,
    resolve,
    stated_format,
    supported,
    widest_match,
)
from accelsim.engines.systolic.spec import MacFormat
from accelsim.errors import UsageError
from accelsim.formats import codec, table
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Array, Graph, Node
from tests.helpers.pass_graphs import Graphs, chip, compiled, residual_block, state_of

PLAIN = [name for name, row in table.FORMATS.items() if row.kind in ("float", "int", "binary", "scale")]
NARROW = [name for name in PLAIN if table.get(name).bits <= 8]
CHIPS = ("edu-mixed", "systolic-generic", "neuroncore-v2", "edu-tensor-core", "tpu-v1", "edu-4x4", "dae-edu")


@cache
def values(name: str) -> Array:
    """Every finite value of a narrow format, float64."""
    row = table.get(name)
    if row.kind == "binary":
        return np.array([-1.0, 1.0])
    if row.kind == "int":
        return np.arange(row.low, row.high + 1, dtype=np.float64)
    found = codec.decode(np.arange(row.codes).astype(row.code_type), name).astype(np.float64)
    return found[np.isfinite(found)]


def contains(wide: str, points: Array) -> bool:
    """Return whether each point is a value of format ``wide``, by its definition and not by ``holds``."""
    row = table.get(wide)
    if row.bits <= 8:
        return bool(np.isin(points, values(wide)).all())
    if row.kind == "int":
        return bool(np.all((points == np.rint(points)) & (points >= row.low) & (points <= row.high)))
    rounded = codec.cast(points, wide, overflow="inf")
    return bool(np.array_equal(rounded.astype(np.float64), points))


@pytest.mark.parametrize("narrow", NARROW)
def test_what_holds_a_narrow_format_holds_each_of_its_values(narrow: str) -> None:
    points = values(narrow)
    assert len(points) > 1
    for wide in PLAIN:
        if "scale" in (table.get(wide).kind, table.get(narrow).kind) and wide != narrow:
            assert not holds(wide, narrow), "a scale is no operand"
        else:
            assert holds(wide, narrow) == contains(wide, points), wide


@pytest.mark.parametrize("wide", ["fp64", "fp32", "tf32", "fp16", "bf16"])
def test_wide_floats_hold_each_other_where_range_and_precision_do(wide: str) -> None:
    order = {
        "fp64": {"fp64", "fp32", "tf32", "fp16", "bf16"}, "fp32": {"fp32", "tf32", "fp16", "bf16"},
        "tf32": {"tf32", "fp16", "bf16"}, "fp16": {"fp16"}, "bf16": {"bf16"},
    }  # fmt: skip
    assert {name for name in order if holds(wide, name)} == order[wide]


def test_holding_is_an_order() -> None:
    pairs = {(a, b) for a in PLAIN for b in PLAIN if holds(a, b)}
    assert all((name, name) in pairs for name in PLAIN)
    assert all((a, c) in pairs for a, b in pairs for other, c in pairs if other == b)


def test_a_block_format_is_held_by_itself_alone() -> None:
    for name, row in table.FORMATS.items():
        if row.kind == "block":
            assert [wide for wide in table.FORMATS if holds(wide, name)] == [name]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("int8", ("int8", "int8")),
        ("int4xint8", ("int4", "int8")),
        ("fp8", ("fp8_e4m3fn", "fp8_e4m3fn")),
        ("fp8xfp8_e5m2", ("fp8_e4m3fn", "fp8_e5m2")),
        ("mxfp4", ("mxfp4", "mxfp4")),
        ("mxint8xmxfp4", ("mxint8", "mxfp4")),
        ("binary", ("int1", "int1")),
        ("half", ("fp16", "fp16")),
        ("fp8_e5m2b20xint8", ("fp8_e5m2b20", "int8")),
    ],
)
def test_pairs_and_aliases(request_: str, expected: tuple[str, str]) -> None:
    assert pair(request_) == expected
    name = canonical(request_)
    assert pair(name) == expected
    assert name == (expected[0] if expected[0] == expected[1] else "x".join(expected))


@pytest.mark.parametrize("name", sorted({*table.FORMATS, *table.ALIASES}))
def test_every_name_is_a_pair_with_itself(name: str) -> None:
    row = table.get(name).name
    assert canonical(name) == canonical(f"{name}x{name}") == row
    assert pair(f"{name}xint8") == (row, "int8")


@pytest.mark.parametrize("name", ["int9", "", "x", "int8x", "xint8", "int8xint8xint8", "fp8_e4m4"])
def test_what_is_no_format(name: str) -> None:
    with pytest.raises(UsageError):
        pair(name)


def test_an_unknown_format_gives_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        pair("imt8")
    assert caught.value.problems[0].nearest == "int8"


def test_codes_and_numbers() -> None:
    assert {name for name in PLAIN if not is_code(name)} == {"fp64", "fp32", "tf32", "fp16", "bf16"}
    assert {name for name in PLAIN if is_integer(name)} == {
        name for name in PLAIN if table.get(name).kind in ("int", "binary")
    }
    assert [memory_format(name) for name in ("tf32", "fp16", "int4")] == ["fp32", "fp16", "int4"]


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_computes_in_each_of_its_own_formats(name: str) -> None:
    known = supported(chip(name))
    assert known
    for request in known:
        found = resolve(chip(name), request)
        assert found.mac == request
        assert (found.weights, found.activations) == pair(request)
        assert found.stored_weights == memory_format(found.weights)
        assert found.stored_activations == memory_format(found.activations)
        assert found == resolve(chip(name), request, emulate=True)
        assert found.codes == is_code(found.activations)
        assert not found.emulated


def bits(name: str) -> int:
    return sum(table.get(part).bits for part in pair(name))


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("request_", [*PLAIN, "int4xint8", "int4xint16", "fp8_e4m3fnxfp8_e5m2", "int2xfp4"])
def test_emulation_takes_the_narrowest_format_that_holds_both(name: str, request_: str) -> None:
    known = supported(chip(name))
    fitting = [each for each in known if all(holds(a, b) for a, b in zip(pair(each), pair(request_), strict=True))]
    match = widest_match(known, *pair(request_))
    assert (match in fitting) if fitting else match == ""
    assert all(bits(match) <= bits(each) for each in fitting)
    if canonical(request_) in known:
        return
    with pytest.raises(UsageError) as caught:
        resolve(chip(name), request_)
    (problem,) = caught.value.problems
    assert problem.where == "dtype" and repr(request_) in problem.what
    assert all(each in problem.expected for each in known)
    assert ("emulate" in problem.expected) == bool(fitting)
    if not fitting:
        with pytest.raises(UsageError) as caught:
            resolve(chip(name), request_, emulate=True)
        assert "emulate" not in str(caught.value)
        return
    assert problem.expected.endswith(f" {match}")
    found = resolve(chip(name), request_, emulate=True)
    assert (found.mac, found.weights, found.activations) == (match, *pair(request_))
    assert (found.stored_weights, found.stored_activations) == tuple(map(memory_format, pair(match)))


def test_aliases_are_resolved_before_the_chip_is_asked() -> None:
    assert resolve(chip("edu-mixed"), "fp8").mac == "fp8_e4m3fn"
    assert resolve(chip("edu-mixed"), "half").mac == "fp16"
    assert resolve(chip("edu-mixed"), "fp8xfp8_e5m2").mac == "fp8_e4m3fnxfp8_e5m2"


def test_what_is_no_format_gets_the_nearest_of_the_chip() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(chip("edu-mixed"), "int44")
    (problem,) = caught.value.problems
    assert "no number format" in problem.what
    assert problem.nearest == "int4"


def test_all_problems_of_formats_and_layers_come_at_once() -> None:
    layers = {"c1": "int44", "c9": "int8", "relu": "fp32", "c2": "fp16"}
    state = compiled(residual_block(), "tpu-v1", "int8", upto="absorb_batch_norm")
    state.options = type(state.options)(layers=layers)
    state.dtype = "bf16"
    with pytest.raises(UsageError) as caught:
        check_formats(state)
    texts = [problem.what for problem in caught.value.problems]
    assert len(texts) == 5 + ("fp32" not in supported(state.chip))
    assert any("no matrix product 'c9'" in text for text in texts)
    assert any("no matrix product 'relu'" in text for text in texts)
    for name in ("bf16", "int44", "fp16"):
        assert sum(repr(name) in text for text in texts) == 1
    nearest = {problem.what: problem.nearest for problem in caught.value.problems}
    assert nearest["no matrix product 'c9' in the model"].startswith("c")


QUANTISED = [
    ("int8", "int8", "int8"), ("uint8", "uint8", "uint8"), ("uint8", "int8", "int8xuint8"),
    ("int8", "uint8", "uint8xint8"), ("int4", "int4", "int4"), ("int8", "int4", "int4xint8"),
    ("fp8_e5m2", "fp8_e4m3fn", "fp8_e4m3fnxfp8_e5m2"), ("fp32", "fp32", ""), ("fp32", "int8", ""), ("int8", "fp32", ""),
    ("fp16", "fp16", ""), ("bf16", "fp32", ""), ("int1", "int1", "int1"),
]  # fmt: skip


def product(a: str, b: str) -> tuple[Graph, Node]:
    g = Graphs()
    g.input("a", (3, 4), a)
    g.input("b", (4, 5), b)
    graph = g.finish(g.matmul("a", "b", "y"))
    return graph, graph.nodes[0]


@pytest.mark.parametrize(("a", "b", "expected"), QUANTISED)
def test_operands_that_are_codes_state_their_format(a: str, b: str, expected: str) -> None:
    graph, node = product(a, b)
    assert stated_format(graph, node) == expected


def test_narrow_floats_of_a_training_step_state_theirs() -> None:
    for a, b, expected in (("bf16", "bf16", "bf16"), ("fp32", "bf16", ""), ("fp16", "bf16", "bf16xfp16")):
        graph, node = product(a, b)
        graph.trains = True
        assert stated_format(graph, node) == expected


def only(*formats: str) -> Chip:
    """edu-mixed with a unit of these formats alone."""
    base = chip("edu-mixed")
    assert base.matrix is not None
    macs = {name: base.matrix.formats.get(name, MacFormat(accumulate="int32")) for name in formats}
    matrix = base.matrix.model_copy(update={"formats": macs})
    return base.with_engine(matrix).model_copy(update={"peak": {}})


@pytest.mark.parametrize(
    ("formats", "a", "b", "mac"),
    [
        (("int8",), "int8", "int8", "int8"),
        (("int8",), "uint8", "uint8", "int8"),  # signed multipliers, a zero point more
        (("int8",), "uint8", "int8", "int8"),
        (("int8",), "int4", "int4", "int8"),
        (("int8", "int8xuint8"), "uint8", "int8", "int8xuint8"),
        (("int16", "int8"), "int16", "int8", "int16"),
        (("int4",), "int8", "int8", ""),
        (("bf16",), "int8", "int8", "bf16"),
        (("fp8_e5m2",), "int8", "int8", ""),
    ],
)
def test_quantised_operands_get_a_format_that_takes_them(formats: tuple[str, ...], a: str, b: str, mac: str) -> None:
    graph, node = product(a, b)
    state = state_of(graph, only(*formats), formats[0])
    assert multiplies(state, node) == bool(mac)
    if mac:
        assert operands_of(state, node).mac == mac


def test_real_operands_take_the_request_of_their_layer() -> None:
    graph, node = product("fp32", "fp32")
    for layers, expected in (({}, "int8"), ({"y": "fp16"}, "fp16"), ({"z": "fp16"}, "int8")):
        state = state_of(graph, "edu-mixed", "int8", layers=layers)
        assert multiplies(state, node)
        assert operands_of(state, node).mac == expected


def test_a_chip_without_a_matrix_unit_computes_in_the_formats_of_its_processor() -> None:
    plain = chip("haswell-e5-2699v3")
    assert plain.matrix is None and plain.host is not None
    assert supported(plain) == list(plain.host.peak)
    bare = plain.model_copy(update={"host": None})
    assert supported(bare) == ["fp32"]
