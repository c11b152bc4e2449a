"""``accelsim run`` on chips: one run, several side by side, or a prompt and the tokens after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.cli.common import check_file_target, check_report_target, progress
from accelsim.cli.options import read
from accelsim.errors import Gather
from accelsim.report.answer import Answer
from accelsim.request.fields import OPTIONS

if TYPE_CHECKING:
    from accelsim.request import Request

    Calls = tuple[str, dict[str, int], int, int] | tuple[()]
    Single = dict[str, object]

SEVERAL, ONE = "several --on or --set", "one --on and one value of each --set"


def answer(
    gather: Gather,
    out: Path | None,
    save_mapping: Path | None,
    save_trace: Path | None,
    check: bool,
    no_advice: bool,
    layers: int | None,
    **asked: Any,
) -> Answer:
    """Simulate what the options ask for. Raises all problems at once."""
    from accelsim.report import run as said
    from accelsim.request import Request
    from accelsim.request.variants import simulated, variants
    from accelsim.workload.sources.load import generation_of

    chosen = variants(asked["on"], asked["set"])
    fields = {name: value for name, value in asked.items() if name in OPTIONS}
    request = Request(**read(fields | {"on": chosen[0].on, "set": chosen[0].set}, gather))
    single = {"--check": check, "--save-mapping": save_mapping, "--save-trace": save_trace}
    calls: Calls | None = ()
    with gather.also():
        calls = generation_of(str(request.model), request.param)
    if calls is not None:
        return _generation(gather, request, calls, {**single, SEVERAL: len(chosen) > 1}, out)
    gather.check(out, check_report_target)
    gather.check(save_mapping, check_file_target)
    gather.check(save_trace, check_file_target, lambda file: _check_trace(file, request.memory_model))
    blind = check and request.values == "off"
    gather.refuse(blind, "--check with --values off", "", "exact or fast, which compute something")
    if len(chosen) > 1:
        for option, given in single.items():
            gather.refuse(given, f"{option} with several runs", "", ONE)
        with progress(len(chosen)) as stage:
            return said.several(simulated(gather, request, chosen, stage), out)
    files = (out, save_mapping, save_trace)
    with progress(3 + (not no_advice) + check + (out is not None)) as stage:
        return said.one(gather, request, chosen[0], stage, check, not no_advice, layers, *files)


def _check_trace(file: Path, memory_model: str) -> None:
    from accelsim.machine.save_accesses import check_accesses_file

    check_accesses_file(file, memory_model)


def _generation(gather: Gather, request: Request, calls: Calls, single: Single, out: Path | None) -> Answer:
    """A prompt and new tokens; ``calls``: () where they could not be read; ``single``: options of one call."""
    from accelsim.report import generation_report as said

    for option, given in single.items() if calls else ():
        what, instead = f"{option} with prompt and new, which are several runs", said.single_calls(*calls)
        gather.refuse(given, what, "", ONE if option == SEVERAL else instead)
    gather.check(out, said.check_target)
    gather.done()
    with progress(1) as stage:
        return said.answer(request, out, lambda share: stage("simulate", share))
