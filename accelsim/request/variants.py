"""Several runs of one request: every chip with every combination of settings, and what tells each from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.errors import Gather, Infeasible
from accelsim.files.reading import exists
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.job import execute, prepare


class Variant(NamedTuple):
    """One run of several: the chip, the overrides, and what tells it apart from the others.

    ``swept``: (name in a table, value) of each field that has several values.
    """

    on: str
    set: tuple[str, ...]
    label: str
    swept: tuple[tuple[str, str], ...] = ()


class Simulated(NamedTuple):
    """A variant's run, or why it does not fit."""

    variant: Variant
    run: Run | None
    why: str = ""


def variants(chips: Sequence[str], overrides: Sequence[str]) -> list[Variant]:
    """Every chip with every combination of settings; a field that is set more than once takes each value in turn.

    ``chips``: names or files, or several with commas between them.
    """
    names = [name for text in chips for name in ([text] if exists(Path(text)) else text.split(","))]
    values: dict[str, list[str]] = {}
    for text in overrides:
        values.setdefault(text.partition("=")[0].strip(), []).append(text)
    found, tails = [], _tails([path for path, all_of in values.items() if len(all_of) > 1])
    for name, chosen in product(dict.fromkeys(part.strip() for part in names), product(*values.values())):
        settings = {path: text for path, text in zip(values, chosen, strict=True) if path in tails}
        swept = tuple((tails[path], text.partition("=")[2].strip()) for path, text in settings.items())
        found.append(Variant(name, chosen, " ".join([Path(name).stem, *settings.values()]), swept))
    return found


def _tails(paths: Sequence[str]) -> dict[str, str]:
    """The shortest end of each path that no other one has: 'rows' of 'matrix.rows'."""

    def ends(path: str) -> list[str]:
        parts = path.split(".")
        return [".".join(parts[start:]) for start in reversed(range(len(parts)))]

    taken = Counter(end for path in paths for end in ends(path))
    return {path: next((end for end in ends(path) if taken[end] == 1), path) for path in paths}


def simulated(
    gather: Gather, request: Request, chosen: Sequence[Variant], progress: Callable[[str, float], None]
) -> list[Simulated]:
    """Simulate each variant of a request; one that does not fit on its chip says so and stops none of the others.

    Raises all that ``gather`` holds, and all that is wrong with any of them.
    """
    jobs, found = [], []
    for variant in chosen:
        with gather.also():
            jobs.append(prepare(replace(request, on=variant.on, set=variant.set)))
    gather.done()
    for variant, job in zip(chosen, jobs, strict=True):
        progress(variant.label, 0.0)
        try:
            found.append(Simulated(variant, execute(job)))
        except Infeasible as error:
            found.append(Simulated(variant, None, str(error)))
    return found


def on_each(gather: Gather, chips: Sequence[str], **fields: Any) -> tuple[Run, ...]:
    """Simulate a request with these ``fields`` on each chip, without values.

    Raises all that ``gather`` holds, and all that a chip refuses.
    """
    jobs = []
    for chip in chips:
        with gather.also():
            jobs.append(prepare(Request(on=chip.strip(), values="off", **fields)))
    gather.done()
    return tuple(execute(job) for job in jobs)
