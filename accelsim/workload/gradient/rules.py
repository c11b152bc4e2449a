"""The registry of gradient rules: op -> how the gradients of its results become those of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.graph import Node
from accelsim.workload.ops import REGISTRY

Gradients = list[Value | None]
Rule = Callable[[Context, Node, Gradients], Gradients]
"""``rule(ctx, node, grads)``: ``grads`` has one entry per output of ``node`` (None: nothing flows back through
it, at least one is a value); the result has one per input (None: no gradient), each of the shape of that input.
"""

Formula = Callable[..., Gradients]
"""``formula(node, g, y, *inputs)``: the rule of an op of one result (of several: the first), from the gradient ``g`` of
the result, the result ``y`` and the inputs; absent inputs are false.
"""

RULES: dict[str, Rule] = {op.name: op.gradient for op in REGISTRY.values() if callable(op.gradient)}
"""Op -> its rule: that of its row, or one of this package."""

_DISCRETE = "its result is a truth value or an index"
_WHOLE = "it works on integers"
_FLAT = "its result is constant between steps, so its gradient is zero almost everywhere"
_CODES = "it works on integer codes; FakeQuantize is the form that can be trained"
_SECOND = "it is the gradient of a choice itself; only first derivatives go through it"

ENDS: dict[str, str] = {
    **dict.fromkeys(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"), _DISCRETE),
    **dict.fromkeys(("And", "Or", "Xor", "Not", "IsNaN", "IsInf", "ArgMax", "ArgMin"), _DISCRETE),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"), _WHOLE),
    **dict.fromkeys(("Sign", "Floor", "Ceil", "Round"), _FLAT),
}
"""Ops through which nothing flows back, with the reason: the gradient of their inputs is zero."""

REFUSED: dict[str, str] = {
    **dict.fromkeys(("Quantize", "DynamicQuantizeLinear", "Dequantize", "Requantize", "RequantizeShift"), _CODES),
    **dict.fromkeys(("MaxPoolGrad", "FakeQuantizeGrad", "AttentionGrad"), _SECOND),
    "GridSample": "it has no rule",
    "Append": "it writes into a state, which keeps no earlier values",
    "BitCast": "it reads the bits of a number as another one",
    **{op.name: op.gradient for op in REGISTRY.values() if isinstance(op.gradient, str)},
}
"""Ops on whose way a gradient is refused, with the reason: silently giving zero would hide a mistake."""

NOT_DIFFERENTIABLE: dict[str, str] = {**ENDS, **REFUSED}
"""Every op of the registry without a rule, with the reason."""


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for ``ops``; a second rule for one is an error."""

    def add(function: Rule) -> Rule:
        for op in ops:
            if op in RULES:
                raise ValueError(f"op {op!r} has two gradient rules")
            RULES[op] = function
        return function

    return add


def formula(*ops: str) -> Callable[[Formula], Formula]:
    """Register the rule of ``ops`` as a formula."""

    def add(function: Formula) -> Formula:
        def apply(ctx: Context, node: Node, grads: Gradients) -> Gradients:
            g = grads[0]
            assert g is not None, "a rule runs only where a gradient arrives"
            return function(node, g, ctx.value(node.outputs[0]), *ctx.inputs(node))

        rule(*ops)(apply)
        return function

    return add


def formulas(table: Mapping[str, Formula]) -> None:
    """Register op -> formula."""
    for op, function in table.items():
        formula(op)(function)
