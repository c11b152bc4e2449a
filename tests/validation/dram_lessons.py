"""What everybody should know about DRAM, each lesson measured by a few replays.

Devices of ``tests/validation/data/dram/anchors`` are the configurations in which DRAMsim3 and Ramulator 2.1 show the same
(``tests/validation/data/dram/dram_golden.csv``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from accelsim.dram.energy import PJ
from accelsim.explore.dram_replay import Replay, replay
from tests.validation.golden import anchor

GB = 1e9
DDR4 = anchor("ramulator2-ddr4-3200")
DDR4_2400, DDR5 = anchor("ramulator2-ddr4-2400"), anchor("ramulator2-ddr5-4800")
DDR4_TWO_RANKS = anchor("dramsim3-ddr4-3200")
COLUMN_LOWEST, GROUP_LOWEST, MOP4 = "column lowest", "bank group lowest", "MOP4CLXOR"
MAPPINGS = {COLUMN_LOWEST: "rochrababgco", GROUP_LOWEST: "rorabachcobg", MOP4: "MOP4CLXOR"}
"""Name in the pictures -> mapping."""

OLD_WORD_PJ = 640.0
"""pJ per 32-bit DRAM read in the table of Han et al. (NIPS 2015), after Horowitz (ISSCC 2014)."""

ENERGY_OF = (
    "ddr3-1600", "ddr4-3200", "ddr5-4800", "lpddr4-2400", "lpddr5-6400", "gddr5", "gddr6-14000",
    anchor("dramsim3-hbm1"), anchor("dramsim3-hbm2"), "hbm2-2000", "hbm2e-3600", "hbm3-6400",
)  # fmt: skip
CONFLICT_OF = ("ddr3-1600", "ddr4-3200", "ddr5-4800", "lpddr4-2400", "gddr6-14000", "hbm2-2000", "hbm3-6400")
TFAW_CLOCKS = (16, 20, 26, 32, 40)
RANKS = (1, 2, 4)
T32AW_OFF = 8
"""Times tFAW: a window of 32 activations so long forbids nothing that tFAW allows."""


class Point(NamedTuple):
    """One value: where on the horizontal axis, of which series, how much."""

    category: str
    series: str
    value: float


class Lesson(NamedTuple):
    """One lesson. ``claim``: its title. ``why``: the cause. ``unit``: of the values.

    ``measure``: its points, of traces cut to so many accesses. ``told``: the result in one sentence. ``chart``:
    'bars', 'stack' or 'lines' (over numbers, named by ``axis``). ``log``: logarithmic values. ``mark``: (value, its
    label) of a line to compare with.
    """

    claim: str
    why: str
    unit: str
    measure: Callable[[int | None], list[Point]]
    told: Callable[[list[Point]], str]
    chart: str = "bars"
    log: bool = False
    axis: str = ""
    mark: tuple[float, str] | None = None


def value(points: Iterable[Point], category: str, series: str) -> float:
    """The value at a place; KeyError where there is none."""
    for point in points:
        if (point.category, point.series) == (category, series):
            return point.value
    raise KeyError((category, series))


def short(name: str) -> str:
    """Name of a DRAM for an axis: the path of 'dramsim3-hbm2.yaml' -> 'hbm2, DRAMsim3'."""
    plain = name.rpartition("/")[2].removesuffix(".yaml")
    for simulator, title in (("dramsim3-", "DRAMsim3"), ("ramulator2-", "Ramulator")):
        if plain.startswith(simulator):
            return f"{plain.removeprefix(simulator)}, {title}"
    return plain


def _GBps(found: Replay) -> float:
    return found.bandwidth_Bps / GB


def _mapping(limit: int | None) -> list[Point]:
    return [
        Point(trace, name, _GBps(replay(DDR4, trace, limit=limit, mapping=mapping)))
        for trace in ("seq_read", "stream3", "tile3")
        for name, mapping in MAPPINGS.items()
    ]


def _mapping_told(points: list[Point]) -> str:
    gain = {trace: value(points, trace, GROUP_LOWEST) / value(points, trace, COLUMN_LOWEST) for trace in
            ("seq_read", "stream3")}  # fmt: skip
    mop = value(points, "tile3", MOP4) / value(points, "tile3", COLUMN_LOWEST)
    return (
        f"With the bank group in the lowest bits a stream is {gain['seq_read'] - 1:.0%} faster, three streams "
        f"{gain['stream3'] - 1:.0%}. {MOP4} does the same for streams, but tiles keep only {mop:.0%} of their speed."
    )


def _slow_writes(limit: int | None) -> list[Point]:
    return [
        Point(name, trace, _GBps(replay(DDR5, trace, limit=limit, mapping=MAPPINGS[name])))
        for name in (COLUMN_LOWEST, GROUP_LOWEST)
        for trace in ("seq_read", "seq_write")
    ]


def _slow_writes_told(points: list[Point]) -> str:
    kept = value(points, COLUMN_LOWEST, "seq_write") / value(points, COLUMN_LOWEST, "seq_read")
    better = value(points, GROUP_LOWEST, "seq_write") / value(points, GROUP_LOWEST, "seq_read")
    return (
        f"On DDR5-4800 writing reaches {kept:.0%} of reading with the column in the lowest bits, {better:.0%} with the "
        "bank group."
    )


def _closed_page(limit: int | None) -> list[Point]:
    return [
        Point(trace, policy, _GBps(replay(DDR4_TWO_RANKS, trace, limit=limit, page_policy=policy)))
        for trace in ("seq_read", "seq_write", "rand_read")
        for policy in ("open", "closed")
    ]


def _closed_page_told(points: list[Point]) -> str:
    read, write, random = (
        value(points, trace, "open") / value(points, trace, "closed")
        for trace in ("seq_read", "seq_write", "rand_read")
    )
    return (
        f"On DDR4-3200, closing the row after every access makes reading a stream {read:.1f} times slower and writing "
        f"one {write:.1f} times. Random reads change by {1 / random - 1:+.1%}."
    )


def _tFAW(limit: int | None) -> list[Point]:
    points = []
    for clocks in TFAW_CLOCKS:
        for ranks in RANKS:
            changes = (f"organisation.ranks={ranks}", f"timing.tFAW={clocks} tCK")
            found = replay(DDR4_2400, "rand_read", limit=limit, overrides=changes)
            points.append(Point(str(clocks), _ranks(ranks), _GBps(found)))
        per_window = 4 * found.device.geometry.access_B / (clocks * found.clock_s)
        points.append(Point(str(clocks), FOUR, min(per_window, found.device.peak_Bps) / GB))
    return points


FOUR = "bound: 4 bursts per tFAW"
"""Series of the bound in the lesson on tFAW."""


def _ranks(count: int) -> str:
    return f"{count} rank{'s' if count > 1 else ''}"


def _tFAW_told(points: list[Point]) -> str:
    one, bound = value(points, "26", "1 rank"), value(points, "26", FOUR)
    two = value(points, "26", "2 ranks")
    return (
        f"DDR4-2400 has a tFAW of 26 clocks; there one rank reaches {one / bound:.0%} of four bursts per tFAW, and "
        f"refresh takes the rest. A second rank makes it {two / one:.2f} times as fast."
    )


def _energy(limit: int | None) -> list[Point]:
    return [
        Point(short(name), trace, joules.pJ_per_word)
        for name in ENERGY_OF
        for trace in ("seq_read", "rand_read")
        if (joules := replay(name, trace, limit=limit).energy) is not None
    ]


def _energy_told(points: list[Point]) -> str:
    ddr3, hbm2 = (value(points, name, "seq_read") for name in ("ddr3-1600", "hbm2, DRAMsim3"))
    return (
        f"A 32-bit word of a stream costs {ddr3:.0f} pJ from DDR3 and {hbm2:.0f} pJ from HBM2, {hbm2 / ddr3:.0%} "
        f"of it. The constant of {OLD_WORD_PJ:.0f} pJ that many papers use is a stream on DDR3. The energies of DDR5, "
        "LPDDR5, GDDR6, HBM1, HBM2E, HBM3 and hbm2-2000 are not verified, and the currents of HBM in DRAMsim3 are "
        "placeholders."
    )


def _background(limit: int | None) -> list[Point]:
    points = []
    for trace in ("seq_read", "rand_read", "conflict"):
        joules = replay("ddr4-3200", trace, limit=limit).energy
        assert joules is not None
        parts = {"background": joules.background_J} | {
            part: joules.parts_J[part] for part in ("activate", "read", "refresh")
        }
        points += [Point(trace, part, spent * PJ / joules.bits) for part, spent in parts.items()]
    return points


def _background_told(points: list[Point]) -> str:
    totals = {trace: sum(each.value for each in points if each.category == trace) for trace in
              ("seq_read", "conflict")}  # fmt: skip
    share = value(points, "conflict", "background") / totals["conflict"]
    return (
        f"A bit costs {totals['seq_read']:.0f} pJ in a stream and {totals['conflict']:.0f} pJ where one bank does all "
        f"the work. {share:.0%} of the latter is background."
    )


PER_ACCESS, EXPECTED = "measured per access", "tRC, with refresh"


def _conflict(limit: int | None) -> list[Point]:
    points = []
    for name in CONFLICT_OF:
        found = replay(name, "conflict", limit=limit)
        t = found.device.timing
        busy = t["tRC"] / (1 - t["tRFC"] / t["tREFI"]) * found.clock_s
        points.append(Point(name, EXPECTED, busy * GB))
        points.append(Point(name, PER_ACCESS, found.seconds / found.bursts * GB))
    return points


def _conflict_told(points: list[Point]) -> str:
    off = max(abs(value(points, name, PER_ACCESS) / value(points, name, EXPECTED) - 1) for name in CONFLICT_OF)
    return f"Every access takes one row cycle, on every standard. The largest difference is {off:.1%}."


WITH, WITHOUT = "with t32AW", "without"


def _t32AW(limit: int | None) -> list[Point]:
    points = []
    for name in ("gddr5", "gddr6-14000"):
        found = replay(name, "rand_read", limit=limit)
        wide = f"timing.t32AW={T32AW_OFF * found.device.timing['tFAW']} tCK"
        free = replay(name, "rand_read", limit=limit, overrides=(wide,))
        points += [Point(name, WITH, _GBps(found)), Point(name, WITHOUT, _GBps(free))]
    return points


def _t32AW_told(points: list[Point]) -> str:
    names = dict.fromkeys(point.category for point in points)
    off = ", ".join(f"{name} {value(points, name, WITHOUT) / value(points, name, WITH) - 1:.0%}" for name in names)
    return f"Without the window of 32 activations random reads come out too fast by: {off}."


LESSONS: dict[str, Lesson] = {
    "mapping": Lesson(
        "The address mapping decides: the same DDR4-3200, the same bytes",
        "With the column lowest, a stream stays in one bank group, whose bursts must be tCCD_L apart (8 clocks for 4 "
        "clocks of data). Other banks idle. MOP4CLXOR turns the bank with the bits of the column: the four bursts of a "
        "tile's piece of 256 B lie in four banks, each opens a row, and one rank must wait for tFAW. A second rank "
        "brings the speed back (21 GB/s).",
        "GB/s", _mapping, _mapping_told,
    ),
    "ddr5-writes": Lesson(
        "DDR5 writes need bank groups: in one group they fall to a third of reads",
        "Two writes to one bank group must be tCCD_L_WR apart: 48 clocks (20 ns), where a burst takes 8. Devices with "
        "ECC inside may have to read a code word before they write part of it. A model of bandwidth and latency knows "
        "nothing of it.",
        "GB/s", _slow_writes, _slow_writes_told,
    ),
    "closed-page": Lesson(
        "Closing the row after every access makes a stream about ten times slower",
        "With the column lowest, each burst of a stream opens the row that the one before has closed: one row cycle "
        "per burst. Random reads open a row for each burst anyway.",
        "GB/s", _closed_page, _closed_page_told,
    ),
    "tFAW": Lesson(
        "Random reads on one rank wait for tFAW; a second rank has a window of its own",
        "Each random read opens a row, and no rank may open more than four in tFAW.",
        "GB/s", _tFAW, _tFAW_told, chart="lines", axis="tFAW (clocks of 0.833 ns)",
    ),
    "energy": Lesson(
        "A word from DRAM: 640 pJ was DDR3, HBM2 takes a tenth",
        "A stream opens a row for many bursts, random reads for each. Energy of the dies, without I/O.",
        "pJ per 32-bit word", _energy, _energy_told, log=True, mark=(OLD_WORD_PJ, "640 pJ, Han et al. 2015"),
    ),
    "background": Lesson(
        "A memory that works little costs most for being there",
        "Standby power is paid by the clock. Divided by few bits it is most of the energy.",
        "pJ/bit", _background, _background_told, chart="stack",
    ),
    "conflict": Lesson(
        "Another row of the same bank each time: every access takes a full row cycle",
        "Close (tRP), open (tRCD), read, keep open until tRAS is over. Faster pins do not help.",
        "ns per access", _conflict, _conflict_told,
    ),
    "t32AW": Lesson(
        "GDDR has a second window: 32 activations, without which random reads come out too fast",
        "Many models know only the window of four. The length of GDDR6's window is taken from GDDR5, a guess.",
        "GB/s", _t32AW, _t32AW_told,
    ),
}  # fmt: skip
"""Every lesson by name."""
