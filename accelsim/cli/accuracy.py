"""``accelsim accuracy``: what each number format costs in accuracy, and saves in time and energy."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    OUT,
    check_folder,
    check_outputs,
    csv_option,
    example,
    json_option,
    paragraphs,
    plot_option,
    progress,
    save_csv,
    save_plot,
    show,
    show_json,
    whole_list,
    width,
)
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options, number_options, numbers
from accelsim.errors import Problem, UsageError
from accelsim.request.fields import OPTIONS, asked_of
from accelsim.request.recording import words

if TYPE_CHECKING:
    from accelsim.compiler.state import Options
    from accelsim.explore.accuracy import Accuracy


@click.command(cls=Grouped, epilog=example(
    "accelsim accuracy digits-mlp --on edu-mixed,tpu-v1",
    "accelsim accuracy digits-cnn --on edu-mixed,tpu-v1,neuroncore-v2 --qat int8,int4 --out reports/digits-cnn",
    "accelsim accuracy digits-mlp --on edu-mixed --dtypes int4 --keep fp16 --budget 0.5",
))  # fmt: skip
@click.argument("model")
@click.option(
    "--on", required=True, metavar="CHIP,...", help="Chips: names (see 'accelsim chips') or YAML files."
)
@click.option("--dtypes", default="fp32,tf32,bf16,fp16,fp8,int8,int4,int1", show_default=True, metavar="FORMAT,...",
              help="Number formats to compare; weights x activations as in int4xint8.")  # fmt: skip
@click.option("--data", default="digits", show_default=True, metavar="digits|FILE.npz",
              help="Samples and labels: x_train, y_train, x_test, y_test, or x and y.")  # fmt: skip
@click.option("--qat", default="", metavar="FORMAT,...", help="Formats that the model is also trained for.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Samples of one run.")
@click.option("--steps", type=click.IntRange(1), default=1000, show_default=True,
              help="Steps of each training: of a listed model, and of --qat.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the trainings.")
@number_options
@limit_options
@click.option("--keep", default="", metavar="FORMAT",
              help="Find the layers that must stay in this wider format to meet --budget.")  # fmt: skip
@click.option("--budget", type=click.FloatRange(0), default=0.5, show_default=True,
              help="Points of accuracy that --keep may lose.")  # fmt: skip
@click.option("--out", type=OUT, help="Directory for the page, the CSV file and the plot.")
@csv_option
@plot_option
@json_option
def accuracy(
    out: Path | None, table: Path | None, plot: Path | None, as_json: bool, keep: str, budget: float, **asked: Any
) -> None:  # fmt: skip
    """Accuracy, latency and energy of MODEL in many number formats on several chips.

    MODEL is an ONNX file, or a listed model, which is trained first. A format that a chip lacks is emulated in a
    wider one that it has.
    """
    from accelsim.explore.accuracy import accuracy as compare

    arguments = _arguments(asked, out, keep, plot, table)
    if keep:
        _search(arguments, keep, budget, as_json, table)
        return
    with progress(1 + len(arguments["dtypes"]) + len(arguments["qat"])) as stage:
        result = compare(**arguments, progress=stage)
    if out is not None:
        from accelsim.report.accuracy_report import write_accuracy

        write_accuracy(result, out, _command(arguments, out))
    facts = as_dict(result)
    save_csv(table, facts["rows"])
    if plot is not None:
        from accelsim.report.accuracy_report import draw

        save_plot(plot, lambda: draw(result))
    if as_json:
        show_json(facts)
        return
    _print(result)
    if out is not None:
        click.echo(f"\nReport: {out / 'accuracy.md'}")


def _arguments(
    asked: dict[str, Any], out: Path | None, keep: str, plot: Path | None, table: Path | None
) -> dict[str, Any]:
    from accelsim.compiler.state import Options
    from accelsim.errors import Gather

    gather = Gather()
    given = numbers(asked, gather)
    del given["emulate"]  # always: the table says where
    options = Options(**given | {"edges": given["edges"] or "host"})
    for name in ("on", "dtypes", "qat"):
        asked[name] = whole_list(asked[name])
    with gather.also():
        if not asked["dtypes"] and not asked["qat"]:
            raise UsageError(Problem("no format", "--dtypes", "at least one, such as int8"))
    with gather.also():
        if not asked["on"]:
            raise UsageError(Problem("no chip", "--on", "at least one (see 'accelsim chips')"))
    with gather.also():
        check_outputs(plot, table)
    if keep:
        with gather.also():
            _check_search(asked, out or plot)
    elif out is not None:
        with gather.also():
            check_folder(out)
    gather.done()
    return {**asked, "options": options}


def _command(arguments: dict[str, Any], out: Path) -> str:
    """The command that makes the report again."""
    parts = ["accelsim accuracy", str(arguments["model"]), "--on", ",".join(arguments["on"])]
    parts += ["--dtypes", ",".join(arguments["dtypes"])]
    if arguments["qat"]:
        parts += ["--qat", ",".join(arguments["qat"])]
    for name, default in (("data", "digits"), ("batch", 1), ("steps", 1000), ("seed", 0)):
        if arguments[name] != default:
            parts += [f"--{name}", str(arguments[name])]
    parts += _number_options(arguments["options"])
    return " ".join([*parts, "--out", out.as_posix()])


def _number_options(options: Options) -> list[str]:
    """Return what ``number_options`` was given, as it is typed."""
    given, default = asked_of(options), asked_of(type(options)())
    changed = [name for name in given if OPTIONS[name].shared and given[name] != default[name]]
    return [word for name in changed for word in words(name, given[name])]


def as_dict(result: Accuracy) -> dict[str, Any]:
    """The table for JSON; None where there is no figure."""
    rows = [
        {
            key: None if isinstance(value, float) and isnan(value) else value
            for key, value in vars(row).items()
        }
        for row in result.rows
    ]
    return {
        "tool": "accelsim",
        **{key: value for key, value in vars(result).items() if key != "rows"},
        "rows": rows,
    }


def _print(result: Accuracy) -> None:
    from accelsim.report.accuracy_report import accuracy_table, sentences

    show(accuracy_table(result, width()))
    click.echo("\n" + paragraphs(sentences(result)))


def _check_search(asked: dict[str, Any], out: Path | None) -> None:
    """UsageError for what a search for layers to keep wide cannot do."""
    problems = []
    if len(asked["on"]) != 1 or len(asked["dtypes"]) != 1:
        problems.append(Problem("--keep with several chips or formats", "", "one of --on, one of --dtypes"))
    if out is not None or asked["qat"]:
        problems.append(
            Problem("--keep with --out, --plot or --qat", "", "the table on the terminal, --csv or --json")
        )
    if problems:
        raise UsageError(problems)


def _search(arguments: dict[str, Any], keep: str, budget: float, as_json: bool, table: Path | None) -> None:
    """Return which layers to keep wide; one chip and one format."""
    from accelsim.explore.mixed import keep_layers
    from accelsim.report.table import text_table

    with progress(1) as stage:
        stage("search", 0.0)
        found = keep_layers(
            arguments["model"], arguments["on"][0], arguments["data"], dtype=arguments["dtypes"][0], keep=keep,
            budget=budget / 100, batch=arguments["batch"], steps=arguments["steps"], options=arguments["options"],
            seed=arguments["seed"],
        )  # fmt: skip
    facts = {**vars(found), "rows": [vars(row) for row in found.rows]}
    save_csv(table, facts["rows"])
    if as_json:
        show_json(facts)
        return
    rows = [
        (row.layer, f"{100 * row.alone:.2f} %", f"{100 * row.without:.2f} %", int(row.cost), keep if row.kept else
         arguments["dtypes"][0])
        for row in found.rows
    ]  # fmt: skip
    headers = ["layer", "only it narrow", "all but it narrow", "MACs", "format"]
    show(text_table(headers, rows, width()))
    click.echo("\n" + paragraphs([
        f"All layers in {keep}: {100 * found.full:.2f} %;"
        f" all in {arguments['dtypes'][0]}: {100 * found.quantised:.2f} %;"
        f" as in the last column: {100 * found.score:.2f} %, a loss of {100 * found.loss:.2f} points.",
        f"{found.calls} combinations were tried.",
    ]))  # fmt: skip
    if found.kept:
        options = " ".join(f"--layer-dtype {name}={keep}" for name in found.kept)
        click.echo(f"\nTo use it: --dtype {arguments['dtypes'][0]} {options}")
