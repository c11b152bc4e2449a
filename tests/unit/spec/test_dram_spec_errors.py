"""What is wrong with a DRAM file: all of it at once, each with its place, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accelsim.errors import Problem, SpecError
from accelsim.spec.laws import dram as dram_laws
from accelsim.spec.yaml import where
from accelsim.spec.yaml.load import check, load_chip
from accelsim.spec.yaml.parts import load_dram

GOOD = (where.shipped() / "dram" / "ddr4-3200.yaml").read_text(encoding="utf-8")
HBM = (where.shipped() / "dram" / "hbm3-6400.yaml").read_text(encoding="utf-8")
Write = Callable[..., Path]
KIND = "dram"


def problems(path: Path | str, overrides: tuple[str, ...] = ()) -> list[Problem]:
    with pytest.raises(SpecError) as error:
        load_dram(path, overrides)
    return list(error.value.problems)


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def place(text: str, line_start: str) -> str:
    """'line:column' of the value in the one line that starts with ``line_start``."""
    (number,) = [i for i, line in enumerate(text.splitlines(), 1) if line.startswith(line_start)]
    return f"{number}:{len(line_start) + 2}"


def test_planted_errors_are_exactly_what_is_reported(write: Write) -> None:
    text = changed(
        GOOD,
        ("  tREFI: 12480", "  REFI: 12480"),  # the slip that made a simulator run with a default
        ("  capacity: 16 GiB", "  capacity: 8 GiB"),
        ("  density: 8 Gbit", "  density: 4 Gbit"),
        ("  IDD4R: 168 mA\n", ""),
        ("  CWL: 16 tCK", "  CWL: 16"),
        ("  mapping: rochrababgco", "  mapping: rochrabaco"),
        ("rate: 3200 MT/s", "rate: 2400 MT/s"),
    )
    path = write(text)
    line = next(i for i, each in enumerate(text.splitlines(), 1) if each.startswith("currents"))
    expected = [
        (place(text, "rate:"), "rate: 2.4 GT/s contradicts tCK"),
        (place(text, "  density:"), "organisation.density: 4 Gbit contradicts rows x columns x banks x device width"),
        (
            place(text, "  capacity:"),
            "organisation.capacity: 8 GiB contradicts rows x columns x banks x bus x ranks x channels",
        ),
        (place(text, "  CWL:"), "timing.CWL: '16' has no unit"),
        (place(text, "  REFI:").split(":")[0] + ":3", "timing.REFI: unknown key"),
        (f"{line + 1}:3", "currents.IDD4R: missing"),
        (place(text, "  mapping:"), "controller.mapping: mapping 'rochrabaco': field bg (group) is missing"),
    ]
    found = problems(path)
    assert [(each.where, each.what) for each in found] == [(f"{path}:{at}", what) for at, what in expected]
    assert found[4].nearest == "tREFI"


CASES = [
    (GOOD, "  tREFI: 12480 tCK\n", "", "timing.tREFI: missing, ddr4 requires it", ""),
    (GOOD, "  tRRD_L: 8 tCK\n", "", "timing.tRRD_L: missing, ddr4 requires it", ""),
    (HBM, "  tRCDWR: 15 tCK\n", "", "timing.tRCDWR: missing, hbm3 requires it", ""),
    (GOOD, "  tRTRS: 1 tCK", "  t32AW: 360 tCK", "timing.t32AW: ddr4 has no such parameter", "tFAW"),
    (GOOD, "  tRCD: 22 tCK", "  tRCD: 22 tCK\n  tRCDRD: 22 tCK", "timing.tRCDRD: ddr4 has no such parameter", "tRCD"),
    (GOOD, "standard: ddr4", "standard: dd4", "standard: 'dd4' is not one of the choices", "ddr4"),
    (GOOD, "burst_length: 8", "burst_length: 16", "organisation.burst_length: ddr4 has no bursts of 16", ""),
    (GOOD, "access: 64 B", "access: 32 B", "organisation.access: a burst of 8 on 64 bit is not 32 B", ""),
    (
        GOOD,
        "  burst_length: 8",
        "  burst_length: 8\n  transfers_per_clock: 3",
        "organisation.burst_length: 8 transfers are no whole clocks of 3",
        "",
    ),
    (GOOD, "columns: 1024", "columns: 1020", "organisation.columns: 1020 columns are no whole bursts of 8", ""),
    (GOOD, "tCK: 0.63 ns", "tCK: 0.64 ns", "rate: 3.2 GT/s contradicts tCK", ""),
    (
        GOOD,
        "  device_width: 8 bit",
        "  device_width: 24 bit",
        "organisation.device_width: devices of 24 bit do not fill 64 bit",
        "",
    ),
    (
        GOOD,
        "rows: 65536",
        "rows: 32768",
        "organisation.density: 8 Gbit contradicts rows x columns x banks x device width",
        "",
    ),
    (
        GOOD,
        "capacity: 16 GiB",
        "capacity: 17 GiB",
        "organisation.capacity: 17 GiB contradicts rows x columns x banks x bus x ranks x channels",
        "",
    ),
    (HBM, "tRC: 72 tCK", "tRC: 69 tCK", "timing.tRC: 69 clocks are less than tRAS + tRP, 45 + 26", ""),
    (GOOD, "tFAW: 34 tCK", "tFAW: 3 tCK", "timing.tFAW: 3 clocks are less than tRRD_S, 4", ""),
    (GOOD, "tREFI: 12480 tCK", "tREFI: 124 tCK", "timing.tREFI: 124 clocks are less than tRFC, 560", ""),
    (
        GOOD,
        "tREFI: 12480 tCK",
        "tREFI: 630 tCK",
        "timing.tREFI: 630 clocks leave no time between refreshes: tRFC, tRP and tRAS take 634",
        "",
    ),
    (GOOD, "tCCD_L: 8 tCK", "tCCD_L: 3 tCK", "timing.tCCD_L: 3 clocks are less than tCCD_S, 4", ""),
    (GOOD, "IDD4R: 168 mA", "IDD4R: 16 mA", "currents.IDD4R: 16 mA is less than IDD3N, 52 mA", ""),
    (GOOD, "IDD4R: 168 mA", "IDD4R: 168", "currents.IDD4R: '168' has no unit", ""),
    (GOOD, "VDD: 1.2 V", "VDD: 1.2 W", "currents.VDD: '1.2 W' has the wrong unit 'W'", ""),
    (
        GOOD,
        "page_policy: open",
        "page_policy: open\n  low: 0.9",
        "controller.low: 0.9 is not below the high watermark, 0.8",
        "",
    ),
    (
        GOOD,
        "page_policy: open",
        "page_policy: open\n  refresh: per_bank",
        "controller.refresh: ddr4 does not refresh single banks",
        "",
    ),
    (GOOD, "page_policy: open", "page_policy: open\n  act_clocks: 9", "controller.act_clocks: '9' is not accepted", ""),
    (GOOD, "page_policy: open", "page_policy: open\n  handover: 2", "controller.handover: '2' is not accepted", ""),
    (
        GOOD,
        "page_policy: open",
        "page_policy: open\n  shared: 2",
        "controller.shared: 1 channels are no groups of 2",
        "",
    ),
    (
        GOOD,
        "page_policy: open",
        "page_policy: opne",
        "controller.page_policy: 'opne' is not one of the choices",
        "open",
    ),
    (
        GOOD,
        "mapping: rochrababgco",
        "mapping: row-bank-colum",
        "controller.mapping: mapping 'row-bank-colum': 'row-bank-colum' is no row of fields",
        "row-bank-column",
    ),
    (GOOD, "channels: 1", "channels: 3", "controller.mapping: 3 channels: no power of two", ""),
    (
        HBM,
        "energy:\n",
        "currents: {VDD: 1.2 V, IDD0: 65 mA, IDD2N: 40 mA, IDD3N: 55 mA, IDD4R: 390 mA, IDD4W: 500 mA, "
        "IDD5B: 250 mA}\nenergy:\n",
        "energy: energies follow from the currents",
        "",
    ),
    (GOOD, "tRAS: 52 tCK", "tRAS: 52 clocks", "timing.tRAS: '52 clocks' has the wrong unit 'clocks'", ""),
    (GOOD, "density: 8 Gbit", "density: 8 GB", "organisation.density: '8 GB' is no number of bits", ""),
    (GOOD, "source: >-", "sauce: >-", "sauce: unknown key", "source"),
]


@pytest.mark.parametrize(("base", "old", "new", "what", "near"), CASES, ids=[case[3] for case in CASES])
def test_one_error(write: Write, base: str, old: str, new: str, what: str, near: str) -> None:
    path = write(changed(base, (old, new)))
    found = problems(path)
    mine = [each for each in found if each.what == what]
    assert len(mine) == 1, [str(each) for each in found]
    assert mine[0].where.startswith(f"{path}:") and mine[0].nearest == near
    assert check(path) == found


def test_a_group_where_the_standard_has_none() -> None:
    found = problems("ddr3-1600", ("organisation.bank_groups=2", "organisation.banks_per_group=4"))
    assert [each.what for each in found] == ["organisation.bank_groups: ddr3 has no bank groups"]


def test_refresh_of_single_banks_needs_its_parameters(write: Write) -> None:
    text = changed(HBM, ("  tREFIpb: 98 tCK\n", ""), ("  mapping: ", "  refresh: per_bank\n  mapping: "))
    assert [each.what for each in problems(write(text))] == ["controller.refresh: tREFIpb not stated"]


def test_one_clock_of_rounding_is_allowed_in_the_row_cycle() -> None:
    """Ramulator's GDDR6 (79 = 53 + 27 - 1) is right; HBM3 states 72 for 45 + 26."""
    assert load_dram("gddr6-14000").timing.tRC is not None
    assert load_dram("hbm3-6400", ["timing.tRC=70 tCK"])
    assert [each.what for each in problems("hbm3-6400", ("timing.tRC=69 tCK",))]


