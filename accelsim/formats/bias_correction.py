"""Bias correction: rounding the weights of a layer shifts the mean of its outputs; the bias takes it back.

Nagel, van Baalen, Blankevoort, Welling, "Data-Free Quantization Through Weight Equalization and Bias
Correction", ICCV 2019 (arXiv:1906.04721), section 4.2: with e = Wq - W the output shifts by E[e x] = e E[x].
"""

from __future__ import annotations

import numpy as np

from accelsim.errors import Problem, UsageError, count_of
from accelsim.types import Array


def output_shift(w: Array, w_quantised: Array, mean_input: Array, group: int = 1, axis: int = 0) -> Array:
    """Expected change of each output channel, float64 [Co], when ``w`` is replaced by ``w_quantised``.

    ``w`` and ``w_quantised`` (dequantised) are [Co, C / group, *kernel] of a convolution, or a matrix whose
    outputs run along ``axis`` (0: [N, K], 1: [K, N]). ``mean_input`` [C] (or [K]) are the means of the
    inputs per channel. Exact for a matrix; for a convolution where no padding is read, because padded zeros
    have another mean. Raises UsageError, all problems at once, for shapes that do not fit.
    """
    _check(w, w_quantised, mean_input, group, axis)
    error = np.moveaxis(w_quantised.astype(np.float64) - w, axis, 0)
    taps = error.reshape(len(error), error.shape[1], -1).sum(axis=2)
    means = np.asarray(mean_input, np.float64).reshape(group, -1)
    shift = np.einsum("goc,gc->go", taps.reshape(group, -1, taps.shape[1]), means)
    return np.asarray(shift.reshape(-1))


def _check(w: Array, w_quantised: Array, mean_input: Array, group: int, axis: int) -> None:
    problems = []
    if w.ndim < 2 or axis not in (0, 1) or (axis == 1 and w.ndim > 2):
        what = f"weights {list(w.shape)} with outputs along axis {axis}"
        raise UsageError(what, "bias correction", "[Co, C / group, *kernel], [N, K], or [K, N] with axis 1")
    if w.shape != w_quantised.shape:
        found = f"weights {list(w.shape)} against {list(w_quantised.shape)} quantised"
        problems.append(Problem(found, "bias correction", "the same shape"))
    if group < 1 or w.shape[axis] % group:
        problems.append(
            Problem(
                f"{count_of(w.shape[axis], 'output')} in {count_of(group, 'group')}", "bias correction", "a divisor"
            )
        )
    if np.shape(mean_input) != (w.shape[1 - axis] * group,):
        expected = f"[{w.shape[1 - axis] * group}]"
        problems.append(Problem(f"means of shape {list(np.shape(mean_input))}", "bias correction", expected))
    UsageError.raise_for(problems)
