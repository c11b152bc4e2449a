"""An option of a run is declared once: Python, the command line, the record and its repetition follow from the field."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields
from typing import Any

import click
import pytest

import accelsim
from accelsim.cli.groups import GROUPS
from accelsim.cli.options import READ, SETTINGS, limit_options, number_options, read, run_options
from accelsim.cli.run import run as command
from accelsim.compiler.state import Options
from accelsim.errors import Gather, UsageError
from accelsim.machine import memory_models
from accelsim.request import Request, recording, repeated
from accelsim.request.fields import DEFAULTS, MAPPINGS, OPTIONS, asked_of, compiled, declared
from accelsim.request.option import BY_NAME, KEY, Choices, Option
from accelsim.result import Call
from accelsim.workload.limits import Limits, limited, limits

NAMES = pytest.mark.parametrize("name", OPTIONS)
SHELL = {name: row for name, row in OPTIONS.items() if row.kind in SETTINGS}
SAMPLES: dict[str, Any] = {
    "chips": "edu-mixed", "text": "x", "texts": ["clock=1 GHz", "cores=2"], "flag": True, "count": 3, "whole": 4,
    "percent": 99.5, "size": 2**31, "file": "file.npz", "extents": {"x": (1, 2), "y": ()}, "counts": {"n": 5},
    "formats": {"fc": "int4"},
}  # fmt: skip


def sample(name: str) -> Any:
    """A value of a field that is not its default."""
    row = OPTIONS[name]
    return list(row.choices.names())[-1] if row.choices is not None else SAMPLES[row.kind]


@NAMES
def test_a_field_says_what_it_is(name: str) -> None:
    row = OPTIONS[name]
    assert row.help.endswith(".") and row.text.endswith(".")
    assert row.kind in SETTINGS or row.kind == "argument" or (row.kind == "none" and row.why_not)
    assert row.group in GROUPS or row.kind in ("argument", "none")
    assert row.file == ("Path" in {entry.name: str(entry.type) for entry in fields(Request)}[name])
    assert (name in MAPPINGS) == (row.kind in BY_NAME or name == "scales")


@NAMES
def test_a_field_is_an_argument_of_run(name: str) -> None:
    (entry,) = (each for each in fields(Request) if each.name == name)
    argument = inspect.signature(accelsim.run).parameters[name]
    assert argument.annotation == entry.type
    assert argument.default == (inspect.Parameter.empty if name in ("model", "on") else DEFAULTS[name])
    assert argument.kind == (argument.POSITIONAL_OR_KEYWORD if name in ("model", "on") else argument.KEYWORD_ONLY)
    assert f"``{name}``: " in (accelsim.run.__doc__ or "") and f"``{name}``: " in (Request.__doc__ or "")


def test_arguments_are_refused_as_those_of_a_function() -> None:
    with pytest.raises(TypeError, match=r"^run\(\) got an unexpected keyword argument 'format'"):
        accelsim.run("mlp", "edu-4x4", format="int8")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^run\(\) missing 1 required positional argument: 'on'"):
        accelsim.run("mlp")  # type: ignore[call-arg]
    assert list(inspect.signature(accelsim.run).parameters) == [*OPTIONS, "keep"] == [*declared(Call)]
    assert list(inspect.signature(accelsim.generate).parameters) == [*OPTIONS]


@pytest.mark.parametrize("name", SHELL)
def test_a_field_is_an_option_of_the_command(name: str) -> None:
    (param,) = (each for each in command.params if recording.flag(name) in each.opts)
    assert isinstance(param, click.Option)
    assert (param.help, param.metavar) == (OPTIONS[name].help, OPTIONS[name].metavar)


@pytest.mark.parametrize("name", SHELL)
def test_a_field_is_recorded_and_the_line_of_the_record_asks_for_it(name: str) -> None:
    asked = Request(**{"model": "mlp", "on": "edu-4x4", name: sample(name)})
    record = dict(recording._asked(asked))
    assert set(record) == {"model", "on", name}
    assert repeated({"asked": record}, "here") == asked
    words = [word for each, value in record.items() for word in recording.words(each, value)]
    gather = Gather()
    with command.make_context("run", words) as context:
        given = read({each: value for each, value in context.params.items() if each in OPTIONS}, gather)
        held = getattr(limits(), OPTIONS[name].limits) if OPTIONS[name].limits else given[name]
    gather.done()
    assert recording._plain(held) == ([record[name]] if name == "on" else record[name])


def test_names_of_choices_are_those_of_their_registries() -> None:
    for name, row in OPTIONS.items():
        if row.choices is not None and row.metavar is not None:
            names = list(row.choices.names())
            assert row.metavar.split("|") == names or all(each in row.help for each in names), name
            assert DEFAULTS[name] in ("", *names)
    assert DEFAULTS["memory_model"] == memory_models.DEFAULT


def test_the_compiler_and_the_limits_have_the_fields_that_are_theirs() -> None:
    theirs, plain = {entry.name for entry in fields(Options)}, Request("mlp", "edu-4x4")
    made = compiled(vars(plain))
    assert set(made) <= theirs
    assert Options(**made | {"edges": "host"}) == Options()
    assert asked_of(Options(**made)) == {name: getattr(plain, name) for name, row in OPTIONS.items() if row.compiled}
    given = {row.limits for row in OPTIONS.values()} - {""}
    assert given == set(inspect.signature(limited).parameters) == {entry.name for entry in fields(Limits)}


COLOURS = ("red", "green")


def test_a_new_field_needs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option, its group in the help, its words in a record: from its row."""
    names = Choices("colour", f"{__name__}:COLOURS")
    row = Option("Colour of the chip.", "What runs, and where", metavar="red|green", choices=names, shared="numbers")
    monkeypatch.setitem(OPTIONS, "colour", row)
    monkeypatch.setitem(DEFAULTS, "colour", "red")
    for share, words in ((run_options, ["--on", "c"]), (number_options, [])):
        made = click.command()(share(lambda **asked: None))
        assert made.make_context("x", [*words, "--colour", "green"]).params["colour"] == "green"
        assert "Colour of the chip.  [default: red]" in made.get_help(click.Context(made))
    assert not any("--colour" in each.opts for each in click.command()(limit_options(lambda: None)).params)
    assert recording.words("colour", "green") == ["--colour", "green"]
    assert recording.command({"model": "m", "on": "c", "colour": "green"}) == "accelsim run m --on c --colour green"


