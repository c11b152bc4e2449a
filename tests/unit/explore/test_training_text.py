"""Language models learn a text: on one device, in other precisions, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.explore.training import evaluate, train
from accelsim.explore.training_inputs import prepare
from accelsim.workload.sources.datasets import load_dataset

GPT = "gpt?layers=1,hidden=32,ffn=64,vocab=16"


def test_windows_do_not_overlap_and_labels_are_the_next_tokens() -> None:
    made, text = prepare(GPT, "sums", steps=1, batch=4), load_dataset("sums").x_train
    assert np.array_equal(made.data.x.reshape(-1), text[: made.data.x.size])
    assert np.array_equal(made.data.y.reshape(-1), text[1 : made.data.x.size + 1])
    assert made.data.x.shape[1] == made.graph.tensors[made.input].shape[1] == 16


def test_a_language_model_learns_the_form_of_sums() -> None:
    result = train(GPT, steps=150, batch=32, optimiser="adam", lr=0.01)
    assert result.losses[-1] < 0.6 * result.losses[0]
    assert result.test_accuracy > 0.45, "signs and spaces are told by what is before them, operands by nothing"
    assert result.test_accuracy == pytest.approx(evaluate(result.graph, "sums"))


@pytest.mark.parametrize("precision", ["mixed", "mixed-bf16"])
def test_narrower_products_learn_as_much(precision: str) -> None:
    wide, narrow = (train(GPT, steps=40, batch=32, optimiser="adam", lr=0.01, precision=p) for p in ("fp32", precision))
    assert narrow.losses[-1] == pytest.approx(wide.losses[-1], rel=0.05)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (GPT, "digits", "no text for gpt"),
        ("digits-mlp", "sums", "a text for digits-mlp"),
        ("gpt?layers=1,vocab=8", "sums", "13 different tokens.*at most 8"),
    ],
)
def test_data_that_do_not_fit(model: str, data: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(model, data, steps=1)


def test_a_text_that_is_too_short(tmp_path: Path) -> None:
    np.savez(tmp_path / "short.npz", text=np.arange(40) % 5)
    with pytest.raises(UsageError, match="1 sample to train on"):
        train(GPT, tmp_path / "short.npz", steps=1, batch=2)
