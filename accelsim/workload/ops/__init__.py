"""The op registry, one file per family. This page is the canonical form of every op.

An importer turns whatever its format writes into these forms; everything after it (compiler, machine, tables) sees
nothing else. ``Node.op`` is the name in the first column, ``Node.inputs`` are activations and weights only, ``''`` is
an absent optional input (trailing ones may be left out), and ``Node.attrs`` holds plain Python values: int, float, str,
bool, lists or tuples of them, NumPy arrays for quantisation parameters. All shapes, axes, pads, splits that some opset
passes as a constant input are attrs here; that input is dropped. Axes are >= 0. Attributes are always all present
unless marked ``=default``. ``[X]`` is optional. Pads are in ONNX order: all begins, then all ends (2-D: top, left,
bottom, right); ``auto_pad`` is already resolved into them.

Formats: float tensors are float32 arrays (fp16 and bf16 too, rounded to their format; fp64 is float64), integers are
arrays of their own type, bool is bool. Operands of a matrix op are all float or all int8/uint8/int16/uint16; integer
operands give int32 (sums modulo 2^32).

=====================  ============================  =========================================================
op                     inputs                        attrs and meaning
=====================  ============================  =========================================================
Conv                   X[N,C,*S], W[Co,C/g,*k], [B]  kernel_shape, strides, pads, dilations, group (1-D, 2-D;
                                                     3-D has no matrix view), a_zero_point=0, b_zero_point=0
MatMul                 A, B                          numpy.matmul rules; transB=0: the last two axes of B are swapped;
                                                     a_zero_point=0, b_zero_point=0
Gemm                   A, B, [C]                     alpha, beta, transA, transB, a_zero_point=0,
                                                     b_zero_point=0
ExpertMatMul           X, W[E,K,M], experts[T,k]     row i of X [T, K] (or [T * k, K]) times W of each of its experts,
                                                     one result row for each; padded as ``experts.spread`` says;
                                                     a_zero_point=0, b_zero_point=0
TopKGating             X[..,E], [correction[E]]      k: softmax over the k largest, and which these are, int32.
                                                     score='chosen'; 'softmax' or 'sigmoid': over all, to which the
                                                     correction is added for the choice; normalise=0: their sum
                                                     becomes 1; scale=1: a factor; groups=1 of experts, of which
                                                     top_groups=1 with the largest (pair=0: one, 1: two) count
Relu Sigmoid Tanh Erf  X                             -; likewise Exp Log Sqrt Neg Abs Reciprocal HardSwish
                                                     Silu Softplus Softsign Mish Sign Floor Ceil Round Sin Cos
                                                     Not Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh BitwiseNot
Shrink                 X                             bias, lambd
IsNaN                  X                             -; bool
IsInf                  X                             detect_negative, detect_positive; bool
LeakyRelu Elu          X                             alpha
Selu                   X                             alpha, gamma
HardSigmoid            X                             alpha, beta
Gelu                   X                             approximate: 'none' or 'tanh'
Clip                   X                             min, max: number or None (absent)
PRelu                  X, slope                      slope broadcasts to X
Add Sub Mul Div Pow    A, B                          NumPy broadcasting; integer Div truncates; likewise
                                                     BitwiseAnd BitwiseOr BitwiseXor
Mod                    A, B                          fmod: 0 has the sign of B, 1 that of A
BitShift               A, B                          direction: 'LEFT' or 'RIGHT'
Equal Less Greater     A, B                          bool; likewise LessOrEqual GreaterOrEqual And Or Xor
Min Max Sum Mean       A, B, ... (1 or more)         NumPy broadcasting
Where                  condition, X, Y               NumPy broadcasting
Cast                   X                             to: format name ('fp32', 'int8', ...); overflow=: that of the
                                                     format, rounding='rne' (see ``formats.codec``; 'up' for e8m0)
BitCast                X                             to, given: the bits of format given read as format to
MaxPool                X[N,C,*S]                     kernel_shape, strides, pads, dilations, ceil_mode; one
                                                     output
AveragePool            X[N,C,*S]                     kernel_shape, strides, pads, dilations, ceil_mode,
                                                     count_include_pad
LpPool                 X[N,C,*S]                     as MaxPool; p: root of the sum of |x|^p
GlobalAveragePool      X[N,C,*S]                     -; likewise GlobalMaxPool
BatchNormalization     X, scale, B, mean, var        epsilon (inference; one output)
LRN                    X[N,C,*S]                     size, alpha, beta, bias
Softmax LogSoftmax     X, [sinks]                    axis, or flatten_from=axis (before opset 13: over all
                                                     axes from there on, as one); sinks, of one element along the
                                                     axis: scores that take part and have no result
LayerNormalization     X, scale, [B]                 axis, epsilon; one output
RMSNormalization       X, scale                      axis, epsilon
InstanceNormalization  X[N,C,*S], scale, B           epsilon
GroupNormalization     X[N,C,*S], scale, B           num_groups, epsilon; scale and B per channel or per group
ReduceMean ReduceSum   X                             axes (never empty), keepdims; likewise ReduceMax
                                                     ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare
ArgMax ArgMin          X                             axis, keepdims, select_last_index=0; int64
TopK                   X                             axis, k, largest; two outputs: values in order, indices int64
CumSum CumProd         X                             axis, exclusive, reverse
Concat                 A, B, ...                     axis
Append                 past, new                     axis, at: past with new written to it from row at of the axis on,
                                                     longer where new ends beyond it; in place where past is a
                                                     state of the graph and the result its next value
Split                  X                             axis, split: sizes, one per output
Slice                  X                             starts, ends, axes, steps (same lengths; ONNX clamping)
Gather                 X, indices                    axis
GatherElements         X, indices                    axis
GatherND               X, indices                    batch_dims
ScatterElements        X, indices, updates           axis, reduction: none, add, mul, max, min
ScatterND              X, indices, updates           reduction
OneHot                 indices, values[2]            depth, axis; values: off, on
Trilu                  X                             upper, k: zero below (upper 0: above) diagonal k
Transpose              X                             perm
Pad                    X                             pads (2 x rank), mode: constant, reflect, edge, wrap;
                                                     value
Expand                 X                             shape: that of the result
Tile                   X                             repeats
DepthToSpace           X[N,C,H,W]                    blocksize, mode: 'DCR' or 'CRD'
SpaceToDepth           X[N,C,H,W]                    blocksize, mode='DCR' or 'CRD'
Resize                 X                             sizes (result shape), scales (per axis, as given, or
                                                     result/input where only sizes are),
                                                     mode: nearest, linear, cubic; coordinate: half_pixel,
                                                     half_pixel_symmetric, asymmetric, align_corners,
                                                     pytorch_half_pixel, tf_crop_and_resize; nearest_mode;
                                                     antialias=0, exclude_outside=0, cubic_coeff_a=-0.75; with
                                                     tf_crop_and_resize: roi (starts, ends), extrapolation_value
GridSample             X[N,C,*S], grid[N,*O,axes]    mode: nearest, linear, cubic; padding_mode: zeros, border,
                                                     reflection; align_corners
Reshape                X                             shape: fully resolved (no 0, no -1)
Flatten                X                             axis
Squeeze Unsqueeze      X                             axes
Identity Dropout       X                             - (inference; one output)
Quantize               X                             dtype, scale, zero_point, axis (None: per tensor),
                                                     block=0: elements along axis that share a scale
Dequantize             X                             scale, zero_point, axis, block=0; gives fp32
DynamicQuantizeLinear  X                             -; codes (uint8), their scale and zero point, as ONNX
Requantize             X (int32)                     dtype, multiplier (float32), zero_point, axis:
                                                     clip(rint(float32(X) * multiplier) + zero_point)
                                                     (fixed_point=True: whole numbers, see
                                                     ``formats.fixed_point``)
RequantizeShift        X (int32)                     shift: clip((X + 2^(shift-1)) >> shift, -128, 127), int8
Bias                   X, B[C]                       axis: X + B along it (fp32 or int32)
FakeQuantize           X, scale                      dtype: format of the codes, axis (None: one scale);
                                                     qmin=, qmax=: range of the format, zero_point=0, factor=1.0
                                                     (on the gradient of scale); int1: scale * (X >= 0 ? 1 : -1)
FakeQuantizeGrad       X, scale, dY                  as FakeQuantize; two outputs: dX, dscale
MaxPoolGrad            X, Y, dY                      as MaxPool; dY to the first maximum of its window: dX
GatherGrad             dY, indices                   axis, size: elements of X along it; scatter-add: dX
AttentionGrad          Q, K, V, Y, dY                causal: 0 or 1, scale: of the scores; Q[B,H,S,D],
                                                     K, V[B,G,T,D], H a multiple of G; three outputs: dQ, dK, dV
=====================  ============================  =========================================================

``scale``, ``multiplier``: float32 arrays, 0-d or one value per slice of ``axis`` (with ``block``: one per block, the
rank of X; a multiplier without axis may also be an array that broadcasts to X); ``zero_point``: int or array likewise.
``a_zero_point``, ``b_zero_point``: int, or an array that broadcasts to the operand as it is stored (per row of A [M,1],
per column of B [N], per output channel of W [Co,1,1,1]).

What is not in the table, or is in it but breaks its form (MaxPool with Indices, scales of the run),
is a *foreign* node for the host: ``op`` is ``'onnx::' + op_type`` when the name is in the table and
``op_type`` itself otherwise; ``inputs`` and ``attrs`` are those of the ONNX node, unchanged
(``onnx.helper.get_attribute_value``; tensors as NumPy arrays), with ``attrs['domain']`` when it is not the
default one, and ``attrs['formats']`` of the inputs when one of them is narrower than its container. See ``foreign``.

Ops that ONNX defines by other ops, recurrent layers, ConvTranspose, Einsum, transforms, and control flow whose course
constants decide have no row: an importer writes the rows that they consist of (``workload.onnx.importing.inlining``,
``workload.onnx.canonical``).
"""

from __future__ import annotations

from accelsim.workload.ops.base import REGISTRY, Gemm, Op, Work, find, get
from accelsim.workload.ops.rows import FAMILIES

__all__ = ["FAMILIES", "REGISTRY", "Gemm", "Op", "Work", "find", "get"]
