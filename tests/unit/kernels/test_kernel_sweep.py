"""A size that grows: the staircase, what is said of it, and its picture."""

from __future__ import annotations

import re

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.kernels.sweep import MOST, parsed, sentences, swept
from accelsim.report.kernel import staircase
from accelsim.spec.yaml.load import load_chip
from tests.validation.kernel_plot import Compared, against_measured

NAMES = ("M", "K", "N", "B")
A100 = load_chip("a100-80-sxm")


def sweep(text: str = "M=128:4096:128"):
    return swept("gemm", "fp16", {"K": "4096", "N": "1536"}, parsed(text, NAMES), A100)


def test_a_range_with_and_without_its_step() -> None:
    assert list(parsed("M=1:9:4", NAMES).sizes) == [1, 5, 9] and list(parsed("K=1:3", NAMES).sizes) == [1, 2, 3]
    assert 200 < len(parsed("K=1:8192", NAMES).sizes) < 300


@pytest.mark.parametrize(
    "text, said",
    [("M", "no range"), ("X=1:2", "no size 'X'"), ("M=4:2", "4 to 2"), ("M=0:2", "0 to 2"),
     (f"M=1:{2 * MOST}:1", "40,000 kernels"), ("M=1:2:9", "1 kernel;")],
)  # fmt: skip
def test_what_is_no_range(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        parsed(text, NAMES)


def test_the_steepest_step_is_that_of_the_waves() -> None:
    """At M = 2,176 one wave of 256 x 128 ends; the sentences say what the arrays say."""
    found = sweep()
    told, seconds = sentences(found), found.found.seconds
    first, then = map(int, re.findall(r"= ([\d,]+) to ([\d,]+)", told[0].replace(",", ""))[0])
    at = list(found.sizes).index(first)
    assert found.sizes[at + 1] == then and seconds[at + 1] / seconds[at] == np.max(seconds[1:] / seconds[:-1])
    best = int(found.sizes[np.argmax(found.share)])
    assert f"nearest at M = {best:,}, with {np.max(found.share):.0%} of the time" in told[-1]


def test_pictures_show_their_rows() -> None:
    figure = staircase(sweep()).figure()
    assert figure.axes[0].get_title(loc="left").startswith("gemm in fp16") and len(figure.axes[0].lines) >= 3
    measured = np.array([1e-5, 1e-4, 1e-3])
    regime = np.array(["few waves", "many waves", "many waves"], dtype=object)
    rows = Compared("a chip", measured, measured * 1.1, regime, 1.2)
    drawn = against_measured("a check", [rows] * 4)
    assert "3 rows, mean error 10.0%" in drawn.axes[0].get_title(loc="left")
    assert [len(line.get_xdata()) for line in drawn.axes[0].lines] == [2, 1, 2] and not drawn.axes[5].get_visible()
