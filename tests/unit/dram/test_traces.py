"""Named traces against their definition, one access at a time; files of accesses in every form that is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.dram import trace_files, traces
from accelsim.dram.saved_runs import read_saved
from accelsim.dram.trace_files import read_trace
from accelsim.dram.traces import NAMED, lcg, made
from accelsim.errors import ModelError, UsageError

MASK = (1 << 64) - 1


def by_definition(kind: str, G: int, row_lsb: int) -> Iterator[tuple[int, bool]]:
    """The traces as they are defined: plain loops, one step of the generator after the other."""
    state = 1
    tensors = ((0, False), (64 << 20, False), (128 << 20, True))
    if kind in ("seq_read", "seq_write"):
        for index in range((16 << 20) // G):
            yield index * G, kind == "seq_write"
    elif kind in ("tile3", "stream3"):
        blocks, size = (16384, 256) if kind == "tile3" else (1024, 4096)
        for block in range(blocks):
            for base, write in tensors:
                for burst in range(max(1, size // G)):
                    yield base + 4096 * block + burst * G, write
    elif kind == "conflict":
        for index in range(8192):
            yield (index % 1024) << row_lsb, False
    else:
        for index in range(4096 if kind == "chase" else 65536):
            state = (6364136223846793005 * state + 1442695040888963407) & MASK
            yield (state >> 33) % ((256 << 20) // G) * G, kind == "rand_mix" and index % 3 == 2


@pytest.mark.parametrize("access_B", [32, 256, 512])
@pytest.mark.parametrize("kind", NAMED)
def test_named_trace_is_its_definition(kind: str, access_B: int) -> None:
    trace = made(kind, access_B, 17)
    expected = list(by_definition(kind, access_B, 17))
    np.testing.assert_array_equal(trace.addresses, [address for address, _ in expected])
    np.testing.assert_array_equal(trace.writes, [write for _, write in expected])
    assert trace.addresses.dtype == np.int64
    assert trace.writes.dtype == bool
    assert trace.at is None


@given(st.integers(1, 300), st.integers(0, MASK))
def test_generator_jumps_as_far_as_it_steps(count: int, seed: int) -> None:
    state, expected = seed, []
    for _ in range(count):
        state = (traces.LCG_MULTIPLIER * state + traces.LCG_INCREMENT) & MASK
        expected.append(state >> 33)
    assert lcg(count, seed).tolist() == expected


def test_only_the_chase_waits_for_each_access() -> None:
    assert {name: pattern.outstanding for name, pattern in NAMED.items() if pattern.outstanding} == {"chase": 1}
    assert all(pattern.what for pattern in NAMED.values())


def test_unknown_trace_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'rand_read'"):
        made("rand_reads", 64)


def lines(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


FORMS = {
    "plain": "4096 R\n0x2000 w\n",
    "barred": "4096|R\n0x2000 | W\n",
    "commas and comments": "# two accesses\n\n4096,RD   # a read\n0X2000,WR\n",
    "ramulator": "LD 0x1000\nST 0x2000\n",
    "ramulator decimal": "LD 4096\nST 8192\n",
    "read and write": "R 0x1000\nW 0x2000\n",
    "header": "address,write\n4096,0\n8192,1\n",
    "header in another order": "Op,Layer,Addr\nREAD,7,0x1000\nwrite,7,0x2000\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_forms_without_clocks(tmp_path: Path, text: str) -> None:
    trace = read_trace(lines(tmp_path / "a.txt", text))
    assert trace.addresses.tolist() == [4096, 8192]
    assert trace.writes.tolist() == [False, True]
    assert trace.at is None


@pytest.mark.parametrize(
    "text", ["0x1000 READ 3\n0x2000 WRITE 3\n", "R 4096 3\nW 8192 3\n", "clock,address,op\n3,4096,r\n3,8192,w\n"]
)
def test_forms_with_clocks(tmp_path: Path, text: str) -> None:
    trace = read_trace(lines(tmp_path / "a.csv", text))
    assert (trace.addresses.tolist(), trace.writes.tolist()) == ([4096, 8192], [False, True])
    assert trace.at is not None
    assert trace.at.tolist() == [3, 3]


BAD = {
    "64 X": "'x' is no access",
    "64 REED": "did you mean 'read'",
    "wirte 64": "did you mean 'write'",
    "1f00 R": "'1f00' is no address",
    "-64 R": "'-64' is no address",
    "1_0 R": "'1_0' is no address",
    "9223372036854775808 R": "below 2^63",
    "64": "has 1 field;",
    "64 R 0x10": "'0x10' is no clock",
    "64 R -1": "'-1' is no clock",
    "64 R 1 2": "has 4 fields",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_line_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(ModelError) as error:
        read_trace(lines(tmp_path / "a.txt", f"# head\n{line}\n"))
    assert f"{tmp_path / 'a.txt'}:2: " in str(error.value)
    assert BAD[line] in str(error.value)


def test_every_bad_line_is_reported_up_to_a_limit(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as error:
        read_trace(lines(tmp_path / "a.txt", "64 R\n" + "64 X\n" * 25))
    assert len(error.value.problems) == trace_files.MOST_PROBLEMS + 1
    assert str(error.value.problems[0]).startswith(f"{tmp_path / 'a.txt'}:2: ")
    assert "and 5 more lines" in str(error.value.problems[-1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("64 R 5\n64 R 4\n", "the clock falls from 5 to 4"),
        ("64 R 5\n64 R\n", "only some of the lines have a clock"),
        ("64 R\n64 R 5\n", "only some of the lines have a clock"),
    ],
)
def test_clocks_that_make_no_sense(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        read_trace(lines(tmp_path / "a.txt", text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("adress,op\n64,R\n", "address"),
        ("address,clock\n64,3\n", "0 columns hold the op"),
        ("address,op\n64\n", "has 1 fields; expected 2"),
        ("address,op\n64,7\n", "'7' is no access"),
        ("", "holds no access"),
        ("# nothing\n", "holds no access"),
    ],
)
def test_bad_tables_and_empty_files(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        read_trace(lines(tmp_path / "a.csv", text))


def test_missing_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    lines(tmp_path / "trace.txt", "64 R\n")
    with pytest.raises(ModelError, match=r"did you mean 'trace.txt'"):
        read_trace(tmp_path / "trac.txt")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="cannot be read"):
        read_trace(tmp_path / "b.txt")
    (tmp_path / "c.npz").write_bytes(b"no archive")
    with pytest.raises(ModelError, match="cannot be read"):
        read_trace(tmp_path / "c.npz")


def test_plain_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", address=np.array([64, 0]), write=np.array([True, False]), at=np.array([1, 2]))
    trace = read_trace(tmp_path / "a.npz")
    assert trace.addresses.tolist() == [64, 0]
    assert trace.writes.tolist() == [True, False]
    assert trace.at is not None
    assert trace.at.tolist() == [1, 2]


def save_run(path: Path, memories: tuple[str, ...]) -> None:
    arrays = {}
    for number, name in enumerate(memories):
        arrays[f"{name}.address"] = np.array([64 * number, 128], np.int64)
        arrays[f"{name}.write"] = np.array([False, True])
        arrays[f"{name}.at"] = np.array([0, 9], np.int64)
        arrays[f"{name}.op"] = np.array([0, 1], np.int32)
    meta = {"chip": "c", "model": "m", "memory": dict.fromkeys(memories, "ddr4"), "clock_fs": 625000}
    np.savez(path, meta=json.dumps(meta), **arrays)


def test_saved_run_of_one_memory_or_of_several(tmp_path: Path) -> None:
    save_run(tmp_path / "one.npz", ("dram",))
    assert read_trace(tmp_path / "one.npz").addresses.tolist() == [0, 128]
    save_run(tmp_path / "two.npz", ("left", "right"))
    saved = read_saved(tmp_path / "two.npz")
    assert saved.traces[saved.memory("right")].addresses.tolist() == [64, 128]
    assert saved.ops["left"].tolist() == [0, 1]
    assert (saved.dram("left"), saved.dram("middle")) == ("ddr4", "")
    with pytest.raises(ModelError, match="did you mean 'right'"):
        saved.memory("rigth")
    with pytest.raises(ModelError, match="has 2 memories"):
        saved.memory()


def test_directory_with_one_archive(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds 0 .npz files"):
        read_saved(tmp_path)
    save_run(tmp_path / "trace.npz", ("dram",))
    assert read_saved(tmp_path).path.name == "trace.npz"


def test_archive_with_wrong_arrays_names_them_all(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"x.address": np.zeros(3), "x.write": np.zeros(2, bool), "y.adress": np.zeros(1)})
    with pytest.raises(ModelError) as error:
        read_saved(tmp_path / "a.npz")
    text = str(error.value)
    assert "'x.address' is float64" in text
    assert "'x.write' has 2 elements; expected 3" in text
    assert "'y.address' is missing" in text
    assert "'y.write' is missing" in text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"address": np.array([0, -64])}, "array 'm.address' holds addresses from -64 to 0; expected 0 to 2\\^63 - 1"),
        ({"address": np.array([0, 2**63], np.uint64)}, "holds addresses from 0 to 9,223,372,036,854,775,808"),
        ({"at": np.array([-1, 0])}, "array 'm.at' holds clocks from -1 to 0; expected 0 to below 2\\^50"),
        ({"at": np.array([0, 2**50])}, "holds clocks from 0 to 1,125,899,906,842,624"),
        ({"at": np.array([5, 4])}, "the clock falls from 5 to 4 at access 2 of 'm.at'"),
        ({"address": np.zeros(0, int), "write": np.zeros(0, bool), "at": np.zeros(0, int)}, "'m.address' holds no access"),
        ({"write": np.array([0, 1])}, "array 'm.write' is int64 of 1 dimensions"),
        ({"address": np.array(["a", "b"])}, "array 'm.address' is <U1 of 1 dimensions"),
    ],
)  # fmt: skip
def test_a_saved_trace_is_checked_as_a_text_is(tmp_path: Path, change: dict[str, np.ndarray], told: str) -> None:
    good = {"address": np.array([0, 64]), "write": np.array([False, True]), "at": np.array([0, 4])}
    np.savez(tmp_path / "a.npz", **{f"m.{name}": array for name, array in (good | change).items()})
    with pytest.raises(ModelError, match=told):
        read_trace(tmp_path / "a.npz")


@pytest.mark.parametrize("meta", ["[" * 100_000, "[1]", "nonsense"])
def test_the_words_of_a_saved_trace_are_json(tmp_path: Path, meta: str) -> None:
    np.savez(tmp_path / "a.npz", address=np.array([0]), write=np.array([False]), meta=meta)
    with pytest.raises(ModelError, match="its 'meta' is no JSON"):
        read_trace(tmp_path / "a.npz")
