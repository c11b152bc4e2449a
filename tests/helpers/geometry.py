"""Random convolutions, and the windows they and pools have."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.helpers.ort_oracle import Case


@st.composite
def geometry(draw: st.DrawFn, max_pad: int | None = None) -> tuple[list[int], dict[str, Any]]:
    """Spatial sizes and window attrs that give at least one output element; pads below the kernel extent."""
    rank = draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 4)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 3)) for _ in range(rank)]
    strides = [draw(st.integers(1, 4)) for _ in range(rank)]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, k - 1 if max_pad is None else max_pad)) for k in kernel * 2]
    spatial = [draw(st.integers(max(1, e - pads[i] - pads[i + rank]), e + 9)) for i, e in enumerate(extent)]
    return spatial, {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}


@st.composite
def convolutions(draw: st.DrawFn, dtype: Any = np.float32) -> Case:
    spatial, attrs = draw(geometry(max_pad=3))
    group, per_group, out_per_group = (draw(st.integers(1, 4)) for _ in range(3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x_shape = (draw(st.integers(1, 3)), group * per_group, *spatial)
    w_shape = (group * out_per_group, per_group, *attrs["kernel_shape"])
    if dtype == np.float32:
        x, w = (rng.normal(size=shape).astype(np.float32) for shape in (x_shape, w_shape))
        bias = [rng.normal(size=w_shape[0]).astype(np.float32)] if draw(st.booleans()) else []
        return Case("Conv", [x, w, *bias], {**attrs, "group": group})
    x, w = (rng.integers(-128, 128, size=shape).astype(np.int8) for shape in (x_shape, w_shape))
    return Case("Conv", [x, w], {**attrs, "group": group})
