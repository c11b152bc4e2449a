"""Einsum as transpositions, sums and batched matrix products, two operands at a time from the left."""

from __future__ import annotations

from math import prod

from accelsim.workload.graph import Node
from accelsim.workload.onnx.canonical.build import Chain
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, rule
from accelsim.workload.onnx.importing.read import RawNode

Term = tuple[str, str]
"""A tensor, and one letter per axis of it."""

_ELLIPSIS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@rule("Einsum")
def einsum(raw: RawNode, scope: Scope) -> list[Node]:
    """Einsum of float operands whose letters differ within each operand (a diagonal has no canonical form)."""
    chain = Chain(raw, scope)
    terms, result, size = _parsed(raw, scope)
    current = _summed(chain, terms[0], set("".join(letters for _, letters in terms[1:])) | set(result))
    for index, term in enumerate(terms[1:], 1):
        later = set("".join(letters for _, letters in terms[index + 1 :])) | set(result)
        term = _summed(chain, term, later | set(current[1]))
        current = _product(chain, current, term, later, size)
    name, letters = current
    perm = [letters.index(letter) for letter in result]
    chain.add("Transpose", name, to=raw.outputs[0], perm=perm)
    return chain.nodes


def _parsed(raw: RawNode, scope: Scope) -> tuple[list[Term], str, dict[str, int]]:
    """Operands, letters of the result, extent of each letter; axes of an ellipsis get letters A, B, ..."""
    left, arrow, right = raw.attrs["equation"].replace(" ", "").partition("->")
    terms, size, widest = [], dict[str, int](), ""
    if any(letter.isupper() for letter in left):
        raise Foreign
    for name, letters in zip(raw.inputs, left.split(","), strict=True):
        shape = scope.shape(name)
        hidden = _ELLIPSIS[len(_ELLIPSIS) - (len(shape) - len(letters) + 3) :] if "..." in letters else ""
        letters = letters.replace("...", hidden)
        floating = scope.tensors[name].dtype[:2] in ("fp", "bf")
        if len(letters) != len(shape) or len(set(letters)) != len(letters) or not floating:
            raise Foreign
        for letter, extent in zip(letters, shape, strict=True):
            if size.setdefault(letter, extent) != extent:
                raise Foreign  # broadcasting of axes of size 1
        terms.append((name, letters))
        widest = max(widest, hidden, key=len)
    if not arrow:
        flat = "".join(letters for _, letters in terms)
        right = "..." + "".join(sorted(letter for letter in set(flat) - set(widest) if flat.count(letter) == 1))
    return terms, right.replace("...", widest), size


def _summed(chain: Chain, term: Term, needed: set[str]) -> Term:
    """The term without the letters that nothing else needs."""
    name, letters = term
    axes = [index for index, letter in enumerate(letters) if letter not in needed]
    if not axes:
        return term
    kept = "".join(letter for letter in letters if letter in needed)
    return chain.add("ReduceSum", name, axes=axes, keepdims=0), kept


def _product(chain: Chain, a: Term, b: Term, later: set[str], size: dict[str, int]) -> Term:
    """One batched matrix product: letters of both that stay are its batch, those of both that go its inner axis."""
    batch = "".join(letter for letter in a[1] if letter in b[1] and letter in later)
    inner = "".join(letter for letter in a[1] if letter in b[1] and letter not in later)
    rows = "".join(letter for letter in a[1] if letter not in b[1])
    columns = "".join(letter for letter in b[1] if letter not in a[1])

    def extents(letters: str) -> list[int]:
        return [size[letter] for letter in letters]

    lead = extents(batch)
    left = _as(chain, a, batch + rows + inner, [*lead, prod(extents(rows)), prod(extents(inner))])
    right = _as(chain, b, batch + inner + columns, [*lead, prod(extents(inner)), prod(extents(columns))])
    y = chain.add("MatMul", left, right, a_zero_point=0, b_zero_point=0)
    letters = batch + rows + columns
    return chain.add("Reshape", y, shape=extents(letters)), letters


def _as(chain: Chain, term: Term, order: str, shape: list[int]) -> str:
    name, letters = term
    if letters != order:
        name = chain.add("Transpose", name, perm=[letters.index(letter) for letter in order])
    return chain.add("Reshape", name, shape=shape)
