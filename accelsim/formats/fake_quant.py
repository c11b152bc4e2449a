"""Fake quantisation for training: the value an integer would stand for, and the gradients through it.

Forward and both gradients are those of PyTorch (``torch.fake_quantize_per_tensor_affine``,
``torch._fake_quantize_learnable_per_channel_affine``), the gradient of the scale that of Esser et al., Learned Step
Size Quantization, ICLR 2020, eq. 3. Everything is FP32, one operation after the other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

F32 = NDArray[np.float32]


def fake_quantise(
    x: F32, scale: ArrayLike, zero_point: ArrayLike, qmin: int, qmax: int, axis: int | None = None
) -> F32:
    """``(clip(rint(x * (1 / scale)) + zero_point, qmin, qmax) - zero_point) * scale``, same shape as ``x``.

    ``scale`` and ``zero_point`` are scalars, or with ``axis`` have one entry per index of it. NaN stays NaN.
    """
    steps, zeros = _along(scale, x, axis), _along(zero_point, x, axis)
    return (np.clip(_steps(x, steps, zeros), qmin, qmax) - zeros) * steps


def fake_quantise_grad(
    x: F32,
    scale: ArrayLike,
    zero_point: ArrayLike,
    qmin: int,
    qmax: int,
    axis: int | None,
    upstream: F32,
    factor: float = 1.0,
) -> tuple[F32, F32]:
    """Gradients of :func:`fake_quantise` with respect to ``x`` (its shape) and ``scale`` (scalar, or one per index).

    ``dx`` is the gradient ``upstream`` where the integer lies in [qmin, qmax] (both included), else 0: the straight
    through estimator. ``dscale`` sums, in float64, upstream times ``(y - x) / scale`` inside, ``qmin - zero_point``
    below and ``qmax - zero_point`` above, all times ``factor`` (see :func:`lsq_factor`).
    """
    steps, zeros = _along(scale, x, axis), _along(zero_point, x, axis)
    whole = _steps(x, steps, zeros)
    inside = (whole >= qmin) & (whole <= qmax)
    clipped = np.clip(whole, qmin, qmax) - zeros
    # float64 stands for a fused multiply and subtract: the error y - x is far smaller than y, and rounded once
    error = clipped.astype(np.float64) * steps - np.where(inside, x, 0)
    slope = np.where(inside, error.astype(np.float32) * _inverse(steps), clipped)
    others = tuple(index for index in range(x.ndim) if axis is None or index != axis % x.ndim)
    dscale = np.sum(upstream * slope * np.float32(factor), axis=others, dtype=np.float64)
    return np.where(inside, upstream, np.float32(0)), np.asarray(dscale, np.float32)


def lsq_factor(size: int, qmax: int) -> float:
    """Factor on the gradient of a step size that ``size`` values share: ``1 / sqrt(size * qmax)`` (LSQ, 2.2)."""
    return 1 / math.sqrt(size * qmax)


def _steps(x: F32, scale: F32, zero_point: F32) -> F32:
    """The integers before the clip, as floats."""
    return np.asarray(np.rint(x * _inverse(scale)) + zero_point, np.float32)


def _inverse(scale: F32) -> F32:
    return np.float32(1) / scale


def _along(parameter: ArrayLike, x: F32, axis: int | None) -> F32:
    """``parameter`` as FP32, shaped so that it broadcasts against ``x``."""
    values = np.asarray(parameter, np.float32)
    if axis is None:
        return values.reshape(())
    if values.ndim == 0:
        return values
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)