def test_every_law_is_broken_by_a_case(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, laws = set(), dram_laws.DRAM_LAWS
    texts = [changed(base, (old, new)) for base, old, new, _, _ in CASES]
    for text in (*texts, changed(HBM, ("standard: hbm3", "standard: ddr3"))):
        path = write(text)
        for law in laws:
            monkeypatch.setattr(dram_laws, "DRAM_LAWS", (law,))
            if check(path):
                broken.add(law.__name__)
    assert broken == {law.__name__ for law in laws}


def test_a_claimed_capacity_yields_to_an_override() -> None:
    dram = load_dram("ddr4-3200", ["organisation.ranks=1"])
    assert dram.organisation.capacity is None and dram.organisation.ranks == 1
    assert len(problems("ddr4-3200", ("organisation.ranks=1", "organisation.capacity=16 GiB"))) == 1


def test_an_inherited_capacity_yields_to_a_new_geometry(write: Write) -> None:
    text = "use: dram/ddr4-3200\norganisation: {ranks: 4}\nsource: a test\nas_of: 2026-11\n"
    assert load_dram(write(text)).organisation.capacity is None
    (found,) = problems(write(text.replace("4}", "4, capacity: 16 GiB}")))
    assert found.what.startswith("organisation.capacity: 16 GiB contradicts") and found.expected == "32 GiB"


def test_names_and_their_beginnings() -> None:
    assert load_dram("hbm3") == load_dram("hbm3-6400") == load_dram(where.shipped() / "dram" / "hbm3-6400.yaml")
    (several,) = problems("hbm2")
    assert several.expected == "hbm2-2000 or hbm2e-3600"
    (unknown,) = problems("ddr4-3201")
    assert unknown.nearest == "ddr4-3200" and "gddr5" in unknown.expected


MEMORY = """\
use: memories/ddr4-3200
source: a test
as_of: 2026-11
dram: dram/ddr4-3200
"""


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("bandwidth: 24 GB/s\n", "dram: its 25.6 GB/s contradict the memory's 24 GB/s"),
        ("capacity: 8 GiB\n", "dram: its 16 GiB contradict the memory's 8 GiB"),
        ("channels: 2\nbandwidth: 12.8 GB/s\n", "dram: its channels, 1, contradict the memory's 2"),
    ],
)
def test_a_memory_is_as_wide_and_large_as_its_dram(write: Write, lines: str, what: str) -> None:
    path = write(MEMORY + lines, "memories/mine.yaml")
    (found,) = check(path)
    assert found.what == what


