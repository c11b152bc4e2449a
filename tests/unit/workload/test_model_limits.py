"""Models beyond what the compiler can count are refused by name, those at the limits are not."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx_models import model, node

from accelsim.errors import ModelError
from accelsim.workload.limits import LARGEST, MOST_MACS
from accelsim.workload.load import load_model


def refusals(name: str | Path) -> list[str]:
    with pytest.raises(ModelError) as caught:
        load_model(name)
    return [str(problem) for problem in caught.value.problems]


def csv(path: Path, *rows: str, header: str = "Layer,M,N,K") -> Path:
    file = path / "net.csv"
    file.write_text("\n".join((header, *rows)))
    return file


def test_dimensions_of_a_csv(tmp_path: Path) -> None:
    big = 10**12
    told = refusals(csv(tmp_path, f"one,{big},2,2", "two,2,2,2", f"three,2,2,{big}"))
    assert [text.split(" has shape ")[0] for text in told] == [
        f"tensor {name!r}" for name in ("one.a", "one", "three.a", "three.b")
    ]
    assert (
        told[0]
        == "tensor 'one.a' has shape 1000000000000 x 2; expected dimensions of 2,147,483,647 at the most"
    )


def test_elements_and_work(tmp_path: Path) -> None:
    told = refusals(csv(tmp_path, f"wide,{LARGEST},{LARGEST},1", f"deep,{2**19},{2**19},{2**19}"))
    assert told == [
        f"tensor 'wide' has shape {LARGEST} x {LARGEST}; expected 281,474,976,710,656 elements at the most",
        f"wide: 1 x {LARGEST} x {LARGEST} x 1 multiply-accumulates (groups x M x N x K); expected 1 to {MOST_MACS:,}",
        f"deep: 1 x {2**19} x {2**19} x {2**19} multiply-accumulates (groups x M x N x K); expected 1 to {MOST_MACS:,}",
    ]  # fmt: skip


def test_the_largest_are_taken(tmp_path: Path) -> None:
    graph = load_model(csv(tmp_path, f"long,{LARGEST},1,1", f"deep,{2**19},{2**18},{2**19}"))
    assert graph.tensors["long"].shape == (LARGEST, 1)


def test_products_of_zoo_parameters() -> None:
    assert (
        "y: 1 x 2000000000 x 2000000000 x 2000000000"
        in refusals("gemm?M=2000000000,N=2000000000,K=2000000000")[-1]
    )


def test_an_onnx_file(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    onnx.save(model([node("Relu", ["x"], ["y"])], {"x": (1, 2**40)}, ["y"]), path)
    assert [text.split(" has")[0] for text in refusals(path)] == [
        f"{path}: tensor 'x'",
        f"{path}: tensor 'y'",
    ]


def test_a_window(tmp_path: Path) -> None:
    path, far = tmp_path / "window.onnx", 2**40
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], strides=[far, far])
    onnx.save(model([pool], {"x": (1, 1, 8, 8)}, ["y"]), path)
    (told,) = refusals(path)
    assert told.endswith("strides [1099511627776, 1099511627776]; expected 2,147,483,647 at the most")
