"""``accelsim spec``: show, check and describe spec files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import example, json_option, show_json
from accelsim.errors import Problem, UsageError, nearest

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


@spec.command(epilog=example(
    "accelsim spec show tpu-v1", "accelsim spec show tpu-v1 --set 'clock=800 MHz'", "accelsim spec show 4x-edu",
    "accelsim spec show memories/ddr4-3200",
))  # fmt: skip
@click.argument("spec")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field. Repeatable.")
@json_option
def show(spec: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print SPEC (the name of a chip or a cluster, or any spec file) with every default and every file that it is of.

    As YAML, which can be a spec file again, or with --json as JSON.
    """
    from accelsim.spec.yaml import load

    loaded = load_spec(spec, overrides)
    if as_json:
        show_json(load.resolved(loaded))
    else:
        click.echo(load.show(loaded), nl=False)


@spec.command(
    epilog=example("accelsim spec tree tpu-v1", "accelsim spec tree edu-two-kinds --set little.count=3")
)
@click.argument("chip")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field. Repeatable.")
@json_option
def tree(chip: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print the cores of CHIP and its memories as a tree: each below what fills it."""
    from accelsim.report import memory_tree
    from accelsim.spec.yaml.load import load_chip

    loaded = load_chip(chip, overrides)
    if as_json:
        show_json(memory_tree.facts(loaded))
    else:
        click.echo(memory_tree.text(loaded))


@spec.command(epilog=example("accelsim spec check my-chip.yaml hwspecs/memories/hbm2.yaml"))
@click.argument("files", nargs=-1, required=True)
@json_option
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Check spec FILES (names of chips or clusters, or YAML files); each error is reported with line and column."""
    from accelsim.errors import SpecError
    from accelsim.spec.yaml import load

    problems: list[Problem] = []
    facts: list[dict[str, Any]] = []
    for file in files:
        try:
            found = load.check(file)
        except SpecError as error:
            found = list(error.problems)
        kind = None if found else load.kind_of(load.file_of(file))
        facts.append({"file": file, "kind": kind, "problems": [str(problem) for problem in found]})
        if kind and not as_json:
            click.echo(f"{file}: nothing wrong ({kind})")
        problems += found
    if as_json:
        show_json(facts)
    if problems:
        raise SpecError(problems)


@spec.command(epilog=example("accelsim spec schema chips > chips.schema.json"))
@click.argument("kind", default="chips")
def schema(kind: str) -> None:
    """Print the JSON schema of KIND: chips (default), clusters, memories, links, energy, processors, ..."""
    import json

    from accelsim.spec.yaml.load import KINDS
    from accelsim.spec.yaml.schema import schema as schema_of

    if kind not in KINDS:
        raise UsageError(
            Problem(f"no kind {kind!r} of spec files", "", ", ".join(KINDS), nearest(kind, KINDS))
        )
    click.echo(json.dumps(schema_of(kind), indent=2))
