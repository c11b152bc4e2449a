"""The closed forms equal the tile-by-tile model: clocks, bytes, multiplications, values.

``BSP_CASES=5000`` draws more cases than the 300 of a common run.
"""

from __future__ import annotations

import os
from dataclasses import astuple
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings

from accelsim.engines.bsp.partition import results_of_tiles, weights_of_tiles
from accelsim.engines.bsp.supersteps import Parts, Product, supersteps
from accelsim.errors import UsageError
from tests.helpers.bsp_cases import EDU, operands, problems
from tests.validation.oracles import bsp as oracle

CASES = int(os.environ.get("BSP_CASES", "300"))


@settings(max_examples=CASES)
@given(problems())
def test_closed_forms_equal_the_model(problem):
    unit, product, partition = problem
    a, b = operands(product, seed=product.macs)
    found = oracle.run(unit, "fp32", product, partition, a, b)
    assert np.array_equal(found.values, a @ b)
    assert sum(found.macs.values()) == product.macs
    multiply, reduce = supersteps(unit, "fp32", product, partition.many())
    assert found.steps[0].figures(unit) == multiply.one()
    if partition.k > 1:
        assert found.steps[1].figures(unit) == reduce.one()
    else:
        assert not any(reduce.one())


@given(problems())
def test_weights_are_there_once(problem):
    unit, product, partition = problem
    held = weights_of_tiles(unit.formats["fp32"], product, partition)
    assert len(held) == prod(astuple(partition))
    assert held.sum() == product.groups * product.K * product.N * product.b_B


@given(problems())
def test_results_are_those_that_the_model_leaves(problem):
    unit, product, partition = problem
    row = unit.formats["fp32"]
    found = results_of_tiles(row, product, partition)
    assert found.sum() == product.groups * product.M * product.N
    if partition.k == 1:
        assert found.tolist() == [len(piece.y()) for piece in oracle.pieces(row, product, partition)]


def test_a_product_by_hand():
    """4 x 4 x 4 on four tiles, blocks of 2 x 2: A comes in two words of 4 B a row, weights are shared by two tiles."""
    product, partition = Product(1, 4, 4, 4, 4, 4, 4, 4), Parts(1, 1, 2, 2, 1)
    multiply, _ = supersteps(EDU, "fp32", product, partition.many())
    one_pass = 2 * 2 + 2 * 1  # four weights of 4 B at 4 B a clock; two rows on two threads, a slot each
    assert multiply.one()._asdict() == {
        "sync": 10,
        "exchange": 2 * 4 + 4,  # two rows of four words of A; half of eight words of B
        "compute": 2 * one_pass,
        "sent": (16 + 16) * 4,
        "received": (2 * 16 + 16) * 4,
        "read": (16 * 2 + 16 * 2 + 16) * 4,
        "written": 2 * 16 * 4,
        "held": (8 + 8 + 4) * 4,
    }


def test_the_model_refuses_what_it_does_not_have():
    product = Product(1, 8, 8, 8, 4, 4, 4, 4)
    with pytest.raises(UsageError, match="16 tiles"):
        oracle.run(EDU, "fp32", product, Parts(1, 1, 8, 4, 1), *operands(product, 0))
