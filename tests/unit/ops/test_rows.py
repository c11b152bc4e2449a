"""Operators are imported when they are asked for, and listed in the order of the table of modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

from accelsim.workload.ops.base import REGISTRY, find, get
from accelsim.workload.ops.rows import MODULES


def test_the_table_of_modules_names_the_operators_of_each() -> None:
    listed = [name for names in MODULES.values() for name in names.split()]
    assert list(REGISTRY)[: len(listed)] == listed
    for module, names in MODULES.items():
        rules = {
            getattr(REGISTRY[name], rule).__module__ for name in names.split() for rule in ("infer", "kernel", "work")
        }
        assert rules <= {f"accelsim.workload.ops.{part}" for part in (module, "elementwise", "values")}


def test_an_operator_loads_its_module_alone() -> None:
    code = "import sys; from accelsim.workload.ops import get; get('Relu'); print('accelsim.workload.ops.index' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "False"


def test_an_unknown_operator_has_no_row_and_a_near_name() -> None:
    assert find("Rleu") is None
    with pytest.raises(KeyError, match="nearest 'Relu'"):
        get("Rleu")
