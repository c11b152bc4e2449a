"""Parts that commands share: where tables and progress go, options that are NAME=VALUE, files that can be written."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from accelsim import files
from accelsim.digits import whole as whole_number
from accelsim.errors import Gather, Problem, UsageError, brief

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")
Command = Callable[..., Any]
"""The function of a command, or one that its options decorate."""
Decorated = TypeVar("Decorated", bound=Command)


class Number(click.FloatRange):
    """A range of numbers that refuses NaN, which click would accept since every comparison with it is false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raises BadParameter for what is none, or out of the range."""
        number = super().convert(value, param, ctx)
        return self.fail("nan is not a number.", param, ctx) if number != number else number


MOST_COUNTED = 1e18
"""The most of anything that an option may count, such as tokens."""


def large_count(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Read a whole number from 1 to 10^18, such as '300e9' or '1,000,000'; None stays. Raises BadParameter."""
    if value is None:
        return None
    try:
        number = float(value.replace(",", "").replace("_", ""))
    except ValueError:
        number = 0.0
    if not (1 <= number <= MOST_COUNTED and number == int(number)):
        raise click.BadParameter(f"{brief(value)}; expected a whole number from 1 to 1e18, such as 300e9")
    return int(number)


def count_or_all(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """Read a whole number from 1, or 'all' as None: a callback of options. Raises BadParameter."""
    if value == "all":
        return None
    number = whole(value)
    if number is None:
        raise click.BadParameter(f"{value!r} is neither a whole number from 1 nor 'all'.", ctx, param)
    return number


class _Named(click.Path):
    """A path that has a name: an empty text, which would mean the directory one is in, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            option = param.opts[0] if param else ""
            raise UsageError("an empty name", option, "the name of a file or directory")
        try:
            bad = "a name with a null byte" if b"\0" in os.fsencode(value) else ""
        except UnicodeEncodeError:
            bad = "a name that no file can have"
        if bad:
            option = param.opts[0] if param else ""
            raise UsageError(bad, option, "the name of a file or directory")
        return super().convert(value, param, ctx)


class Output(_Named):
    """A path that the command writes."""


FILE, OUT = _Named(path_type=Path), Output(path_type=Path)
"""The types of options that name a file or directory to read, and one to write."""
PICTURES = (".png", ".svg")
"""Endings of pictures."""
HELP = 80
"""Columns of examples in a help, whose indent is two."""
NO_TERMINAL = 100
"""Width of tables that go to a file or a pipe, characters."""


def width() -> int:
    """Return the characters per line of the terminal, or the environment variable COLUMNS."""
    return shutil.get_terminal_size((NO_TERMINAL, 24)).columns


def show(renderable: RenderableType, columns: int | None = None) -> None:
    """Print a table or text to stdout, as wide as the terminal at most."""
    from accelsim.report.table import render

    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    text = render(renderable, columns or width(), color)
    click.echo("\n".join(line.rstrip() for line in text.rstrip("\n").split("\n")), color=color)


def paragraphs(sentences: Sequence[str]) -> str:
    """Join sentences to one paragraph that fits the terminal."""
    return click.wrap_text(" ".join(sentences), min(width(), 110))


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr, only on a terminal, with the stage and its number of ``steps``; the value is called with a stage
    and the share of it that is done."""
    if not sys.stderr.isatty():
        yield lambda stage, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    looks = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*looks, console=Console(stderr=True), transient=True) as bar:
        task, begun = bar.add_task("start", total=steps), []

        def stage(name: str, share: float) -> None:
            begun.extend([] if name in begun else [name])
            text = f"{name}, {len(begun)} of {steps}" if steps > 1 else name
            bar.update(task, description=text, completed=len(begun) - 1 + share)

        yield stage


def counted(items: Sequence[T], what: Callable[[T], str]) -> Iterator[T]:
    """Yield items one after the other; on a terminal say on stderr ``what`` each is, and which of how many."""
    with progress(len(items)) as stage:
        for item in items:
            stage(what(item), 0.0)
            yield item


def pairs(option: str, texts: Sequence[str], read: Callable[[str], T | None], expected: str) -> dict[str, T]:
    """Read NAME=VALUE texts as a dictionary; ``read`` gives None for an invalid value. Raises UsageError with all."""
    problems, found = [], {}
    for text in texts:
        name, _, value = text.partition("=")
        result = read(value.strip())
        if not name.strip() or result is None:
            problems.append(Problem(f"{option} {text!r}", expected=f"NAME={expected}"))
        else:
            found[name.strip()] = result
    UsageError.raise_for(problems)
    return found


