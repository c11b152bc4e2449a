"""Schedulers by name, and texts that name one with its settings: 'vllm:budget=2048,most=64'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import NamedTuple, get_args, get_type_hints

from accelsim.errors import Problem, UsageError, nearest
from accelsim.serving.blocks import Groups, Pool
from accelsim.serving.schedulers.base import Scheduler
from accelsim.serving.schedulers.sarathi import Sarathi
from accelsim.serving.schedulers.sglang import Sglang
from accelsim.serving.schedulers.static import Static
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.schedulers.vllm_v0 import VllmV0

SCHEDULERS: dict[str, type[Scheduler]] = {
    "vllm": Vllm, "vllm-v0": VllmV0, "sarathi": Sarathi, "sglang": Sglang, "static": Static,
}  # fmt: skip
"""Schedulers by name."""
Setting = int | float | bool | str
"""Value of a setting."""
PER_GROUP = ("budget", "most")
"""Settings that limit what a step computes."""
WORDS = {"yes": True, "no": False}


class Policy(NamedTuple):
    """A scheduler and all its settings."""

    kind: type[Scheduler]
    settings: Mapping[str, Setting]

    @property
    def largest(self) -> int:
        """Most tokens of a step."""
        return int(self.settings[self.kind.LARGEST])

    def together(self, groups: int) -> Policy:
        """Return the policy of so many groups of devices that have the settings each, and one queue."""
        each = {name: value for name, value in self.settings.items() if name in {*PER_GROUP, self.kind.LARGEST}}
        return self._replace(settings={**self.settings, **{name: groups * value for name, value in each.items()}})

    def pool(self, blocks: int, shared: bool, groups: Groups = Groups()) -> Pool:  # noqa: B008 - a tuple
        """Return new room of so many blocks. ``shared``: some prompts share prefixes; ``groups``: of layers."""
        kind = self.kind.CACHE if shared and self.settings.get("cache") else Pool
        return kind(blocks, self.kind.PAGE, groups)

    def made(self, pool: Pool) -> Scheduler:
        """Return a new scheduler of this kind."""
        return self.kind(pool, **self.settings)


def settings_of(kind: type[Scheduler]) -> dict[str, Parameter]:
    """Return the settings of a scheduler by name: keywords of its constructor, with their defaults and types."""
    types = get_type_hints(kind.__init__)
    own = [*signature(kind.__init__).parameters.values()][2:]
    return {each.name: each.replace(annotation=types[each.name]) for each in own}


def read_scheduler(text: str) -> Policy:
    """Return the scheduler of a text: 'vllm', 'sarathi:chunk=256,most=64'. Raises UsageError with all problems."""
    name, _, rest = text.partition(":")
    if name not in SCHEDULERS:
        what = f"no scheduler {name!r} for language models"
        raise UsageError(what, WHERE, f"one of {', '.join(SCHEDULERS)}", nearest(name, SCHEDULERS))
    known = settings_of(SCHEDULERS[name])
    found: dict[str, Setting] = {key: each.default for key, each in known.items()}
    problems = []
    for part in filter(None, rest.split(",")):
        key, _, value = (each.strip() for each in part.partition("="))
        if key not in known:
            problems.append(Problem(f"{name} has no {key!r}", WHERE, f"one of {', '.join(known)}", nearest(key, known)))
            continue
        read, expected = _reader(known[key])
        try:
            found[key] = read(value)
        except (ValueError, KeyError):
            problems.append(Problem(f"{part!r}", WHERE, f"{expected}, such as {key}={_word(known[key].default)}"))
    UsageError.raise_for(problems)
    return Policy(SCHEDULERS[name], found)


WHERE = "--scheduler"


def _word(value: Setting) -> str:
    return str(value) if value not in (True, False) or not isinstance(value, bool) else "yes" if value else "no"


def _reader(setting: Parameter) -> tuple[Callable[[str], Setting], str]:
    """Return what reads a setting, and what it expects."""
    if setting.annotation is bool:
        return WORDS.__getitem__, "yes or no"
    if setting.annotation is int:
        least = min(1, setting.default)
        return lambda text: _at_least(int(text), least), f"a whole number of at least {least}"
    if setting.annotation is float:
        return lambda text: _at_least(float(text), 0), "a number of at least 0"
    names = {each: each for each in get_args(setting.annotation)}
    return names.__getitem__, f"one of {', '.join(names)}"


def _at_least(value: float, least: int) -> Setting:
    if not least <= value < float("inf"):
        raise ValueError
    return value
