"""Constants of a chip: who declares them, which value counts, what the calibration may say."""

from __future__ import annotations

from pathlib import Path

import pytest

import accelsim
from accelsim.account.latency import layers, summary
from accelsim.account.provenance import uncalibrated
from accelsim.errors import SpecError
from accelsim.report.words import sentences
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, is_calibrated, outdated, with_values
from accelsim.spec.yaml.load import list_chips, load_chip, show

A100 = "a100-80-sxm"


def fitted(chip: Chip) -> set[str]:
    return {name for name, each in constants(chip).items() if is_calibrated(chip, each)}


@pytest.mark.parametrize("name", [row.name for row in list_chips()])
def test_every_declared_constant_has_a_name_a_range_and_a_meaning(name: str) -> None:
    chip = load_chip(name)
    for each in constants(chip).values():
        assert each.mark.low <= each.value <= each.mark.high, each.name
        assert each.mark.low < each.mark.high and each.means
        assert each.read(each.spell(each.value)) == each.value
        assert each.engine in chip.engines
        changed = with_values(chip, {each.name: each.mark.high})
        assert constants(changed)[each.name].value == each.mark.high
        assert load_chip(name) == chip, "the chip that was changed is a copy"


def test_the_a100_has_what_was_fitted() -> None:
    chip = load_chip(A100)
    assert fitted(chip) == {
        "sm.formats.fp16.sustained", "sm.formats.fp16.feed", "sm.formats.bf16.sustained", "sm.formats.bf16.feed",
        "sm.prologue", "sm.epilogue", "sm.launch", "sm.softness", "sm.droop", "sm.stride", "hbm.memory.efficiency",
    }  # fmt: skip
    stated = load_chip(A100, ["calibration=null"]).memories["hbm"].memory.efficiency
    assert chip.memories["hbm"].memory.efficiency != stated, "over that of the memory"


MADE = (
    "calibration={{fitted_on: x, mechanism: 3, rows: 3, residual: {{rows: 3, median: 0.1, p90: 0.2}}, values: {{{}}}}}"
)
"""An override: a calibration with these values."""


def test_formats_of_one_rate_share_their_constants() -> None:
    """BF16 of an A100 has what FP16 has, TF32 of half the rate has not; what is set by itself is."""
    chip = load_chip(A100)
    known = constants(chip)
    for field in ("sustained", "feed"):
        assert known[f"sm.formats.bf16.{field}"].value == known[f"sm.formats.fp16.{field}"].value
        assert known[f"sm.formats.tf32.{field}"].value == known[f"sm.formats.tf32.{field}"].default
    changed = constants(with_values(chip, {"sm.formats.fp16.feed": 3.0}))
    assert changed["sm.formats.bf16.feed"].value == 3.0
    apart = with_values(chip, {"sm.formats.fp16.feed": 3.0, "sm.formats.bf16.feed": 4.0})
    assert constants(apart)["sm.formats.bf16.feed"].value == 4.0
    named = load_chip(A100, [MADE.format("sm.formats.fp16.feed: 7, sm.formats.bf16.feed: 5")])
    assert constants(named)["sm.formats.bf16.feed"].value == 5.0
    assert constants(named)["sm.formats.fp16.feed"].value == 7.0
    assert "sm.formats.bf16.feed" in fitted(named)


def test_a_calibration_of_other_forms_does_not_count() -> None:
    old = load_chip(A100, ["calibration.mechanism=1"])
    assert not fitted(old) and constants(old)["sm.launch"].value == constants(load_chip(A100))["sm.launch"].value
    said = outdated(old)
    assert "made with version 1" in said and "accelsim calibrate" in said
    assert outdated(load_chip(A100)) == ""


def test_constants_of_a_block_that_no_file_has_may_be_calibrated_and_set() -> None:
    chip = load_chip(A100, [MADE.format("sm.convolution.fused: 0.3")])
    assert constants(chip)["sm.convolution.fused"].value == 0.3 and "sm.convolution.fused" in fitted(chip)
    assert constants(load_chip(A100, ["sm.convolution.call=9 us"]))["sm.convolution.call"].value == 9e-6


