"""The process that a student's file runs in: ``python -m accelsim.lessons.sandbox.child FOLDER FILE SECONDS``.

It reads one question a line from its standard input and answers each with a line on what was its standard output; what
the student's code prints goes elsewhere, so nothing that it prints can be taken for an answer.
"""

from __future__ import annotations

import os
import sys
import traceback
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from accelsim.lessons.sandbox.codec import Unsendable, decode, encode
from accelsim.lessons.sandbox.guard import guard

PRINTED = "printed.txt"
"""Where what the student's code prints goes, in its folder."""


def main(folder: Path, name: str, seconds: float) -> None:
    """Load the file, say how that went, answer until the questions end."""
    questions, answers = _streams(folder)
    sys.dont_write_bytecode = True
    os.chdir(folder)
    guard(folder, seconds)
    known: dict[str, Any] = {"__name__": "lesson", "__file__": name}
    try:
        source = (folder / name).read_text(encoding="utf-8-sig")
        exec(compile(source, name, "exec"), known)
    except BaseException as error:
        _tell(answers, {"error": _told(error, name)})
        return
    _tell(answers, {"ok": None})
    for line in questions:
        _tell(answers, _answer(decode(line), known, name))


def _streams(folder: Path) -> tuple[TextIO, TextIO]:
    """Questions and answers on streams that the student's code has no name for; its own go into a file."""
    questions, answers = os.dup(0), os.dup(1)
    printed = os.open(folder / PRINTED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for kept, number in ((nothing, 0), (printed, 1), (printed, 2)):
        os.dup2(kept, number)
    sys.stdin = TextIOWrapper(os.fdopen(0, "rb", closefd=False))
    return os.fdopen(questions, encoding="ascii"), os.fdopen(answers, "w", encoding="ascii")


def _tell(answers: TextIO, value: dict[str, Any]) -> None:
    sys.stdout.flush()
    answers.write(encode(value) + "\n")
    answers.flush()


def _answer(question: dict[str, Any], known: dict[str, Any], name: str) -> dict[str, Any]:
    wanted = question["name"]
    if wanted not in known:
        return {"missing": sorted(each for each in known if not each.startswith("_"))}
    try:
        value = known[wanted]
        if "args" in question:
            if not callable(value):
                return {"missing": [], "kind": type(value).__name__}
            value = value(*question["args"])
        return {"ok": value} if _sendable(value) else {"ok": None}
    except Unsendable as error:
        return {"unsendable": str(error)}
    except BaseException as error:
        return {"error": _told(error, name)}


def _sendable(value: Any) -> bool:
    encode(value)
    return True


def _told(error: BaseException, name: str) -> dict[str, Any]:
    """What happened, and at which line of the student's file."""
    if isinstance(error, SyntaxError):
        return {
            "line": error.lineno or 0,
            "source": (error.text or "").rstrip("\n"),
            "text": f"{type(error).__name__}: {error.msg}",
        }
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    line = own[-1].lineno or 0 if own else 0
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return {"line": line, "source": "", "text": text[:500]}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