def whole_list(text: str) -> list[str]:
    """Split 'a, b' into ['a', 'b'], each once, without empty ones."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def whole(text: str) -> int | None:
    """Read a whole number from 1; None for anything else."""
    return whole_number(text) or None


def extents(text: str) -> tuple[int, ...] | None:
    """Read a shape: '1,3,224,224' as (1, 3, 224, 224), '()' as that of a scalar; None for anything else."""
    if text == "()":
        return ()
    sizes = [whole(part.strip()) for part in text.split(",")]
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def check_folder(out: Path | None, names: Iterable[str] = ()) -> None:
    """Raise UsageError, before a simulation, when files called ``names`` cannot go into the directory ``out``."""
    if out is not None:
        from accelsim.cli.inputs import refuse_inputs

        files.check_folder(out, names)
        for name in names:
            refuse_inputs(out / name, name, Output)


def check_report_target(target: Path) -> None:
    """Raise UsageError, before the simulation, where ``write_run`` would refuse the directory."""
    from accelsim.report.write import file_names, refuse_foreign

    refuse_foreign(target)
    check_folder(target, file_names())


def check_file_target(target: Path, suffixes: Sequence[str] = ()) -> None:
    """Raise UsageError where ``target`` cannot be written, is an input, or has none of the ``suffixes``."""
    from accelsim.cli.inputs import refuse_inputs

    problems = []
    if suffixes and target.suffix not in suffixes:
        expected = f"a file that ends in {' or '.join(suffixes)}"
        problems.append(Problem(f"ends in {target.suffix!r}", str(target), expected))
    try:
        files.check_file(target)
        refuse_inputs(target, "the output", Output)
    except UsageError as error:
        problems += error.problems
    UsageError.raise_for(problems)


def check_store(gather: Gather, store: Path) -> None:
    """Keep for later what is wrong with the place of a store of results; no other output may take it."""
    gather.check(store, files.check_file)
    given = click.get_current_context().params
    for name in ("csv", "plot", "page"):
        taken = given.get(name) is not None and os.path.realpath(given[name]) == os.path.realpath(store)
        gather.refuse(taken, f"--{name} is the store of the results", str(store), "another file")


def option(
    names: str, help: str, default: Any = None, *, least: int | None = None, **settings: Any
) -> Callable[[Decorated], Decorated]:
    """Return a click option; a default other than "" is shown; ``least``: the smallest whole number that it takes."""
    if least is not None:
        settings["type"] = click.IntRange(least)
    if default is not None:
        settings = {"default": default, "show_default": default != "", **settings}
    return click.option(*names.split(), help=help, **settings)


flag = partial(option, is_flag=True)
"""Returns a click option without a value."""


def add_options(options: Mapping[str, Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """Return what adds options to a command, in their order."""

    def add(command: Command) -> Command:
        for each in reversed([*options.values()]):
            command = each(command)
        return command

    return add


def set_option(of: str = "") -> Callable[[Decorated], Decorated]:
    """Return the option --set, whose values are called ``overrides``; ``of``: what it changes a field of."""
    return option("--set overrides", f"Change a field{of}. Repeatable.", multiple=True, metavar="PATH=VALUE")


def _also_png(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from accelsim.report.plot import also_png

        ctx.with_resource(also_png())


png_option = click.option(
    "--png",
    is_flag=True,
    expose_value=False,
    callback=_also_png,
    help="Draw the pictures of the report as PNG too, beside SVG.",
)


def check_outputs(plot: Path | None = None, table: Path | None = None, page: Path | None = None) -> None:
    """Raise UsageError, before the work, with all that is wrong with the files of --plot, --csv and --page."""
    gather = Gather()
    for target, suffixes in ((plot, PICTURES), (table, ()), (page, (".html",))):
        with gather.also():
            if target is not None:
                check_file_target(target, suffixes)
    gather.done()


def example(*lines: str) -> str:
    """Return the examples at the end of a command's help, in lines of at most 80 columns."""
    told = ["Example:" if len(lines) == 1 else "Examples:"]
    for line in lines:
        first, *rest = line.split(" --")
        told.append(f"    {first}")
        for option in rest:
            if len(told[-1]) + len(" --") + len(option) + len(" \\") > HELP:
                told[-1] += " \\"
                told.append("       ")
            told[-1] += f" --{option}"
    return "\b\n" + "\n".join(line.removeprefix("  ") for line in told)
