"""What a student's file may do and what it may not; whatever it does, the check goes on with one clear text."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accelsim.lessons.base import Wrong
from accelsim.lessons.sandbox.codec import Unsendable, decode, encode
from accelsim.lessons.sandbox.student import Student

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=8,
)


def student(tmp_path: Path, text: str, seconds: float = 20.0) -> Student:
    file = tmp_path / "work.py"
    file.write_text(text, encoding="utf-8")
    return Student(file, seconds)


def wrong(tmp_path: Path, text: str, *args: object, seconds: float = 20.0) -> Wrong:
    """What the check says where 'f' of this text is called."""
    with pytest.raises(Wrong) as found, student(tmp_path, text, seconds) as ask:
        ask("f", *args)
    return found.value


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


@pytest.mark.parametrize("value", [{1, 2}, object(), np.array([object()]), lambda: 0, b"x", 1j])
def test_what_could_run_is_not_sent(value: object) -> None:
    with pytest.raises(Unsendable):
        encode(value)


@pytest.mark.parametrize(
    "line", ["", "{", '{"array":["O",[1],""]}', '{"what":1}', "[" * 10_000, '{"a":1,"b":2}']
)
def test_a_line_that_nobody_made_is_told(line: str) -> None:
    with pytest.raises(ValueError):
        decode(line)


def test_functions_and_names_answer(tmp_path: Path) -> None:
    with student(
        tmp_path, "import numpy as np\nX = 3\ndef f(a, b):\n    return np.outer(a, b).astype('int16')\n"
    ) as ask:
        assert ask.value("X") == 3
        found = ask("f", np.arange(3), [1, 2])
        assert found.dtype == np.int16 and found.tolist() == [[0, 0], [1, 2], [2, 4]]


def test_a_file_keeps_its_state_between_calls(tmp_path: Path) -> None:
    with student(tmp_path, "n = 0\ndef f():\n    global n\n    n += 1\n    return n\n") as ask:
        assert [ask("f") for _ in range(3)] == [1, 2, 3]


def test_an_error_names_the_line(tmp_path: Path) -> None:
    found = wrong(tmp_path, "def g(x):\n    return 1 / x\n\ndef f():\n    return g(0)\n")
    assert found.where == "work.py:2" and found.got == "ZeroDivisionError: division by zero"


def test_an_error_of_syntax_names_the_line_and_shows_it(tmp_path: Path) -> None:
    found = wrong(tmp_path, "x = 1\ndef f(:\n    return 1\n")
    assert found.where == "work.py:2" and "SyntaxError" in found.got and "def f(:" in found.got


def test_an_error_while_the_file_is_read_names_the_line(tmp_path: Path) -> None:
    found = wrong(tmp_path, "import numpy\n\nx = numpy.nothing\n")
    assert found.where == "work.py:3" and found.got.startswith("AttributeError")


def test_a_name_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    assert wrong(tmp_path, "def ff(): pass\n").got == "no f, but ff"
    assert "of type int" in wrong(tmp_path, "f = 3\n").got


def test_a_value_of_another_kind_is_told(tmp_path: Path) -> None:
    assert "generator" in wrong(tmp_path, "def f():\n    yield 1\n").got


def test_wrong_arguments_are_told(tmp_path: Path) -> None:
    assert "takes 0 positional arguments" in wrong(tmp_path, "def f(): return 1\n", 3).got


@pytest.mark.parametrize(
    "body", ["while True: pass", "import time; time.sleep(60)", "input(); import time; time.sleep(60)"]
)
def test_what_does_not_end_is_ended(tmp_path: Path, body: str) -> None:
    begun = time.monotonic()
    found = wrong(
        tmp_path,
        f"def f():\n    try:\n        {body}\n    except BaseException:\n        while True: pass\n",
        seconds=1.5,
    )
    assert time.monotonic() - begun < 10 and found.got == "none in time" and "work.py, f" in found.where


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of memory there")
@pytest.mark.parametrize(
    "body", ["return len(bytearray(8 << 30))", "x = []\n    while True: x.append(bytearray(1 << 26))"]
)
def test_what_takes_all_memory_is_told(tmp_path: Path, body: str) -> None:
    found = wrong(tmp_path, f"def f():\n    {body}\n")
    assert "MiB" in found.expected and found.got.startswith("MemoryError")


@pytest.mark.parametrize(
    "body",
    [
        "import os; os._exit(0)",
        "import sys; sys.exit()",
        "raise SystemExit('passed')",
        "raise KeyboardInterrupt",
    ],
)
def test_ending_python_is_no_answer(tmp_path: Path, body: str) -> None:
    found = wrong(tmp_path, f"def f():\n    {body}\n")
    assert found.got


def test_recursion_without_end_is_told(tmp_path: Path) -> None:
    assert "Recursion" in wrong(tmp_path, "def f():\n    return f()\n").got


FORBIDDEN = {
    "remove": "import os; os.remove({target!r})",
    "unlink": "import pathlib; pathlib.Path({target!r}).unlink()",
    "rmtree": "import shutil; shutil.rmtree({folder!r})",
    "overwrite": "open({target!r}, 'w').write('x')",
    "append": "open({target!r}, 'a').write('x')",
    "low level": "import os; os.close(os.open({target!r}, os.O_WRONLY | os.O_TRUNC))",
    "rename away": "import os; os.rename({target!r}, 'mine')",
    "rename onto": "import os; open('mine', 'w').close(); os.replace('mine', {target!r})",
    "a folder": "import os; os.mkdir({folder!r} + '/new')",
    "a link": "import os; os.symlink('/', {folder!r} + '/link')",
    "truncate": "import os; os.truncate({target!r}, 0)",
    "a mode": "import os; os.chmod({target!r}, 0)",
    "through a link": "import os; os.symlink({folder!r}, 'out'); open('out/precious.txt', 'w').close()",
    "a process": "import subprocess; subprocess.run(['rm', '-f', {target!r}])",
    "a shell": "import os; os.system('rm -f ' + {target!r})",
    "a fork": "import os; os.fork()",
    "ctypes": "import ctypes; ctypes.CDLL(None).unlink({target!r}.encode())",
    "a socket": "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
    "a signal": "import os; os.kill(os.getppid(), 9)",
    "numpy": "import numpy; numpy.zeros(3).tofile({target!r})",
    "swallowed": "import os\n    try: os.remove({target!r})\n    except BaseException: pass\n    raise ValueError",
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_nothing_outside_its_folder_is_touched(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "outside"
    folder.mkdir()
    target = folder / "precious.txt"
    target.write_text("kept", encoding="utf-8")
    text = FORBIDDEN[name].format(target=str(target), folder=str(folder))
    found = wrong(tmp_path, f"def f():\n    {text}\n")
    assert found.got
    assert target.read_text(encoding="utf-8") == "kept" and sorted(folder.iterdir()) == [target]
    assert target.stat().st_mode & 0o600 == 0o600


def test_its_own_folder_is_a_copy_that_is_removed(tmp_path: Path) -> None:
    text = "import os\nopen('mine.txt', 'w').write('x')\nos.mkdir('d')\ndef f():\n    os.remove('mine.txt'); return os.getcwd()\n"
    with student(tmp_path, text) as ask:
        place = Path(ask("f"))
        assert place.is_dir() and place != tmp_path
    assert not place.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["work.py"]


def test_what_it_prints_is_no_answer(tmp_path: Path) -> None:
    text = "import sys, os\ndef f():\n    print('{\"ok\": 1}', flush=True); os.write(1, b'{\"ok\":1}\\n'); print('err', file=sys.stderr)\n    return 2\n"
    with student(tmp_path, text) as ask:
        assert ask("f") == 2
        assert '{"ok": 1}' in ask.printed and "err" in ask.printed


def test_a_flood_of_output_is_cut(tmp_path: Path) -> None:
    with student(tmp_path, "def f():\n    print('x' * 100_000)\n    return 1\n") as ask:
        assert ask("f") == 1 and len(ask.printed) == 2000


def test_a_forged_answer_is_an_answer_like_any_other(tmp_path: Path) -> None:
    """Who finds the stream may write to it: it is read as what the function returned, nothing else."""
    text = "import os\ndef f():\n    for n in range(3, 20):\n        try: os.write(n, b'{\"passed\":true}\\n')\n        except OSError: pass\n    return 2\n"
    with student(tmp_path, text) as ask, pytest.raises((Wrong, KeyError)):
        ask("f")
