"""The rows of all operators, by name: which module registers each, and which families there are."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, TypeVar

FAMILIES = (
    "activations", "other_activations", "arithmetic", "powers", "trigonometry", "rounding", "comparisons", "logic",
    "bits", "pooling", "normalisations", "softmaxes", "reductions", "ranking", "scans", "moves", "blocks", "indexing",
    "sampling", "conversions", "quantisation", "training",
)  # fmt: skip
"""Families of operators, in the order in which they are listed."""
MODULES = {
    "alias": "Reshape Flatten Squeeze Unsqueeze Dropout Identity",
    "binary": "Add Sub Mul Div Pow PRelu BitwiseAnd BitwiseOr BitwiseXor Mod BitShift Equal Less LessOrEqual Greater "
    "GreaterOrEqual And Or Xor Min Max Sum Mean Where",
    "conv": "Conv",
    "elementwise": "BitwiseNot IsNaN IsInf Cast",
    "experts": "TopKGating ExpertMatMul",
    "gradients": "MaxPoolGrad GatherGrad AttentionGrad FakeQuantize FakeQuantizeGrad",
    "index": "GatherElements GatherND ScatterElements ScatterND OneHot Trilu TopK CumSum CumProd",
    "matmul": "MatMul Gemm",
    "move": "Concat Append Split Slice Gather Transpose Pad Expand Tile BitCast DepthToSpace SpaceToDepth",
    "normalise": "BatchNormalization LRN Softmax LogSoftmax LayerNormalization InstanceNormalization "
    "GroupNormalization RMSNormalization",
    "reduce": "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ArgMax ArgMin",
    "pool": "LpPool MaxPool AveragePool GlobalAveragePool GlobalMaxPool",
    "quantise": "Quantize DynamicQuantizeLinear Requantize RequantizeShift Dequantize Bias",
    "resize": "Resize",
    "sample": "GridSample",
    "unary": "Relu LeakyRelu Clip Sigmoid Tanh Gelu Erf Exp Log Sqrt Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh "
    "Atanh Neg Abs Sign Floor Ceil Round Reciprocal HardSigmoid HardSwish Silu Mish Softplus Softsign Elu Selu Shrink "
    "Not",
}
"""Module of this package -> its operators, in the order of lists. An operator that is missing here is found too, but
all modules are imported for it."""


class Named(Protocol):
    """A thing that is known by a name."""

    @property
    def name(self) -> str:
        """The name."""


Row = TypeVar("Row", bound=Named)


class Operators(MutableMapping[str, Row]):
    """Rows by name. The module of an operator is imported when the row is first asked for; a list imports all."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._homes = {name: module for module, names in MODULES.items() for name in names.split()}

    def add(self, op: Row) -> None:
        """Add a row; ValueError for a second one of the same name."""
        self._load(op.name)
        if op.name in self._rows:
            raise ValueError(f"op {op.name!r} is registered twice")
        self._rows[op.name] = op

    def _load(self, name: str) -> None:
        if name in self._homes:
            import_module(f"{__package__}.{self._homes[name]}")

    @cached_property
    def _all(self) -> dict[str, Row]:
        package = import_module(f"{__package__}")
        for module in iter_modules(package.__path__):
            import_module(f"{__package__}.{module.name}")
        self._rows = {name: self._rows[name] for name in dict.fromkeys((*self._homes, *self._rows))}
        return self._rows

    def __getitem__(self, name: str) -> Row:
        if name not in self._rows:
            self._load(name)
        return self._rows[name] if name in self._rows else self._all[name]

    def __setitem__(self, name: str, op: Row) -> None:
        self._rows[name] = op

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
