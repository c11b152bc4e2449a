"""``accelsim run --train`` with fused gradients: policies, the search for threshold and cycle time, what is refused."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.cli.cluster_options import Fused, read
from accelsim.cluster.buckets import MIB, POLICIES, Fusion
from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.fusing import TunedStep, tuned
from accelsim.cluster.step.ops import FUSED, Options
from accelsim.errors import UsageError
from accelsim.report.fusing import headers, rows, sentences

MODEL = ("run", "digits-mlp", "--on", "4x-edu", "--values", "off", "--no-advice")
TRAIN = (*MODEL, "--plan", "dp=4", "--batch", "64", "--train")
ASKED = Asked("digits-mlp", "4x-edu", "dp=4", 64, options=Options(gradients=Fusion()))


def run(*arguments: str) -> str:
    told = CliRunner().invoke(main, [*TRAIN, *arguments])
    assert told.exit_code == 0, told.output
    return told.output


@pytest.fixture(scope="module")
def found() -> TunedStep:
    return tuned(ready(ASKED))


@pytest.mark.parametrize(
    ("texts", "fusion", "width_B"),
    [
        (Fused(), FUSED, 2),
        (Fused(cycle="5 ms"), Fusion(cycle_fs=5 * 10**12), 2),
        (Fused(tune_gradients=True), Fusion(), 2),
        (Fused("ddp", "64MiB", "", "fp16", "32"), Fusion("ddp", 64 * MIB, compression="fp16"), 4),
        *((Fused(name), Fusion(name), 2) for name in POLICIES),
    ],
)
def test_texts_become_a_policy(texts: Fused, fusion: Fusion, width_B: int) -> None:
    assert (read(texts), texts.gradient_B) == (fusion, width_B)


def test_compression_halves_what_is_sent() -> None:
    wide, halved = (
        json.loads(run("--json", "--gradient-bits", "32", "--compression", kind)) for kind in ("none", "fp16")
    )
    for link, moved in wide["by_link_B"].items():
        assert halved["by_link_B"][link] == pytest.approx(moved / 2, rel=1e-4)


def test_the_search_is_printed_and_written(tmp_path: Path, found: TunedStep) -> None:
    out = tmp_path / "step"
    told = " ".join(run("--tune-gradients", "--out", str(out)).split())
    for part in (*headers(found), *sentences(found)):
        assert part in told
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Fused gradients by threshold and cycle" in page and (out / "plots" / "fusion.svg").stat().st_size
    facts = json.loads((out / "step.json").read_text())
    best, asked = facts["tuning"]["best"], facts["tuning"]["asked"]
    assert best["step_s"] <= asked["step_s"] == facts["time_s"]
    again = json.loads(run("--json", *facts["tuning"]["options"].split()))
    assert again["time_s"] == best["step_s"]


def test_every_choice_around_the_best_is_a_step(found: TunedStep) -> None:
    made = ready(ASKED)
    for trial in (found.asked, found.best, found.thresholds[0], found.cycles[-1]):
        step = made._replace(
            options=ready(Asked("digits-mlp", "4x-edu", "dp=4", 64, options=Options(gradients=trial.fusion))).options
        )
        assert step.step().time_fs == found.time_fs(trial)
    around = [trial.exposed_fs for trial in (*found.thresholds, *found.cycles, *found.grid.trials)]
    assert min(around) == found.best.exposed_fs or find_spec("optuna") is not None
    assert found.cycles[-1].exposed_fs > found.best.exposed_fs


def test_a_policy_without_cycles_is_searched_by_threshold_alone() -> None:
    asked = Asked("digits-mlp", "4x-edu", "dp=4", 64, options=Options(gradients=Fusion("ddp")))
    result = tuned(ready(asked))
    assert result.cycles == () and headers(result) == ("threshold", "step waits", "buckets")
    assert sum("*" in row[0] for row in rows(result)) == 1 and len(sentences(result)) == 2
    assert f"tried by {result.by} a threshold of" in sentences(result)[0]
    assert ("Optuna" in result.by) and ("grid" in result.by) == (find_spec("optuna") is None)


@pytest.mark.parametrize(("plan", "policy"), [("pp=2,tp=2", "horovod"), ("dp=4", "each"), ("dp=4", "whole")])
def test_nothing_to_search(plan: str, policy: str) -> None:
    with pytest.raises(UsageError, match="nothing to"):
        tuned(ready(Asked("gpt?layers=2", "4x-edu", plan, 4, options=Options(gradients=Fusion(policy)))))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((*MODEL, "--plan", "pp=2", "--tune-gradients", "--threshold", "64", "--cycle", "5lb", "--gradients", "horovot",
          "--compression", "fp17"),
         ("--tune-gradients without --train", "--threshold: '64' has no unit", "--cycle: '5lb' has the wrong unit",
          "did you mean 'horovod'", "did you mean 'fp16'", "of one replica")),
        ((*TRAIN, "--gradients", "each", "--threshold", "1MiB", "--compression", "fp16", "--tune-gradients"),
         ("--threshold with --gradients each", "--gradient-bits 32", "--tune-gradients with --gradients each",
          "horovod or horovod-ahead or ddp")),
        ((*TRAIN, "--gradients", "ddp", "--cycle", "1ms"), ("--cycle with --gradients ddp", "--gradients horovod")),
        ((*TRAIN, "--threshold", "0B", "--cycle", "-1ms"), ("'0B' is too small", "'-1ms' is too small")),
        ((*MODEL, "--train", "--plan", "dpp=4", "--threshold", "5 s"), ("a plan has no 'dpp'", "wrong unit 's'")),
        (("run", "gpt", "--on", "edu-4x4", "--tune-gradients"), ("--tune-gradients on edu-4x4", "a cluster")),
    ],
)  # fmt: skip
def test_bad_input_is_refused_all_at_once(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    told = CliRunner().invoke(main, list(arguments))
    assert told.exit_code == 2
    for part in parts:
        assert part in told.output
