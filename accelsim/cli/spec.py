"""``accelsim spec``: show, check and describe spec files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import example, option
from accelsim.errors import Gather, Problem, UsageError, nearest
from accelsim.report.answer import Answer, Lines

if TYPE_CHECKING:
    from accelsim.spec.base import Model


@click.group(epilog=example("accelsim spec show tpu-v1", "accelsim spec check my-chip.yaml"))
def spec() -> None:
    """Show, check or describe spec files: chips, clusters, memories, links, energy tables, processors."""


def load_spec(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Model:
    """Return a chip or cluster by name, or a spec of any kind by its path. SpecError with all problems at once."""
    from accelsim.spec.yaml import clusters, load
    from accelsim.spec.yaml.parts import load_part

    if clusters.is_cluster(name_or_path):
        return clusters.load_cluster(name_or_path, overrides)
    kind = load.kind_of(file := load.file_of(name_or_path))
    if kind == "chips":
        return load.load_chip(name_or_path, overrides)
    return load_part(file, kind, load.KINDS[kind], overrides)


set_option = option("--set overrides", "Change a field. Repeatable.", multiple=True, metavar="PATH=VALUE")


@answers(
    "accelsim spec show tpu-v1",
    "accelsim spec show tpu-v1 --set 'clock=800 MHz'",
    "accelsim spec show 4x-edu",
    "accelsim spec show memories/ddr4-3200",
    outputs="json",
    make=spec.command,
)
@click.argument("spec")
@set_option
def show(gather: Gather, spec: str, overrides: tuple[str, ...]) -> Answer:
    """Print SPEC (the name of a chip or a cluster, or any spec file) with every default and every file that it is of.

    As YAML, which can be a spec file again, or with --json as JSON.
    """
    from accelsim.spec.yaml import load

    loaded = load_spec(spec, overrides)
    return Answer(load.resolved(loaded), [Lines(load.show(loaded).removesuffix("\n"))])


@answers(
    "accelsim spec tree tpu-v1",
    "accelsim spec tree edu-two-kinds --set little.count=3",
    outputs="json",
    make=spec.command,
)
@click.argument("chip")
@set_option
def tree(gather: Gather, chip: str, overrides: tuple[str, ...]) -> Answer:
    """Print the cores of CHIP and its memories as a tree: each below what fills it."""
    from accelsim.report import memory_tree
    from accelsim.spec.yaml.load import load_chip

    loaded = load_chip(chip, overrides)
    return Answer(memory_tree.facts(loaded), [Lines(memory_tree.text(loaded))])


@answers("accelsim spec check my-chip.yaml hwspecs/memories/hbm2.yaml", outputs="json", make=spec.command)
@click.argument("files", nargs=-1, required=True)
def check(gather: Gather, files: tuple[str, ...]) -> Answer:
    """Check spec FILES (names of chips or clusters, or YAML files); each error is reported with line and column."""
    from accelsim.errors import SpecError
    from accelsim.spec.yaml import load

    problems: dict[str, list[Problem]] = {}
    for file in files:
        try:
            problems[file] = load.check(file)
        except SpecError as error:
            problems[file] = list(error.problems)
    kinds = {file: None if found else load.kind_of(load.file_of(file)) for file, found in problems.items()}
    facts = [
        {"file": file, "kind": kinds[file], "problems": [str(problem) for problem in problems[file]]} for file in files
    ]
    shown = [Lines(f"{file}: nothing wrong ({kinds[file]})") for file in files if kinds[file]]
    wrong = [problem for file in files for problem in problems[file]]
    return Answer(facts, shown, fails=SpecError(wrong) if wrong else False)


@spec.command(epilog=example("accelsim spec schema chips > chips.schema.json"))
@click.argument("kind", default="chips")
def schema(kind: str) -> None:
    """Print the JSON schema of KIND: chips (default), clusters, memories, links, energy, processors, ..."""
    import json

    from accelsim.spec.yaml.load import KINDS
    from accelsim.spec.yaml.schema import schema as schema_of

    if kind not in KINDS:
        raise UsageError(f"no kind {kind!r} of spec files", "", ", ".join(KINDS), nearest(kind, KINDS))
    click.echo(json.dumps(schema_of(kind), indent=2))