def test_a_memory_reports_what_is_wrong_inside_its_dram(write: Write) -> None:
    dram = write(changed(GOOD, ("tFAW: 34 tCK", "tFAW: 3 tCK")))
    path = write(MEMORY.replace("dram/ddr4-3200", "dram/mine"), "memories/mine.yaml")
    (found,) = check(path)
    assert (found.what, found.where) == (
        "dram.timing.tFAW: 3 clocks are less than tRRD_S, 4",
        f"{dram}:{place(dram.read_text(encoding='utf-8'), '  tFAW:')}",
    )


def test_an_inherited_dram_yields_to_new_figures(write: Write) -> None:
    """``use`` of a memory with another bandwidth, or an override of it: the banks no longer say how fast it is."""
    path = write(MEMORY.replace("dram: dram/ddr4-3200\n", "bandwidth: 38.4 GB/s\n"), "memories/mine.yaml")
    assert check(path) == []
    assert load_chip("tpu-v1").memories["ddr3"].memory.dram is not None
    wider = load_chip("tpu-v1", ["memories.ddr3.memory.bandwidth=68 GB/s", "memories.ddr3.memory.capacity=1 GiB"])
    assert wider.memories["ddr3"].memory.dram is None
    same = load_chip("tpu-v1", ["memories.ddr3.memory.efficiency=0.9"])
    assert same.memories["ddr3"].memory.dram is not None
