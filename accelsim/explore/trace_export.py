"""Traces of DRAM accesses or commands in the formats of other simulators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from accelsim.dram.device import Device
from accelsim.dram.export import Accesses, Commands, access_text, command_text, scheduled
from accelsim.dram.saved_runs import read_saved
from accelsim.dram.trace_files import read_trace
from accelsim.dram.traces import NAMED, Trace, named
from accelsim.errors import ModelError, Problem, UsageError, nearest
from accelsim.files.reading import exists, is_folder
from accelsim.spec.dram import Dram
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram


class Source(NamedTuple):
    """A trace to export. ``dram``: name of the memory's spec, '' when unknown; ``outstanding`` as in a
    named trace; ``device``: the memory itself, where a saved run says all of it."""

    trace: Trace
    dram: str
    outstanding: int | None = None
    device: Device | None = None


def exported(
    source: str, form: Accesses | Commands, memory: str = "", dram: str = "", channel: int = 0
) -> Iterator[str]:
    """Return the text of a trace in the format of another simulator, in chunks.

    ``source``: the file of a saved run (or a directory that holds one), a text file of accesses, or a named trace;
    ``memory`` of a run that had several; ``dram``: name of the DRAM, '' for that of the run; ``channel``: whose
    commands. Raises UsageError and ModelError.
    """
    trace = _source(source, memory, dram)
    if isinstance(form, Accesses):
        return access_text(trace.trace, form)
    if not trace.dram and trace.device is None:
        raise UsageError("this format wants commands, which depend on the DRAM", "", "--on DRAM")
    device = trace.device or _device(trace.dram)
    return command_text(scheduled(trace.trace, device, trace.outstanding), device, form, channel)


def _source(source: str, memory: str, dram: str) -> Source:
    """Return the trace and the name of its DRAM; ``dram`` wins over what the file says."""
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
    return device(load_dram(dram))


def _made(path: Path, spec: Mapping[str, object]) -> Device:
    try:
        return device(Dram.model_validate(spec))
    except ValidationError as error:
        problems = [
            Problem(f"{'.'.join(map(str, each['loc']))}: {each['msg']}", f"{path}: the DRAM in it", "--on DRAM")
            for each in error.errors()
        ]
        raise ModelError(problems) from error
