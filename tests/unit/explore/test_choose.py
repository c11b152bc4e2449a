"""The choice of hardware: bounds drop no winner, figures are those of runs, odds and reasons follow from them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from math import ceil, inf
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import accelsim
from accelsim.account.energy import price_list
from accelsim.account.odds import odds_below
from accelsim.cluster.serving.asked import served as generated
from accelsim.cluster.step.costs import Setting
from accelsim.engines.registry import ENGINES
from accelsim.errors import UsageError
from accelsim.explore.accuracy import Accuracy, accuracy
from accelsim.explore.choose.bounds import RULES, Rule, bound_of, least_of
from accelsim.explore.choose.candidates import Candidate, enumerate_all, offered, peak, spec_of
from accelsim.explore.choose.checks import checked, with_limits
from accelsim.explore.choose.choice import Choice
from accelsim.explore.choose.figures import cost_belief
from accelsim.explore.choose.passing import _apart_B
from accelsim.explore.choose.question import UNITS, Question
from accelsim.explore.choose.search import AIMS, Searched, search
from accelsim.explore.choose.services import load_of
from accelsim.explore.choose.work import Multiplied, work_of
from accelsim.explore.sweep.point import Known, Point, outcome
from accelsim.explore.sweep.store import Store
from accelsim.limits import read_limits
from accelsim.machine.simulate import simulate
from accelsim.program.roles import units
from accelsim.report.choose import answer, sentences
from accelsim.serving.asked import Question as Served
from accelsim.serving.asked import served
from accelsim.serving.measures import probe
from accelsim.spec.yaml import where
from accelsim.workload.ops.base import Gemm

ENERGY = "energy_per_sample_J"
SMALL = Question(
    "gemm?M=256,N=512,K=1024", {"latency": 60e-6}, on=("t4", "l4", "k80", "p4"), dtypes=("fp32", "fp16", "int8")
)
DECODER = "llama?layers=2,hidden=256,heads=4,kv_heads=4,ffn=512,vocab=1000,prompt=64,new=8"
SERVED = Question(DECODER, {"ttft": 1e-3}, on=("t4", "l4", "8x-t4-pcie"))
UNDER_LOAD = Question(
    "llama?layers=2,hidden=256,heads=4,kv_heads=4,ffn=512,vocab=1000", {"ttft": 1e-3, "tpot": 0.3e-3, "cost": 0.004},
    on=("t4", "l4", "a10g"), load="poisson:15000/s", lengths="fixed:64,4", requests=120, schedulers=("vllm:most=16",),
)  # fmt: skip
TRAINED = Question("gpt2?layers=2,hidden=128,heads=4", {"days": 1.0}, on=("t4", "8x-t4-pcie"), train=True, tokens=10**9)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("choose") / "store.db")


def named_by(question: Question, store: Store, bounds: bool = True) -> tuple[Searched, list[object]]:
    """The search, and all that an answer names."""
    found = search(question, store, bounds=bounds)
    choice = Choice(found)
    named = [choice.best(aim) for aim in AIMS] + [choice.runner_up, *choice.front]
    return found, [each and (each.candidate.point, each.facts) for each in named]


def loses_nothing(question: Question, store: Store) -> None:
    """Assert that bounds change no answer and that none lies beyond the figures that were simulated."""
    pruned, said = named_by(question, store)
    whole, truth = named_by(question, store, bounds=False)
    assert said == truth and any(said)
    assert sum(each.facts is not None for each in pruned.entries) < len(whole.entries)
    for entry in whole.entries:
        if entry.facts is not None:
            for key, least in entry.bound.least.items():
                figure = cast(float, entry.facts[key])
                assert figure <= least if key.endswith("per_s") else figure >= least, (entry.candidate.point.text, key)


def test_bounds_drop_no_winner(store: Store) -> None:
    loses_nothing(SMALL, store)


@pytest.mark.parametrize("question", [SERVED, TRAINED, UNDER_LOAD], ids=["generation", "training", "service"])
def test_bounds_drop_no_winner_of_decoders(question: Question, store: Store) -> None:
    loses_nothing(question, store)


def test_bounds_drop_no_winner_of_a_real_question(store: Store) -> None:
    loses_nothing(Question("resnet50", read_limits(["latency=5ms"], UNITS), on=("t4", "l4")), store)


@pytest.mark.parametrize("question", [Question("resnet50", on=("t4",)), replace(SERVED, limits={}, on=("t4",))])
def test_batches_grow_as_the_rules_say(question: Question, store: Store) -> None:
    found = search(question, store, bounds=False).entries
    assert len(found) > 8
    for key, rule in RULES[question.task].items():
        runs = [(each.candidate.batch, cast(float, cast(dict[str, object], each.facts)[key])) for each in found]
        for batch, figure in runs:
            others = [run for run in runs if run[0] != batch]
            for some in [*combinations(others, 1), *combinations(others, 2)]:
                assert least_of(rule, some, batch) <= figure * (1 + 1e-12), (batch, some, key)


def test_a_rule_bounds_by_lines_and_growth() -> None:
    rule = Rule(near=0.9, between=0.8, beyond=0.5)
    assert least_of(rule, [(2, 3.0)], 8) == 3.0  # a larger batch takes no less
    assert least_of(rule, [(8, 8.0)], 2) == pytest.approx(0.8 * 2)
    assert least_of(rule, [(1, 4.0), (4, 7.0)], 2) == pytest.approx(0.9 * 5)
    assert least_of(rule, [(1, 4.0), (2, 6.0)], 8) == pytest.approx(6 + 0.5 * 2 * 6)


@pytest.mark.parametrize("chip", ["p4", "mi25", "t4"])
def test_energy_is_not_bounded_beyond_the_design_power(chip: str, store: Store) -> None:
    question = Question("gemm?M=2048,N=2048,K=2048", on=(chip,), batch=1)
    (entry,) = search(question, store, bounds=False).entries
    assert entry.facts is not None and 0 < entry.bound.least[ENERGY] <= cast(float, entry.facts[ENERGY])


@pytest.mark.parametrize("model", ["gemm?M=300,N=520,K=1100", "digits-cnn", "resnet18?resolution=64", DECODER])
@pytest.mark.parametrize("chip", ["gaudi", "trainium1"])
def test_arrays_take_no_less_than_their_closed_forms(chip: str, model: str, store: Store) -> None:
    question = Question(model, on=(chip,), batch=2)
    (entry,) = search(question, store, bounds=False).entries
    assert entry.facts is not None
    for key in ("latency_s", ENERGY):
        assert 0 < entry.bound.least[key] <= cast(float, entry.facts[key])


def test_arrays_are_bounded_by_their_folds_and_their_accesses() -> None:
    question, chip = Question("gemm?M=4096,N=640,K=1152", on=("gaudi",), batch=1), spec_of("gaudi")
    (candidate,) = enumerate_all(question, offered(question))
    (unit,) = (each for each in units(chip).values() if each.type == "systolic")
    asked = [(Gemm(1, rows, 640, 1152, "", "w"), 0.0) for rows in (4096, 16)]
    found, few = ENGINES["systolic"].least(chip, unit, "bf16", asked, price_list(chip)) or ()
    assert found.seconds == pytest.approx(5 * 5 * 4096 / 1.6e9)  # 256 x 128 PEs at 1.6 GHz, a row in each clock
    least, entering = bound_of(question, candidate).least, 4096 * 1152 * 2 / chip.memories["pcie_memory"].rate_Bps
    assert least["latency_s"] == pytest.approx(max(found.seconds, entering))
    assert least[ENERGY] > found.joules > 1.5 * 4096 * 640 * 1152 * float(chip.energy.mac["bf16"])
    assert (
        few.seconds >= (24 * 256 + 16) / 1.6e9
    )  # a fold of few rows waits for the next weights, one row in each clock
    assert few.lasting > few.seconds + (256 + 128 - 3) / 1.6e9  # sums leave the array after the last row


def test_a_result_and_what_is_added_to_it_do_not_both_stay() -> None:
    def added(other: int, rows: int) -> Multiplied:
        return Multiplied(Gemm(1, rows, 8, 4, "", "w"), {}, 0.0, {other: rows * 8.0})

    start, end = Multiplied(Gemm(0, 0, 0, 0, "", ""), {}), Multiplied(Gemm(0, 0, 0, 0, "", ""), {4: 0.0})
    chain = [start, Multiplied(Gemm(1, 8, 8, 4, "", "w"), {0: 0.0}), added(1, 8), added(2, 8), added(3, 8), end]
    assert _apart_B(chain, 2.0, 256.0) == 0  # 128 bytes each: both fit
    assert _apart_B(chain, 2.0, 255.0) == 128  # 1 or 2; 3 is added to 2, which may have gone, and 4 leaves anyway
    assert _apart_B([*chain[:4], added(5, 8), added(4, 8), end], 2.0, 255.0) == 128
    assert _apart_B(chain, 2.0, 100.0) == 0  # none fits: they are counted elsewhere


@pytest.mark.parametrize(("on", "batch"), [("h100-sxm", 1), ("dgx-h100", 16)])
def test_generations_take_little_more_than_the_kernels_of_their_layers(on: str, batch: int) -> None:
    """Linear layers, norms, gates, turned queries and attention: most of the time of a GPU, and never more."""
    model = "llama?layers=2,hidden=4096,heads=32,kv_heads=8,ffn=8192,vocab=1000,prompt=256,new=2"
    question = Question(model, on=(on,), batch=batch)
    first, *_ = enumerate_all(question, offered(question))
    least, found = bound_of(question, first).least, cast("dict[str, float]", outcome(first.point).facts)
    for key in ("ttft_s", "tpot_s", "latency_s"):
        assert 0.75 <= least[key] / found[key] <= 1, key


@pytest.mark.parametrize(
    ("on", "dtype", "prompt", "new", "batch", "share"),
    [
        ("h100-sxm", "fp8_e4m3fn", 64, 4, 16, 0.75), ("b300-sxm", "int8", 64, 4, 1, 0.75),
        ("mi300x", "bf16", 64, 4, 16, 0.5), ("l4", "fp32", 64, 4, 4, 0.5), ("dgx-h100", "fp16", 64, 4, 4, 0.6),
        ("mi25", "fp16", 2, 60, 4, 0.4),  # most keys and values come while it generates
    ],
)  # fmt: skip
def test_energy_of_generations_is_bounded_by_their_tiles_and_the_power_of_boards(
    on: str, dtype: str, prompt: int, new: int, batch: int, share: float
) -> None:
    """Tiles of few rows are full of padding, which takes energy too, most of a further token's on GPUs."""
    model = f"llama?layers=1,hidden=4096,heads=32,kv_heads=8,ffn=8192,vocab=500,prompt={prompt},new={new}"
    question = Question(model, on=(on,), batch=batch, dtypes=(dtype,))
    first, *_ = enumerate_all(question, offered(question))
    energy_J = cast("dict[str, float]", outcome(first.point).facts)[ENERGY]
    assert share <= bound_of(question, first).least[ENERGY] / energy_J <= 1


