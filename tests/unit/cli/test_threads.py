"""The same bytes with one and with two threads of linear algebra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from accelsim.threads import one_blas_thread

COMMANDS = {
    "quantize": ("quantize", "cnn?resolution=96,channels=32", "--out", "{out}"),
    "train": ("train", "digits-mlp?hidden=512", "--steps", "3", "--batch", "256", "--out", "{out}"),
    "check": ("run", "cnn?resolution=96,channels=32", "--on", "tpu-v1", "--values", "fast", "--check", "--json",
              "--no-advice"),
}  # fmt: skip


def blas_threads() -> list[int]:
    return [entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]


def made(command: tuple[str, ...], threads: int, folder: Path) -> bytes:
    out = folder / f"{threads}.onnx"
    settings = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    line = [part.format(out=out) for part in command]
    done = subprocess.run([sys.executable, "-m", "accelsim", *line], env=settings, check=True, capture_output=True)
    return out.read_bytes() if out.exists() else done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_bytes_do_not_depend_on_the_number_of_threads(name: str, tmp_path: Path) -> None:
    one, two = (made(COMMANDS[name], threads, tmp_path) for threads in (1, 2))
    assert len(one) > 500
    assert one == two


def test_one_thread_within_and_as_before_behind() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))

    @one_blas_thread
    def inner() -> list[int]:
        return blas_threads()

    @one_blas_thread
    def outer() -> tuple[list[int], list[int]]:
        return inner(), blas_threads()

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        first, second = outer()
        assert blas_threads() == before
    assert first == second == [1] * len(before)


def test_an_error_leaves_the_threads_as_they_were() -> None:
    @one_blas_thread
    def fails() -> None:
        raise KeyError("x")

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with pytest.raises(KeyError):
            fails()
        assert blas_threads() == before
