"""Models beyond what the compiler can count are refused by name, those at the limits are not."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import AccelsimError, ModelError, TooLarge, UsageError
from accelsim.workload import constants
from accelsim.workload.limits import LARGEST, MOST_MACS, limited
from accelsim.workload.ops.values import common_shape
from accelsim.workload.sources.load import list_models, load_model
from accelsim.workload.zoo import build
from tests.helpers.onnx_models import import_proto, model, node


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
    assert told[0] == "tensor 'one.a' has shape 1000000000000 x 2; expected dimensions of 2,147,483,647 at the most"


def test_elements_and_work(tmp_path: Path) -> None:
    told = refusals(csv(tmp_path, f"wide,{LARGEST},{LARGEST},1", f"deep,{2**19},{2**19},{2**19}"))
    assert told == [
        f"tensor 'wide' has shape {LARGEST} x {LARGEST}; expected 281,474,976,710,656 elements at the most",
        f"wide: 1 x {LARGEST} x {LARGEST} x 1 multiply-accumulates (groups x M x N x K); expected 1 to {MOST_MACS:,}",
        f"deep: 1 x {2**19} x {2**19} x {2**19} multiply-accumulates (groups x M x N x K); expected 1 to {MOST_MACS:,}",
    ]  # fmt: skip


def test_too_many_tokens_are_said_to_be_that() -> None:
    """Shapes that broadcast are never said not to, whatever their size; of hundreds of tensors the first are named."""
    told = refusals(f"llama2-7b?seq={LARGEST - 1}")
    assert told[0].startswith("llama2-7b: 193 tensors and 160 layers are beyond the limits; here are the first")
    assert told[1].startswith(f"tensor 'mask' has shape {LARGEST - 1} x {LARGEST - 1}; expected 281,474,976,710,656")
    assert not [text for text in told if "broadcast" in text] and len(told) == 7


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(-1, 3), max_size=5).map(tuple), min_size=1, max_size=4))
def test_common_shapes_are_those_of_numpy(shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ValueError, match="no common shape"):
            common_shape(*shapes)
    else:
        assert common_shape(*shapes) == expected


def test_the_largest_are_taken(tmp_path: Path) -> None:
    graph = load_model(csv(tmp_path, f"long,{LARGEST},1,1", f"deep,{2**19},{2**18},{2**19}"))
    assert graph.tensors["long"].shape == (LARGEST, 1)


def test_products_of_zoo_parameters() -> None:
    assert "y: 1 x 2000000000 x 2000000000 x 2000000000" in refusals("gemm?M=2000000000,N=2000000000,K=2000000000")[-1]


def test_an_onnx_file(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    onnx.save(model([node("Relu", ["x"], ["y"])], {"x": (1, 2**40)}, ["y"]), path)
    assert [text.split(" has")[0] for text in refusals(path)] == [f"{path}: tensor 'x'", f"{path}: tensor 'y'"]


def test_a_window(tmp_path: Path) -> None:
    path, far = tmp_path / "window.onnx", 2**40
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], strides=[far, far])
    onnx.save(model([pool], {"x": (1, 1, 8, 8)}, ["y"]), path)
    (told,) = refusals(path)
    assert told.endswith("strides [1099511627776, 1099511627776]; expected 2,147,483,647 at the most")


LONG = [(row.name, name) for row in list_models() for name in row.parameters]
"""Every parameter of every listed model."""


@pytest.mark.parametrize(("model_name", "name"), LONG)
def test_the_largest_parameters_of_listed_models(model_name: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_NODES", 1_500)  # or a graph of 65,536 nodes takes seconds
    asked = [f"{model_name}?{name}={LARGEST}"]
    if (model_name, "context") in LONG:
        asked.append(f"{model_name}?context={LARGEST},{name}={LARGEST}")
    tracemalloc.start()
    for each in dict.fromkeys(asked):
        with suppress(AccelsimError), limited(memory_B=1 << 25):
            load_model(each)
    peak_B = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_B < 1 << 27


def test_nodes_of_a_listed_model() -> None:
    (told,) = refusals("lstm?steps=70000")
    assert told == "a lstm of 70,000 nodes or more; expected 65,536 at the most: fewer layers or steps"


def test_positions_of_a_listed_model() -> None:
    with pytest.raises(TooLarge, match="constant 'here' takes about"):
        load_model(f"bert-base?context={LARGEST},seq={LARGEST}")


def test_a_chain_of_constants_is_refused_before_any_of_them_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is twice as large as the one before, and the last too large."""
    chain = [node("Concat", [f"t{index}"] * 2, [f"t{index + 1}"], axis=0) for index in range(14, 33)]
    last = [node("ReduceSum", ["t33"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    graph = import_proto(model([*chain, *last], {"x": (3,)}, ["y"], {"t14": np.ones(1 << 14, np.float32)}))
    monkeypatch.setattr(constants.base, "get", lambda op: pytest.fail(f"{op} was made"))
    with pytest.raises(TooLarge, match="a constant of 2147483648 that n_t31 makes takes about 24 GiB"):
        graph.tensors["s"].value()


def test_least_parameters() -> None:
    assert refusals("llama?bias=2") == ["bias=2; expected 1 or 0: biases or none"]
    assert sum(node.op == "Conv" for node in load_model("cnn0?layers=3").nodes) == 3
    with pytest.raises(UsageError, match="cnn0: layers=2; expected 3 to"):
        load_model("cnn0?layers=2")
