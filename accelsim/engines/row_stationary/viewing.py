"""A product as a convolution, and a chip as the array that it is done on."""

from __future__ import annotations

from math import ceil

from accelsim.engines.base import Offer
from accelsim.engines.clocked import not_a_product
from accelsim.engines.row_stationary.laws import refusals
from accelsim.engines.row_stationary.shape import Conv, Geometry, pinned_mapping
from accelsim.engines.row_stationary.spec import RowStationary
from accelsim.program.roles import Roles
from accelsim.spec.chip import Chip
from accelsim.spec.names import operand_formats
from accelsim.workload.nodes import gemm_view
from accelsim.workload.ops import base


def convolution(gemm: base.Gemm) -> Conv:
    """Return a product as a convolution: of images, or, where it is none, of one pixel per row of its left operand.

    Raises ValueError, in plain words, for a form that the array does not have.
    """
    conv = gemm.conv
    if conv is None:
        return Conv(N=gemm.M, M=gemm.N, C=gemm.K, H=1, W=1, R=1, S=1, G=gemm.groups)
    (height, width), (top, left, bottom, right) = conv.kernel, conv.pad
    if max(conv.dilation) > 1:
        raise ValueError("its filters are dilated, and a PE takes neighbouring pixels of a row")
    strides = {stride for stride, out in zip(conv.stride, conv.out, strict=True) if out > 1}
    if len(strides) > 1:
        raise ValueError("its strides along rows and columns differ")
    stride = max(strides, default=max(conv.stride))
    H, W = (
        _side(side, filters, stride, out)
        for side, filters, out in zip(
            (conv.height + top + bottom, conv.width + left + right), conv.kernel, conv.out, strict=True
        )
    )
    return Conv(conv.batch, gemm.N, conv.channels, H, W, height, width, stride, gemm.groups)


def _side(side: int, filters: int, stride: int, out: int) -> int:
    return side if (side - filters) // stride + 1 == out else filters + (out - 1) * stride


def word_B(unit: RowStationary) -> int:
    """Return the bytes of a word: of the widest operand or partial sum."""
    names = [name for key, row in unit.formats.items() for name in (key, row.accumulate)]
    return max(ceil(each.storage_bits / 8) for name in names for each in operand_formats(name) or ())


def geometry(chip: Chip, unit: RowStationary) -> Geometry:
    """Return the sizes of the array of a chip, those of its global buffer among them."""
    roles = Roles(chip)
    shared, filters = roles.buffer(roles.activations), roles.buffer(roles.weights)
    banks = shared.banks or 1
    return Geometry(
        rows=unit.rows, cols=unit.cols, ifmap_pad=unit.ifmap_register, filter_pad=unit.filter_register,
        psum_pad=unit.psum_register, word_B=word_B(unit), glb_banks=banks, glb_bank_B=shared.capacity // banks,
        glb_filter_B=filters.capacity, ifmap_words=unit.ifmap_bus, filter_words=unit.filter_bus,
        psum_words=unit.psum_bus,
    )  # fmt: skip


def refusal(offer: Offer) -> str | None:
    """Return why an array cannot do a node, '' where it can, None for what is no product."""
    if offer.op.kind != "matrix":
        return None
    image = "which the PE array does not take for an image"
    if why := not_a_product(offer, "the PE array does", image, "convolution"):
        return why
    if offer.node.op == "ExpertMatMul":
        return "values choose its weights, and the passes of the PE array are fixed"
    view = gemm_view(offer.graph, offer.node)
    assert view is not None
    try:
        conv = convolution(view)
    except ValueError as error:
        return str(error)
    return "; ".join(map(str, refusals(conv, geometry(offer.chip, offer.unit.spec), pinned_mapping({}))))
