"""Serving stacks by name: a file ``STACK-CHIP`` of ``serving/`` has the constants of a stack on a chip."""

from __future__ import annotations

from accelsim.errors import Problem, UsageError, nearest
from accelsim.spec.chip import Chip
from accelsim.spec.serving import Serving, merged
from accelsim.spec.yaml import where
from accelsim.spec.yaml.kept import kept_part

FOLDER = "serving"


def stacks() -> dict[str, list[str]]:
    """Return every stack with the chips that have constants of it."""
    found: dict[str, list[str]] = {}
    chips = sorted(where.names("chips"), key=len, reverse=True)
    for name in where.names(FOLDER):
        chip = next((chip for chip in chips if name.endswith(f"-{chip}")), "")
        if chip:
            found.setdefault(name.removesuffix(f"-{chip}"), []).append(chip)
    return found


def with_stack(chip: Chip, stack: str) -> Chip:
    """Return the chip with the kernels and the host of a stack; kernels that its file does not state remain those of
    the chip. Raises UsageError for a stack that is not known, or not on this chip or its die."""
    known = stacks()
    if stack not in known:
        raise UsageError(f"no serving stack {stack!r}", "stack", ", ".join(known), nearest(stack, known))
    changed = {}
    for kind, core in chip.cores.items():
        engines = {
            name: unit.model_copy(update={"serving": _of(chip, unit.serving, stack, known[stack])})
            for name, unit in core.engines.items()
            if hasattr(unit, "serving")
        }
        if engines:
            changed[kind] = core.model_copy(update={"engines": {**core.engines, **engines}})
    if not changed:
        raise UsageError(_missing(chip, stack, known[stack]))
    return chip.model_copy(update={"cores": {**chip.cores, **changed}})


def _of(chip: Chip, own: Serving | None, stack: str, known: list[str]) -> Serving:
    """The constants of a stack on a chip, else on that of its die."""
    name = next((name for name in (chip.name, own and own.device) if name in known), None)
    if name is None or own is None:
        raise UsageError(_missing(chip, stack, known))
    return merged(kept_part(f"{stack}-{name}", FOLDER, Serving), own)


def _missing(chip: Chip, stack: str, known: list[str]) -> Problem:
    return Problem(f"no constants of {stack} on {chip.name}", "stack", f"one of {', '.join(known)}")


def without_host(chip: Chip) -> tuple[Chip, float]:
    """Return the chip with a host that takes no time, and the time that it took for each kernel, s."""
    host_s, cores = 0.0, dict(chip.cores)
    for kind, core in chip.cores.items():
        for name, unit in core.engines.items():
            own: Serving | None = getattr(unit, "serving", None)
            if own is not None and own.host:
                host_s = float(own.host)
                bare = unit.model_copy(update={"serving": own.model_copy(update={"host": 0.0})})
                cores[kind] = core.model_copy(update={"engines": {**core.engines, name: bare}})
    return chip.model_copy(update={"cores": cores}), host_s
