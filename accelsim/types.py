"""Names of array types, for all packages."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Values of any type: of a tensor, of codes."""
Index = tuple[int | slice | EllipsisType, ...]
"""Places and slices along the axes of an array."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Int = TypeVar("Int", int, Ints)
"""A whole number, or an array of them."""
