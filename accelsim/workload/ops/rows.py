"""The rows of all operators, by name: which module registers each, and which families there are."""

from __future__ import annotations

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
