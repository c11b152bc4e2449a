"""Element types of ONNX and the forms of its ops, as the operator schemas of the ``onnx`` package define them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

FORMATS = {
    1: "fp32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
    9: "bool", 10: "fp16", 11: "fp64", 12: "uint32", 13: "uint64", 16: "bf16", 17: "fp8_e4m3fn", 18: "fp8_e4m3fnuz",
    19: "fp8_e5m2", 20: "fp8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "fp4_e2m1fn", 24: "e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
"""ONNX element type number (TensorProto.DataType) -> format of a tensor."""


@dataclass(frozen=True)
class Form:
    """Properties of nodes by the definition of their op.

    ``inputs``, ``outputs``: least and most of them; ``needed``: inputs that may not be absent; ``attributes``: name ->
    (type number, required). ``kinds``: of each input the name of the type that it shares with others and the formats
    that it may have; the last one is for all that follow where ``variadic``.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: frozenset[int]
    attributes: dict[str, tuple[int, bool]]
    kinds: tuple[tuple[str, frozenset[str]], ...]
    variadic: bool

    def kind(self, index: int) -> tuple[str, frozenset[str]] | None:
        """Type name and formats of input ``index``; None where nothing is said."""
        if index < len(self.kinds):
            return self.kinds[index]
        return self.kinds[-1] if self.kinds and self.variadic else None


@cache
def form_of(op: str, version: int, domain: str) -> Form | None:
    """The form of an op in a version of its operator set; None when ONNX does not define it."""
    from onnx import defs

    if not 0 < version < 2**31 or not defs.has(op, version, domain):
        return None
    schema: Any = defs.get_schema(op, version, domain)
    if schema.deprecated:
        return None
    allowed = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
    single = defs.OpSchema.FormalParameterOption.Single
    last = schema.inputs[-1] if schema.inputs else None
    variadic = last is not None and last.option == defs.OpSchema.FormalParameterOption.Variadic
    return Form(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        frozenset(index for index, item in enumerate(schema.inputs) if item.option == single),
        {name: (int(item.type.value), bool(item.required)) for name, item in schema.attributes.items()},
        tuple(
            (item.type_str if item.is_homogeneous else "", _formats(allowed.get(item.type_str) or [item.type_str]))
            for item in schema.inputs
        ),
        variadic,
    )


_TYPE_NAMES = {
    "float": "fp32",
    "double": "fp64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float4e2m1": "fp4_e2m1fn",
    "float8e8m0": "e8m0",
    **{f"float8{kind}": f"fp8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
}


def _formats(types: Iterable[str]) -> frozenset[str]:
    """'tensor(float)' -> fp32; sequences and maps have none."""
    names = (text[len("tensor(") : -1] for text in types if text.startswith("tensor("))
    return frozenset(_TYPE_NAMES.get(name, name) for name in names)
