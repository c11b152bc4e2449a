"""What runs gave before the code was rearranged, to the last digit: time, commands, ledger, joules, values, mappings.

``python -m tests.helpers.unchanged record`` writes ``tests/golden/unchanged``, and nobody should need it: a number that
changes on purpose is a change of its own. ``python -m tests.helpers.unchanged [WORD ...]`` runs the cases whose
names hold all words, with the recorded mappings pinned, and tells what differs.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import accelsim
from accelsim.errors import AccelsimError
from accelsim.machine.critical_path import critical_path
from accelsim.workload.zoo.light import LIGHT

FOLDER = Path(__file__).parent.parent / "golden" / "unchanged"
RECORD, MAPPINGS = FOLDER / "runs.json", FOLDER / "mappings.json.gz"

CHIPS = ("dae-edu", "edu-4x4", "edu-mixed", "edu-tensor-core", "eyeriss-hierarchy", "haswell-e5-2699v3",
         "neuroncore-v2", "systolic-generic", "tpu-v1")  # fmt: skip
SMALL = ("mlp?hidden=32,layers=2", "cnn", "llama?seq=5,past=3", "moe", "gpt", "digits-cnn", "lstm?hidden=24,inputs=20,steps=3",
         "mobilenet?width=25,resolution=32", "bert?layers=1,hidden=64,heads=4,seq=9", "gemm?M=33,N=70,K=45")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run: arguments of ``accelsim.run`` behind model and chip."""

    model: str
    on: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Model, chip and options in one line."""
        return " ".join([self.model, self.on, *(f"{name}={value}" for name, value in self.options.items())])


def cases() -> Iterator[Case]:
    """All cases: light models without values everywhere, small ones with values, and one of each kind of option."""
    for chip in CHIPS:
        for model in LIGHT:
            yield Case(model, chip, {"values": "off", "limit_commands": 4_000_000})
        for model in SMALL:
            yield Case(model, chip, {"values": "exact", "limit_commands": 4_000_000})
    for chip in CHIPS[:5]:
        yield Case("cnn", chip, {"values": "fast", "batch": 3})
        yield Case("gemm?M=40,N=24,K=36", chip, {"dataflow": "os"})
        yield Case("gemm?M=40,N=24,K=36", chip, {"dataflow": "is", "array_timing": "sequential"})
        yield Case("cnn", chip, {"set": ["cores=2"]})
        yield Case("gpt?seq=1,past=40", chip, {"memory_model": "ideal"})
    for chip in ("edu-4x4", "tpu-v1"):
        for model in ("pattern", "bank"):
            yield Case("cnn", chip, {"memory_model": model})
    yield Case("bert-base", "neuroncore-v2", {"values": "off"})
    yield Case("resnet50", "tpu-v1", {"values": "off", "batch": 8})
    yield Case("llama2-7b?layers=1,past=100,seq=1", "neuroncore-v2", {"values": "off"})
    yield Case("mlp0", "tpu-v1", {"values": "off", "batch": 200})
    yield Case("cnn", "tpu-v1", {"scheme": "affine", "ranges": "mse"})
    yield Case("cnn", "edu-tensor-core", {"sparsity": "2:4"})


def outcome(case: Case, mapping: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures of a case (or the error that it ends in), and its mappings by layer."""
    try:
        run = accelsim.run(case.model, case.on, mapping=mapping or None, **case.options)
    except AccelsimError as error:
        return {"error": str(error).splitlines()[0]}, {}
    mappings = {step.name: asdict(step.mapping) for step in run.program.steps if step.mapping is not None}
    return {
        "time_fs": run.time_fs,
        "commands": len(run.program.commands),
        "timeline": _digest(sorted((s.start, s.data, s.end, s.op, s.label) for s in run.slices)),
        "ledger": _digest(sorted(map(tuple, run.ledger))),
        "energy": repr(run.energy_J),
        "outputs": {name: _values(value) for name, value in sorted(run.outputs.items())},
        "engines": _digest([(e.engine, e.busy, sorted(e.stalled.items()), e.idle) for e in run.engines]),
        "path": _digest([(p.start, p.end, p.kind, p.resource, p.why) for p in critical_path(run)]),
    }, mappings


def _digest(rows: Iterable[Any]) -> str:
    return hashlib.sha256(repr(list(rows)).encode()).hexdigest()[:16]


def _values(value: Any) -> str:
    array = np.ascontiguousarray(value)
    return f"{array.dtype}{list(array.shape)} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def differences(case: Case, recorded: Mapping[str, Any], mappings: Mapping[str, Any]) -> list[str]:
    """Return what of a case is not as recorded, its mappings pinned; [] where nothing differs."""
    found, _ = outcome(case, mappings.get(case.name))
    was = recorded.get(case.name, {})
    return [
        f"{case.name}: {name} {found.get(name)!r}, was {was.get(name)!r}"
        for name in sorted({*found, *was})
        if found.get(name) != was.get(name)
    ]


def read() -> tuple[dict[str, Any], dict[str, Any]]:
    """The record: figures and mappings, by name of the case."""
    return json.loads(RECORD.read_text()), json.loads(gzip.decompress(MAPPINGS.read_bytes()))


def record(words: list[str]) -> None:
    """Write what the cases whose names hold all ``words`` give now; the record of the others stays."""
    wanted = [case for case in cases() if all(word in case.name for word in words)]
    runs, mappings = read() if words else ({}, {})
    for case in wanted:
        runs[case.name], mappings[case.name] = outcome(case)
        print(case.name, runs[case.name].get("time_fs", runs[case.name]), flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(runs, indent=1) + "\n")
    MAPPINGS.write_bytes(gzip.compress(json.dumps(mappings, separators=(",", ":")).encode(), mtime=0))


def main(words: list[str]) -> int:
    """Check the cases whose names hold all ``words``; 1 where one differs."""
    recorded, mappings = read()
    wanted = [case for case in cases() if all(word in case.name for word in words)]
    found = [text for case in wanted for text in differences(case, recorded, mappings)]
    print("\n".join(found) or f"{len(wanted)} cases: no difference")
    return bool(found)


if __name__ == "__main__":
    sys.exit(record(sys.argv[2:]) if sys.argv[1:2] == ["record"] else main(sys.argv[1:]))
