"""ConvTranspose as convolutions of its input, see :mod:`accelsim.workload.transposed`."""

from __future__ import annotations

from accelsim.errors import ModelError
from accelsim.workload.graph import Node
from accelsim.workload.onnx.canonical.build import Chain
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, rule
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.transposed import MOST_PLACES, Geometry, transposed_conv


@rule("ConvTranspose")
def conv_transpose(raw: RawNode, scope: Scope) -> list[Node]:
    """ConvTranspose: a convolution for each kind of phases, interleaved."""
    x, w, *bias = raw.inputs
    shape, weights, a = scope.shape(x), scope.shape(w), raw.attrs
    rank, group = len(shape) - 2, a.get("group", 1)
    strides, dilations = (tuple(a.get(name) or [1] * rank) for name in ("strides", "dilations"))
    extra = tuple(a.get("output_padding") or [0] * rank)
    if weights[0] % group:
        raise Foreign
    begins, ends = _pads(raw, list(shape[2:]), list(weights[2:]), list(strides), list(dilations), list(extra))
    out = tuple(
        stride * (length - 1) + dilation * (k - 1) + 1 + more - begin - end
        for stride, length, dilation, k, more, begin, end in zip(
            strides, shape[2:], dilations, weights[2:], extra, begins, ends, strict=True
        )
    )
    geometry = Geometry(
        shape[0], shape[1], weights[1] * group, group, shape[2:], weights[2:], strides, dilations, tuple(begins), out
    )
    if not geometry.fits:
        what = f"kernel {list(weights[2:])} and strides {list(strides)} of a transposed convolution"
        raise ModelError(what, raw.name, f"{MOST_PLACES:,} at the most, and so many phases")
    if min(out) < 1:
        raise ModelError(f"a result of {list(out)} places", raw.name, "at least one along each axis")
    chain = Chain(raw, scope)
    transposed_conv(chain, x, w, bias[0] if bias and bias[0] else None, geometry)
    chain.nodes[-1].outputs[0] = raw.outputs[0]
    return chain.nodes


def _pads(
    raw: RawNode, size: list[int], kernel: list[int], strides: list[int], dilations: list[int], extra: list[int]
) -> tuple[list[int], list[int]]:
    """Return what the result loses at the begin and end of each axis (ONNX operator ConvTranspose, total_padding)."""
    rank, auto = len(size), raw.attrs.get("auto_pad", "NOTSET")
    pads = list(raw.attrs.get("pads") or [0] * 2 * rank)
    wanted = raw.attrs.get("output_shape")
    if auto.startswith("SAME") and not wanted:
        wanted = [n * stride for n, stride in zip(size, strides, strict=True)]
    if not wanted:
        return ([0] * rank, [0] * rank) if auto == "VALID" else (pads[:rank], pads[rank:])
    begins, ends = [], []
    for i, want in enumerate(wanted[-rank:]):
        total = strides[i] * (size[i] - 1) + extra[i] + dilations[i] * (kernel[i] - 1) + 1 - want
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return begins, ends
