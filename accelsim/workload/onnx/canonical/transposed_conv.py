"""ConvTranspose as a Conv: the input with zeros between its elements, the kernel turned round.

Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285, section 4. The zeros are
put in by padding axes of size 1, so a matrix unit sees an ordinary convolution.
"""

from __future__ import annotations

from typing import Any

from accelsim.workload.graph import Node
from accelsim.workload.onnx.canonical.build import Chain
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, rule
from accelsim.workload.onnx.importing.read import RawNode


@rule("ConvTranspose")
def conv_transpose(raw: RawNode, scope: Scope) -> list[Node]:
    """ConvTranspose: stuffed input, Conv with the turned kernel, stride 1."""
    x, w, *bias = raw.inputs
    shape, weights, a = scope.shape(x), scope.shape(w), raw.attrs
    size, kernel, rank = shape[2:], weights[2:], len(shape) - 2
    strides = list(a.get("strides") or [1] * rank)
    dilations = list(a.get("dilations") or [1] * rank)
    extra = list(a.get("output_padding") or [0] * rank)
    begins, ends = _pads(raw, list(size), list(kernel), strides, dilations, extra)
    chain = Chain(raw, scope)
    reach = [dilation * (k - 1) for dilation, k in zip(dilations, kernel, strict=True)]
    stuffed = _stuffed(chain, x, shape, strides)
    margins = [r - begin for r, begin in zip(reach, begins, strict=True)]
    margins += [r - end + more for r, end, more in zip(reach, ends, extra, strict=True)]
    if any(margins):
        pads = [0, 0, *margins[:rank], 0, 0, *margins[rank:]]
        stuffed = chain.add("Pad", stuffed, pads=pads, mode="constant", value=0)
    chain.add(
        "Conv", stuffed, _turned(chain, w, weights, a.get("group", 1)), *(name for name in bias if name),
        to=raw.outputs[0], kernel_shape=list(kernel), strides=[1] * rank, pads=[0] * 2 * rank, dilations=dilations,
        group=a.get("group", 1), a_zero_point=0, b_zero_point=0,
    )  # fmt: skip
    return chain.nodes


def _pads(
    raw: RawNode,
    size: list[int],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    extra: list[int],
) -> tuple[list[int], list[int]]:
    """What the result loses at the begin and end of each axis (ONNX operator ConvTranspose, total_padding)."""
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


def _stuffed(chain: Chain, x: str, shape: tuple[int, ...], strides: list[int]) -> str:
    """``x`` with stride - 1 zeros between neighbours of every spatial axis."""
    if set(strides) == {1}:
        return x
    spread = [*shape[:2], *(part for size in shape[2:] for part in (size, 1))]
    after = [0, 0, *(part for stride in strides for part in (0, stride - 1))]
    grown = [*shape[:2], *(size * stride for size, stride in zip(shape[2:], strides, strict=True))]
    x = chain.add("Reshape", x, shape=spread)
    x = chain.add("Pad", x, pads=[0] * len(after) + after, mode="constant", value=0)
    x = chain.add("Reshape", x, shape=grown)
    tail = [1 - stride for stride in strides]  # the zeros behind the last element
    return chain.add("Pad", x, pads=[0] * len(shape) + [0, 0, *tail], mode="constant", value=0)


def _turned(chain: Chain, w: str, shape: tuple[int, ...], group: int) -> str:
    """Weights [C, M/g, *k] as those of a convolution [M, C/g, *k], turned round in every spatial axis."""
    channels, each, *kernel = shape
    if channels % group:
        raise Foreign
    axes = list(range(2, len(shape)))
    turned = w
    if any(k > 1 for k in kernel):
        ends: dict[str, Any] = {
            "starts": [-1] * len(axes),
            "ends": [-(2**31)] * len(axes),
            "steps": [-1] * len(axes),
        }
        turned = chain.add("Slice", w, axes=axes, **ends)
    grouped = chain.add("Reshape", turned, shape=[group, channels // group, each, *kernel])
    swapped = chain.add("Transpose", grouped, perm=[0, 2, 1, *range(3, len(shape) + 1)])
    return chain.add("Reshape", swapped, shape=[group * each, channels // group, *kernel])
