"""DFT and STFT as products with a matrix of cosines and sines, which is what a matrix unit can do (ONNX operators DFT,
opset 20, and STFT, opset 17).
"""

from __future__ import annotations

import numpy as np

from accelsim.types import Array
from accelsim.workload.constants import check_bytes
from accelsim.workload.graph import Node
from accelsim.workload.onnx.canonical.build import Chain
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, axis_of, optional, rule, scalar
from accelsim.workload.onnx.importing.read import RawNode

MAX_LENGTH = 4096
"""Longest transform that becomes a matrix; beyond, the host has a fast one."""


def fourier_matrix(length: int, parts: int, bins: int, inverse: bool) -> Array:
    """[length * parts, bins * 2] in float64: rows are samples (real, or real and imaginary parts), columns bins (real
    and imaginary parts).
    """
    sign = 1 if inverse else -1
    angle = sign * 2 * np.pi / length * np.outer(np.arange(length), np.arange(bins))
    real = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    imaginary = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    full = np.stack([real, imaginary][:parts], axis=1) / (length if inverse else 1)
    return np.asarray(full.reshape(length * parts, bins * 2))


def _transformed(chain: Chain, x: str, lead: list[int], length: int, parts: int, bins: int, inverse: bool) -> str:
    """``x`` [*lead, length, parts] -> [*lead, bins, 2]."""
    if not 0 < length <= MAX_LENGTH:
        raise Foreign
    flat = chain.add("Reshape", x, shape=[*lead, length * parts])
    table = chain.constant(fourier_matrix(length, parts, bins, inverse), chain.dtype)
    y = chain.add("MatMul", flat, table, a_zero_point=0, b_zero_point=0)
    return chain.add("Reshape", y, shape=[*lead, bins, 2])


@rule("DFT")
def dft(raw: RawNode, scope: Scope) -> list[Node]:
    """DFT along a constant axis, cut or padded with zeros to a constant length; not the inverse of one half."""
    x, shape, chain = raw.inputs[0], list(scope.shape(raw.inputs[0])), Chain(raw, scope)
    inverse, half = bool(raw.attrs.get("inverse", 0)), bool(raw.attrs.get("onesided", 0))
    axis = scalar(raw, scope, 2) if optional(raw, 2) else raw.attrs.get("axis", 1 if scope.opset < 20 else -2)
    axis, length = axis_of(int(axis or 0), len(shape)), scalar(raw, scope, 1)
    if axis == len(shape) - 1 or (inverse and half):
        raise Foreign
    perm = [*(at for at in range(len(shape) - 1) if at != axis), axis, len(shape) - 1]
    lead, parts = [shape[at] for at in perm[:-2]], shape[-1]
    count = shape[axis] if length is None else int(length)
    y = chain.add("Transpose", x, perm=perm)
    if count != shape[axis]:
        pads = [0] * (2 * len(shape) - 2) + [count - shape[axis], 0]
        y = chain.add("Pad", y, pads=pads, mode="constant", value=0)
    y = _transformed(chain, y, lead, count, parts, count // 2 + 1 if half else count, inverse)
    chain.add("Transpose", y, to=raw.outputs[0], perm=[int(at) for at in np.argsort(perm)])
    return chain.nodes


@rule("STFT")
def stft(raw: RawNode, scope: Scope) -> list[Node]:
    """STFT: frames by a constant index, times the window, transformed."""
    x, chain = raw.inputs[0], Chain(raw, scope)
    batch, samples, parts = scope.shape(x) if scope.rank(x) == 3 else (*scope.shape(x), 1)
    window, step, length = optional(raw, 2), scalar(raw, scope, 1), scalar(raw, scope, 3)
    if length is None and window:
        length = scope.shape(window)[0]
    if step is None or length is None:
        raise Foreign
    size, frames = int(length), (samples - int(length)) // int(step) + 1
    check_bytes((max(frames, 0), size), "int64", raw.name)
    at = np.arange(frames)[:, None] * int(step) + np.arange(size)[None, :]
    y = chain.add("Reshape", x, shape=[batch, samples, parts])
    y = chain.add("Gather", y, chain.constant(at.astype(np.int64)), axis=1)
    if window:
        y = chain.add("Mul", y, chain.add("Reshape", window, shape=[size, 1]))
    bins = size // 2 + 1 if raw.attrs.get("onesided", 1) else size
    y = _transformed(chain, y, [batch, frames], size, parts, bins, inverse=False)
    chain.add("Reshape", y, to=raw.outputs[0], shape=[batch, frames, bins, 2])
    return chain.nodes