@pytest.mark.parametrize("on", ["trn1-32xl", "hls1-gaudi"])
def test_weights_of_a_shared_model_pass_the_buffers_of_each_array(on: str) -> None:
    """They are most of the energy of a further token, so that little of it is not in its bound."""
    model = "llama?layers=2,hidden=1024,heads=16,kv_heads=16,ffn=1024,vocab=500,prompt=16,new=2"
    question = Question(model, on=(on,), batch=1)
    first, *_ = enumerate_all(question, offered(question))
    energy_J = cast("dict[str, float]", outcome(first.point).facts)[ENERGY]
    assert first.plan == "tp=2" and 0.83 <= bound_of(question, first).least[ENERGY] / energy_J <= 1


def test_what_is_kept_is_not_run_again(store: Store) -> None:
    search(SMALL, store)
    assert search(SMALL, store).ran == 0


def test_a_cost_is_time_times_price(store: Store) -> None:
    for entry in search(SMALL, store).entries:
        if entry.facts is not None and entry.candidate.rents:
            hours = cast(float, entry.facts["latency_s"]) / entry.candidate.batch * 1000 / 3600
            rented = entry.candidate.rents[0]
            price = rented.offer.price.hour_USD / rented.offer.instance.count
            assert entry.facts["cost_USD"] == pytest.approx(price * hours)
            assert price == min(each.hour_USD for each in entry.candidate.rents)


