"""The command line. Each command lives in a module of its own, which is imported when the command is used."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any

import click

from accelsim import files
from accelsim.errors import AccelsimError
from accelsim.pause import rare_collection

COMMANDS = {
    "run": ("accelsim.cli.run", "simulate a model on a chip"),
    "plan": ("accelsim.cli.plan", "find the fastest plan to train a model on a cluster"),
    "rerun": ("accelsim.cli.rerun", "repeat a saved run and compare every figure"),
    "compare": ("accelsim.cli.compare", "put several runs side by side"),
    "report": ("accelsim.cli.report", "write one explorable page of saved runs"),
    "formats": ("accelsim.cli.formats", "list number formats, or show a number in one of them"),
    "quantize": ("accelsim.cli.quantize", "write a quantised ONNX model"),
    "accuracy": ("accelsim.cli.accuracy", "accuracy, latency and energy of a model in many number formats"),
    "train": ("accelsim.cli.train", "train a model, and report the cost of a step on a chip"),
    "chips": ("accelsim.cli.lists", "list the chips"),
    "clusters": ("accelsim.cli.clusters", "list the clusters; show the parts of one, and its routes"),
    "models": ("accelsim.cli.lists", "list the models"),
    "prices": ("accelsim.cli.prices", "list what instances cost, at whom and since when"),
    "rent-or-buy": ("accelsim.cli.rent_or_buy", "compare owned machines with rents, for some work"),
    "memories": ("accelsim.cli.lists", "list the memories that a chip may have"),
    "spec": ("accelsim.cli.spec", "show or check spec files"),
    "dram": ("accelsim.cli.dram", "replay accesses on one DRAM, compare DRAMs"),
    "sram": ("accelsim.cli.sram", "energy, time and area of an on-chip memory; bank conflicts"),
    "energy": ("accelsim.cli.energy", "energy per action of every node, memory and link"),
    "link": ("accelsim.cli.network", "time and bandwidth of a link by transfer size"),
    "noc": ("accelsim.cli.network", "latency and throughput of an on-chip network"),
    "collective": ("accelsim.cli.collective", "time and bandwidth of a collective on a cluster"),
    "batching": ("accelsim.cli.batching", "time per sample by batch size, transfers and computing"),
    "choose": ("accelsim.cli.choose", "choose the cheapest, fastest, thriftiest hardware within limits"),
    "serve": ("accelsim.cli.serve", "a service of a model under load: latencies, throughput, what limits it"),
    "sweep": ("accelsim.cli.sweep", "run thousands of points, keep them, find the front"),
    "study": ("accelsim.cli.saved", "questions over many chips: cost by year, batches, CPU or GPU, number formats"),
    "export-trace": ("accelsim.cli.export_trace", "write a trace for DRAMsim3, Ramulator 2 or DRAMPower"),
    "kernel": ("accelsim.cli.kernel", "time of single kernels on a GPU, with intervals"),
    "calibrate": ("accelsim.cli.calibrate", "fit the constants of a chip to measured kernels"),
    "measure": ("accelsim.cli.measure", "time kernels of PyTorch on a GPU of this machine"),
    "lesson": ("accelsim.cli.lesson", "lessons that check themselves: start, check, hint, grade"),
    "array": ("accelsim.cli.array", "time and count one matrix product on a systolic array"),
    "validate": ("accelsim.cli.validate", "compare with hardware models, other simulators and published figures"),
}
"""Command -> module that holds it under its own name, and what it does."""

SECTIONS = {
    "Run a model on a chip": (
        "run",
        "plan",
        "rerun",
        "compare",
        "report",
        "batching",
        "serve",
        "choose",
        "sweep",
        "study",
        "rent-or-buy",
    ),
    "Numbers and training": ("formats", "quantize", "accuracy", "train"),
    "One part alone": ("kernel", "array", "dram", "sram", "link", "noc", "collective", "energy"),
    "Lists and specs": ("chips", "clusters", "models", "memories", "prices", "spec"),
    "Learn and teach": ("lesson",),
    "Measured hardware and other tools": ("validate", "measure", "calibrate", "export-trace"),
}
"""Sections of the help, and their commands; what is in none comes last."""

BAD_INPUT, FAILED, INTERNAL, UNWRITTEN = 2, 1, 70, 74
"""Exit codes: the user's input is wrong; a check that was asked for does not hold, or no memory left; a fault of
accelsim itself, stdout takes no more (EX_SOFTWARE and EX_IOERR of sysexits.h)."""

REPORT = """\
This is a fault of accelsim, not of your input. Please report it: send the maintainers the text above, the whole
command, the files that it reads and the output of 'accelsim --version'."""

ENDING = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "terminated"}
"""Signals that end a command, with what was half made removed, and what is said; the exit code is 128 + number."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Why stdout may take no more; EBADF: it is closed."""


