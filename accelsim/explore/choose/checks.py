"""Checks of a question: all that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accelsim.errors import AccelsimError, Gather, UsageError
from accelsim.explore.choose.candidates import EVERY, offered, places
from accelsim.explore.choose.question import UNITS, Question
from accelsim.explore.choose.services import load_of
from accelsim.explore.choose.work import sizes_of
from accelsim.formats import table
from accelsim.limits import read_limits
from accelsim.spec.yaml.instances import Offer
from accelsim.workload.sources.load import generation_of


def checked(question: Question) -> list[Offer]:
    """Return the offers of a question. Raises UsageError or ModelError with all that is wrong with it: model, limits,
    objective, formats, chips, providers, prices."""
    if question.load and question.train:
        raise UsageError("--load with --train", "", "one of them")
    gather = Gather()
    with gather.also():
        question.check()
    if question.load:
        with gather.also():
            load_of(question)
        decoder = sizes_of(question.model) is not None and generation_of(question.model) is None
        gather.refuse(not decoder, question.model, "--load", "a decoder by its name, such as llama3-8b, and --lengths")
        gather.refuse(
            question.batch, "--batch with --load", "", "--scheduler vllm:most=64, the most requests of a step"
        )
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
