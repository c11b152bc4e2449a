"""What is wrong with a spec: all of it at once, each with its place, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from accelsim.errors import SpecError
from accelsim.spec.chip import Chip
from accelsim.spec.engine import modules
from accelsim.spec.yaml.load import check, list_chips, load_chip
from accelsim.spec.yaml.where import find, resolve
from tests.helpers.spec_problems import GOOD, Write, problems


def place(text: str, line_start: str, column_of: str, after: str = "") -> str:
    """'line:column' of ``column_of`` in the first line that starts with ``line_start``, behind ``after``."""
    lines = text.splitlines()
    first = next(
        i for i, line in enumerate(lines) if after in "\n".join(lines[: i + 1]) and line.startswith(line_start)
    )
    return f"{first + 1}:{lines[first].index(column_of) + 1}"


def test_five_planted_errors_are_exactly_what_is_reported(write: Write) -> None:
    text = GOOD
    for old, new in (
        ("      latency: 49.6 ns", "      latency: 49.6"),  # no unit
        ("        lanes: 256", "        lains: 256"),  # unknown key (and not also a missing one)
        ("  int8: 92 Top/s", "  int8: 46 Top/s"),  # contradicts the array
        ("      bandwidth: 34 GB/s", "      bandwidth: 0 GB/s"),
        ("        slots: 4", "        slots: 8"),  # 8 x 64 KiB in 256 KiB
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = write(text)
    found = problems(path)
    expected = [
        (place(text, "        lains", "lains"), "cores.core.engines.vector.lains: unknown key"),
        (
            place(text, "        slot_capacity", "64 KiB"),
            "cores.core.memories.weight_fifo.slot_capacity: 8 slots of 64 KiB exceed 256 KiB",
        ),
        (place(text, "      bandwidth", "0 GB/s"), "memories.ddr3.memory.bandwidth: '0 GB/s' is out of range"),
        (place(text, "      latency", "49.6"), "memories.ddr3.memory.latency: '49.6' has no unit"),
        (place(text, "  int8", "46", "peak:\n  int8"), "peak.int8: stated 46 Top/s contradicts the rest"),
    ]
    assert [(problem.where, problem.what) for problem in found] == [(f"{path}:{at}", what) for at, what in expected]
    assert found[0].nearest == "lanes"
    assert "40 ns" in found[3].expected


def test_a_contradicted_peak_is_found_beside_field_errors(write: Write) -> None:
    text = GOOD.replace("  int8: 92 Top/s", "  int8: 46 Top/s").replace("title: Google", "titel: Google")
    assert [problem.what for problem in problems(write(text))] == [
        "titel: unknown key",
        "peak.int8: stated 46 Top/s contradicts the rest",
    ]


FIELD_ERRORS = [
    ("    rows: 256", "    rows: many", "cores.core.engines.matrix.rows: 'many' is not accepted", ""),
    ("    rows: 256", "    rows: -1", "cores.core.engines.matrix.rows: '-1' is not accepted", ""),
    (
        "    dataflow: ws",
        "    dataflow: sw",
        "cores.core.engines.matrix.dataflow: 'sw' is not one of the choices",
        "ws",
    ),
    (
        "    epilogue: true",
        "    epilogue: perhaps",
        "cores.core.engines.matrix.epilogue: 'perhaps' is not accepted",
        "",
    ),
    (
        "    capacity: 24 MiB",
        "    capacity: 24 MHz",
        "cores.core.memories.unified_buffer.capacity: '24 MHz' has the wrong unit 'MHz'",
        "",
    ),
    (
        "    capacity: 24 MiB",
        "    capacity: 0.3 B",
        "cores.core.memories.unified_buffer.capacity: '0.3 B' is not a whole number of B",
        "",
    ),
    (
        "    capacity: 24 MiB",
        "    capacity: [24 MiB]",
        "cores.core.memories.unified_buffer.capacity: a list has no unit",
        "",
    ),
    ("clock: 700 MHz", "clock: -700 MHz", "clock: '-700 MHz' is out of range", ""),
    ("title: Google TPU v1", "", "title: missing", ""),
    ("as_of: 2017-06", "as_of: last year", "as_of: 'last year' is not accepted", ""),
    ("    engines:", "    enginse:", "cores.core.enginse: unknown key", "engines"),
    ("    type: systolic", "    type: systolc", "cores.core.engines.matrix.type: no type 'systolc'", "systolic"),
    ("        type: systolic\n", "", "cores.core.engines.matrix.type: missing", ""),
    ("    type: systolic", "    tpye: systolic", "cores.core.engines.matrix.tpye: unknown key", "type"),
    ("    type: systolic", "    type: [systolic]", "cores.core.engines.matrix.type: no type ['systolic']", "systolic"),
    ("    type: systolic", "    type:", "cores.core.engines.matrix.type: missing", ""),
]


@pytest.mark.parametrize(("old", "new", "what", "near"), FIELD_ERRORS)
def test_one_field_error(write: Write, old: str, new: str, what: str, near: str) -> None:
    assert old in GOOD
    found = problems(write(GOOD.replace(old, new, 1)))
    assert [(problem.what, problem.nearest) for problem in found] == [(what, near)]


def level(
    feeder: str = "pcie_memory", kind: str = "sram", rate: str = "100 GB/s", holds: str = "holds: [activations]"
) -> str:
    """A level before a memory, as an override states it."""
    memory = f"{{kind: {kind}, capacity: 1 MiB, bandwidth: {rate}, latency: 10 ns}}"
    return f"{{memory: {memory}, fed_by: {feeder}, {holds}}}"


LAWS = [
    ("peak.int8=46 TOPS", "peak.int8: stated 46 Top/s contradicts the rest"),
    ("peak.int4=46 TOPS", "peak.int4: the chip does not compute in this format"),
    (
        "memories.ddr3.holds=[weights, activations]",
        "memories.pcie_memory.holds: activations live in ddr3 and pcie_memory",
    ),
    ("memories.pcie_memory.holds=[host]", "memories: no memory holds activations"),
    ("memories.pcie_memory.holds=[activations]", "memories: no memory holds the host's operands"),
    ("host=null", "memories.pcie_memory.holds: the chip has no host"),
    (
        "accumulators.holds=[weights, partial_sums]",
        "cores.core.memories.accumulators.holds: weights live in weight_fifo and accumulators",
    ),
    ("accumulators.holds=[activations]", "cores.core.memories: no buffer holds partial_sums"),
    ("matrix=null unified_buffer.holds=[weights]", "cores.core.memories: no buffer holds activations"),
    ("matrix=null memories.pcie_memory.holds=[host]", "memories: no memory holds activations"),
    ("memories.pcie_memory.holds=[]", "memories.pcie_memory: nothing lives in 'pcie_memory'"),
    ("weight_fifo.slots=5", "cores.core.memories.weight_fifo.slot_capacity: 5 slots of 64 KiB exceed 256 KiB"),
    (
        "weight_fifo.slot_capacity=32 KiB",
        "cores.core.memories.weight_fifo.slot_capacity: a slot of 32 KiB is too small for weights of one fold",
    ),
    (
        "accumulators.capacity=1000 B",
        "cores.core.memories.accumulators.capacity: a slot of 1000 B is too small for partial_sums of one fold",
    ),
    ("unified_buffer.word=16 B", "cores.core.memories.unified_buffer.word: a word of a bank, and no banks"),
    (
        "unified_buffer.banks=3",
        "cores.core.memories.unified_buffer.banks: 3 banks do not share the read width, 256 B",
    ),
    (
        "unified_buffer.banks=8 unified_buffer.word=16 B",
        "cores.core.memories.unified_buffer.banks: 8 banks of 16 B are narrower than the ports",
    ),
    (
        "unified_buffer.banks=7 unified_buffer.word=64 B",
        "cores.core.memories.unified_buffer.banks: 24 MiB are no whole words of 64 B in 7 banks",
    ),
    ("matrix.formats.word={}", "cores.core.engines.matrix.formats.word: 'word' is no number format"),
    (
        "matrix.formats.int8.accumulate=big",
        "cores.core.engines.matrix.formats.int8.accumulate: 'big' is no number format",
    ),
    ("memories.ddr3.load_engine=matrix", "memories.ddr3.load_engine: 'matrix' is the name of a unit"),
    (
        "memories.ddr3.load_engine=host_out",
        "memories.pcie_memory.store_engine: 'host_out' is a load engine too",
    ),
    ("matrix.formats.fp8={}", "energy.mac: no energy of format fp8"),
    ("energy.status.mac.fp99=guess", "energy.status.mac.fp99: the table has no mac row 'fp99'"),
    ("energy.status.network=guess", "energy.status.network: the table has no energy of the network"),
    ("energy.sram.0.capacity=4 KiB", "energy.sram.1.capacity: sizes must rise from point to point"),
    ("vector.functions.Rellu=1", "cores.core.engines.vector.functions.Rellu: no operator of this name"),
    ("power.busy=20 W", "power.busy: 20 W is less than idle, 28 W"),
    (
        "matrix.shadow_load=column matrix.schedule=sequential",
        "cores.core.engines.matrix.shadow_load: has no meaning with dataflow ws, schedule sequential",
    ),
    (
        "matrix.formats.int8.dot=int33",
        "cores.core.engines.matrix.formats.int8.dot: 'int33' is no rule that adds up products of int8",
    ),
    (
        "matrix.formats.int8.dot=tensor-core-a100",
        "cores.core.engines.matrix.formats.int8.dot: 'tensor-core-a100' is no rule that adds up products of int8",
    ),
    (
        "matrix.formats.int8xint16.dot=fp32",
        "cores.core.engines.matrix.formats.int8xint16.dot: 'fp32' is no rule that adds up products of int8xint16",
    ),
    (
        "weight_fifo.holds=[weights, partial_sums] accumulators=null",
        "cores.core.memories.weight_fifo.slots: fixed slots for weights and partial_sums together",
    ),
    ("memories.ddr3.memory.dram.rate=1 GT/s", "memories.ddr3.memory.dram.rate: 1 GT/s contradicts tCK"),
    ("matrix.formats.int8.sparse={n: 4, m: 4}", "cores.core.engines.matrix.formats.int8.sparse: 4:4 keeps every weight"),
    ("matrix.formats.int8.sparse={n: 5, m: 4}", "cores.core.engines.matrix.formats.int8.sparse: 5:4 keeps every weight"),
    (
        "matrix.formats.int8.sparse={n: 1, m: 3}",
        "cores.core.engines.matrix.formats.int8.sparse: 256 rows are no whole groups of 3",
    ),
    (
        "memories.pcie_memory.link.bandwidth=25 GB/s",
        "memories.pcie_memory.link.bandwidth: stated 25 GB/s contradicts the packets of the link",
    ),
    (
        "memories.pcie_memory.link.packets={rate: 1 GB/s, max_payload: 64 B, header: 8 B}",
        "memories.pcie_memory.link.packets: the link has packets of PCI Express already",
    ),
    (
        "memories.pcie_memory.holds=[activations] matrix=null host=null peak={}",
        "the chip has neither an engine that multiplies nor a host",
    ),
    (
        "vector=null",
        "cores.core.engines.matrix.epilogue: results are to pass a vector unit, and there is none",
    ),
    (
        "cores.core.engines.other={type: systolic, rows: 4, cols: 4, formats: {int8: {}}}",
        "cores.core.engines.other: a second engine of type systolic, beside 'matrix'",
    ),
    (
        "cores.core.engines.host={type: simd, lanes: 4, functions: {}}",
        "cores.core.engines.host: 'host' is the name of a field of the chip",
    ),
    ("unified_buffer.parts=7", "cores.core.memories.unified_buffer.parts: 7 parts do not share 24 MiB"),
    ("energy.mac.potato=1 pJ", "energy.mac.potato: 'potato' is no number format"),
    (
        "calibration={fitted_on: x, rows: 1, residual: {rows: 1, median: 0, p90: 0}, values: {matrix.rows: 3}}",
        "calibration.values.matrix.rows: the chip has no constant of this name",
    ),
    (
        "calibration={fitted_on: x, rows: 1, residual: {rows: 1, median: 2, p90: 1}, values: {matrix.rows: 3}}",
        "calibration.residual.median: the median 2 is above the 90th percentile 1",
    ),
    ("unified_buffer.fed_by=ddr3", "cores.core.memories.unified_buffer.fed_by: activations do not pass 'ddr3'"),
    ("cores.core.memories.ddr3={capacity: 1 KiB, holds: [weights], read_width: 1 B, write_width: 1 B}",
     "cores.core.memories.ddr3: 'ddr3' is the name of a memory of the chip"),
    ("cores.other={count: 2}", "cores.other.engines: none, where 'core' has matrix, vector"),
    ("cores.core2={count: 2}", "cores.core2: 'core2' is what a program calls a core"),
    ("memories.ddr3.fed_by=ddr4", "memories.ddr3.fed_by: no memory 'ddr4'"),
    (f"memories.one={level()} memories.two={level()}",
     "memories.two.fed_by: 'pcie_memory' feeds two levels without a cache, 'one' too"),
    (f"memories.one={level(holds='holds: [weights]')}", "memories.one.holds: it holds weights"),
    (f"memories.one={level(kind='edram, read_energy: 1 pJ/B, write_energy: 1 pJ/B')}",
     "memories.one.memory.kind: a level of kind 'edram'"),
    (f"memories.one={level(rate='1 GB/s')}",
     "memories.one.memory.bandwidth: 1 GB/s are less than 'pcie_memory' gives"),
    (f"memories.one={level('ddr3', holds='cache: {line: 64 B, ways: 3}')}",
     "memories.one.cache.ways: 1 MiB are no whole sets of 192 B"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "what"), LAWS)
def test_each_law_is_enforced(overrides: str, what: str) -> None:
    with pytest.raises(SpecError) as error:
        load_chip("tpu-v1", re.split(r" (?=[a-z._]+=)", overrides))
    assert what in [problem.what for problem in error.value.problems]
    assert all(problem.where for problem in error.value.problems)


@pytest.mark.parametrize(
    "overrides",
    [
        "matrix.formats.int8.dot=int32",
        "matrix.formats.int8.sparse={n: 2, m: 4}",
        "matrix.formats.int8.sparse={n: 1, m: 256}",
    ],
)
def test_rules_and_patterns_that_fit_are_taken(overrides: str) -> None:
    unit = load_chip("tpu-v1", [overrides]).matrix
    assert unit is not None
    mac = unit.formats["int8"]
    assert mac.dot == "int32" or mac.sparse is not None


def test_an_unknown_rule_gives_the_nearest() -> None:
    with pytest.raises(SpecError) as error:
        load_chip("edu-tensor-core", ["matrix.formats.fp16.dot=tensor-core-a10"])
    (problem,) = error.value.problems
    assert problem.nearest == "tensor-core-a100" and "tensor-core-v100" in problem.expected


def test_every_law_has_a_case_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from accelsim.spec.laws import chip as laws

    broken = set()

    def noted(law: laws.Law) -> laws.Law:
        def run(chip: Chip) -> Iterator[laws.Finding]:
            for finding in law(chip):
                broken.add(law.__name__)
                yield finding

        return run

    every = (*laws.LAWS, *laws.CORE_LAWS)
    monkeypatch.setattr(laws, "LAWS", tuple(noted(law) for law in laws.LAWS))
    monkeypatch.setattr(laws, "CORE_LAWS", tuple(noted(law) for law in laws.CORE_LAWS))
    for overrides, _ in LAWS:
        with suppress(SpecError):
            load_chip("tpu-v1", re.split(r" (?=[a-z._]+=)", overrides))
    monkeypatch.undo()
    types = {unit.type for unit in load_chip("tpu-v1").engines.values()}
    others = {module.__name__ for name, module in modules().items() if name not in types}  # have tests of their own
    assert broken == {law.__name__ for law in every if law.__module__ not in others}


def test_duplicate_keys(write: Write) -> None:
    path = write(GOOD + "clock: 800 MHz\n")
    line = len(GOOD.splitlines()) + 1
    first = next(i for i, text in enumerate(GOOD.splitlines(), 1) if text.startswith("clock"))
    assert [str(each) for each in problems(path)] == [f"{path}:{line}:1: clock: key given twice, first in line {first}"]


def test_bad_syntax_has_a_place(write: Write) -> None:
    (found,) = problems(write("name: x\ntitle: [unclosed\n"))
    assert re.fullmatch(r".*mine\.yaml:\d+:\d+", found.where) and "not valid YAML" in found.what


@pytest.mark.parametrize("text", ["", "just a text", "- a\n- list\n"])
def test_what_is_no_mapping_is_refused(write: Write, text: str) -> None:
    assert problems(write(text))


def test_every_file_states_its_source(write: Write) -> None:
    memory = write("use: memories/ddr3-1600\nsource: null\n", "memories/mine.yaml")
    text = GOOD.replace("as_of: 2017-06\nnote", "note", 1).replace("as_of: '2017-06'\nnote", "note", 1)
    (chip_problem,) = problems(write(text))
    assert (chip_problem.what, chip_problem.where.rsplit("/", 1)[-1]) == ("as_of: missing", "mine.yaml:1:1")
    found = check(memory)
    assert [(each.what, each.where) for each in found] == [("source: missing", f"{memory}:1:1")]


def test_errors_in_composed_files_point_into_them(write: Write) -> None:
    bad = write("use: memories/ddr3-1600\nbandwidth: 12.8\nlatncy: 3 ns\n", "memories/bad.yaml")
    chip = Path(str(find("chips/dae-edu"))).read_text(encoding="utf-8")
    start, end = chip.index("    memory:"), chip.index("    holds: [activations, weights]")
    path = write(chip[:start] + "    memory: memories/bad\n" + chip[end:])
    assert [(each.where, each.what, each.nearest) for each in problems(path)] == [
        (f"{bad}:2:12", "memories.dram.memory.bandwidth: '12.8' has no unit", ""),
        (f"{bad}:3:1", "memories.dram.memory.latncy: unknown key", "latency"),
    ]


def test_missing_file_and_cycle(write: Write) -> None:
    one = write("use: memories/two\n", "memories/one.yaml")
    two = write("use: memories/one\n", "memories/two.yaml")
    assert [(each.where, each.what) for each in check(one)] == [(f"{two}:1:6", "'memories/one' includes itself")]
    lost = write("use: memories/ddr3-1601\n", "memories/lost.yaml")
    (found,) = check(lost)
    assert (found.where, found.nearest) == (f"{lost}:1:6", "memories/ddr3-1600")


def test_own_directory_goes_in_front_and_broken_chips_are_listed(write: Write) -> None:
    path = write(GOOD.replace("Google TPU v1", "Mine"), "chips/tpu-v1.yaml")
    write("name: broken\n", "chips/broken.yaml")
    assert resolve("tpu-v1") == path
    assert load_chip("tpu-v1").title == "Mine"
    summaries = {each.name: each for each in list_chips()}
    assert "title: missing" in summaries["broken"].problem
    assert summaries["tpu-v1"].title == "Mine" and summaries["dae-edu"].problem == ""


def test_unknown_chip_gives_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'tpu-v1'"):
        load_chip("tpuv1")
    with pytest.raises(SpecError, match="no spec file"):
        load_chip("nowhere/tpu-v1.yaml")


def test_fixed_slots_of_a_shared_buffer_have_a_place(write: Write) -> None:
    old = "        holds:\n        - weights\n        capacity: 256 KiB\n        slots: 4\n"
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, old.replace("- weights\n", "- weights\n        - partial_sums\n"))
    path = write(text)
    found = [problem for problem in problems(path) if "fixed slots" in problem.what]
    assert [(problem.where, problem.expected) for problem in found] == [
        (f"{path}:{place(text, '        slots: 4', '4')}", "no slots, or a buffer per role")
    ]


def test_a_key_that_is_no_name(write: Write) -> None:
    found = problems(write("? [a, b]\n: 1\n"))
    assert any(problem.what == "a key that is a list or a block" for problem in found)


def test_an_empty_file_and_a_list_are_told_in_words_of_yaml(write: Write) -> None:
    for text, what in (("", "an empty value"), ("- a\n", "a list")):
        (problem,) = problems(write(text))
        assert (problem.what, problem.expected) == (f"{what} is not accepted", "a block of fields")


def test_a_number_beyond_all_numbers(write: Write) -> None:
    old = "    capacity: 24 MiB"
    assert GOOD.count(old) == 1
    for number in ("1e999999999 B", "1e309 B", "9" * 5000 + " B"):
        found = problems(write(GOOD.replace(old, f"    capacity: {number}")))
        assert any("beyond what a number can be" in problem.what for problem in found)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("clock=1e300 Hz", "1 kHz to 1 PHz"), ("clock=1 Hz", "1 kHz to 1 PHz"),
        ("memories.ddr3.memory.latency=1e300 s", "0 s, or 1 fs to 1 s"),
        ("memories.ddr3.memory.bandwidth=1e-300 B/s", "1 B/s to 1 PB/s"),
        ("memories.ddr3.memory.capacity=1e30 B", "1 B to 1 EiB"),
    ],
)  # fmt: skip
def test_quantities_that_no_simulated_time_can_hold(override: str, expected: str) -> None:
    found = problems(Path("tpu-v1"), (override,))
    assert [each.expected for each in found if "is out of range" in each.what] == [expected]


def test_the_root_directory_is_no_spec() -> None:
    with pytest.raises(SpecError, match="'/' is a directory"):
        resolve("/")


def test_a_status_by_its_former_name_gets_the_one_of_today(write: Write) -> None:
    text = GOOD.replace("energy_status: guess", "energy_status: memory", 1)
    (found,) = problems(write(text))
    assert found.nearest == "recalled" and "'memory' is not one of the choices" in found.what
