"""Fenced blocks of the documentation: found, run in order, and their outputs written again.

What stands in the line before a fence says what a block is:

* ``<!-- file: NAME -->``: the block is a file that the commands below it use.
* ``<!-- not run -->``: commands that take too long or need what you do not have; they are only parsed.
* ``<!-- exit N -->``: the commands end with exit code N.
* ``<!-- output: COMMAND -->``: what the command prints, or with ``| 1..4, total`` only those of its lines.
* ``<!-- output: python -->``: what the Python block before it prints.
* ``<!-- made: NAME -->``, before a table: it is made by the function of ``MADE``.

``python -m tests.helpers.doc_blocks [PAGE ...] [--pictures]`` writes the outputs of these pages, or of all, again.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from click.testing import CliRunner

from tests.helpers.doc_cache import Shown, loaded, read, write
from tests.helpers.pictures import unpainted

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
COLUMNS = "100"
GAP = "..."
ADVICE = "What would"
"""How the paragraph about changes of the chip begins."""
PICTURES = ("latency", "roofline", "timeline")
"""Plots of ResNet-50 on TPU v1 that the pages show."""
SCRIPTS = tuple(sorted((ROOT / "docs" / "pictures").glob("*.py")))
"""Programs with a function ``draw(path)``, one for each other picture."""
PROCESSES = multiprocessing.get_context("spawn")
"""Each page has a process of its own, whose imports are those that its commands need and whose CPU time is counted."""


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
        yield Block(language, marker[1] if marker else "", start + 1, index, "\n".join(lines[start + 1 : index]))
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
        """Return what ``accelsim ...`` prints, run once per page; ``code``: the exit code that it must have."""
        if command not in self.printed:
            self.printed[command] = self._run(command, code)
        return self.printed[command]

    def _run(self, command: str, code: int | None) -> str:
        words = arguments(command)
        if words[0] == "run" and command not in self.shown and ">" not in words:
            words.append("--no-advice")  # many more simulations, which nobody reads here
        target = words.index(">") if ">" in words else len(words)
        from accelsim.cli import main

        with chdir(self.folder):
            result = CliRunner(env={"COLUMNS": COLUMNS}).invoke(main, words[:target])
            crashed = result.exception is not None and not isinstance(result.exception, SystemExit)
            if crashed or code not in (None, result.exit_code):
                raise AssertionError(f"{self.path.name}: {command}\nexit code {result.exit_code}\n{result.output}")
            if target < len(words):
                Path(words[target + 1]).write_text(result.output, encoding="utf-8")
        return result.output


TABLE = re.compile(r"(<!-- made: (\w+) -->\n\n?)(?:\|.*\n)*")


def _columns_of_layers() -> str:
    """The glossary of the layer table, from the meanings of its columns."""
    from accelsim.report.page.layers import HOW_TO_READ

    lines = ["| column | meaning |", "|---|---|"]
    for names, text in HOW_TO_READ:
        code = ", ".join(f"`{name}`" for name in names.split(", "))
        words = re.sub("'([^']+)'", r"`\1`", text)
        lines.append(f"| {code} | {words} |")
    return "\n".join(lines)


MADE = {"columns": _columns_of_layers}
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
    """Return what each block prints; they share their names. Warnings are errors."""
    outputs, scope = [], {"__name__": "__docs__"}
    sys.path.insert(0, str(folder))  # as of a script that lies there
    try:
        with chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("error")
            for source in sources:
                text = io.StringIO()
                with redirect_stdout(text):
                    exec(compile(source, "<block>", "exec"), scope)
                outputs.append(text.getvalue())
    finally:
        sys.path.remove(str(folder))
    return outputs


@dataclass(frozen=True)
class Checked:
    """A page as it reads with the outputs of now, and what these depend on."""

    text: str
    shown: Shown


def checked(path: Path) -> Checked:
    """Run a page in a process of its own. Raises AssertionError with the traceback of a block that fails."""
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_check, args=(path, os.environ.get("ACCELSIM_KERNEL"), there))
    process.start()
    there.close()
    found: Checked | str = here.recv()
    process.join()
    if isinstance(found, str):
        raise AssertionError(f"{path.name} cannot be run:\n{found}")
    return found


def _check(path: Path, kernel: str | None, there: Connection) -> None:
    """Send the page, or the traceback of what fails."""
    os.environ["COLUMNS"] = COLUMNS
    os.environ.pop("ACCELSIM_KERNEL", None)
    if kernel is not None:
        os.environ["ACCELSIM_KERNEL"] = kernel
    try:
        with tempfile.TemporaryDirectory() as folder, loaded() as folders, unpainted():
            text = Page(path, Path(folder)).refreshed()
        there.send(Checked(text, Shown.of(shown(text), folders)))
    except BaseException:
        there.send(traceback.format_exc())


def shown(text: str) -> list[str]:
    """Return what the outputs of a page's text are made of: each block with its language and marker."""
    return [f"{block.language}|{block.marker}|{block.text}" for block in blocks(text)]


def page_name(path: Path) -> str:
    """The name of a page in lists: 'docs/timing.md'."""
    return str(path.relative_to(ROOT))


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


def rewrite(paths: Sequence[Path]) -> None:
    """Write pages again with the outputs of today, and what they depend on."""
    for path in paths:
        page = checked(path)
        if page.text != path.read_text(encoding="utf-8"):
            path.write_text(page.text, encoding="utf-8")
            sys.stdout.write(f"{page_name(path)}\n")
        write({each: line for each, line in read().items() if (ROOT / each).exists()} | {page_name(path): page.shown})


def arguments_of_program() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.doc_blocks", description=rewrite.__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="README.md, docs/timing.md; default: all pages")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures of the pages again as well")
    asked = parser.parse_args()
    asked.pages = [path.resolve() for path in asked.pages] or list(PAGES)
    unknown = [str(path) for path in asked.pages if path not in PAGES]
    if unknown:
        parser.error(f"no page of the documentation: {', '.join(unknown)}")
    return asked


if __name__ == "__main__":
    asked = arguments_of_program()
    rewrite(asked.pages)
    if asked.pictures:
        draw()