class Stopped(BaseException):
    """A signal ended the command. Not KeyboardInterrupt: after one that passed through ``exec`` (many libraries use it)
    the interpreter ignores the exit code."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let the signals of ``ENDING`` raise ``Stopped`` inside the block, unless others handle them.

    So they do where a library has made an error of its own of that, as pydantic does of what its callbacks raise.
    """
    before, stopped = {}, list[int]()
    if threading.current_thread() is threading.main_thread():
        handlers = {
            getattr(signal, name): signal.getsignal(getattr(signal, name)) for name in ENDING if hasattr(signal, name)
        }
        usual = (signal.SIG_DFL, signal.default_int_handler)
        before = {number: handler for number, handler in handlers.items() if handler in usual}

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        raise Stopped(number)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except Exception as error:
        if stopped:
            raise Stopped(stopped[0]) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def open_streams() -> None:
    """Open the null device for each standard stream that the caller has closed, so that no file takes its place.

    That of stdout is open for reading only: what is printed then fails as it does on the closed stream. What stdout
    cannot encode (a byte of a file name that is no UTF-8) it shows as JSON and Python write it: '\\udcff'.
    """
    for name, access in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            stream = os.fdopen(os.open(os.devnull, access), "r" if name == "stdin" else "w", encoding="utf-8")
            setattr(sys, name, stream)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Let the null device take what stdout still holds, which the interpreter would try to write as it ends."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _nobody_reads() -> click.exceptions.Exit:
    """The end of a command whose output is read no further; click would exit with 1."""
    abandon_stdout()
    return click.exceptions.Exit(UNWRITTEN)


class Commands(click.Group):
    """A group that imports its commands when they are used, and ends without a traceback on bad input."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as click does, with all three standard streams; one line where stdout takes no more."""
        open_streams()
        atexit.register(gc.freeze)  # else the end of the process would look for garbage in all that is left
        try:
            with rare_collection():
                return super().main(*args, **kwargs)
        except OSError as error:
            if error.filename is not None or error.errno not in FULL:
                raise
            abandon_stdout()
            click.echo(f"error: the output cannot be written: {error.strerror}", err=True)
            sys.exit(UNWRITTEN)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line as click does, and end quietly where the reader of its help has closed the pipe."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise _nobody_reads() from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of a name; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name.replace("-", "_"))
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command as click does, with the nearest command in the error text."""
        from accelsim.errors import nearest

        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = nearest(args[0], COMMANDS)
            hint = f"; did you mean {near!r}?" if near else ""
            ctx.fail(f"no command {args[0]!r}; there are {', '.join(COMMANDS)}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section, without importing any of them."""
        known = [name for names in SECTIONS.values() for name in names]
        sections = {**SECTIONS, "Other commands": tuple(name for name in COMMANDS if name not in known)}
        for title, names in sections.items():
            rows = [(name, COMMANDS[name][1]) for name in names if name in COMMANDS]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=14)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors become one line each on stderr and an exit code; what no input may cause is told with
        a traceback as a fault of accelsim."""
        try:
            return self._invoke(ctx)
        except BrokenPipeError:
            raise _nobody_reads() from None
        except (click.ClickException, click.exceptions.Exit, click.Abort, OSError):
            raise
        except Exception as error:
            import traceback

            traceback.print_exception(error)
            click.echo(f"internal error: {type(error).__name__}: {error}\n{REPORT}", err=True)
            raise click.exceptions.Exit(INTERNAL) from None

    def _invoke(self, ctx: click.Context) -> object:
        files.forget()
        try:
            with ended_by_signals():
                return super().invoke(ctx)
        except AccelsimError as error:
            for problem in error.problems:
                click.echo(f"error: {problem}", err=True)
            raise click.exceptions.Exit(BAD_INPUT) from None
        except Stopped as stop:
            found = ", ".join(map(str, files.written())) or "nothing"
            word = ENDING[signal.Signals(stop.number).name]
            click.echo(f"{word}; {found} was written", err=True)
            raise click.exceptions.Exit(128 + stop.number) from None
        except MemoryError:
            click.echo(
                "error: out of memory; ask for less: a smaller batch, model, trace or network, a run with --values off",
                err=True,
            )
            raise click.exceptions.Exit(FAILED) from None


def _version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        import accelsim

        click.echo(f"accelsim {accelsim.__version__}")
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: accelsim run resnet50 --on tpu-v1 --out reports/resnet50-tpu-v1",
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version and exit."
)
def main() -> None:
    """Simulate AI accelerators: values, seconds, joules and where they go.

    Exit code 0: done; 1: a check that was asked for does not hold; 2: the input is wrong; 74: stdout takes no
    more; 130: interrupted; 143: ended by SIGTERM.
    """
