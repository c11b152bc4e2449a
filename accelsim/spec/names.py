"""Names that a spec may use: operators of the vector unit, number formats."""

from __future__ import annotations

import re

VECTOR_FUNCTIONS = (
    *(
        "Relu",
        "LeakyRelu",
        "Clip",
        "Sigmoid",
        "Tanh",
        "Gelu",
        "Erf",
        "Exp",
        "Sqrt",
        "Neg",
        "Abs",
        "Reciprocal",
    ),
    *("HardSwish", "HardSigmoid", "Silu", "Softplus", "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum"),
    *("Where", "MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization", "LRN", "Softmax"),
    *(
        "LogSoftmax",
        "LayerNormalization",
        "RMSNormalization",
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "Concat",
    ),
    *("Split", "Slice", "Gather", "Transpose", "Pad", "Expand", "Cast", "Bias"),
    *("Quantize", "Dequantize", "Requantize", "RequantizeShift"),
    *(
        "Log",
        "Elu",
        "Selu",
        "Softsign",
        "Mish",
        "PRelu",
        "Sign",
        "Sin",
        "Cos",
        "Floor",
        "Ceil",
        "Round",
        "Mean",
    ),
    *("GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "ReduceMin", "ReduceProd", "ReduceL1"),
    *("ReduceL2", "ReduceSumSquare", "ArgMax", "ArgMin", "And", "Or", "Xor", "Not", "Equal", "Less"),
    *("LessOrEqual", "Greater", "GreaterOrEqual", "DepthToSpace", "SpaceToDepth", "Tile", "Resize"),
)
"""Canonical names of the operators that a vector unit may know; a new operator is added here too."""

_FORMAT = re.compile(r"(int|uint|fp|bf)(\d+)(_e\d+m\d+\w*)?")


def format_bits(name: str) -> tuple[int, ...] | None:
    """Bits of each operand: ``int8`` -> (8,), ``int8xint16`` -> (8, 16); None for what is no format."""
    matches = [_FORMAT.fullmatch(part) for part in name.split("x")]
    return tuple(int(match[2]) for match in matches if match) if all(matches) else None
