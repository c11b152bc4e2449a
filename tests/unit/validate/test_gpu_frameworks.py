"""Two numbers of a framework on a machine."""

from __future__ import annotations

import pytest

from tests.validation.gpu_frameworks import Measured, _fitted, _pass_s, told


def row(simulated: float, seconds: float, chip: str = "t4") -> Measured:
    return Measured("PyTorch", "resnet50", chip, 1, seconds, simulated)


def test_floor_and_factor_come_of_the_rows() -> None:
    rows = [row(1.0, 12.0), row(4.0, 12.0), row(20.0, 28.0), row(150.0, 210.0)]
    assert _fitted(rows) == pytest.approx((12.0, 1.4))
    assert _pass_s(row(2.0, 0.0), rows) == 12 and _pass_s(row(100.0, 0.0), rows) == pytest.approx(140)


LINE = {
    "source": "NVIDIA/DeepLearningExamples TensorFlow/X/README.md line 3", "workload": "ResNet-50 v1.5",
    "chip_id": "nvidia-t4", "phase": "inference", "precision": "FP16 mixed", "n_chips": "1",
    "shape_or_batch": "Batch Size=8", "metric": "Avg throughput", "value": "400.0",
}  # fmt: skip


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({}, ("TensorFlow", "resnet50", "t4", 8, 0.02)),
        (
            {"workload": "BERT-Base fine-tune", "shape_or_batch": "Sequence Length=128; Batch Size=2",
             "metric": "Latency-Average(ms)", "value": "7.5"},
            ("TensorFlow", "bert-base?seq=128", "t4", 2, 0.0075),
        ),
        ({"precision": "FP32"}, None),
        ({"n_chips": "8"}, None),
        ({"metric": "Latency Avg"}, None),
        ({"source": "NVIDIA/DeepLearningExamples PaddlePaddle/X/README.md line 3"}, None),
    ],
)  # fmt: skip
def test_lines_are_read(changed: dict[str, str], expected: object) -> None:
    found = told({**LINE, **changed})
    assert found == pytest.approx(expected) if found is None else found[:4] == expected[:4]  # type: ignore[index]
    assert found is None or found[4] == pytest.approx(expected[4])  # type: ignore[index]
