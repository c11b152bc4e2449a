"""Fenced blocks of the documentation: found, run in order, and their outputs written again.

What stands in the line before a fence says what a block is:

* ``<!-- file: NAME -->``: the block is a file that the commands below it use.
* ``<!-- not run -->``: commands that take too long or need what you do not have; they are only parsed.
* ``<!-- exit N -->``: the commands end with exit code N.
* ``<!-- output: COMMAND -->``: what the command prints, or with ``| 1..4, total`` only those of its lines.
* ``<!-- output: python -->``: what the Python block before it prints.
* ``<!-- made: NAME -->``, before a table: it is made by the function of ``MADE``.

``python -m tests.helpers.doc_blocks`` writes all outputs and pictures again.
"""

from __future__ import annotations

import importlib.util
import io
import multiprocessing
import os
import re
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from click.testing import CliRunner

from accelsim.cli import main
from accelsim.request.fields import declared
from accelsim.result import Call

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
COLUMNS = "100"
GAP = "..."
ADVICE = "What would"
"""How the paragraph about changes of the chip begins."""
PICTURES = ("latency", "roofline", "timeline")
"""Plots of ResNet-50 on TPU v1 that the pages show."""
SCRIPTS = tuple(sorted((ROOT / "docs" / "pictures").glob("*.py")))
"""Programs with a function ``draw(path)``, one for each other picture."""
PROCESSES = multiprocessing.get_context("forkserver")
"""Each page has a process of its own for its Python, a copy of one that has everything imported."""
PROCESSES.set_forkserver_preload(["tests.helpers.doc_blocks", "accelsim.result", "matplotlib.figure"])


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its lines, the marker before it, and where its lines stand (from 0)."""

    language: str
    marker: str
    start: int
    end: int
    text: str

    @property
    def commands(self) -> list[str]:
        """Lines that call accelsim, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines() if self.language == "bash" else []
        return [line for line in lines if line.startswith("accelsim")]


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page."""
    lines = text.splitlines()
    opened: tuple[int, str] | None = None
    for index, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = (index, line[3:].strip())
            continue
        start, language = opened
        marker = re.fullmatch(r"<!-- (.*) -->", lines[start - 1]) if start else None
        yield Block(
            language, marker[1] if marker else "", start + 1, index, "\n".join(lines[start + 1 : index])
        )
        opened = None


@dataclass
class Page:
    """A page whose blocks are run in a directory of their own."""

    path: Path
    folder: Path
    printed: dict[str, str] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)

    def refreshed(self) -> str:
        """The text of the page with every output as it is now. Runs everything."""
        text = self.path.read_text(encoding="utf-8")
        lines, found = text.splitlines(), list(blocks(text))
        outputs = (block.marker.removeprefix("output: ").partition(" | ") for block in found)
        self.shown = {command for command, _, lines in outputs if not lines or ADVICE in lines}
        new = [self._meet(block) for block in found]
        spoken = iter(_run_python([block.text for block in found if block.language == "python"], self.folder))
        latest = ""
        for index, block in enumerate(found):
            if block.language == "python":
                latest = next(spoken)
            elif block.marker == "output: python":
                new[index] = latest.rstrip("\n")
        for block, replacement in reversed(list(zip(found, new, strict=True))):
            if replacement is not None:
                lines[block.start : block.end] = replacement.splitlines()
        return TABLE.sub(lambda found: f"{found[1]}{MADE[found[2]]()}\n", "\n".join(lines) + "\n")

    def _meet(self, block: Block) -> str | None:
        kind, _, rest = block.marker.partition(": ")
        if kind == "file":
            (self.folder / rest).write_text(block.text + "\n", encoding="utf-8")
        elif kind == "output" and rest != "python":
            command, _, ranges = rest.partition(" | ")
            return _chosen(self.run(command), ranges)
        elif block.marker != "not run":
            for command in block.commands:
                self.run(command, int(block.marker.removeprefix("exit ")) if kind.startswith("exit") else 0)
        return None

    def run(self, command: str, code: int | None = None) -> str:
        """What ``accelsim ...`` prints, run once per page; ``code``: the exit code that it must have."""
        if command not in self.printed:
            self.printed[command] = self._run(command, code)
        return self.printed[command]

    def _run(self, command: str, code: int | None) -> str:
        words = arguments(command)
        if words[0] == "run" and command not in self.shown and ">" not in words:
            words.append("--no-advice")  # many more simulations, which nobody reads here
        target = words.index(">") if ">" in words else len(words)
        with chdir(self.folder):
            result = CliRunner(env={"COLUMNS": COLUMNS}).invoke(main, words[:target])
            crashed = result.exception is not None and not isinstance(result.exception, SystemExit)
            if crashed or code not in (None, result.exit_code):
                raise AssertionError(
                    f"{self.path.name}: {command}\nexit code {result.exit_code}\n{result.output}"
                )
            if target < len(words):
                Path(words[target + 1]).write_text(result.output, encoding="utf-8")
        return result.output


def _arguments_of_run() -> str:
    """The arguments of ``accelsim.run`` as a table, in the words of their declaration."""
    lines = ["| argument | what it is |", "|---|---|"]
    for name, row in declared(Call).items():
        more = f" See [{row.page}]({row.page})." if row.page else ""
        text = CODE.sub(_as_code, row.text.replace("``", "`"))
        lines.append(f"| `{name}` | {text}{more} |")
    return "\n".join(lines)


def _as_code(found: re.Match[str]) -> str:
    """Python as Markdown has it; of a quoted command without the quotes."""
    text = found[0]
    return f"`{text[1:-1]}`" if text.startswith("'accelsim") else "`{}`".format(text.replace("'", '"'))


CODE = re.compile(r"\{.*?\}|\[.*?\]|(?<!\w)'[^']+'(?!\w)")
"""Python within a sentence: a dictionary, a list, a text."""
TABLE = re.compile(r"(<!-- made: (\w+) -->\n\n?)(?:\|.*\n)*")
MADE = {"arguments": _arguments_of_run}
"""Tables that are made -> the function that makes them."""


def arguments(command: str) -> list[str]:
    """The words behind 'accelsim', without a comment."""
    return shlex.split(command, comments=True)[1:]


def _chosen(output: str, ranges: str) -> str:
    """Lines of an output: '1..4, total, The run..¶' are lines 1 to 4, the one that begins so, a paragraph."""
    lines = [line.rstrip() for line in output.rstrip("\n").splitlines()]
    if not ranges:
        return "\n".join(lines)
    pieces, at = [], 0
    for text in ranges.split(", "):
        first, dots, last = text.partition("..")
        start = _line(lines, first, at)
        at = start + 1 if not dots else _end(lines, last, start)
        pieces.append("\n".join(lines[start:at]).rstrip())
    return f"\n{GAP}\n".join(pieces)


def _end(lines: list[str], name: str, start: int) -> int:
    """Index behind the last line of a range; ``¶`` is the end of the paragraph, '' that of everything."""
    if name == "¶":
        return next((index for index in range(start, len(lines)) if not lines[index]), len(lines))
    return _line(lines, name, start) + 1 if name else len(lines)


def _line(lines: list[str], name: str, start: int) -> int:
    """Index of line number ``name``, or of the first from ``start`` that begins with it."""
    if name.isdecimal():
        return int(name) - 1
    return next(index for index in range(start, len(lines)) if lines[index].strip().startswith(name))


def _run_python(sources: list[str], folder: Path) -> list[str]:
    """What each block prints; they share their names, and a process of their own."""
    if not sources:
        return []
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_speak, args=(sources, folder, there))
    process.start()
    there.close()
    outputs: list[str] | str = here.recv()
    process.join()
    if isinstance(outputs, str):
        raise AssertionError(f"a Python block fails:\n{outputs}")
    return outputs


def _speak(sources: list[str], folder: Path, there: Connection) -> None:
    """Send what each block prints, or the traceback of the one that fails. Warnings are errors."""
    os.environ["COLUMNS"] = COLUMNS
    os.chdir(folder)
    warnings.simplefilter("error")
    outputs, scope = [], {"__name__": "__docs__"}
    try:
        for source in sources:
            text = io.StringIO()
            with redirect_stdout(text):
                exec(compile(source, "<block>", "exec"), scope)
            outputs.append(text.getvalue())
        there.send(outputs)
    except BaseException:
        there.send(traceback.format_exc())


def script(path: Path) -> ModuleType:
    """A program of docs/pictures as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_picture_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def picture(module: ModuleType, path: Path) -> Path:
    """The picture in docs/img that a program of docs/pictures draws: its ``FILE``, or its own name."""
    name: str = getattr(module, "FILE", path.stem.replace("_", "-") + ".png")
    return ROOT / "docs" / "img" / name


def draw() -> None:
    """Draw the pictures of the pages again. Takes a minute: some train networks."""
    import accelsim
    from accelsim.report.plot import draw as drawn
    from accelsim.report.style import save

    run = accelsim.run("resnet50", on="tpu-v1")
    for name in PICTURES:
        save(drawn(name, run), ROOT / "docs" / "img" / f"resnet50-tpu-v1-{name}.png")
    for path in SCRIPTS:
        module = script(path)
        module.draw(picture(module, path))


def rewrite() -> None:
    """Write every page again with the outputs of today."""
    for path in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            text = Page(path, Path(folder)).refreshed()
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    rewrite()
    draw()
