"""The command ``accelsim dram``: what it prints is what the models say; bad input is told at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from accelsim.explore.dram_replay import replay
from accelsim.spec.yaml.parts import list_drams
from tests.validation.dram_lessons import LESSONS
from tests.validation.golden import anchor

Cli = Callable[..., Result]
Refused = Callable[..., list[str]]
LIMIT = ("--limit", 1_000)


def test_json_is_the_replay(cli: Cli) -> None:
    result = cli("dram", "ddr4-3200", "--trace", "tile3", "--mapping", "rorabachcobg", *LIMIT, "--json")
    assert result.exit_code == 0
    facts = replay("ddr4-3200", "tile3", limit=1_000, mapping="rorabachcobg").as_dict()
    told = json.loads(result.stdout)
    assert {name: told[name] for name in facts} == facts and told["limits"] and told["energy_in_words"]


def test_what_is_printed(cli: Cli) -> None:
    text = cli("dram", "ddr4-3200", "--trace", "rand_mix", *LIMIT).stdout
    found = replay("ddr4-3200", "rand_mix", limit=1_000)
    counts = found.served.counts
    for word in ("bandwidth", "unloaded read", "read under load", "p99", "refresh (REF)", "I/O", "mean power",
                 "32-bit word", "data moved", f"{counts['act']:,} ACT", f"{found.served.elapsed:,} clocks"):  # fmt: skip
        assert word in text, word
    assert "█" in text
    assert "loop over DRAM bursts" in text
    assert "not verified" not in text
    assert "Warning: the energies of this memory are not verified" in " ".join(
        cli("dram", "hbm3", *LIMIT).stdout.split()
    )


def test_every_option_reaches_the_device(cli: Cli) -> None:
    options = {
        "--mapping": "mop4", "--page-policy": "timeout", "--timeout": "50", "--cap": "3", "--window": "8",
        "--refresh": "staggered", "--outstanding": "4", "--injection": "2", "--set": "organisation.ranks=1",
    }  # fmt: skip
    words = [word for pair in options.items() for word in pair]
    facts = json.loads(cli("dram", "ddr4-3200", "--trace", "rand_read", *words, *LIMIT, "--json").stdout)
    assert facts["mapping"] == "mop4" and facts["page_policy"] == "timeout" and facts["window"] == 8
    assert facts["refresh"] == "staggered" and facts["outstanding"] == 4 and facts["injection"] == 2
    plain = json.loads(cli("dram", "ddr4-3200", "--trace", "rand_read", *LIMIT, "--json").stdout)
    assert facts["clocks"] > plain["clocks"]


def test_a_scheduler_is_named_where_it_is_not_the_default(cli: Cli) -> None:
    run = ("dram", "ddr4-3200", "--trace", "rand_mix", *LIMIT)
    for name, line in (("queues", "queues, 8 commands for each bank"), ("commands", "commands")):
        text = cli(*run, "--set", f"controller.scheduler={name}").stdout
        assert next(row for row in text.splitlines() if row.startswith("scheduler")).split(None, 1)[1] == line
    assert not any(row.startswith("scheduler") for row in cli(*run).stdout.splitlines())
    assert json.loads(cli(*run, "--json").stdout)["scheduler"] == "bursts"


@pytest.mark.parametrize("model", ["ideal", "bandwidth", "pattern"])
def test_simpler_models_say_what_they_do_not_know(cli: Cli, model: str) -> None:
    text = " ".join(cli("dram", "ddr3-1600", "--model", model, *LIMIT).stdout.split())
    assert f"Model '{model}' keeps no commands" in text
    assert "of the time" not in text.split("Model")[0]
    assert ("Energy is not known" in text) is (model != "pattern")


def test_memory_without_currents(cli: Cli) -> None:
    text = cli("dram", anchor("ramulator2-ddr4-3200"), *LIMIT).stdout
    assert "Energy is not known: this memory states no currents." in text


def test_chase_is_one_at_a_time_unless_told_otherwise(cli: Cli) -> None:
    facts = [
        json.loads(cli("dram", "ddr4-3200", "--trace", "chase", *more, *LIMIT, "--json").stdout)
        for more in ((), ("--injection", 1), ("--outstanding", 32))
    ]
    assert [each["outstanding"] for each in facts] == [1, 1, 32]
    assert facts[0]["clocks"] == facts[1]["clocks"] > 4 * facts[2]["clocks"]


def test_a_file_and_a_report(cli: Cli, tmp_path: Path) -> None:
    trace, out = tmp_path / "walk.trace", tmp_path / "out"
    trace.write_text("0x0 R\n0x40 W\n0x100000 R\n", encoding="utf-8")
    result = cli("dram", "ddr4-3200", "--trace", trace, "--out", out, "--clocks", "0:90")
    assert result.exit_code == 0
    assert f"Written: {out}" in result.stdout and (out / "activity.png").is_file()
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["accesses"] == 3
    assert (out / "activity.png").exists() and (out / "bus.svg").exists()


def save_two(path: Path) -> Path:
    arrays = {
        f"{name}.{field}": values
        for name, count in (("near", 3), ("far", 5))
        for field, values in (("address", np.arange(count) * 64), ("write", np.zeros(count, bool)))
    }
    np.savez(path, **arrays)
    return path


def test_one_memory_of_a_saved_run(cli: Cli, refused: Refused, tmp_path: Path) -> None:
    words = ("dram", "ddr4-3200", "--trace", save_two(tmp_path / "two.npz"))
    for name, count in (("near", 3), ("far", 5)):
        facts = json.loads(cli(*words, "--memory", name, "--json").stdout)
        assert (facts["accesses"], facts["trace"]) == (count, f"two.npz, memory {name}")
    assert json.loads(cli(*words[:3], tmp_path, "--memory", "far", "--json").stdout)["accesses"] == 5
    (line,) = refused(*words)
    assert line.endswith("two.npz: has 2 memories: choose one with --memory; expected one of far, near")
    lines = refused(*words, "--memory", "neer", "--window", "x", "--model", "banc")
    assert len(lines) == 3
    assert any(line.endswith("no memory 'neer'; expected one of far, near; did you mean 'near'?") for line in lines)


def test_memory_of_a_trace_that_has_none(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "a.trace").write_text("0x0 R\n")
    (line,) = refused("dram", "ddr4-3200", "--trace", tmp_path / "a.trace", "--memory", "near")
    assert "has no memory 'near'" in line
    (line,) = refused("dram", "ddr4-3200", "--memory", "near")
    assert "--memory near with the trace 'seq_read'" in line


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_a_trace_that_is_no_archive(refused: Refused, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    (line,) = refused("dram", "ddr4-3200", "--trace", tmp_path / "a.npz")
    assert line.startswith(f"error: {tmp_path / 'a.npz'}: cannot be read: truncated, or not an npz file of numbers")


def test_list_has_every_preset(cli: Cli) -> None:
    lines = cli("dram", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list_drams()
    assert "standard" in lines[0] and "energies" in lines[0]


def test_compare_prints_a_row_for_each(cli: Cli, tmp_path: Path) -> None:
    words = ("dram", "compare", "ddr3-1600", "hbm3", *LIMIT)
    text = cli(*words, "--out", tmp_path / "out").stdout
    assert "ddr3-1600" in text and "hbm3-6400" in text and "pJ/word" in text
    assert "(hbm3-6400)" in text.split("Warning")[1]
    assert (tmp_path / "out" / "utilisation.png").exists()
    first, second = json.loads(cli(*words, "--json").stdout)
    assert (first["dram"], second["dram"]) == ("ddr3-1600", "hbm3-6400")
    alone = replay("ddr3-1600", "stream3", limit=1_000)
    assert first["share_of_peak"]["stream3"] == alone.share_of_peak


def test_lessons_write_page_and_pictures(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in [key for key in LESSONS if key != "closed-page"]:
        monkeypatch.delitem(LESSONS, key)
    out = tmp_path / "lessons"
    result = cli("dram", "lessons", "--out", out, "--limit", 500)
    assert result.exit_code == 0
    assert {path.name for path in out.iterdir()} == {"summary.md", "closed-page.png"}
    assert (
        (out / "summary.md").read_text(encoding="utf-8").startswith(f"`accelsim dram lessons --out {out} --limit 500`")
    )


def test_all_problems_at_once(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    lines = refused(
        "dram", "ddr4-3200", "--trace", "tile4", "--model", "banc", "--page-policy", "closd", "--mapping", "rorab",
        "--set", "organisation.rank=1", "--clocks", "9:2", "--out", tmp_path / "file",
    )  # fmt: skip
    text = "\n".join(lines)
    for near in ("'tile3'", "'bank'", "'closed'", "'organisation.ranks'"):
        assert f"did you mean {near}" in text
    assert "rorab" in text and "--clocks '9:2'" in text and "is a file" in text
    assert len(lines) == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ddr4-3201",), "did you mean 'ddr4-3200'"),
        (("hbm2",), "hbm2-2000 or hbm2e-3600"),
        (("compar", "ddr3-1600"), "did you mean 'compare'"),
        (("ddr3-1600", "ddr4-3200"), "'accelsim dram compare' takes several"),
        (("compare", "ddr4-3200", "ddr6", "--model", "x"), "no model 'x'"),
        (("compare", "ddr4-3200", "ddr6", "--model", "x"), "no DRAM 'ddr6'"),
        (("ddr4-3200", "--clocks", "0:10"), "--clocks without --out"),
        (("ddr4-3200", "--set", "organisation.channels=3"), "channels"),
    ],
)
def test_wrong_words(refused: Refused, words: tuple[str, ...], told: str) -> None:
    assert told in "\n".join(refused("dram", *words))


def test_help_names_options_and_commands(cli: Cli) -> None:
    text = cli("dram", "--help").stdout
    for word in ("--trace", "--memory", "--page-policy", "--outstanding", "compare", "lessons", "list"):
        assert word in text
    assert "--mapping" in cli("dram", "ddr4-3200", "--help").stdout


def test_compare_has_one_of_each_kind_by_default(cli: Cli) -> None:
    rows = json.loads(cli("dram", "compare", "--limit", 50, "--json").stdout)
    assert len({row["standard"] for row in rows}) == len(rows) >= 6
