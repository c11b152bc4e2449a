"""Traces for other simulators: the formats to the letter, nothing half-written, and the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from accelsim.cli.export_trace import export_trace
from accelsim.dram import export
from accelsim.dram.device import Command, Controller, Device, Geometry
from accelsim.dram.export import FORMATS, Accesses, Commands, access_text, command_text
from accelsim.dram.mapping import decoder
from accelsim.dram.served import COUNTS, Served
from accelsim.dram.trace_files import read_trace
from accelsim.dram.traces import NAMED, Trace, made
from accelsim.errors import AccelsimError, UsageError
from accelsim.explore import trace_export as module
from accelsim.files import text, write_file

TRACE = Trace(np.array([0x40, 0xABC0, 0]), np.array([False, True, False]), np.array([7, 2, 7]))


def accesses(name: str) -> Accesses:
    form = FORMATS[name]
    assert isinstance(form, Accesses)
    return form


def commands(name: str) -> Commands:
    form = FORMATS[name]
    assert isinstance(form, Commands)
    return form


def device(channels: int = 2, ranks: int = 2) -> Device:
    geometry = Geometry(channels, ranks, 4, 2, 64, 16, 4)
    return Device("small", "DDR4", geometry, Controller("ro"), 1_000_000, 4, {}, ())


def served(*rows: tuple[int, Command, int, int]) -> Served:
    return Served(0, 90, dict.fromkeys(COUNTS, 0), 0, 0, commands=np.array(rows, np.int64).reshape(-1, 4))


def flat(channel: int, rank: int, group: int, bank: int) -> int:
    return ((channel * 2 + rank) * 4 + group) * 2 + bank


def test_dramsim3_has_address_word_and_clock_in_order_of_clocks() -> None:
    assert "".join(access_text(TRACE, accesses("dramsim3"))) == "0xABC0 WRITE 2\n0x40 READ 7\n0x0 READ 7\n"


def test_dramsim3_without_clocks_asks_at_once() -> None:
    trace = TRACE._replace(at=None)
    assert "".join(access_text(trace, accesses("dramsim3"))) == "0x40 READ 0\n0xABC0 WRITE 0\n0x0 READ 0\n"


def test_ramulator2_has_two_words_and_no_clock() -> None:
    assert "".join(access_text(TRACE, accesses("ramulator2"))) == "ST 0xabc0\nLD 0x40\nLD 0x0\n"


@pytest.mark.parametrize("name", ["dramsim3", "ramulator2"])
def test_what_is_written_is_what_is_read(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "CHUNK", 1000)
    trace = made("rand_mix", 64)
    write_file(tmp_path / "a.trace", text(access_text(trace, accesses(name))))
    again = read_trace(tmp_path / "a.trace")
    np.testing.assert_array_equal(again.addresses, trace.addresses)
    np.testing.assert_array_equal(again.writes, trace.writes)


BATCH = served(
    (0, Command.ACT, flat(0, 1, 3, 1), 5),
    (4, Command.ACT, flat(1, 0, 0, 0), 9),
    (15, Command.WR, flat(0, 1, 3, 1), 5),
    (20, Command.RD, flat(0, 1, 3, 1), 5),
    (40, Command.PRE, flat(0, 1, 3, 1), 5),
    (50, Command.REF, flat(0, 1, 0, 0), 0),
    (60, Command.REFPB, flat(0, 0, 2, 1), 0),
)


def test_drampower_has_a_place_a_burst_of_data_and_an_end() -> None:
    assert "".join(command_text(BATCH, device(), commands("drampower"))).splitlines() == [
        "0,ACT,1,3,1,5,0",
        "15,WR,1,3,1,5,0,00000000",
        "20,RD,1,3,1,5,0,00000000",
        "40,PRE,1,3,1,5,0",
        "50,REFA,1,0,0,0,0",
        "60,REFB,0,2,1,0,0",
        "90,END,0,0,0,0,0",
    ]


def test_each_channel_has_a_trace_of_its_own() -> None:
    text = "".join(command_text(BATCH, device(), commands("drampower"), channel=1))
    assert text == "4,ACT,0,0,0,9,0\n90,END,0,0,0,0,0\n"
    with pytest.raises(UsageError, match="small has no channel 2; expected 0 to 1"):
        next(command_text(BATCH, device(), commands("drampower"), channel=2))


def test_drampower4_numbers_the_banks_of_its_one_rank() -> None:
    batch = served((3, Command.ACT, 7, 1), (9, Command.REF, 0, 0))
    assert "".join(command_text(batch, device(1, 1), commands("drampower4"))) == "3,ACT,7\n9,REF,0\n"
    with pytest.raises(UsageError, match="has 2 ranks"):
        next(command_text(BATCH, device(), commands("drampower4")))


def test_commands_come_in_order_even_from_a_model_that_mixes_them() -> None:
    batch = served((9, Command.RD, 0, 1), (3, Command.ACT, 0, 1))
    lines = "".join(command_text(batch, device(), commands("drampower"))).splitlines()
    assert [line.split(",")[:2] for line in lines] == [["3", "ACT"], ["9", "RD"], ["90", "END"]]


def test_batch_without_commands_is_refused() -> None:
    with pytest.raises(UsageError, match="not recorded"):
        next(command_text(Served(0, 1, {}, 0, 0), device(), commands("drampower")))


def test_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'dramsim3'"):
        export.format_named("dramsim")


def run(*args: object) -> Result:
    return CliRunner().invoke(export_trace, [str(arg) for arg in args], catch_exceptions=True)


def refusal(*args: object) -> str:
    result = run(*args)
    assert isinstance(result.exception, AccelsimError), result.output
    assert result.stdout == ""
    return str(result.exception)


def save(path: Path, *memories: str) -> Path:
    order = np.argsort(TRACE.at, kind="stable")
    arrays = {f"{name}.{key}": value[order] for name in memories
              for key, value in zip(("address", "write", "at"), TRACE, strict=True)}  # fmt: skip
    meta = json.dumps({"memory": dict.fromkeys(memories, "ddr4-3200")})
    np.savez(path, meta=meta, **arrays)  # type: ignore[arg-type]
    return path


def test_saved_run_to_stdout_and_to_a_file(tmp_path: Path) -> None:
    source = save(tmp_path / "run.npz", "left")
    expected = "0xABC0 WRITE 2\n0x40 READ 7\n0x0 READ 7\n"
    assert run(source, "--format", "dramsim3").stdout == expected
    assert run(tmp_path, "--format", "dramsim3").stdout == expected
    result = run(source, "--format", "dramsim3", "--out", tmp_path / "a.trace")
    assert (result.exit_code, result.stdout) == (0, f"Written: {tmp_path / 'a.trace'}\n")
    assert (tmp_path / "a.trace").read_text(encoding="utf-8") == expected


def test_one_of_several_memories_must_be_named(tmp_path: Path) -> None:
    source = save(tmp_path / "run.npz", "left", "right")
    assert "has 2 memories" in refusal(source, "--format", "ramulator2")
    assert run(source, "--format", "ramulator2", "--memory", "right").stdout.startswith("ST 0xabc0\n")


def test_refusals_say_what_is_missing(tmp_path: Path) -> None:
    text = tmp_path / "a.trace"
    text.write_text("LD 64\n", encoding="utf-8")
    assert "did you mean 'seq_read'" in refusal("seq_reed", "--format", "dramsim3")
    assert "expected --on DRAM" in refusal("seq_read", "--format", "dramsim3")
    assert "expected --on DRAM" in refusal(text, "--format", "drampower")
    assert "no format 'drampwr'" in refusal(text, "--format", "drampwr")
    assert "its directory does not exist" in refusal(text, "--format", "dramsim3", "--out", tmp_path / "x" / "y")


@pytest.mark.parametrize("kind", NAMED)
def test_named_traces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bursts of the DRAM's own size, rows where its mapping has them."""
    geometry = Geometry(1, 1, 4, 4, 65536, 128, 64)
    one = Device("one", "DDR4", geometry, Controller("robabgrachco"), 1, 4, {}, ())
    monkeypatch.setattr(module, "_device", lambda name: one)
    lines = run(kind, "--on", "one", "--format", "ramulator2").stdout.splitlines()
    expected = made(kind, 64, 17)
    assert [int(line.split()[1], 16) for line in lines] == expected.addresses.tolist()
    assert [line.startswith("ST") for line in lines] == expected.writes.tolist()


