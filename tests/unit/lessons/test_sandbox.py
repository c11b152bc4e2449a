"""A student's file in a process of its own: what is sent arrives, what goes wrong there is one clear text."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accelsim.lessons.base import Wrong
from accelsim.lessons.sandbox import child
from accelsim.lessons.sandbox.child import MOST_BITS, Unsendable, encode
from accelsim.lessons.sandbox.student import Student

MOST = 2**MOST_BITS - 1
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-MOST, MOST) | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(-MOST, MOST), inner)
    ),
    max_leaves=8,
)

WORK = """
import os, sys
import numpy as np
X, g, n, big = 3, 3, 0, 2**200
def outer(a, b): return np.outer(a, b).astype('int16')
def count():
    global n
    n += 1
    return n
def divide(x):
    return 1 / x
def deeper(x):
    return divide(x)
def never():
    yield 1
def again():
    return again()
def large():
    return len(bytearray(8 << 30))
def stop():
    raise KeyboardInterrupt
def leave():
    sys.exit()
def place():
    open('mine.txt', 'w').write('x')
    os.mkdir('d')
    return os.getcwd()
def prints():
    print('{"ok": 1}', flush=True)
    os.write(1, b'low')
    print('err', file=sys.stderr)
    return 2
def own():
    import accelsim
"""


def student(text: str, seconds: float = 20.0, isolated: bool = False) -> Student:
    return Student("work.py", text, seconds, isolated)


def wrong(text: str, seconds: float = 20.0) -> Wrong:
    """Return what the check says where 'f' of this text is called."""
    with pytest.raises(Wrong) as found, student(text, seconds) as ask:
        ask("f")
    return found.value


@pytest.fixture(scope="module")
def work() -> Iterator[Student]:
    """One process for all that does not end it."""
    with student(WORK) as ask:
        yield ask


def decode(line: str) -> object:
    return child.decode(line.encode())


@given(PLAIN)
def test_what_is_sent_arrives(value: object) -> None:
    line = encode(value)
    assert "\n" not in line and line.isascii()
    assert decode(line) == value


@given(
    arrays(
        st.sampled_from(["int8", "uint16", "float32", "float64", "bool"]),
        st.tuples(st.integers(0, 4), st.integers(0, 4)),
    )
)
def test_arrays_arrive_to_the_bit(value: np.ndarray) -> None:
    found = decode(encode(value))
    assert found.dtype == value.dtype and found.shape == value.shape and found.tobytes() == value.tobytes()


def test_scalars_of_numpy_are_numbers() -> None:
    assert decode(encode([np.int32(3), np.float32(0.5), np.bool_(True)])) == [3, 0.5, True]


@pytest.mark.parametrize("value", [{1, 2}, object(), np.array([object()]), lambda: 0, b"x", 1j, MOST + 1, "x" * 2**21])
def test_what_could_run_or_is_too_large_is_not_sent(value: object) -> None:
    with pytest.raises(Unsendable):
        encode(value)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        '{"array":["O",[1],""]}',
        '{"array":["<f8",[-1],""]}',
        '{"array":["i4,i4",[1],"AAAAAAAAAAA="]}',
        '{"what":1}',
        "[" * 10_000,
        '{"a":1,"b":2}',
        "NaN",
        "1.5",
        str(MOST + 1),
        "1" * 5000,
        '{"float":"0x1p9999"}',
        " " * (1 << 21) + "1",
        '{"dict":[' + "[1,1]," * 20_000 + "[1,1]]}",
    ],
)
def test_a_line_that_nobody_made_is_told(line: str) -> None:
    with pytest.raises(ValueError):
        decode(line)


def test_functions_and_names_answer(work: Student) -> None:
    assert work.value("X") == 3
    found = work("outer", np.arange(3), [1, 2])
    assert found.dtype == np.int16 and found.tolist() == [[0, 0], [1, 2], [2, 4]]
    assert [work("count") for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "where", "got"),
    [
        ("deeper", "work.py:11", "ZeroDivisionError: division by zero"),
        ("again", "work.py:17", "RecursionError: maximum recursion depth exceeded"),
        ("divid", "work.py", "no divid, but divide"),
        ("g", "work.py, g", "g is of type int"),
        ("never", "work.py, never", "generator is neither"),
        ("count", "work.py, count", "takes 0 positional arguments but 1 was given"),
        ("stop", "work.py:21", "KeyboardInterrupt"),
        ("leave", "work.py:23", "SystemExit"),
        ("large", "work.py:19", "MemoryError"),
        ("own", "work.py:34", "ModuleNotFoundError"),
    ],
)
def test_what_goes_wrong_is_told_with_its_line(work: Student, name: str, where: str, got: str) -> None:
    if got == "MemoryError" and sys.platform == "win32":
        pytest.skip("no limit of memory there")
    args = () if name in ("again", "never", "stop", "leave", "large", "own") else (0,)
    with pytest.raises(Wrong) as found:
        work(name, *args)
    assert got in found.value.got and where in found.value.where
    assert "MiB" in found.value.expected or got != "MemoryError"


def test_a_number_that_is_too_long_is_told(work: Student) -> None:
    with pytest.raises(Wrong, match="a whole number of 201 bits"):
        work.value("big")


def test_what_it_prints_is_no_answer() -> None:
    with student(WORK) as ask:
        assert ask("prints") == 2
    assert '{"ok": 1}' in ask.printed and "err" in ask.printed and "low" in ask.printed


def test_an_error_of_syntax_names_the_line_and_shows_it() -> None:
    found = wrong("x = 1\ndef f(:\n    return 1\n")
    assert found.where == "work.py:2" and "SyntaxError" in found.got and "def f(:" in found.got


def test_an_error_while_the_file_is_read_names_the_line() -> None:
    found = wrong("import math\n\nx = math.nothing\n")
    assert found.where == "work.py:3" and found.got.startswith("AttributeError")


@pytest.mark.parametrize("body", ["while True: pass", "input(); import time; time.sleep(60)"])
def test_what_does_not_end_is_ended(body: str) -> None:
    begun = time.monotonic()
    text = f"def f():\n    try:\n        {body}\n    except BaseException:\n        import time; time.sleep(60)\n"
    found = wrong(text, seconds=0.3)
    assert time.monotonic() - begun < 50 and found.got == "none in time" and "work.py, f" in found.where


def test_a_question_that_is_not_read_does_not_hang() -> None:
    text = 'import os, time\nos.write(4, b\'{"dict":[["ok",null]]}\\n\' * 2)\ntime.sleep(60)\n'
    with pytest.raises(Wrong), student(text, seconds=0.5) as ask:
        for _ in range(9):
            ask("f", "x" * 100_000)


def test_ending_python_is_no_answer() -> None:
    assert wrong("def f():\n    import os; os._exit(0)\n").got == "its process ended"
    assert wrong("def f():\n    import os; os.abort()\n").got == "its process ended by signal 6"


def test_it_writes_into_a_folder_that_is_removed() -> None:
    with student(WORK) as ask:
        place = Path(ask("place"))
        assert (place / "mine.txt").is_file() and place != Path.cwd()
    assert not place.exists()


def test_a_flood_of_output_is_cut() -> None:
    with student("def f():\n    print('x' * 100_000)\n    return 1\n") as ask:
        assert ask("f") == 1
    assert len(ask.printed) == 2000
