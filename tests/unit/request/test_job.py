"""The Python API: the public names, the one-call run, and the errors of independent checks together."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.errors import AccelsimError, Gather, Infeasible, ModelError, SpecError, UsageError
from accelsim.program.mapping_file import save_mappings
from accelsim.request import Request
from accelsim.request.job import prepare
from tests.helpers.onnx_models import model, node

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))


def test_every_public_name_is_there() -> None:
    assert dir(accelsim) == sorted(accelsim.__all__)
    for name in accelsim.__all__:
        assert getattr(accelsim, name) is not None
    assert accelsim.errors.UsageError is UsageError
    with pytest.raises(AttributeError, match="it has Result, Run, __version__, accuracy, choose, compile"):
        accelsim.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_three_steps_are_the_one_call() -> None:
    graph, chip = accelsim.load_model("mlp?hidden=16"), accelsim.load_chip("edu-4x4")
    steps = accelsim.simulate(accelsim.compile(graph, chip), synthetic(graph, 0), "exact")
    once = accelsim.run(graph, chip)
    assert isinstance(once, accelsim.Run)
    assert (once.slices, once.ledger) == (steps.slices, steps.ledger)
    assert once.tensors == {}
    assert set(accelsim.run(graph, chip, keep=True).tensors) >= set(once.outputs)


@pytest.fixture
def open_shapes(tmp_path: Path) -> Path:
    """y = x w + b, where only ranks and one size are stated."""
    proto = model(
        [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])],
        {"x": ("batch", "steps", 8), "w": (8, None), "b": ("batch", "steps", None)}, ["y"],
    )  # fmt: skip
    path = tmp_path / "open.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def arrays(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def test_arrays_for_every_input_say_what_the_model_leaves_open(open_shapes: Path, tmp_path: Path) -> None:
    given = arrays(x=(2, 3, 8), w=(8, 5), b=(2, 3, 5))
    np.savez(tmp_path / "in.npz", **given)
    for inputs in (given, tmp_path / "in.npz", str(tmp_path / "in.npz")):
        run = accelsim.run(open_shapes, "edu-4x4", inputs=inputs, dtype="fp32")
        np.testing.assert_allclose(run.outputs["y"], np.full((2, 3, 5), 9.0))
    cores = accelsim.run(open_shapes, "edu-4x4", inputs=arrays(x=(4, 3, 8), w=(16, 5), b=(4, 3, 5)), set=["cores=2"])
    assert cores.program.graph.tensors["x"].shape == (2, 3, 8)


@pytest.mark.parametrize(
    ("inputs", "options", "told"),
    [
        (arrays(x=(2, 3, 8)), {}, r"input 'w' has shape \[8, \?\]; expected .*or --inputs with every array"),
        (arrays(x=(2, 3, 7), w=(8, 5), b=(2, 3, 5)), {}, r"input 'x' has shape \[2, 3, 7\]; expected \[2, 3, 8\]"),
        (arrays(x=(2, 8), w=(8, 5), b=(2, 3, 5)), {}, r"input 'x' has shape \[\?, \?, 8\]|\[batch, steps, 8\]"),
        (arrays(x=(2, 3, 8), w=(8, 5), b=(2, 3, 5)), {"shape": {"x": (1, 3, 8)}}, r"input 'x' has shape \[2, 3, 8\]"),
    ],
)
def test_arrays_that_do_not_fit_the_model_are_told(
    open_shapes: Path, inputs: dict[str, np.ndarray], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(AccelsimError, match=told):
        accelsim.run(open_shapes, "edu-4x4", inputs=inputs, **options)


def test_same_seed_same_values_another_seed_others() -> None:
    def outputs(**more: Any) -> np.ndarray:
        return next(iter(accelsim.run("mlp?hidden=16", "edu-4x4", dtype="fp32", **more).outputs.values()))

    np.testing.assert_array_equal(outputs(seed=4), outputs(seed=4))
    assert not np.array_equal(outputs(seed=4), outputs(seed=5))
    assert not np.array_equal(outputs(weights="random:1"), outputs(weights="random:2"))


def test_a_mapping_may_be_a_file_or_a_dictionary(tmp_path: Path) -> None:
    free = accelsim.run("gemm?M=64,N=64,K=64", "edu-4x4", values="off")
    save_mappings(free.program, tmp_path / "m.yaml")
    kept = accelsim.run("gemm?M=64,N=64,K=64", "edu-4x4", values="off", mapping=tmp_path / "m.yaml")
    assert kept.slices == free.slices
    small = accelsim.run("gemm?M=64,N=64,K=64", "edu-4x4", values="off", mapping={"y": {"tm": 8, "tn": 4, "tk": 4}})
    assert len(small.program.commands) > len(free.program.commands)
    with pytest.raises(UsageError, match=r"'yy' that the model does not have.*did you mean 'y'"):
        accelsim.run("gemm", "edu-4x4", mapping={"yy": {"tm": 8}})


def test_a_single_error_keeps_its_kind_and_several_come_together() -> None:
    with pytest.raises(SpecError):
        accelsim.run("cnn", "tpu-v9")
    with pytest.raises(ModelError):
        accelsim.run("cmm", "tpu-v1")
    with pytest.raises(Infeasible):
        accelsim.run("cnn", "edu-4x4", set=["act_sram.capacity=64 B"])
    with pytest.raises(UsageError) as caught:
        accelsim.run("cmm", "tpu-v9", values="exat")
    assert len(caught.value.problems) == 3


def test_what_cannot_be_changed_any_more_is_refused() -> None:
    graph, chip = accelsim.load_model("cnn"), accelsim.load_chip("tpu-v1")
    with pytest.raises(UsageError) as caught:
        prepare(Request(graph, chip, batch=2, set=["clock=1 GHz"]))
    assert len(caught.value.problems) == 2


def test_problems_of_the_caller_come_first() -> None:
    gather = Gather()
    with gather.also():
        raise UsageError("mine")
    with pytest.raises(UsageError) as caught:
        prepare(Request("cnn", "tpu-v9"), gather)
    assert [problem.what for problem in caught.value.problems] == ["mine", "no chip 'tpu-v9'"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
