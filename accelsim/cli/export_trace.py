"""``accelsim export-trace``: a trace of DRAM accesses or commands in the format of another simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import OUT, check_file_target, option
from accelsim.errors import Gather, ModelError, Problem, UsageError, nearest
from accelsim.files.reading import exists, is_folder
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.dram.device import Device
    from accelsim.dram.export import Accesses, Commands
    from accelsim.dram.traces import Trace


class Source(NamedTuple):
    """A trace to export. ``dram``: name of the memory's spec, '' when unknown; ``outstanding`` as in a
    named trace; ``device``: the memory itself, where a saved run says all of it."""

    trace: Trace
    dram: str
    outstanding: int | None = None
    device: Device | None = None


@answers(
    "accelsim export-trace run.npz --format dramsim3 --memory dram --out run.trace",
    "accelsim export-trace stream3 --on ddr4-3200 --format ramulator2 --out stream3.trace",
    "accelsim export-trace run.npz --format drampower --channel 0 --out channel0.csv",
    outputs="",
    name="export-trace",
)
@click.argument("source", metavar="SOURCE")
@option("--format form", "dramsim3, ramulator2, drampower or drampower4.", required=True, metavar="NAME")
@option("--memory", "Which memory of the run, if it had several.", "", metavar="NAME")
@option(
    "--on dram",
    "The DRAM: needed for a named trace, and for commands unless the run's file names it.",
    "",
    metavar="DRAM",
)
@option("--channel", "Which channel's commands (drampower).", 0)
@option("--out", "The file to write; stdout without it.", type=OUT)
def export_trace(
    gather: Gather, source: str, form: str, memory: str, dram: str, channel: int, out: Path | None
) -> Answer:
    """Write a trace for DRAMsim3, Ramulator 2 or DRAMPower.

    SOURCE is the file that `accelsim run --save-trace` wrote (or a directory that holds one), a text file of accesses,
    or a named trace such as seq_read. DRAMsim3 and Ramulator 2 get the addresses; DRAMPower gets the commands that
    the bank-level model issues for them.
    """
    from accelsim.dram.export import format_named
    from accelsim.files import text

    gather.check(out, check_file_target, last=True)
    chosen = gather.read(lambda: format_named(form))
    chunks = _text(_source(source, memory, dram), chosen, channel)
    if out is not None:
        return Answer(None, other_files={out: text(chunks)})
    for chunk in chunks:
        click.echo(chunk, nl=False)
    return Answer(None)


def _source(source: str, memory: str, dram: str) -> Source:
    """The trace and the name of its DRAM; ``--on`` wins over what the file says."""
    from accelsim.dram.saved_runs import read_saved
    from accelsim.dram.trace_files import read_trace
    from accelsim.dram.traces import NAMED, named

    path = Path(source)
    if source in NAMED:
        if not dram:
            raise UsageError(f"{source!r} has no size of bursts by itself", "", "--on DRAM")
        return Source(named(source, _device(dram)), dram, NAMED[source].outstanding)
    if source and (is_folder(path) or path.suffix == ".npz"):
        saved = read_saved(path)
        name = saved.memory(memory)
        spec = None if dram else saved.spec(name)
        return Source(saved.traces[name], dram or saved.dram(name), None, _made(path, spec) if spec else None)
    if not source or not exists(path):
        expected = "a file, or one of " + ", ".join(NAMED)
        raise UsageError(f"no trace {source!r}", "", expected, nearest(source, NAMED))
    return Source(read_trace(path), dram)


def _device(dram: str) -> Device:
    from accelsim.spec.dram_device import device
    from accelsim.spec.yaml.load_dram import load_dram

    return device(load_dram(dram))


def _made(path: Path, spec: Mapping[str, Any]) -> Device:
    from pydantic import ValidationError

    from accelsim.spec.dram import Dram
    from accelsim.spec.dram_device import device

    try:
        return device(Dram.model_validate(spec))
    except ValidationError as error:
        problems = [
            Problem(f"{'.'.join(map(str, each['loc']))}: {each['msg']}", f"{path}: the DRAM in it", "--on DRAM")
            for each in error.errors()
        ]
        raise ModelError(problems) from error


def _text(source: Source, form: Accesses | Commands, channel: int) -> Iterator[str]:
    from accelsim.dram.export import Accesses, access_text, command_text, scheduled

    if isinstance(form, Accesses):
        return access_text(source.trace, form)
    if not source.dram and source.device is None:
        raise UsageError("this format wants commands, which depend on the DRAM", "", "--on DRAM")
    device = source.device or _device(source.dram)
    served = scheduled(source.trace, device, source.outstanding)
    return command_text(served, device, form, channel)
