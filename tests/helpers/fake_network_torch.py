"""A stand-in for PyTorch on a machine with a GPU that runs a network of matrix products and ReLUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

EVENT_MS = 2.0


class Tensor:
    """A shape; products give the shape of their result."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def t(self) -> Tensor:
        return Tensor(*reversed(self.shape))

    def mul_(self, factor: float) -> Tensor:
        return self

    add_ = mul_


class NetworkTorch:
    """Every call and replay takes two milliseconds. ``captures``: whether CUDA captures; ``room``: elements of the largest tensor."""

    __version__ = "0"
    float16 = "half"

    def __init__(self, captures: bool = True, room: int = 1 << 40, there: bool = True) -> None:
        self._captures, self._room = captures, room
        self.calls: list[str] = []
        event = SimpleNamespace(record=lambda: None, elapsed_time=lambda other: EVENT_MS)
        stream = SimpleNamespace(wait_stream=lambda other: None)
        self.cuda = SimpleNamespace(
            is_available=lambda: there, get_device_name=lambda device: "Tesla T4", synchronize=lambda: None,
            Event=lambda enable_timing: event, Stream=lambda: stream, current_stream=lambda: stream,
            stream=lambda other: nullcontext(), graph=self._graph, set_device=lambda device: None,
            CUDAGraph=lambda: SimpleNamespace(replay=self._kernel("replay")), empty_cache=lambda: None,
        )  # fmt: skip
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(allow_tf32=True))
        self.nn = SimpleNamespace(functional=SimpleNamespace(relu=self._relu))
        self.set_float32_matmul_precision = lambda precision: None
        self.inference_mode = nullcontext
        self.Generator = lambda device: SimpleNamespace(manual_seed=lambda seed: seed)

    @contextmanager
    def _graph(self, graph: Any) -> Iterator[None]:
        yield
        if not self._captures:
            raise RuntimeError("operation not permitted\n  when stream is capturing")

    def _kernel(self, name: str) -> Callable[[], None]:
        return lambda: self.calls.append(name)

    def _relu(self, x: Tensor) -> Tensor:
        self.calls.append("relu")
        return x

    def addmm(self, c: Tensor, a: Tensor, b: Tensor, alpha: float, beta: float) -> Tensor:
        self.calls.append("addmm")
        assert a.shape[1] == b.shape[0]
        return Tensor(a.shape[0], b.shape[1])

    def randn(self, shape: tuple[int, ...], dtype: str, device: str, generator: int) -> Tensor:
        assert dtype == "half" and device == "cuda:0"
        if max(shape) > self._room:
            raise MemoryError("CUDA out of memory")
        return Tensor(*shape)