def test_without_a_calibration_there_are_defaults() -> None:
    chip = load_chip(A100, ["calibration=null"])
    found = constants(chip)
    assert not fitted(chip)
    assert found["sm.launch"].value == found["sm.launch"].default == 4e-6
    assert found["hbm.memory.efficiency"].value == 0.85, "that of the memory"


def test_what_the_user_or_a_chip_on_top_states_is_not_calibrated(tmp_path: Path) -> None:
    chip = load_chip(A100, ["sm.launch=5 us"])
    assert constants(chip)["sm.launch"].value == 5e-6 and "sm.launch" not in fitted(chip)
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"use: chips/{A100}\nname: mine\ncores: {{core: {{engines: {{sm: {{launch: 9 us}}}}}}}}\nsource: a test\nas_of: 2026\n"
    )
    mine = load_chip(path)
    assert fitted(mine) == fitted(load_chip(A100)) - {"sm.launch"}
    assert constants(mine)["sm.launch"].value == 9e-6
    path.write_text(show(mine))
    assert load_chip(path) == mine


def test_another_value_of_the_calibration_takes_its_place() -> None:
    chip = load_chip(A100, ["calibration.values.sm.launch=7 us"])
    assert constants(chip)["sm.launch"].value == 7e-6 and "sm.launch" in fitted(chip)


BLOCK = "calibration={{fitted_on: x, rows: 3, residual: {{rows: 3, median: 0.1, p90: {p90}}}, values: {{{values}}}}}"
WRONG = {
    ("0.2", "sm.lunch: 3 us"): "no constant of this name.*did you mean 'sm.launch'",
    ("0.2", "sm.threads: 64"): "calibration.values.sm.threads: the chip has no constant of this name",
    ("0.2", "sm.launch: 1 ms"): "'1 ms' is no value of this constant; expected 0 s to 100 us",
    ("0.2", "sm.launch: 3"): "'3' is no value of this constant|bare|unit",
    ("0.05", "sm.launch: 3 us"): "the median 0.1 is above the 90th percentile 0.05",
    ("0.2", ""): "calibration.values: 0 entries",
}


@pytest.mark.parametrize(("p90", "values"), WRONG)
def test_a_calibration_that_says_nothing_true_is_refused(p90: str, values: str) -> None:
    with pytest.raises(SpecError, match=WRONG[p90, values]):
        load_chip(A100, [BLOCK.format(p90=p90, values=values)])


def test_a_chip_without_constants_has_none_to_calibrate() -> None:
    with pytest.raises(SpecError, match="no engine of the chip declares one"):
        load_chip("tpu-v1", [BLOCK.format(p90=0.2, values="matrix.rows: 3")])


def said(dtype: str, *changes: str) -> tuple[list[str], str]:
    run = accelsim.run("gemm?M=64,N=64,K=64", on=A100, dtype=dtype, values="off", set=list(changes))
    facts = summary(run)
    assert facts["uncalibrated"] == uncalibrated(run)
    return facts["uncalibrated"], " ".join(sentences(run, layers(run), facts))


def test_a_run_tells_which_constants_it_read_that_nobody_fitted() -> None:
    assert said("fp16")[0] == said("bf16")[0] == [] and "calibrated" not in said("fp16")[1]
    names, text = said("tf32")
    assert names == ["sm.formats.tf32.sustained", "sm.formats.tf32.feed"]
    assert "2 constants of a100-80-sxm are not calibrated: sm.formats.tf32.sustained, sm.formats.tf32.feed." in text
    names, text = said("fp16", "sm.launch=1 us")
    assert names == ["sm.launch"] and "1 constant of a100-80-sxm is not calibrated: sm.launch." in text
    names, text = said("fp16", "calibration=null")
    assert len(names) == 9 and text.count("and 6 others.") == 1


def test_engines_without_work_read_nothing() -> None:
    run = accelsim.run("cnn", on="tpu-v1", values="off")
    assert uncalibrated(run) == []
