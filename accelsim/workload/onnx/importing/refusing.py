"""Errors of rules that read a node of a file: what such a rule raises becomes an error that names the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Tensor

RAISED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError, ValueError,
)  # fmt: skip
"""Errors that canonicalisers, shape rules and kernels raise on a node that breaks the definition of its op."""


@contextmanager
def refusing(op: str, name: str, ins: Iterable[Tensor | None]) -> Iterator[None]:
    """Raise ModelError naming the node for what the block raises about it; errors of accelsim pass."""
    try:
        yield
    except RAISED as error:
        given = ", ".join("nothing" if tensor is None else f"{tensor.name} {list(tensor.shape)}" for tensor in ins)
        what = f"{op} cannot take {given or 'no inputs'}: {_said(error)}"
        raise ModelError(what, name, f"a node as ONNX defines {op}") from error


def _said(error: BaseException) -> str:
    """Return what the exception says, with its type where that alone would not be understood."""
    text = " ".join(str(error).split())
    plain = isinstance(error, (ValueError, RuntimeError)) and text
    return text if plain else f"{type(error).__name__} {text}".rstrip()


@contextmanager
def located(path: str | Path) -> Iterator[None]:
    """Problems of ModelErrors in the block name the file."""
    try:
        yield
    except ModelError as error:
        problems = [_in_file(problem, str(path)) for problem in error.problems]
        raise ModelError(problems) from error


def _in_file(problem: Problem, path: str) -> Problem:
    if problem.where.startswith(path):
        return problem
    where = f"{path}: {problem.where}" if problem.where else path
    return Problem(problem.what, where, problem.expected, problem.nearest)
