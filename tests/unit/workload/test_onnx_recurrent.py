"""Recurrent layers, which the import unrolls, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.graph import Array
from tests.helpers.onnx_models import against_ort, import_proto, model, node

RNG = np.random.default_rng(3)


def f32(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 5, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(op: str, extra: Mapping[str, Array] | None = None, **attrs: Any) -> None:
    """A layer with bias and start values; ``extra``: lens and P."""
    both = 2 if attrs.get("direction") == "bidirectional" else 1
    gates, extra = GATES[op], extra or {}
    weights = {
        "w": f32(both, gates * HIDDEN, WIDTH), "r": f32(both, gates * HIDDEN, HIDDEN), "b": f32(both, 2 * gates * HIDDEN),
        **extra, "h": f32(both, BATCH, HIDDEN), **({"c": f32(both, BATCH, HIDDEN)} if op == "LSTM" else {}),
    }  # fmt: skip
    names = ["x", "w", "r", "b", "lens" if "lens" in extra else "", "h", *(["c"] if op == "LSTM" else [])]
    outputs = ["y", "yh", *(["yc"] if op == "LSTM" else [])]
    made = node(op, [*names, *(["p"] if "p" in extra else [])], outputs, hidden_size=HIDDEN, **attrs)
    against_ort(model([made], {"x": (STEPS, BATCH, WIDTH)}, outputs, weights), {"x": f32(STEPS, BATCH, WIDTH)})


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_directions_and_lengths(op: str, direction: str) -> None:
    recurrent(op, direction=direction)
    recurrent(op, {"lens": np.array([4, 2, 3], np.int32)}, direction=direction)


def test_variants_of_recurrent_layers() -> None:
    recurrent("LSTM", {"p": f32(1, 3 * HIDDEN)})
    recurrent("LSTM", input_forget=1)
    recurrent("LSTM", activations=["HardSigmoid", "Softsign", "Relu"], activation_alpha=[0.3], activation_beta=[0.4])
    recurrent("GRU", linear_before_reset=1)
    recurrent("GRU", activations=["Sigmoid", "LeakyRelu"], activation_alpha=[0.2])
    recurrent("RNN", activations=["Affine"], activation_alpha=[0.7], activation_beta=[0.1])
    recurrent("RNN", clip=0.5)


def test_recurrent_layers_of_batches_first_are_the_same_transposed() -> None:
    w, r, x = f32(1, 8, 5), f32(1, 8, 2), f32(STEPS, BATCH, 5)
    values = {}
    for layout, shape in ((0, x.shape), (1, (BATCH, STEPS, 5))):
        made = node("LSTM", ["x", "w", "r"], ["y", "yh"], hidden_size=2, layout=layout)
        graph = import_proto(model([made], {"x": shape}, ["y", "yh"], {"w": w, "r": r}))
        values[layout] = run(graph, {"x": x if layout == 0 else x.transpose(1, 0, 2)})
    np.testing.assert_allclose(values[1]["y"].transpose(1, 2, 0, 3), values[0]["y"], rtol=1e-6)
    np.testing.assert_allclose(values[1]["yh"].transpose(1, 0, 2), values[0]["yh"], rtol=1e-6)


def test_recurrent_layers_refuse_what_the_host_would_get_wrong() -> None:
    weights = {"w": f32(1, 2, 5), "r": f32(1, 2, 2)}
    strange = node("RNN", ["x", "w", "r"], ["y"], hidden_size=2, activations=["Sinus"])
    with pytest.raises(ModelError, match=r"activation 'sinus' of RNN"):
        import_proto(model([strange], {"x": (4, 3, 5)}, ["y"], weights))
    made = node("RNN", ["x", "w", "r", "", "n"], ["y"], hidden_size=2)
    proto = model([made], {"x": (4, 3, 5)}, ["y"], weights)
    proto.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT32, [3]))
    with pytest.raises(ModelError, match="the sequence lengths of RNN are values"):
        import_proto(proto)
