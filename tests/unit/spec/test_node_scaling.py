"""Energy tables at other nodes: the shipped ones come out, nothing rises as the node shrinks, components differ."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.spec.node_scaling import LOGIC, SRAM, CACTI_nJ, hop_factor, scale_table, wire_J_per_bit_mm
from accelsim.spec.status import weakest
from accelsim.spec.yaml.parts import load_energy

BASE = load_energy("horowitz-45nm")


def test_28_nm_is_the_shipped_table() -> None:
    made, shipped = scale_table(BASE, 45, 28), load_energy("scaled-28nm")
    assert made.node == "28 nm"
    for column in ("mac", "vector"):
        assert getattr(made, column) == pytest.approx(getattr(shipped, column), rel=1e-3)
    assert made.register == pytest.approx(shipped.register, rel=1e-3)
    for point, other in zip(made.sram, shipped.sram, strict=True):
        assert (point.read, point.write) == pytest.approx((other.read, other.write), rel=1e-3)
    assert made.status is not None and shipped.status is not None
    for name in shipped.mac:
        assert made.status.mac.get(name, made.status.default) == shipped.status.mac.get(name, shipped.status.default)
    assert made.status.sram == shipped.status.sram == "derived"


def test_7_nm_by_the_columns_is_the_shipped_table() -> None:
    made, shipped = scale_table(BASE, 45, 7, logic="jouppi"), load_energy("jouppi-7nm")
    for column in ("mac", "vector"):
        assert getattr(made, column) == pytest.approx(getattr(shipped, column), rel=1e-3)
    assert made.status is not None and made.status.default == made.status.mac["fp32"] == "recalled"


def test_the_shipped_7_nm_column_is_complete() -> None:
    """Jouppi et al., ISCA 2021, Table 2: 7.5, 8.5 and 14 pJ for 64 bits of 8 KiB, 32 KiB and 1 MiB."""
    points = {point.capacity: point.read * 8e12 for point in load_energy("jouppi-7nm").sram}
    assert points == pytest.approx({2**13: 7.5, 2**15: 8.5, 2**20: 14}, rel=1e-3)


def test_components_scale_apart() -> None:
    """From 45 to 7 nm: SRAM by 1.3 (8 KiB), 2.4 (32 KiB), 7.1 (1 MiB), arithmetic by 2.1 to 4.3, logic by 10."""
    rule = SRAM["jouppi"].factor
    found = [1 / rule((size, "read"), 45, 7, 0.9, 0.9) for size in (2**13, 2**15, 2**20)]
    assert found == pytest.approx([1.33, 2.35, 7.14], rel=0.01)
    columns = [1 / LOGIC["jouppi"].factor(("vector", name), 45, 7, 0.9, 0.9) for name in ("int8", "int32", "fp32")]
    assert columns == pytest.approx([0.03 / 0.007, 0.1 / 0.03, 0.9 / 0.38])
    assert 1 / LOGIC["stillmaker"].factor(("mac", "fp32"), 45, 7, 0.8, 0.8) == pytest.approx(1 / 0.0943, rel=1e-3)
    assert wire_J_per_bit_mm(40) == pytest.approx(240e-15, rel=1e-9, abs=0) and wire_J_per_bit_mm(10) == pytest.approx(
        115e-15, rel=1e-9, abs=0
    )
    assert 0.05 < hop_factor(45, 7) < wire_J_per_bit_mm(7) / wire_J_per_bit_mm(45)


NODES = {name: st.floats(rule.low_nm, rule.high_nm) for name, rule in (LOGIC | SRAM).items()}


@settings(max_examples=150)
@given(st.sampled_from(sorted(LOGIC)), st.sampled_from(sorted(SRAM)), st.data())
def test_a_smaller_node_never_costs_more(logic: str, sram: str, data: st.DataObject) -> None:
    """Also between the nodes of a table, where interpolating over indices the wrong way makes 28 nm cheaper than 22."""
    low = max(LOGIC[logic].low_nm, SRAM[sram].low_nm)
    high = min(45.0, LOGIC[logic].high_nm, SRAM[sram].high_nm)
    small, large = sorted((data.draw(st.floats(low, high)), data.draw(st.floats(low, high))))
    with_network = BASE.model_copy(update={"network": 1e-12})
    here, there = (scale_table(with_network, 45, nm, logic=logic, sram=sram) for nm in (large, small))
    slack = 1 + 1e-9
    for column in ("mac", "vector"):
        for name, energy in getattr(there, column).items():
            assert energy <= getattr(here, column)[name] * slack
    assert there.register <= here.register * slack
    assert there.network <= here.network * slack
    for point, other in zip(there.sram, here.sram, strict=True):
        assert point.read <= other.read * slack and point.write <= other.write * slack


@given(st.floats(22, 45))
def test_there_and_back_again(nm: float) -> None:
    back = scale_table(scale_table(BASE, 45, nm), nm, 45)
    assert back.mac == pytest.approx(BASE.mac)
    assert [point.read for point in back.sram] == pytest.approx([point.read for point in BASE.sram])


def test_sram_of_the_base_is_the_table_of_cacti() -> None:
    for point in BASE.sram:
        assert (point.read * 8e9, point.write * 8e9) == pytest.approx(CACTI_nJ[point.capacity][45], rel=5e-4)


def test_voltage_counts_for_logic_alone() -> None:
    low = scale_table(BASE, 45, 28, to_V=0.7)
    full = scale_table(BASE, 45, 28)
    assert low.mac["int8"] < full.mac["int8"]
    assert low.sram == full.sram


def test_status_is_the_weaker_one() -> None:
    assert weakest("verified", "measured") == "derived"
    assert weakest("verified", "recalled") == "recalled"
    made = scale_table(BASE, 45, 65)
    assert made.status is not None and made.status.sram == "guess", "no SRAM figure of that node"
    assert made.status.mac["int32"] == "derived" and made.status.mac["int8"] == "secondary"


@pytest.mark.parametrize(
    ("nodes", "rules", "what"),
    [
        ((45, 5), {}, "stillmaker says nothing of logic at 5 nm; expected 7 to 130 nm"),
        ((45, 65), {"logic": "jouppi"}, "jouppi says nothing of logic at 65 nm; expected 7 to 45 nm"),
        ((45, 16), {"sram": "cacti"}, "cacti says nothing of SRAM at 16 nm; expected 22 to 45 nm"),
        ((45, 28), {"logic": "stilmaker"}, "did you mean 'stillmaker'"),
        ((45, 28), {"sram": "cact"}, "no scaling of SRAM called 'cact'.*did you mean 'cacti'"),
    ],
)
def test_nothing_is_extrapolated(nodes: tuple[float, float], rules: dict[str, str], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        scale_table(BASE, *nodes, **rules)
