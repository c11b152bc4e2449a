"""Options without effect: an error where another option takes it away, a note where the chip does."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.cli.options import numbers
from accelsim.errors import Gather, UsageError
from accelsim.formats.ranges.methods import METHODS
from accelsim.quantise_api import check_choices
from accelsim.request import OPTIONS, Request
from accelsim.request.fields import DEFAULTS
from accelsim.request.needs import BESIDE, ON_CHIPS, check_needs

GEMM = "gemm?M=4,N=4,K=4"
FEEDS = {"a": np.ones((4, 4), np.float32)}
WITHOUT: dict[str, dict[str, Any]] = {
    "percentile": {"percentile": 99.0},
    "quantiser": {"quantiser": "kernel"},
    "stack": {"stack": "vllm"},
    "seed": {"seed": 3, "inputs": FEEDS},
}
WITH: dict[str, dict[str, Any]] = {
    "percentile": {"percentile": 99.0, "ranges": "percentile-ort"},
    "quantiser": {"quantiser": "kernel", "fusion": "serving"},
    "stack": {"stack": "vllm", "fusion": "serving"},
    "seed": {"seed": 3},
}


def test_the_table_names_options_that_exist() -> None:
    assert {row.option for row in BESIDE} == WITHOUT.keys() == WITH.keys()
    assert {row.option for row in (*BESIDE, *ON_CHIPS)} <= {entry.name for entry in fields(Request)}
    assert BESIDE[0].needs == f"--ranges {' or '.join(name for name, each in METHODS.items() if each.percentile)}"


@pytest.mark.parametrize("option", WITHOUT)
def test_an_option_that_another_one_leaves_without_effect_is_refused(option: str) -> None:
    with pytest.raises(UsageError) as caught:
        accelsim.run(GEMM, "h100-sxm" if option == "stack" else "edu-4x4", **WITHOUT[option])
    (problem,) = caught.value.problems
    assert problem.what == f"--{option.replace('_', '-')} has no effect here" and problem.expected
    check_needs(vars(Request(GEMM, "edu-4x4", **WITH[option])))


def test_everything_without_effect_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        accelsim.run(GEMM, "edu-4x4", **WITHOUT["percentile"], **WITHOUT["seed"])
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("chip", "options", "note"),
    [
        ("t4", {"search": "best"}, "--search has no effect on t4: it needs an engine that searches for mappings"),
        ("edu-4x4", {"search": "best"}, ""),
        ("edu-4x4", {"share": "layer"}, "--share has no effect on edu-4x4: it needs a chip with several cores"),
        ("edu-4x4", {"share": "layer", "set": ["cores=2"]}, ""),
        (
            "t4",
            {"site": "pytorch-eager"},
            "--site has no effect on t4: it needs --fusion eager or sdpa, or a site that states the clock under load",
        ),
        ("t4", {"site": "pytorch-eager", "fusion": "eager"}, ""),
        ("t4", {"site": "pytorch-eager", "set": ["sm.sustained_clock=0.9"]}, ""),
    ],
)
def test_an_option_that_the_chip_gives_no_effect_is_a_note(chip: str, options: dict[str, Any], note: str) -> None:
    notes = accelsim.run(GEMM, chip, values="off", **options).program.notes
    assert [each for each in notes if "has no effect" in each] == [note] * bool(note)


def test_other_commands_use_the_same_table() -> None:
    asked = {name: DEFAULTS[name] for name, row in OPTIONS.items() if row.shared == "numbers"}
    gather = Gather()
    numbers(asked | {"layer_dtype": (), "percentile": 99.0}, gather)
    with pytest.raises(UsageError, match="--percentile has no effect here"):
        gather.done()
    with pytest.raises(UsageError, match="percentile 99 has no effect with ranges 'mse'"):
        check_choices("int8", "mse", "qdq", "symmetric", 99.0)