def test_a_service_has_the_fewest_replicas_that_keep_the_limits(store: Store) -> None:
    found = search(UNDER_LOAD, store, bounds=False)
    load, some = load_of(UNDER_LOAD), 0
    for entry in found.entries:
        if entry.candidate.chip == "a10g":
            continue
        facts, options = entry.facts or {}, json.loads(entry.candidate.point.options)
        asked = {name: options[name] for name in ("load", "lengths", "requests", "plan", "scheduler")}
        made = served(Served(UNDER_LOAD.model, entry.candidate.point.on, setting=Setting(dtype="fp16"), **asked))
        for count, enough in ((cast(int, facts["replicas"]), True), (cast(int, facts["replicas"]) - 1, False)):
            if count:
                tried = probe(made.with_replicas(count).service, {"ttft": 1e-3, "tpot": 0.3e-3}, load.rate)
                kept = tried.steady and tried.p99_s["ttft"] <= 1e-3 and tried.p99_s["tpot"] <= 0.3e-3
                assert kept is enough, (entry.candidate.point.text, count)
        some += cast(int, facts["replicas"]) > 1
        if rents := entry.candidate.rents:
            hour = -(-cast(int, facts["replicas"]) // rents[0].holds) * rents[0].holds * rents[0].hour_USD
            assert facts["cost_USD"] == pytest.approx(hour / 3600 / (15000 * 4) * 1e6)
    assert some


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"limits": {"cost": 1.0}}, "no limit of a time"),
        ({"load": "closed:4"}, "comes at no rate"),
        ({"load": "poison:4/s"}, "no process of arrivals"),
        ({"schedulers": ("vlm",)}, "no scheduler 'vlm'"),
        ({"model": "resnet50"}, "a decoder by its name"),
        ({"limits": {"ttft": 1.0, "throughput": 3.0}}, "a limit of throughput, which a service has not"),
    ],
)
def test_wrong_questions_about_services_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checked(replace(UNDER_LOAD, **changes))  # type: ignore[arg-type]


