"""How much of the energy rests on what: statuses of every price, shares, the warning, figures set by hand."""

from __future__ import annotations

from math import isclose

import pytest

import accelsim
from accelsim.account import energy, provenance
from accelsim.account.latency import layers, summary
from accelsim.program.roles import HOST_OWN_MEMORY
from accelsim.report.words import sentences
from accelsim.spec.chip import Chip
from accelsim.spec.status import DOUBTFUL, STATUSES
from accelsim.spec.yaml.load import list_chips, load_chip
from tests.helpers.synthetic_run import CHIP, make_chip, make_run

STATED = {
    "default": "verified", "mac": {"int8": "secondary"}, "register": "guess", "network": "recalled", "sram": "measured",
}  # fmt: skip


def statuses(chip: Chip) -> dict[tuple[str, str], str]:
    """(component, action) -> status, for every entry of the price list."""
    return {(unit, action): provenance.status_of(chip, unit, action) for unit, action in energy.price_list(chip)}


def chip_with(status: dict[str, object]) -> accelsim.spec.chip.Chip:
    return make_chip(energy=CHIP["energy"] | {"status": status})


def test_every_price_has_the_status_of_its_figure() -> None:
    found = statuses(chip_with(STATED))
    assert found["matrix", "mac.int8"] == "secondary"
    assert found["matrix", "mac.int16"] == found["vector", "op.int8"] == "verified"
    assert found["matrix", "pe_register.read"] == "guess"
    assert found["matrix", "pe_network.hop"] == "recalled"
    assert found["unified", "read"] == found["accumulators", "write"] == "measured"
    assert found["weight_memory", "read"] == "guess", "nothing stated"
    assert set(found) == set(energy.price_list(chip_with(STATED)))


@pytest.mark.parametrize(
    ("component", "action", "words"),
    [
        ("core3.matrix", "mac.int8", "int8 multiply-accumulates"),
        ("unified", "read", "on-chip SRAM"),
        ("core1.accumulators", "write", "on-chip SRAM"),
        ("weight_memory", "read", "weight_memory"),
        ("weight_memory.link", "transfer", "the link to weight_memory"),
        ("host", "op", "the host"),
        (HOST_OWN_MEMORY, "read", "memory of the host"),
    ],
)
def test_what_energy_goes_to_in_words(component: str, action: str, words: str) -> None:
    assert provenance.in_words(make_chip(), component, action) == words


def test_a_core_has_the_statuses_of_its_unit() -> None:
    assert provenance.status_of(chip_with(STATED), "core3.matrix", "mac.int8") == "secondary"


def test_shares_are_those_of_the_dynamic_energy() -> None:
    run = make_run()
    run.chip = chip_with(STATED)
    rows = [row for row in energy.energy_table(run) if row.component != energy.STATIC]
    shares = provenance.by_status(run)
    assert isclose(sum(shares.values()), 1, rel_tol=1e-12)
    assert list(shares) == [status for status in STATUSES if status in shares]
    macs = energy.total_J(row for row in rows if row.action == "mac.int8")
    assert isclose(shares["secondary"], macs / energy.total_J(rows), rel_tol=1e-12)
    assert summary(run)["energy_status"] == shares
    share, weak = provenance.doubtful(run)
    assert isclose(share, sum(shares.get(status, 0.0) for status in DOUBTFUL), rel_tol=1e-12)
    assert weak == sorted(weak, key=lambda part: -part.energy_J)


@pytest.mark.parametrize(("memory", "warned"), [("guess", True), ("derived", False)])
def test_the_report_warns_only_where_it_hangs_on_doubtful_figures(memory: str, warned: bool) -> None:
    run = make_run()
    run.chip = chip_with({"default": "verified"})
    stated = {name: attached.model_copy(
        update={"memory": attached.memory.model_copy(update={"energy_status": memory}),
                "link": attached.link and attached.link.model_copy(update={"energy_status": "derived"})})
        for name, attached in run.chip.memories.items()}  # fmt: skip
    host = run.chip.host
    assert host is not None
    host = host.model_copy(update={"energy_status": "derived",
                                   "memory": host.memory.model_copy(update={"energy_status": "derived"})})  # fmt: skip
    run.chip = run.chip.model_copy(update={"memories": stated, "host": host})
    told = [line for line in sentences(run, layers(run), summary(run)) if "not verified" in line]
    assert bool(told) == warned
    if warned:
        assert "weight_memory (guess," in told[0]
        share, _ = provenance.doubtful(run)
        assert f"{100 * share:.1f}%" in told[0]


@pytest.mark.parametrize("name", [row.name for row in list_chips()])
def test_shipped_chips_state_the_status_of_everything_they_charge(name: str) -> None:
    chip = load_chip(name)
    assert chip.energy.status is not None
    for memory in chip.memories.values():
        assert memory.memory.energy_status is not None or memory.memory.read_energy is None  # that of the table
        assert memory.link is None or memory.link.energy_status is not None
    assert chip.host is None or chip.host.energy_status is not None


def test_a_figure_set_by_hand_is_a_guess() -> None:
    settings = [
        "energy.mac.int8=1 pJ", "energy.register=1 pJ/B", "memories.ddr3.memory.read_energy=1 pJ/B",
        "memories.pcie_memory.link.energy=1 pJ/bit", "energy.sram.0.read=1 pJ/B",
    ]  # fmt: skip
    before, chip = load_chip("tpu-v1"), load_chip("tpu-v1", settings)
    found = statuses(chip)
    assert found["matrix", "mac.int8"] == found["pcie_memory.link", "transfer"] == "guess"
    assert found["unified_buffer", "read"] == "guess"
    assert statuses(before)["matrix", "mac.int8"] == "secondary"
    assert found["matrix", "mac.int8xint16"] == "secondary", "its neighbour is as before"


def test_a_status_set_by_hand_stays() -> None:
    chip = load_chip("tpu-v1", ["energy.mac.int8=1 pJ", "energy.status.mac.int8=measured"])
    assert chip.energy.status_of("mac", "int8") == "measured"


def test_commands_of_a_dram_have_its_own_status_else_that_of_the_memory() -> None:
    chip = load_chip("edu-mixed", ["memories.hbm.memory=memories/ddr4-2400"])
    memory = chip.memories["hbm"].memory
    assert memory.dram is not None and memory.dram.energy_status == "derived"
    for own, whole, status in (
        ("measured", "recalled", "measured"),
        (None, "recalled", "recalled"),
        (None, None, "guess"),
    ):
        dram = memory.dram.model_copy(update={"energy_status": own})
        changed = memory.model_copy(update={"energy_status": whole, "dram": dram})
        attached = chip.memories["hbm"].model_copy(update={"memory": changed})
        made = chip.model_copy(update={"memories": {"hbm": attached}})
        assert provenance.status_of(made, "hbm", "dram.activate") == status
    bare = memory.model_copy(update={"energy_status": "recalled", "dram": None})
    attached = chip.memories["hbm"].model_copy(update={"memory": bare})
    made = chip.model_copy(update={"memories": {"hbm": attached}})
    assert provenance.status_of(made, "hbm", "dram.activate") == "recalled"
