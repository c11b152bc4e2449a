"""Simulator and cost model of AI accelerators: values, cycles and joules from one run.

The public names are loaded on first use, so ``import accelsim`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelsim import errors
    from accelsim.compiler.passes import compile
    from accelsim.explore.accuracy import accuracy
    from accelsim.explore.generation import generate
    from accelsim.explore.training import train
    from accelsim.explore.what_ifs import what_ifs
    from accelsim.machine.run import Run
    from accelsim.quantise_api import quantize
    from accelsim.report.bill import price
    from accelsim.report.choose import choose
    from accelsim.report.swept import sweep
    from accelsim.result import Result, run, simulate
    from accelsim.spec.yaml.load import load_chip
    from accelsim.workload.sources.load import load_model

    __version__: str

__all__ = [
    "Result", "Run", "__version__", "accuracy", "choose", "compile", "errors", "generate", "load_chip", "load_model",
    "price", "quantize", "run", "simulate", "sweep", "train", "what_ifs",
]  # fmt: skip

_HOME = {
    "load_chip": "accelsim.spec.yaml.load",
    "load_model": "accelsim.workload.sources.load",
    "compile": "accelsim.compiler.passes",
    "simulate": "accelsim.result",
    "run": "accelsim.result",
    "Result": "accelsim.result",
    "Run": "accelsim.machine.run",
    "accuracy": "accelsim.explore.accuracy",
    "choose": "accelsim.report.choose",
    "generate": "accelsim.explore.generation",
    "price": "accelsim.report.bill",
    "quantize": "accelsim.quantise_api",
    "sweep": "accelsim.report.swept",
    "train": "accelsim.explore.training",
    "what_ifs": "accelsim.explore.what_ifs",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("accelsim.errors")
    if name == "__version__":
        from accelsim.version import tool_version

        return tool_version()
    if name not in _HOME:
        raise AttributeError(f"module 'accelsim' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