def test_a_run_says_the_same(store: Store) -> None:
    entry = Choice(search(SMALL, store)).winner
    assert entry is not None and entry.facts is not None
    each = entry.candidate
    run = accelsim.run(SMALL.model, each.chip, dtype=each.dtype, batch=each.batch, values="off")
    assert entry.facts["latency_s"] == run.latency_s


def test_odds_are_of_winner_and_runner_up(store: Store) -> None:
    choice = Choice(search(SMALL, store))
    assert choice.winner is not None and choice.runner_up is not None
    assert choice.winner.candidate.chip != choice.runner_up.candidate.chip
    ours, others = choice.believed(choice.winner), choice.believed(choice.runner_up)
    assert ours is not None and others is not None
    assert choice.sure() == odds_below(ours, others) and 0 < cast(float, choice.kept["latency"]) <= 1


def test_each_loser_has_a_reason_that_holds(store: Store) -> None:
    choice = Choice(search(SMALL, store))
    assert choice.winner is not None
    reasons = dict(choice.why())
    assert set(reasons) == {"t4", "l4", "k80", "p4"} - {choice.winner.candidate.chip}
    best = next(figures["cost"] for each, figures in choice.able if each is choice.winner)
    for chip, reason in reasons.items():
        own = [figures["cost"] for each, figures in choice.able if each.candidate.chip == chip]
        if own and "at least" not in reason and "costs" in reason:
            assert reason == f"costs {min(own) / best:.3g} times as much"


def test_a_load_pays_whole_instances(store: Store) -> None:
    choice = Choice(search(SMALL, store))
    for load in choice.loads():
        rate = cast(float, cast(dict[str, object], load.entry.facts)["throughput_per_s"]) * load.rented.holds
        assert load.instances == ceil(load.per_s / rate)
        assert load.hour_USD == load.instances * load.rented.offer.price.hour_USD
    hours = [load.hour_USD for load in choice.loads()]
    assert hours == sorted(hours)  # more load never costs less


