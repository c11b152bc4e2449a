"""Titles of layers, in the words of a paper's table: 'conv 3x3 128->128 @28x28', 'linear 768->3072 x128'."""

from __future__ import annotations

import re
from collections.abc import Sequence

from accelsim.program.commands import Step
from accelsim.workload.graph import Graph
from accelsim.workload.ops import find
from accelsim.workload.ops.base import Conv, Gemm

NONDESCRIPT = re.compile(r"(n|node|op|layer|tensor|var|val|t|x)?[-_.]?\d+", re.IGNORECASE)
"""A name that a tool made up: it says nothing that the number of the row does not."""

NODE = "node_"
EXPORTED = re.compile(rf"(?:{NODE})?(\w+?)_\d+")
"""Names that exporters give: 'Conv_12', 'node_conv2d_5'. The word of the first form must be an operator."""

STAGE = re.compile(r"(?:.*?/)?((?:layer|block|stage|down|up|cell|l|s|h)s?[._]?\d+)(?=[._/]|$)")
"""A numbered part of a network at the front of a name."""

WORDS = {
    "LayerNormalization": "layernorm", "BatchNormalization": "batchnorm", "RMSNormalization": "rmsnorm",
    "GroupNormalization": "groupnorm", "InstanceNormalization": "instancenorm", "LRN": "LRN",
    "MaxPool": "maxpool", "AveragePool": "avgpool", "GlobalAveragePool": "global avgpool",
    "GlobalMaxPool": "global maxpool", "DepthToSpace": "depth to space", "SpaceToDepth": "space to depth",
    "HardSwish": "hardswish", "HardSigmoid": "hardsigmoid", "LogSoftmax": "log softmax",
}  # fmt: skip
"""Operators that lower case alone would not make readable."""
CONVERSIONS = ("Dequantize", "Quantize", "Requantize")
"""Operators that a layer is named after only if it has no others."""
IMAGE_RANK = 4


def title(step: Step, graph: Graph, images: bool) -> str:
    """Operator, sizes and image of a step; a batch of 1 is not mentioned. ``images``: see ``is_of_images``."""
    if step.gemm is not None and step.gemm.conv is not None:
        return _conv(step.gemm, step.gemm.conv)
    if step.gemm is not None:
        return _product(step.gemm, graph)
    fused = (step.node, *step.node.epilogue)
    node = next((each for each in fused if each.op not in CONVERSIONS), step.node)
    word = WORDS.get(node.op, node.op.lower())
    if "kernel_shape" in node.attrs:
        word += f" {_by(node.attrs['kernel_shape'])}{_over(node.attrs.get('strides', ()))}"
    return f"{word} {_shape(step.out_shape, images)}".strip()


def titles(steps: Sequence[Step], graph: Graph) -> list[str]:
    """The title of each step. Convolutions that the model gives no name of its own are numbered as papers do: in
    'conv3_2 3x3 128->128 @28x28' it is the second whose result is of the third size of image.
    """
    images = is_of_images(graph)
    stages: dict[tuple[int, int], int] = {}
    counts: dict[int, int] = {}
    found = []
    for step in steps:
        text = title(step, graph, images)
        if step.gemm is not None and step.gemm.conv is not None:
            stage_number = stages.setdefault(step.gemm.conv.out, len(stages) + 1)
            counts[stage_number] = counts.get(stage_number, 0) + 1
            if not is_own(step.name):
                kind, _, rest = text.partition(" ")
                text = f"{kind}{stage_number}_{counts[stage_number]} {rest}"
        found.append(text)
    return found


def is_of_images(graph: Graph) -> bool:
    """Return whether tensors of four axes are images with channels: only then has the graph convolutions or pooling."""
    return any("kernel_shape" in node.attrs for node in graph.nodes)


def _conv(gemm: Gemm, conv: Conv) -> str:
    one_d = conv.height == 1 and conv.kernel[0] == 1
    kernel = str(conv.kernel[1]) if one_d else _by(conv.kernel)
    image = str(conv.width) if one_d else f"{conv.height}x{conv.width}"
    depthwise = conv.channels == 1 and gemm.groups > 1
    channels = f"{conv.channels * gemm.groups}->{gemm.N * gemm.groups}"
    if depthwise and gemm.N == 1:
        channels = str(gemm.groups)
    groups = f" g{gemm.groups}" if gemm.groups > 1 and not depthwise else ""
    batch = f" x{conv.batch}" if conv.batch > 1 else ""
    stride = _over(conv.stride[1:] if one_d else conv.stride)
    return f"{'dwconv' if depthwise else 'conv'} {kernel}{stride} {channels}{groups} @{image}{batch}"


def _product(gemm: Gemm, graph: Graph) -> str:
    """A layer with weights by its features and rows, a product of two activations as M x K x N."""
    weights = graph.tensors.get(gemm.b)
    if weights is not None and weights.is_constant and gemm.groups == 1:
        return f"linear {gemm.K}->{gemm.N}" + (f" x{gemm.M}" if gemm.M > 1 else "")
    return f"matmul {gemm.M}x{gemm.K}x{gemm.N}" + (f" x{gemm.groups}" if gemm.groups > 1 else "")


def _by(sizes: tuple[int, ...] | list[int]) -> str:
    return "x".join(map(str, sizes))


def _over(strides: tuple[int, ...] | list[int]) -> str:
    """'/2' after a kernel; '' where every stride is 1."""
    if not any(stride > 1 for stride in strides):
        return ""
    return f"/{strides[0]}" if len(set(strides)) == 1 else f"/{_by(strides)}"


def _shape(shape: tuple[int, ...], images: bool) -> str:
    """'64 @56x56' of an image, '128x768' of anything else."""
    if images and len(shape) == IMAGE_RANK:
        batch = f" x{shape[0]}" if shape[0] > 1 else ""
        return f"{shape[1]} @{shape[2]}x{shape[3]}{batch}"
    return _by(shape[1:] if len(shape) > 1 and shape[0] == 1 else shape)


def is_own(name: str) -> bool:
    """Return whether a layer's name was given by a person: not empty, not a number with a letter or an
    operator's name."""
    if not name or NONDESCRIPT.fullmatch(name.rsplit("/", 1)[-1]):
        return False
    made = EXPORTED.fullmatch(name)
    return made is None or not (name.startswith(NODE) or find(made[1]) is not None)


def stage(name: str, shape: tuple[int, ...], images: bool) -> str:
    """The part of the network that a layer belongs to: the first part of its own name, else the size of its image.

    's2.b1.conv1' is in 's2', 'encoder/layer.3/query' in 'layer.3'; an image of 28 x 28 is in '28x28'.
    """
    if is_own(name) and (found := STAGE.match(name)):
        return found[1]
    return f"{shape[2]}x{shape[3]}" if images and len(shape) == IMAGE_RANK else ""
