"""Mutated spec files of every kind: loaded, and where they are taken shown, read back, and run."""

from __future__ import annotations

import json
import math
import random
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from accelsim.account.energy import energy_table, static_power_W
from accelsim.account.latency import layers, summary
from accelsim.cluster.shapes.building import build
from accelsim.errors import SpecError
from accelsim.report.words import sentences
from accelsim.request.job import Request, execute, prepare
from accelsim.spec.chip import Chip
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml import where
from accelsim.spec.yaml.kinds import KINDS
from accelsim.spec.yaml.load import check, load_chip, read_part, show

from .run_options import compile_loops
from .spec_mutations import mutate_text, mutate_tree, override

INTO = {
    "memories": ("edu-4x4", "memories.dram.memory"),
    "dram": ("edu-4x4", "memories.dram.memory"),
    "energy": ("edu-mixed", "energy"),
    "links": ("tpu-v1", "memories.pcie_memory.link"),
    "processors": ("edu-mixed", "host"),
}
"""Kind of a file -> the chip that takes it, and where."""
OVERRIDDEN, DERIVED, AS_TEXT, CLAIMING = 0.4, 0.1, 0.15, 0.5
"""Shares of the cases that change a chip by ``--set``, that state a chip by what differs from another; of files whose
text is mutated and not its tree, and of chips that keep what contradicts the rest as soon as it changes."""
WORKLOADS = ("mlp?hidden=16,layers=2",) * 5 + ("cnn", "gemm?M=5,N=7,K=9", "gpt-decode?layers=1,hidden=32,heads=2,seq=5")


ready = compile_loops


def case(seed: int) -> None:
    """One mutated file of hwspecs, or a chip with mutated overrides."""
    rng = random.Random(f"specs {seed}")
    sort = rng.random()
    if sort < OVERRIDDEN:
        _use(_overridden(rng), rng)
        return
    kind, path = ("chips", None) if sort < OVERRIDDEN + DERIVED else rng.choices(*_files())[0]
    text = path.read_text(encoding="utf-8") if path else _derived(rng)
    if rng.random() < AS_TEXT:
        text = mutate_text(text, rng)
    else:
        tree = yaml.safe_load(text)
        if rng.random() > CLAIMING:
            tree.pop("peak", None)
        text = yaml.safe_dump(mutate_tree(tree, rng), sort_keys=False, allow_unicode=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, kind, "m.yaml")
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        _load(kind, file, rng)


def _overridden(rng: random.Random) -> Chip:
    """A shipped chip with overrides; one of its memories is a DRAM now and then."""
    name = rng.choice(list(where.names("chips")))
    chip = load_chip(name)
    tree = yaml.safe_load(show(chip))
    settings = [override(tree, rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    if chip.memories and rng.random() < 0.25:
        memory, dram = rng.choice(list(chip.memories)), rng.choice(list(where.names("dram")))
        settings.insert(rng.randrange(len(settings) + 1), f"memories.{memory}.memory=dram/{dram}")
    return load_chip(name, settings)


def _derived(rng: random.Random) -> str:
    """A chip that starts from another and states some of that one's blocks, or of a third one's."""
    names = list(where.names("chips"))
    base, other = rng.choice(names), rng.choice(names)
    tree = yaml.safe_load(show(load_chip(rng.choice((base, base, other)))))
    kept = rng.sample(sorted(tree), rng.randint(1, min(5, len(tree))))
    return yaml.safe_dump({"use": f"chips/{base}", **{key: tree[key] for key in kept}}, sort_keys=False)


@cache
def _files() -> tuple[list[tuple[str, Path]], list[float]]:
    """Every shipped file with its kind, and how often it is drawn: chips are half of all."""
    found = [(kind, path) for kind in KINDS for path in where.names(kind).values()]
    chips = sum(kind == "chips" for kind, _ in found)
    return found, [0.5 / chips if kind == "chips" else 0.5 / (len(found) - chips) for kind, _ in found]


def _load(kind: str, file: Path, rng: random.Random) -> None:
    problems = check(file)
    if kind == "chips":
        if problems:
            raise SpecError(problems)
        _use(load_chip(file), rng)
        return
    made, again = read_part(file, KINDS[kind])
    assert [str(each) for each in again] == [str(each) for each in problems]
    if problems or made is None:
        raise SpecError(problems)
    assert KINDS[kind].model_validate(made.model_dump(mode="json")) == made
    if isinstance(made, ClusterSpec):
        build(made)
    if kind in INTO:
        chip, field = INTO[kind]
        _use(load_chip(chip, [f"{field}={json.dumps(str(file))}"]), rng)


def _use(chip: Chip, rng: random.Random) -> None:
    """A chip that was accepted: what ``show`` prints gives it again, and a small network runs on it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "shown.yaml")
        file.write_text(show(chip), encoding="utf-8", errors="surrogatepass")
        assert load_chip(file).model_dump() == chip.model_dump(), "what is shown is another chip"
    followed = all(each.memory.dram is not None for each in chip.memories.values())
    model = rng.choice(("bandwidth", "bandwidth", "ideal", "pattern", "bank") if followed else ("bandwidth", "ideal"))
    dataflow = rng.choice((None, None, None, "ws", "os", "is")) if chip.matrix else None
    asked, batch = rng.choice(WORKLOADS), rng.choice((None, None, 1, 3))
    job = prepare(Request(asked, chip, values="off", batch=batch, memory_model=model, dataflow=dataflow))
    run = execute(job)
    rows = energy_table(run)
    wrong = [row for row in rows if not (math.isfinite(row.energy_J) and row.energy_J >= 0)]
    assert not wrong, f"energies {wrong[:3]}"
    assert all(math.isfinite(power) and power >= 0 for power in static_power_W(chip).values())
    found, facts = layers(run), summary(run)
    json.dumps(facts, allow_nan=False)
    _finite([vars(layer) for layer in found])
    text = " ".join(sentences(run, found, facts))
    said, names = (set(re.findall(r"[\w%∞]+", each)) for each in (text, chip.model_dump_json()))
    assert not {"nan", "inf", "nan%", "inf%", "∞"} & (said - names), text


def _finite(value: Any) -> None:
    """Every number inside is finite."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            _finite(each)
    assert not isinstance(value, float) or math.isfinite(value), value
