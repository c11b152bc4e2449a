"""Tables of simulated steps, times of steps, blocks of keys and values."""

from __future__ import annotations

import json

import pytest

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.step import Layout, step
from accelsim.cluster.serving.what_if import faster_links
from accelsim.cluster.step.costs import PLAIN, Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import transformer_of
from accelsim.serving.asked import Question, served
from accelsim.serving.replicas import blocks_of
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.tables import CLOSE, Asked, Kept, Place, Table
from accelsim.serving.times import StepTimes, key_of
from accelsim.spec.yaml.clusters import load_devices

SMALL = "llama?layers=2,hidden=256,heads=4,kv_heads=4,ffn=512,vocab=1000"


def test_a_table_is_close_to_what_it_is_of_and_asks_little() -> None:
    asked = []

    def ask(place: Place) -> Asked:
        asked.append(place)
        n, past = place
        values = (5.0 + 0.1 * n + 1e-3 * n * past + 1e-6 * past**1.5,)
        return Asked(values, values)

    table = Table(ask)
    for n in range(1, 300, 7):
        for past in range(0, 3000, 111):
            (found,) = table.at((n, past))
            assert found == pytest.approx(5.0 + 0.1 * n + 1e-3 * n * past + 1e-6 * past**1.5, rel=4 * CLOSE)
    assert len(asked) == len(set(asked)) == table.simulated < 300
    assert table.error <= CLOSE


def test_answers_of_a_table_do_not_depend_on_what_was_asked_before() -> None:
    def ask(place: Place) -> Asked:
        values = (1.0 + place[0] ** 0.5,)
        return Asked(values, values)

    one, other = Table(ask), Table(ask)
    up = [one.at((n,)) for n in range(1, 200)]
    assert up == [other.at((n,)) for n in range(199, 0, -1)][::-1]


def test_what_was_simulated_is_not_simulated_again() -> None:
    def ask(place: Place) -> Asked:
        values = (1.0 + place[0] ** 0.5, 2.0)
        return Asked(values, values)

    def refuse(place: Place) -> Asked:
        raise AssertionError(place)

    kept: Kept = {}
    first = Table(ask, kept)
    answers = [first.at((n,)) for n in range(1, 100)]
    again = Table(refuse, json.loads(json.dumps(kept)))
    assert [again.at((n,)) for n in range(1, 100)] == answers and again.simulated == first.simulated
    damaged: Kept = {place: (None, [[1.0]], "x")[at % 3] for at, place in enumerate(kept)}
    assert [Table(ask, damaged).at((n,)) for n in range(1, 100)] == answers


def test_steps_are_kept_by_devices_and_settings() -> None:
    keys = []
    for on, setting in (("t4", PLAIN), ("t4", Setting(dtype="fp32")), ("8x-t4-pcie", PLAIN), ("l4", PLAIN)):
        spec = load_devices(on)
        keys.append(key_of(spec, Devices(fleet_of(spec, setting), setting)))
    assert len(set(keys)) == 4 and all(keys)


def test_steps_with_faster_links_are_kept_by_themselves() -> None:
    question = Question(SMALL, "8x-t4-pcie?devices=2", "poisson:1/s", "fixed:8,2", requests=3, plan="tp=2")
    keys = [served(question, change).last.times.key for change in (lambda fleet: fleet, faster_links, faster_links)]
    assert keys[0] != keys[1] == keys[2] and all(keys)


@pytest.fixture(scope="module", name="times")
def _times() -> StepTimes:
    model = transformer_of(SMALL)
    assert model is not None
    fleet = fleet_of(load_devices("t4"), PLAIN)
    return StepTimes(model, Devices(fleet, fleet.setting), Plan())


@pytest.mark.parametrize("prompt", [2, 64, 100, 256])
def test_a_prompt_alone_takes_its_prefill(times: StepTimes, prompt: int) -> None:
    alone = step(times.devices, Layout(times.model, Plan(), 1), prompt, 0).first_s
    sequence = Sequence(0, Request(0.0, prompt, 2))
    assert times.cost(Batch(((sequence, prompt),)))[0] == pytest.approx(alone, rel=0.01)


@pytest.mark.parametrize(("sequences", "past"), [(1, 256), (4, 100), (16, 512)])
def test_equal_sequences_that_decode_take_their_step(times: StepTimes, sequences: int, past: int) -> None:
    alone = step(times.devices, Layout(times.model, Plan(), sequences), 1, past).period_s
    assert times.cost(Batch((), sequences, sequences * past))[0] == pytest.approx(alone, rel=0.01)


def test_few_tokens_read_the_experts_that_they_meet() -> None:
    spec = load_devices("h100-sxm")
    devices = Devices(fleet_of(spec, PLAIN), PLAIN)
    model = transformer_of("mixtral-8x7b?layers=1")
    assert model is not None
    found = StepTimes(model, devices, Plan()).cost(Batch((), 16, 16 * 300))
    direct = step(devices, Layout(model, Plan(), 16), 1, 300)
    assert found == pytest.approx((direct.period_s, direct.energy_J), rel=0.01)


def test_blocks_are_what_weights_and_a_step_leave() -> None:
    """vLLM 0.15.1 has 7,463 blocks for Llama 2 7B on an H100 of 80 GB."""
    model = transformer_of("llama2-7b")
    assert model is not None
    fleet = fleet_of(load_devices("h100-sxm"), PLAIN)
    blocks, block_B = blocks_of(Devices(fleet, fleet.setting), Layout(model, Plan(), 1), 8192, 0.9)
    assert block_B == 16 * 2 * 32 * 4096 * 2
    assert blocks == pytest.approx(7463, rel=0.03)
