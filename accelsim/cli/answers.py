"""Commands that answer: their functions return an ``Answer``, which is shown, printed as JSON, or written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from accelsim import files
from accelsim.cli.common import OUT, check_folder, check_outputs, example, paragraphs, show, width
from accelsim.errors import AccelsimError, Gather

if TYPE_CHECKING:
    from accelsim.report.answer import Answer

Made = TypeVar("Made", bound=click.Command)

HELP = {
    "out": "Directory for the figures and the pictures.",
    "csv": "Write the table to this CSV file, with all digits.",
    "plot": "Draw the picture: FILE.png or FILE.svg.",
    "page": "Write a page to explore in a browser: FILE.html.",
    "json": "Print the figures as JSON, and nothing else, on stdout.",
}
"""Output of a command beside the text that it prints -> help of its option."""

PAGE = "report.html"
"""The file to open of a directory that holds one."""


def answers(
    *examples: str,
    outputs: str = "csv json",
    make: Callable[..., Any] = click.command,
    name: str | None = None,
    helps: Mapping[str, str] = MappingProxyType({}),
    **command: Any,
) -> Callable[[Callable[..., Answer | None]], Any]:
    """Turn a function into a click command (or what ``make`` makes) with these ``outputs``, keys of ``HELP``.

    The function takes a ``Gather`` first, which already holds what is wrong with the files to write, then its own
    options. It calls ``done`` when it has read these, and returns the answer. ``helps``: of outputs that are special.
    A function that takes ``out`` itself checks it itself, and names what is written there in ``Answer.other_files``.
    """

    names = outputs.split()

    def decorate(function: Callable[..., Answer | None]) -> Any:
        @wraps(function)
        def body(**asked: Any) -> None:
            wanted = {each: asked.pop(each) if each in names else None for each in HELP}
            if click.get_current_context().invoked_subcommand is not None:
                return
            gather = Gather()
            with gather.also(last=True):
                check_folder(wanted["out"])
            with gather.also(last=True):
                check_outputs(wanted["plot"], wanted["csv"], wanted["page"])
            answer = function(gather, **asked)
            if answer is not None:
                _give(answer, **wanted)

        own, body.__click_params__ = getattr(function, "__click_params__", []), []  # type: ignore[attr-defined]
        for each in reversed(names):
            kind = {"is_flag": True} if each == "json" else {"type": OUT}
            click.option(f"--{each}", help=helps.get(each, HELP[each]), **kind)(body)
        body.__click_params__ += own  # type: ignore[attr-defined]
        return make(name, epilog=example(*examples) if examples else None, **command)(body)

    return decorate


def _give(
    answer: Answer, out: Path | None, csv: Path | None, plot: Path | None, page: Path | None, json: bool | None
) -> None:
    """Write what was asked for, then print the answer; end as it says."""
    from accelsim.report.answer import Lines

    drawn, fails = None, answer.fails
    if plot is not None:
        try:
            drawn = answer.picture()
        except AccelsimError as error:  # told last: the answer says why
            plot, fails = None, error
    for text in answer.aside:
        click.echo(text if isinstance(text, Lines) else "\n" + paragraphs([text]), err=True)
    if out is not None:
        answer.write(out)
    for path, content in answer.other_files.items():
        if callable(content):
            files.write_file(path, content)
        else:
            files.write_folder(path, content)
    if csv is not None:
        files.write_file(csv, files.records(answer.table()))
    if plot is not None and drawn is not None:
        drawn.save(plot)
    if page is not None:
        from accelsim.report.page.points import points_page

        files.write_file(page, files.text(points_page(answer)))
    if json:
        click.echo(answer.json())
    else:
        for part in answer.shown:
            _show(part)
        others = [
            path / PAGE if not callable(content) and content.get(PAGE) else path
            for path, content in answer.other_files.items()
        ]
        if written := [str(path) for path in (out, *others, csv, plot, page) if path is not None]:
            click.echo("\n" * bool(answer.shown) + f"Written: {', '.join(written)}")
    if isinstance(fails, AccelsimError):
        raise fails
    if fails:
        raise click.exceptions.Exit(1)


def _show(part: Any) -> None:
    from accelsim.report.answer import Definitions, Lines, Table

    if isinstance(part, Table):
        drawn = part.shown(width())
        show(drawn)
        click.echo("".join(f"{line}\n" for line in part.legend_lines(drawn)), nl=False)
    elif isinstance(part, Definitions):
        click.echo(part.text(width()))
    elif callable(part):
        made = part(width())
        click.echo(made) if isinstance(made, str) else show(made)
    else:
        click.echo(part if isinstance(part, Lines) or not part else paragraphs([part]))