def test_data_in_python_have_no_option() -> None:
    """Numbers and lists are recorded; no file holds them."""
    asked = dict(recording._asked(Request("mlp", "edu-4x4", inputs={"x": [[1.0, 2.0]]})))
    assert asked["inputs"] == {"x": [[1.0, 2.0]]} and recording.command(asked) == ""
    told = recording.how_to_repeat({"command": "", "in_memory": [], "asked": asked})
    assert told == "(no command line: no option gives inputs)"


def test_every_kind_of_a_mapping_is_read() -> None:
    assert set(READ) == BY_NAME and KEY == "option"


def test_the_declaration_loads_nothing_of_the_simulator() -> None:
    heavy = ("numpy", "simpy", "pydantic", "onnx", "matplotlib", "scipy", "rich")
    code = f"import sys, accelsim.request, accelsim.cli.run; sys.exit(str([n for n in {heavy} if n in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("seed", [-1, 0.5, "one"])
def test_a_seed_that_is_none_is_told(seed: Any) -> None:
    with pytest.raises(UsageError, match="expected a whole number from 0"):
        accelsim.run("mlp", "edu-4x4", seed=seed)


def test_nothing_is_no_choice() -> None:
    nothing: Any = None
    assert accelsim.run("gemm?M=4,N=4,K=4", "edu-4x4", values="off", dataflow=nothing).time_fs > 0
    with pytest.raises(UsageError, match="value policy 'None'"):
        accelsim.run("gemm?M=4,N=4,K=4", "edu-4x4", values=nothing)
