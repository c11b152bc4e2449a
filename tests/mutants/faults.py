"""Where a source file can be made wrong by one small change, and the changed code of each such place.

The operators are those of the field (Jia and Harman, "An analysis and survey of the development of mutation testing",
IEEE TSE 2011, section II): a comparison, an arithmetic or logical operator replaced, a constant changed, a result or a
condition lost. Left out is what changes no behaviour that a test should hold: annotations, texts of errors, arguments
of decorators (``slots=True``), ``strict`` of zip, ``repr`` of a field, ``copy`` of an array, assertions (which hold).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
BLOCKS = (ast.If, ast.While, ast.For, ast.With, ast.FunctionDef, ast.ClassDef, ast.Try, ast.Match)
LEFT_OUT = frozenset({"annotation", "returns", "decorator_list", "type_params", "exc", "msg"})
"""Fields of nodes in which nothing is changed: types, decorators, texts of errors."""
WITHOUT_EFFECT = frozenset({"strict", "repr", "copy"})
"""Arguments by name that no result depends on."""


@dataclass(frozen=True)
class Fault:
    """One change: of which kind, in which lines of the file, how it read before and reads now, and the whole module."""

    kind: str
    lines: range
    before: str
    after: str
    tree: ast.Module


def count(source: str) -> int:
    """Return how many faults a file can have."""
    return sum(1 for _ in _places(ast.parse(source)))


def fault(source: str, index: int) -> Fault:
    """The fault of that number, from 0."""
    tree = ast.parse(source)
    place = next(place for at, place in enumerate(_places(tree)) if at == index)
    before = ast.unparse(place.shown)
    place.change()
    return Fault(place.kind, place.lines, before, ast.unparse(place.shown), ast.fix_missing_locations(tree))


@dataclass(frozen=True)
class _Place:
    kind: str
    lines: range
    shown: ast.AST
    change: Callable[[], None]


def _places(tree: ast.Module) -> Iterator[_Place]:
    for statement in (node for node in ast.walk(tree) if isinstance(node, ast.stmt)):
        end = statement.body[0].lineno if isinstance(statement, BLOCKS) and _body(statement) else None
        lines = range(statement.lineno, end or (statement.end_lineno or statement.lineno) + 1)
        for kind, change in _within(statement):
            yield _Place(kind, lines, _header(statement), change)


def _body(statement: ast.stmt) -> bool:
    return bool(getattr(statement, "body", None))


def _header(statement: ast.stmt) -> ast.AST:
    """Return what is shown of a statement: of one with a body only its condition, or what it goes through."""
    for name in ("test", "iter", "args"):
        if isinstance(statement, BLOCKS) and isinstance(getattr(statement, name, None), ast.AST):
            found: ast.AST = getattr(statement, name)
            return found
    return statement


def _within(statement: ast.stmt) -> Iterator[tuple[str, Callable[[], None]]]:
    """Changes of one statement, without those of the statements in it."""
    if isinstance(statement, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom) or _of_types_alone(statement):
        return
    if isinstance(statement, ast.If | ast.While):
        yield "condition", _set(statement, "test", ast.UnaryOp(ast.Not(), statement.test))
    if isinstance(statement, ast.Return) and statement.value is not None and not _is_none(statement.value):
        yield "result", _set(statement, "value", ast.Constant(None))
    if isinstance(statement, ast.AugAssign):
        yield "arithmetic", _set(statement, "op", ARITHMETIC.get(type(statement.op), ast.Sub)())
    for node in _expressions(statement):
        yield from _of(node)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in LEFT_OUT or (isinstance(node, ast.keyword) and node.arg in WITHOUT_EFFECT):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt | ast.JoinedStr):
                yield child
                yield from _expressions(child)


def _of(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            yield "comparison", _put(node.ops, at, COMPARISONS[type(operator)]())
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield "arithmetic", _set(node, "op", ARITHMETIC[type(node.op)]())
    if isinstance(node, ast.BoolOp):
        yield "logic", _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "logic", _set(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    if isinstance(node, ast.IfExp):
        yield "condition", _set(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = node.value
        yield "constant", _set(node, "value", not value if isinstance(value, bool) else value + 1)


def _set(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _put(items: list[ast.cmpop], at: int, value: ast.cmpop) -> Callable[[], None]:
    return lambda: items.__setitem__(at, value)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _of_types_alone(statement: ast.stmt) -> bool:
    """A union of types with a name (``Shape = Rows | None``), or imports for the type checker."""
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    value = getattr(statement, "value", None)
    union = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
    return isinstance(statement, ast.Assign) and statement.col_offset == 0 and union
