"""Mutated models of the test suite of the ``onnx`` package, as ``models`` does with its own."""

from __future__ import annotations

import random
import warnings
from functools import cache

import numpy as np
import onnx

from .models import try_model
from .run_options import compile_loops


def case(seed: int) -> None:
    """One mutated model of the suite."""
    rng = random.Random(f"nodes {seed}")
    try_model(rng.choice(_models()), rng)


def ready() -> None:
    """Make the models, and what the others make ready: it takes longer than a case may."""
    compile_loops()
    _models()


@cache
def _models() -> tuple[onnx.ModelProto, ...]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = sorted(collect_testcases(None), key=lambda each: each.name)
    return tuple(each.model for each in cases if each.model is not None)
