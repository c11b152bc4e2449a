"""Checks of a question: all that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accelsim.errors import AccelsimError, Gather, UsageError
from accelsim.explore.choose.candidates import EVERY, offered, places
from accelsim.explore.choose.question import UNITS, Question
from accelsim.formats import table
from accelsim.limits import read_limits
from accelsim.spec.yaml.instances import Offer


def checked(question: Question) -> list[Offer]:
    """Return the offers of a question. Raises UsageError or ModelError with all that is wrong with it: model, limits,
    objective, formats, chips, providers, prices."""
    gather = Gather()
    with gather.also():
        question.check()
    for name in question.dtypes:
        with gather.also():
            table.get(name.rpartition("x")[2] or name)
    if named := [name for name in question.on if name not in EVERY]:
        with gather.also():
            places(replace(question, on=named), ())
    return gather.read(lambda: offered(question))


def with_limits(question: Question, texts: Sequence[str]) -> Question:
    """Return a question with limits ('latency=10ms'). Raises UsageError with what is wrong with them and the rest."""
    try:
        return replace(question, limits=read_limits(texts, UNITS))
    except UsageError as error:
        problems = list(error.problems)
    try:
        checked(question)
    except AccelsimError as error:
        problems += error.problems
    raise UsageError(problems)