def test_loads_name_the_dropped_chips_that_may_be_cheaper(store: Store) -> None:
    """Whatever is cheapest among all candidates at a load is in the table, or among those that it names."""
    choice, whole = Choice(search(SMALL, store)), Choice(search(SMALL, store, bounds=False))
    assert any(each.dropped == "beaten" for each in choice.searched.entries)
    for load, truth in zip(choice.loads(), whole.loads(), strict=True):
        assert not truth.perhaps and truth.hour_USD <= load.hour_USD
        assert truth.hour_USD == load.hour_USD or truth.entry.candidate.text in load.perhaps


def test_points_of_the_front_are_named_with_their_batch(store: Store) -> None:
    found = answer(replace(SMALL, limits={}), store)
    texts = [text.get_text() for text in found.plot().axes[0].texts]
    front = [f"{row['chip']}, {row['batch']}" for row in found.to_dict()["front"]]
    assert front and set(front) <= set(texts)


def test_idle_instances_cost_the_same_however_long_a_run_takes(store: Store) -> None:
    asked = replace(SMALL, limits={"throughput": 10.0}, on=("t4", "l4"), dtypes=("fp16", "int8"), batch=1)
    found = search(asked, store)
    choice = Choice(found)
    assert choice.winner is not None and choice.winner.facts is not None
    own = [each for each in found.entries if each.candidate.chip == "t4" and each.facts is not None]
    hour_USD = own[0].candidate.hour_USD
    assert hour_USD is not None and len(own) > 1
    for each in own:
        paid = cost_belief(found.question, each.candidate, cast(dict[str, object], each.facts), spread=False)
        assert paid is not None and paid.low == paid.value == paid.high == pytest.approx(hour_USD * 1000 / 10 / 3600)
    fastest = min(own, key=lambda each: cast(float, cast(dict[str, object], each.facts)["latency_s"]))
    assert "90 %" not in sentences(choice)[0]
    assert choice.winner is fastest and [each.candidate.chip for each in choice.front].count("t4") == 1


def test_what_nothing_keeps_names_the_nearest_miss(store: Store) -> None:
    choice = Choice(search(replace(SMALL, limits={"latency": 1e-9}), store))
    assert choice.winner is None and choice.nearest is not None
    assert choice.nearest.missed[0].name == "latency" and choice.nearest.missed[0].factor > 1


def test_a_model_that_fits_nowhere_says_how_much_it_needs() -> None:
    question = Question("llama2-70b?prompt=8,new=2", on=("t4",))
    (entry, *_) = [bound_of(question, each) for each in enumerate_all(question, offered(question))]
    assert not entry.fits and entry.needed_B > 130e9 and entry.room_B == 16 * 2**30


def test_gpus_are_gpus_in_clusters_too() -> None:
    question = Question(DECODER, on=("gpus",), batch=1)
    found = enumerate_all(question, offered(question))
    assert any(each.plan for each in found) and {spec_of(each.chip).kind for each in found} == {"gpu"}


def test_every_chip_has_bounds_in_each_of_its_formats() -> None:
    for task in ("gemm?M=8,N=8,K=8", DECODER):
        question = Question(task, on=tuple(where.names("chips")), batch=1)
        found = [(each, bound_of(question, each)) for each in enumerate_all(question, offered(question))]
        assert {each.chip for each, _ in found} == set(question.on)
        for each, bound in found:
            assert bound.fits and all(0 < least < inf for key, least in bound.least.items() if key != ENERGY), each


