"""Every figure of energy that is said of a run, computed once more from the spec files and the ledger, and by other runs.

The prices are read from the YAML files here, with units and interpolation of this test's own; only the counts are the
run's. What a sentence implies about a change (a price, a power, a shorter run) is compared with a run of that change.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import accelsim
from accelsim.account.latency import layers, summary
from accelsim.machine.run import Run
from accelsim.report.layer_plots import access_note
from accelsim.report.words import sentences
from accelsim.spec.yaml.parts import load_energy

SPECS = Path(accelsim.__file__).parents[1] / "hwspecs"
CASES = (
    ("tpu-v1", "mlp?hidden=256", "int8"),
    ("tpu-v1", "cnn", "int16"),
    ("neuroncore-v2", "gpt-decode?seq=64", "bf16"),
    ("neuroncore-v2", "mlp?hidden=256", "fp32"),
    ("edu-4x4", "cnn", "int8"),
    ("edu-4x4", "mlp?hidden=16", "fp32"),
    ("systolic-generic", "cnn", "fp16"),
    ("eyeriss-hierarchy", "cnn", "int16"),
    ("haswell-e5-2699v3", "mlp?hidden=64", "fp32"),
)
PREFIX = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "": 1.0}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
VERIFIED = ("verified", "measured", "derived")
WIDTH = {"int8": 1, "int16": 2, "bf16": 2, "fp16": 2, "fp32": 4}


def value(text: str) -> float:
    """'7.88 pJ/bit' and the like in SI units, per byte where per anything."""
    number, unit = str(text).split()
    base = re.fullmatch(r"([fpnumkMG]?)([JW])(?:/(bit|B))?", unit)
    if base is None:
        return float(number) * BYTES[unit]
    return float(number) * PREFIX[base[1]] * (8 if base[3] == "bit" else 1)


@cache
def run_of(chip: str, model: str, dtype: str, *changes: str, **options: Any) -> Run:
    return accelsim.run(model, on=chip, dtype=dtype, values="off", set=list(changes), **options)


@cache
def said(chip: str, model: str, dtype: str) -> str:
    run = run_of(chip, model, dtype)
    return " ".join(sentences(run, layers(run), summary(run)))


def part(reference: Any) -> dict[str, Any]:
    """A part of a spec: a file by its name, with what it is based on, or what stands there."""
    entry = reference
    if isinstance(reference, str):
        entry = yaml.safe_load((SPECS / f"{reference}.yaml").read_text())
    return {**part(entry["use"]), **entry} if "use" in entry else dict(entry)


def with_rows(reference: Any) -> dict[str, Any]:
    """An energy table; rows and statuses that follow from arithmetic as ``tests/unit/spec`` proves them."""
    entry = part(reference)
    if "arithmetic" not in entry:
        return entry
    made = load_energy(reference)
    assert made.status is not None
    rows = {name: {row: f"{J} J" for row, J in getattr(made, name).items()} for name in ("mac", "vector")}
    status = entry["status"] | {"mac": made.status.mac, "vector": made.status.vector}
    return entry | rows | {"status": status}


class Prices:
    """Joules for each action of a chip and its category and status, from its YAML file alone."""

    def __init__(self, chip: str) -> None:
        self.spec = part(f"chips/{chip}")
        self.core = self.spec.get("cores", {}).get("core", {})
        self.table = with_rows(self.spec["energy"])
        self.memories = {name: (entry, part(entry["memory"])) for name, entry in self.spec.get("memories", {}).items()}
        self.host = part(self.spec["host"]) if "host" in self.spec else None

    def status(self, kind: str, name: str = "") -> str:
        stated = self.table.get("status", {})
        found = stated.get(kind, stated.get("default", "guess"))
        return found.get(name, stated.get("default", "guess")) if isinstance(found, dict) else found

    def of(self, component: str, action: str) -> tuple[str, float, str]:
        """(category, joules per count, status)."""
        table, kind = self.table, action.split(".")[0]
        if component == "matrix":
            if kind == "mac":
                name = action.split(".")[1]
                unused = name in ("padding", "skipped")
                return "MAC", 0.0 if unused else value(table["mac"][name]), self.status("mac", name)
            what = {"pe_register": "register", "pe_network": "network"}[kind]
            return (f"PE {what}".replace("register", "registers"), value(table.get(what, "0 J/B")), self.status(what))
        if self.core.get("engines", {}).get(component, {}).get("type") == "simd":
            name = action.split(".")[1]
            return "vector unit", value(table["vector"][name]), self.status("vector", name)
        if component in self.core.get("memories", {}):
            return "on-chip SRAM", self.sram(component, action), self.status("sram")
        if component.startswith("host"):
            assert self.host is not None
            if component == "host.own_memory":
                memory = part(self.host["memory"])
                return ("off-chip memory", value(memory[f"{action}_energy"]), memory.get("energy_status", "guess"))
            price = 0.0 if action == "busy" else value(self.host["energy_per_op"])
            return "host", price, self.host.get("energy_status", "guess")
        if component.endswith(".link"):
            link = part(self.memories[component.removesuffix(".link")][0]["link"])
            return "link", value(link["energy"]), link.get("energy_status", "guess")
        memory = self.memories[component][1]
        return "off-chip memory", value(memory[f"{action}_energy"]), memory.get("energy_status", "guess")

    def sram(self, buffer: str, way: str) -> float:
        points = sorted((value(p["capacity"]), value(p[way])) for p in self.table["sram"])
        sizes, joules = np.array(points).T
        capacity = value(self.core["memories"][buffer]["capacity"])
        if capacity > sizes[-1]:
            slope = np.log(joules[-1] / joules[-2]) / np.log(sizes[-1] / sizes[-2])
            return float(joules[-1] * (capacity / sizes[-1]) ** slope)
        return float(np.interp(np.log(capacity), np.log(sizes), joules))

    def static_J(self, run: Run) -> float:
        idle = value(self.spec.get("power", {}).get("idle", "0 W"))
        idle += sum(value(memory.get("static_power", "0 W")) for _, memory in self.memories.values())
        works = sum(p.end - p.start for p in run.slices if p.engine == "host")
        apart = self.host is not None and not (self.spec["kind"] == "cpu" and "power" in self.spec)
        host = value(self.host.get("idle_power", "0 W")) if apart and self.host else 0.0
        return idle * run.time_fs * 1e-15 + host * works * 1e-15


@cache
def computed(chip: str, model: str, dtype: str) -> tuple[dict[str, float], dict[str, float]]:
    """Category -> J, static power among them; status -> J of what is not static."""
    prices, run = Prices(chip), run_of(chip, model, dtype)
    kinds: dict[str, float] = defaultdict(float)
    statuses: dict[str, float] = defaultdict(float)
    for row in run.ledger:
        category, price, status = prices.of(row.component, row.action)
        kinds[category] += row.count * price
        statuses[status] += row.count * price
    return {**kinds, "static": prices.static_J(run)}, statuses


def shown(text: str) -> float:
    number, unit = text.split()
    return float(number) * PREFIX[unit[:-1]]


def same(printed: float, exact: float, digits: float = 5e-3) -> bool:
    """Return whether a figure of three digits is the rounded one."""
    return abs(printed - exact) <= digits * abs(exact) + 1e-30


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_energy_and_its_shares_are_those_of_the_spec_files(case: tuple[str, str, str]) -> None:
    kinds, _ = computed(*case)
    total = sum(kinds.values())
    found = re.search(r"It uses ([\d.]+ \w+): (.*?)(?:;|\.(?: |$))", said(*case))
    assert found and same(shown(found[1]), total)
    shares = re.findall(r"([A-Za-z -]+?) (<?[\d.]+)%", found[2])
    assert len(shares) == min(3, sum(value > 0 for value in kinds.values()))
    ranked = sorted(kinds.values(), reverse=True)
    for place, (name, percent) in enumerate(shares):
        exact = kinds[name.strip(" ,")]
        assert exact == pytest.approx(ranked[place], rel=1e-9)
        assert abs(float(percent.lstrip("<")) - 100 * exact / total) <= 0.05 + 1e-9


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_moving_data_against_multiplying_is_that_of_the_spec_files(case: tuple[str, str, str]) -> None:
    kinds, _ = computed(*case)
    found = re.search(r"moving data costs ([\d.]+)(k?) times as much as the multiplications", said(*case))
    if not kinds.get("MAC"):
        assert found is None
        return
    moving = sum(
        kinds.get(name, 0.0) for name in ("PE registers", "PE network", "on-chip SRAM", "off-chip memory", "link")
    )
    assert found and same(float(found[1]) * (1000 if found[2] else 1), moving / kinds["MAC"])


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_share_of_doubtful_figures_is_that_of_the_spec_files(case: tuple[str, str, str]) -> None:
    _, statuses = computed(*case)
    share = sum(v for status, v in statuses.items() if status not in VERIFIED) / sum(statuses.values())
    found = re.search(r"Of the dynamic energy ([\d.]+)% rests on figures that are not verified", said(*case))
    if share <= 0.1:
        assert found is None
    else:
        assert found and abs(float(found[1]) - 100 * share) <= 0.05 + (0.5 if share > 0.9995 else 0)


PRICES = {
    "ddr3": ("memories.ddr3.memory.read_energy", "memories.ddr3.memory.write_energy"),
    "hbm": ("memories.hbm.memory.read_energy", "memories.hbm.memory.write_energy"),
    "PE registers": ("energy.register",),
    "int8 multiply-accumulates": ("energy.mac.int8",),
    "bf16 multiply-accumulates": ("energy.mac.bf16",),
    "the host": ("host.energy_per_op",),
}
"""Figures that the warning names -> where they stand in the spec."""


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_what_is_named_as_doubtful_weighs_what_a_run_with_twice_its_price_says(case: tuple[str, str, str]) -> None:
    warning = said(*case).partition("above all ")[2]
    named = re.findall(r"([\w -]+?) \((\w+), ([\d.]+)%\)", warning)
    dynamic = sum(computed(*case)[1].values())
    before = run_of(*case).energy_J
    for name, status, percent in [entry for entry in named if entry[0].strip(", ") in PRICES]:
        fields = PRICES[name.strip(", ")]
        doubled = [f"{field}={2 * stated(case[0], field)} {'J' if 'mac' in field or 'per_op' in field else 'J/B'}"
                   for field in fields]  # fmt: skip
        after = run_of(*case, *doubled).energy_J
        assert abs(100 * (after - before) / dynamic - float(percent)) <= 0.05 + 1e-6, name
        assert status not in VERIFIED


def stated(chip: str, field: str) -> float:
    prices = Prices(chip)
    head, *rest = field.split(".")
    if head == "memories":
        return value(prices.memories[rest[0]][1][rest[-1]])
    found: Any = prices.table if head == "energy" else prices.host
    for key in rest:
        found = found[key]
    return value(found)


def test_a_shorter_run_saves_static_power_and_nothing_else() -> None:
    """As the sentence says: twice the bandwidth of the weights, the same work, and static energy in proportion."""
    case = ("tpu-v1", "mlp?hidden=1024,layers=4", "int8")
    assert "Static power is drawn whether the chip works or not, so a shorter run saves it" in said(*case)
    slow, fast = run_of(*case), run_of(*case, "memories.ddr3.memory.bandwidth=68 GB/s")
    assert fast.time_fs < 0.9 * slow.time_fs
    parts = [summary(run)["energy_by_category_J"] for run in (slow, fast)]
    prices = Prices("tpu-v1")
    saved = prices.static_J(slow) - prices.static_J(fast)
    assert saved > 0
    assert slow.energy_J - fast.energy_J == pytest.approx(saved, rel=2e-2, abs=0)
    for name in parts[0]:
        if name != "static":
            assert parts[0][name] == pytest.approx(parts[1][name], rel=2e-2), name


@pytest.mark.parametrize("idle", ["41 W", "0 W"])
def test_static_energy_of_the_host_is_not_said_to_be_that_of_memories(idle: str) -> None:
    """Conversions keep the host busy for most of this run, so what the host draws anyway is most of the energy."""
    case = ("edu-mixed", "cnn", "int8")
    run = run_of(*case, f"host.idle_power={idle}")
    told = " ".join(sentences(run, layers(run), summary(run)))
    static_J = summary(run)["energy_by_category_J"]["static"]
    busy_fs = sum(piece.end - piece.start for piece in run.slices if piece.engine == "host")
    found = re.search(r"([\d.]+)% of the static energy is the idle power of the host", told)
    assert ("of its memories, and of the host while that works" in told) == bool(found) == (idle != "0 W")
    assert ("of its memories alone" in told) == (not found)
    if found:
        assert abs(float(found[1]) - 100 * 41 * busy_fs * 1e-15 / static_J) <= 0.05 + 1e-9


def test_static_energy_is_what_a_run_without_static_power_does_not_use() -> None:
    case = ("tpu-v1", "mlp?hidden=256", "int8")
    none = ("power.idle=0 W", "memories.ddr3.memory.static_power=0 W", "host.idle_power=0 W")
    share = re.search(r"static ([\d.]+)%", said(*case))
    with_J, without_J = run_of(*case).energy_J, run_of(*case, *none).energy_J
    assert share and abs(float(share[1]) - 100 * (with_J - without_J) / with_J) <= 0.05 + 1e-9


@pytest.mark.parametrize("case", [case for case in CASES if case[0] in ("edu-4x4", "neuroncore-v2")], ids=" ".join)
def test_the_idle_power_that_is_not_counted_is_not_and_would_add_what_it_says(case: tuple[str, str, str]) -> None:
    found = re.search(r"not counted, is ([\d.]+ \w+) \(a guess by area\)", said(*case))
    assert found
    watts = shown(found[1])
    before, after = run_of(*case), run_of(*case, f"power={{idle: {watts} W}}")
    assert after.time_fs == before.time_fs
    assert after.energy_J - before.energy_J == pytest.approx(watts * before.seconds, rel=1e-9, abs=0)


@pytest.mark.parametrize("case", [case for case in CASES if case[0] != "haswell-e5-2699v3"], ids=" ".join)
def test_the_price_of_an_operand_is_that_of_the_spec_files(case: tuple[str, str, str]) -> None:
    found = re.fullmatch(
        r"reading one (\w+) operand from (\w+) costs ([\d.]+ \w+), as much as ([\d.]+k?) MACs of ([\d.]+ \w+)",
        access_note(run_of(*case)),
    )
    assert found
    prices = Prices(case[0])
    operand_J = value(prices.memories[found[2]][1]["read_energy"]) * WIDTH[found[1]]
    mac_J = value(prices.table["mac"][found[1]])
    times = float(found[4].rstrip("k")) * (1000 if found[4].endswith("k") else 1)
    assert same(shown(found[3]), operand_J) and same(shown(found[5]), mac_J) and same(times, operand_J / mac_J)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_energy_per_inference_and_average_power(case: tuple[str, str, str]) -> None:
    run, (kinds, _) = run_of(*case), computed(*case)
    told = summary(run)
    total = sum(kinds.values())
    assert told["energy_J"] == pytest.approx(total, rel=1e-9, abs=0)
    assert told["energy_per_inference_J"] == pytest.approx(total / told["batch"], rel=1e-9, abs=0)
    assert told["power_average_W"] == pytest.approx(total / (run.time_fs * 1e-15), rel=1e-9, abs=0)
