"""Bursts of a run in a file, for other memory simulators: ``accelsim run --save-trace``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.errors import Problem, UsageError
from accelsim.files import Make
from accelsim.machine.memory_models import MODELS
from accelsim.machine.run import Run
from accelsim.spec.dram import Dram
from accelsim.spec.yaml.parts import list_drams, load_dram


def accesses_file(run: Run, path: Path) -> Make:
    """Return what writes ``run.accesses`` as an npz file; ``path`` is named in errors.

    Per memory the arrays ``<memory>.at`` (int64, clocks of the DRAM at which the burst arrived), ``.address`` (int64,
    bytes), ``.write`` (bool) and ``.op`` (int32, step of the program); and ``meta``, JSON with 'chip', 'model',
    'memory_model', 'memory' (memory -> name of its DRAM, '' where the chip changes what the file of that name says)
    'clock_fs' (memory -> tCK) and 'dram' (memory -> the whole spec of its DRAM).

    UsageError when the run kept no bursts.
    """
    if not run.accesses and not run.dram and run.memory_model in ("pattern", "bank"):
        raise UsageError("no burst of this run went through an off-chip memory of the chip", str(path))
    if not run.accesses:
        expected = "a run with memory model 'pattern' or 'bank' that was told to record them"
        raise UsageError("the run kept no bursts", str(path), expected)
    arrays = _arrays(run)
    return lambda file: np.savez_compressed(file, **arrays)


def _preset(dram: Dram | None) -> str:
    return next((name for name in list_drams() if load_dram(name) == dram), "")


def _arrays(run: Run) -> dict[str, Any]:
    meta = {
        "chip": run.chip.name,
        "model": run.program.graph.name,
        "memory_model": run.memory_model,
        "memory": {name: _preset(run.chip.memories[name].memory.dram) for name in run.dram},
        "dram": {
            name: attached.memory.dram.model_dump(mode="json", exclude_none=True)
            for name, attached in run.chip.memories.items()
            if attached.memory.dram is not None
        },
        "clock_fs": {name: stats.device.clock_fs for name, stats in run.dram.items()},
    }
    arrays: dict[str, Any] = {"meta": np.array(json.dumps(meta))}
    for name, accesses in run.accesses.items():
        order = np.argsort(accesses.at, kind="stable")  # as a file of accesses has them: clocks never fall
        arrays |= {f"{name}.{field}": getattr(accesses, field)[order] for field in accesses._fields}
    return arrays


def check_accesses_file(file: Path, memory_model: str) -> None:
    """Raise UsageError where a run with this memory model could not write its bursts into a file of this name."""
    followed = [name for name, level in MODELS.items() if level.dram is not None]
    problems = []
    if memory_model in MODELS and memory_model not in followed:
        what = f"--save-trace with memory model {memory_model!r}, which sees no addresses"
        problems.append(Problem(what, "", f"--memory-model {' or '.join(followed)}"))
    if file.suffix != ".npz":
        problems.append(Problem(f"--save-trace {file}", "", "a name that ends in .npz"))
    UsageError.raise_for(problems)