def test_bounds_of_a_processor_are_below_its_figures(store: Store) -> None:
    question = Question("gemm?M=64,N=64,K=64", on=("haswell-e5-2699v3",))
    for entry in search(question, store, bounds=False).entries:
        assert entry.facts is not None
        assert 0 < entry.bound.least["latency_s"] <= cast(float, entry.facts["latency_s"])
        assert entry.bound.least[ENERGY] <= cast(float, entry.facts[ENERGY])


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question("gemm?M=8,N=8,K=8", on=("t44",)), "'t4'"),
        (Question("gemm?M=8,N=8,K=8", on=("aws:g4dn.xlarg",)), "aws:g4dn.xlarge"),
        (Question("gemm?M=8,N=8,K=8", providers=("awss",)), "--providers: no provider 'awss'"),
        (Question("gemm?M=8,N=8,K=8", objective="area"), "no figures for area"),
        (Question("gemm?M=8,N=8,K=8", objective="costs"), "'cost'"),
        (Question("gemm?M=8,N=8,K=8", {"ttft": 1.0}), "limit of ttft"),
        (Question("gemm?M=8,N=8,K=8", on=("k80",), dtypes=("fp8_e4m3",)), "nothing to choose from"),
        (Question("gpt2", {"days": 3.0}, train=True), "--tokens"),
    ],
)
def test_bad_questions(question: Question, said: str, store: Store) -> None:
    with pytest.raises(UsageError) as caught:
        search(question, store)
    assert said in str(caught.value)


def test_all_problems_of_a_question_are_told_at_once() -> None:
    asked = Question("gemm?M=8,N=8,K=8", {}, "costs", ("t44",), ("fp17",), providers=("awz",))
    with pytest.raises(UsageError) as caught:
        with_limits(asked, ["latencie=1ms,latency=3"])
    places = [(problem.where, problem.nearest) for problem in caught.value.problems]
    assert [where for where, _ in places] == ["--limit", "--limit", "--objective", "", "--on", "--providers"]
    assert {"latency", "fp16", "t4", "aws"} <= {hint for _, hint in places}


def test_limits_are_read_with_their_units() -> None:
    assert read_limits(["latency=10ms,cost=0.5 USD", "days=30d", "accuracy=-1%", "throughput=100/s"], UNITS) == {
        "latency": 0.01, "cost": 0.5, "days": 30.0, "accuracy": -0.01, "throughput": 100.0,
    }  # fmt: skip
    with pytest.raises(UsageError) as caught:
        read_limits(["latency=10", "latencie=1ms", "days=-3", "accuracy=5%"], UNITS)
    assert len(caught.value.problems) == 4


def test_python_returns_what_other_results_have(tmp_path: Path) -> None:
    asked = {"on": ("t4", "l4"), "batch": 1, "store": tmp_path / "s.db"}
    found = accelsim.choose("gemm?M=64,N=64,K=64", {"latency": "1 ms"}, **asked)  # type: ignore[arg-type]
    facts = found.to_dict()
    assert facts["best"]["cost"]["chip"] in ("t4", "l4") and facts["limits"] == {"latency": 1e-3}
    assert len(found.table()) == facts["candidates"] and found.plot() is not None


