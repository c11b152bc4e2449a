"""A stand-in for PyTorch on a machine with a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from types import SimpleNamespace
from typing import Any

EVENT_MS = 2.0


class Tensor:
    """A shape and the size of an element; ``calls``: where what is done with it is noted."""

    device = "cuda:0"

    def __init__(self, shape: tuple[int, ...], calls: list[Any], element_B: int = 2) -> None:
        self.shape, self._calls, self._element_B = shape, calls, element_B

    def _like(self, *shape: int) -> Tensor:
        return Tensor(shape, self._calls, self._element_B)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> Tensor:
        assert 0 <= part.start <= part.stop <= len(self), "beyond the end"
        return self._like(part.stop - part.start)

    def __rmul__(self, factor: int) -> Tensor:
        return self

    def view(self, *shape: int) -> Tensor:
        assert prod(shape) == prod(self.shape)
        return self._like(*shape)

    def permute(self, *axes: int) -> Tensor:
        return self._like(*(self.shape[axis] for axis in axes))

    def transpose(self, first: int, second: int) -> Tensor:
        return self._like(*self.shape[:-2], self.shape[-1], self.shape[-2])

    def element_size(self) -> int:
        return self._element_B

    def contiguous(self) -> Tensor:
        return self

    def clamp(self, least: int, most: int) -> Tensor:
        return self

    def to(self, kind: str) -> Tensor:
        return Tensor(self.shape, self._calls, ELEMENT_B[kind])

    def clone(self) -> None:
        self._calls.append(("clone", (self.shape,)))


ELEMENT_B = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int8": 1}


class Graph:
    """Of CUDA; replays are counted."""

    replays = 0

    def replay(self) -> None:
        Graph.replays += 1


class Torch:
    """Counts calls; between two events there are always two milliseconds."""

    __version__ = "0"

    def __init__(self, there: bool = True) -> None:
        self.calls: list[tuple[str, tuple[tuple[int, ...], ...]]] = []
        event = SimpleNamespace(record=lambda: None, elapsed_time=lambda other: EVENT_MS, synchronize=lambda: None)
        stream = SimpleNamespace(wait_stream=lambda other: None)
        within: Callable[[object], AbstractContextManager[None]] = lambda what: nullcontext()  # noqa: E731
        self.cuda = SimpleNamespace(
            is_available=lambda: there, get_device_name=lambda device: "Tesla T4", synchronize=lambda: None,
            Event=lambda enable_timing=False: event, Stream=lambda: stream, current_stream=lambda: stream,
            stream=within, graph=within, CUDAGraph=Graph, set_device=lambda device: None, empty_cache=lambda: None,
            get_device_properties=lambda device: SimpleNamespace(L2_cache_size=4 << 20, uuid="0-1"),
        )  # fmt: skip
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(allow_tf32=True))
        self.precision = ""
        for name in ELEMENT_B:
            setattr(self, name, name)
        for name in ("matmul", "softmax", "relu", "add", "mul", "_scaled_mm", "_int_mm"):
            setattr(self, name, self._kernel(name))
        others = ("conv2d", "gelu", "silu", "layer_norm", "scaled_dot_product_attention")
        self.nn = SimpleNamespace(functional=SimpleNamespace(**{name: self._kernel(name) for name in others}))

    def _kernel(self, name: str) -> Callable[..., None]:
        return lambda *given, **_: self.calls.append((name, tuple(each.shape for each in given)))

    def set_float32_matmul_precision(self, precision: str) -> None:
        self.precision = precision

    def ones(self, shape: tuple[int, ...], device: str) -> None:
        return None

    def randn(self, count: int, dtype: str, device: str) -> Tensor:
        return Tensor((count,), self.calls, ELEMENT_B[dtype])
