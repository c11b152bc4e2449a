"""``accelsim spec``: show, check and describe spec files."""

from __future__ import annotations

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import example, set_option
from accelsim.errors import Gather
from accelsim.report.answer import Answer, Lines


@click.group(epilog=example("accelsim spec show tpu-v1", "accelsim spec check my-chip.yaml"))
def spec() -> None:
    """Show, check or describe spec files: chips, clusters, memories, links, energy tables, processors."""


@answers(
    "accelsim spec show tpu-v1",
    "accelsim spec show tpu-v1 --set 'clock=800 MHz'",
    "accelsim spec show 4x-edu",
    "accelsim spec show memories/ddr4-3200",
    outputs="json",
    make=spec.command,
)
@click.argument("spec")
@set_option()
def show(gather: Gather, spec: str, overrides: tuple[str, ...]) -> Answer:
    """Print SPEC (the name of a chip or a cluster, or any spec file) with every default and every file that it is of.

    As YAML, which can be a spec file again, or with --json as JSON.
    """
    from accelsim.spec.yaml.clusters import load_spec
    from accelsim.spec.yaml.load import resolved, show

    loaded = load_spec(spec, overrides)
    return Answer(resolved(loaded), [Lines(show(loaded).removesuffix("\n"))])


@answers(
    "accelsim spec tree tpu-v1",
    "accelsim spec tree edu-two-kinds --set little.count=3",
    outputs="json",
    make=spec.command,
)
@click.argument("chip")
@set_option()
def tree(gather: Gather, chip: str, overrides: tuple[str, ...]) -> Answer:
    """Print the cores of CHIP and its memories as a tree: each below what fills it."""
    from accelsim.report.specs import tree
    from accelsim.spec.yaml.load import load_chip

    return tree(load_chip(chip, overrides))


@answers("accelsim spec check my-chip.yaml hwspecs/memories/hbm2.yaml", outputs="json", make=spec.command)
@click.argument("files", nargs=-1, required=True)
def check(gather: Gather, files: tuple[str, ...]) -> Answer:
    """Check spec FILES (names of chips or clusters, or YAML files); each error is reported with line and column."""
    from accelsim.report.specs import checked

    return checked(files)


@spec.command(epilog=example("accelsim spec schema chips > chips.schema.json"))
@click.argument("kind", default="chips")
def schema(kind: str) -> None:
    """Print the JSON schema of KIND: chips (default), clusters, memories, links, energy, processors, ..."""
    import json

    from accelsim.spec.yaml.schema import schema

    click.echo(json.dumps(schema(kind), indent=2))