@pytest.mark.parametrize("own", [False, True], ids=["digits", "npz"])
def test_a_limit_of_accuracy_keeps_the_formats_whose_measured_loss_allows_it(
    own: bool, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = dict[tuple[str, ...], Accuracy]()

    def short(model: str, chips: list[str], data: str, dtypes: list[str]) -> Accuracy:
        key = (model, *chips, data, *sorted(dtypes))
        known[key] = known.get(key) or accuracy(model, chips, data, dtypes=dtypes, steps=20)
        return known[key]

    monkeypatch.setattr("accelsim.explore.accuracy.accuracy", short)
    data, dtypes = "digits", ["fp16", "int4"]
    if own:
        rng = np.random.default_rng(1)
        y = np.arange(400) % 10
        x = rng.standard_normal((10, 1, 8, 8))[y] + 1.2 * rng.standard_normal((400, 1, 8, 8))
        data = str(tmp_path / "own.npz")
        np.savez(data, x_train=x[:300].astype(np.float32), y_train=y[:300], x_test=x[300:].astype(np.float32),
                 y_test=y[300:])  # fmt: skip
    measured = short("digits-mlp", ["t4"], data, dtypes)
    losses = {row.dtype: row.accuracy - measured.baseline for row in measured.rows}
    limit = (min(losses.values()) + max(losses.values())) / 2
    assert min(losses.values()) < limit < 0
    found = search(
        Question("digits-mlp", {"accuracy": limit}, on=("t4",), dtypes=tuple(dtypes), batch=1, data=data), store
    )
    kept = {each.candidate.dtype for each in found.entries if each.dropped != "accuracy"}
    assert kept == {dtype for dtype, loss in losses.items() if loss >= limit}
    winner = Choice(found).winner
    assert winner is not None and winner.candidate.dtype in kept


def test_points_of_one_chip_share_what_they_simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training on a second cluster of the same chips simulates nothing that the first did, and gets its own figures."""
    ran = list[str]()
    monkeypatch.setattr(
        "accelsim.cluster.step.costs.simulate", lambda program, *a: ran.append("") or simulate(program, *a)
    )
    options = {"train": True, "dtype": "fp16", "batch": 8}
    points = [Point.of(TRAINED.model, "8x-t4-pcie", {**options, "plan": f"dp={dp},tp={8 // dp}"}) for dp in (8, 4)]
    points.append(Point.of(TRAINED.model, "t4", {**options, "batch": 1, "plan": "dp=1"}))
    known = Known()
    shared = [outcome(point, known) for point in points[:2]]
    before = len(ran)
    shared.append(outcome(points[2], known))
    assert before > 0 and len(ran) == before, "a single t4 has the layers of eight replicas"
    assert [each.facts for each in shared] == [outcome(point).facts for point in points]
    assert len(ran) > 2 * before


@pytest.mark.parametrize(("batch", "plan"), [(8, "dp=2,tp=2,pp=2"), (16, "dp=1,tp=1,pp=8")])
def test_trainings_take_no_less_than_their_bounds(batch: int, plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that fills and empties is bounded above a plan that keeps all devices at their peak; energy of links
    counts where devices add up results."""
    question = replace(TRAINED, model="gpt2?layers=8,hidden=128,heads=4", tokens=None)
    options = {"train": True, "dtype": "fp16", "batch": batch, "plan": plan}
    point = Point.of(question.model, "8x-t4-pcie", options)
    candidate = Candidate(point, "8x-t4-pcie", "t4", 8, "fp16", batch, plan)
    least = bound_of(question, candidate).least
    found = cast("dict[str, float]", outcome(point).facts)
    assert least["latency_s"] <= found["latency_s"] and least[ENERGY] <= found[ENERGY]
    at_peak_s = work_of(question.model, True).flops * batch / (8 * peak("t4", "fp16"))
    assert least["latency_s"] > (2.5 if "pp=8" in plan else 1.5) * at_peak_s
    monkeypatch.setattr("accelsim.explore.choose.stepping.collective", lambda *asked: (0.0, 0.0))
    assert (bound_of(question, candidate).least[ENERGY] < least[ENERGY]) is ("tp=2" in plan)


@pytest.mark.parametrize("layers", [1, 2])
def test_experts_compete_as_shared_among_devices(layers: int) -> None:
    """Their bounds are below what is simulated; groups of devices have equally many sequences."""
    text = f"mixtral-8x7b?layers={layers},hidden=512,heads=4,kv_heads=4,ffn=1024,vocab=1000,prompt=64,new=2"
    asked = Question(text, {}, on=("dgx-h100",), batch=4)
    found = {each.plan: each for each in enumerate_all(asked, offered(asked))}
    assert found.keys() == {"tp=2", "ep=2", "tp=4", "ep=4"}
    assert not any("ep" in each.plan for each in enumerate_all(SERVED, offered(SERVED)))
    for plan, each in found.items():
        made, _ = generated(text, f"dgx-h100?nodes=1,devices={each.count}", (), plan, 4, Setting(each.dtype))
        least = bound_of(asked, each).least
        assert 0 < least["ttft_s"] <= made.time_to_first_token_s and made.token_s is not None
        assert least["tpot_s"] <= made.token_s
    service = replace(UNDER_LOAD, model=text.partition(",prompt")[0], on=("dgx-h100",))
    assert {each.plan for each in enumerate_all(service, offered(service))} == {"tp=2", "ep=2", "tp=4", "ep=4", "ep=8"}