def test_commands_of_a_trace_on_a_real_memory(tmp_path: Path) -> None:
    """Every access is a RD or WR of its bank, between an ACT of its row and the next PRE; counts are those of the model."""
    one = module._device("ddr4-3200")
    trace = Trace(*made("rand_mix", 64)[:2])
    trace = Trace(trace.addresses[:300], trace.writes[:300], np.arange(300, dtype=np.int64) // 100 * 5000)
    found = export.scheduled(trace, one)
    assert found.commands is not None
    place = decoder(one.controller.mapping, one.geometry).decode(trace.addresses)
    wanted = Counter(zip(place.rank, place.group, place.bank, place.row, trace.writes, strict=True))
    seen: Counter[tuple[int, ...]] = Counter()
    rows: dict[tuple[int, ...], int] = {}
    text = "".join(command_text(found, one, commands("drampower")))
    before, names = -1, Counter[str]()
    for line in text.splitlines():
        clock, name, *cells = line.split(",")
        bank, row = tuple(int(cell) for cell in cells[:3]), int(cells[3])
        assert int(clock) >= before
        before = int(clock)
        names[name] += 1
        if name == "ACT":
            assert bank not in rows
            rows[bank] = row
        elif name == "PRE":
            rows.pop(bank, None)
        elif name in ("RD", "WR"):
            assert rows[bank] == row
            seen[(*bank, row, name == "WR")] += 1
    assert seen == wanted
    assert [names[name] for name in ("ACT", "RD", "WR")] == [found.counts[name] for name in ("act", "rd", "wr")]
    assert (names["END"], before) == (1, found.end)


def test_later_accesses_are_scheduled_later() -> None:
    one = module._device("ddr4-3200")
    trace = Trace(np.array([0, 64]), np.array([False, False]), np.array([2000, 0]))
    found = export.scheduled(trace, one)
    assert found.commands is not None
    reads = found.commands[found.commands[:, 1] == Command.RD, 0]
    assert reads[0] < 100 < 2000 < reads[1] < 2100
