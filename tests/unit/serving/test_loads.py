"""Loads as texts: what is drawn, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.errors import UsageError
from accelsim.serving.asked import Question, served
from accelsim.serving.loads import drawn, read_lengths, read_load, read_prefix, with_prefixes
from accelsim.serving.rates import read_rates
from accelsim.serving.requests import Request
from accelsim.serving.traces import read_trace
from accelsim.types import Array

COUNT = 20_000


def arrivals(load: str) -> Array:
    return np.array([each.arrival_s for each in drawn(read_load(load), read_lengths("fixed:1,1"), COUNT, seed=0)])


def dispersion(times: Array, width_s: float) -> float:
    """Index of dispersion of counts: their variance by their mean, in windows."""
    counts = np.histogram(times, np.arange(0, times[-1], width_s))[0]
    return float(counts.var() / counts.mean())


@pytest.mark.parametrize(
    ("load", "low", "high"),
    [("constant:8/s", 0.0, 0.05), ("poisson:8/s", 0.9, 1.1), ("gamma:8/s,cv=2", 2.5, 4.5), ("mmpp:8/s,burst=5", 5, 40)],
)
def test_arrivals_have_their_rate_and_their_bursts(load: str, low: float, high: float) -> None:
    times = arrivals(load)
    assert np.all(np.diff(times) >= 0)
    assert COUNT / times[-1] == pytest.approx(8, rel=0.1)
    assert low <= dispersion(times, 2.0) <= high


@pytest.mark.parametrize("lengths", ["fixed:100,40", "uniform:100,40,cv=0.2", "lognormal:100,40,cv=0.5"])
def test_lengths_have_their_means_and_spread(lengths: str) -> None:
    requests = list(drawn(read_load("closed:2"), read_lengths(lengths), COUNT, seed=0))
    prompts, outputs = (np.array([getattr(each, name) for each in requests]) for name in ("prompt", "output"))
    cv = float(lengths.partition("cv=")[2] or 0)
    for values, mean in ((prompts, 100), (outputs, 40)):
        assert values.mean() == pytest.approx(mean, rel=0.02)
        assert values.std() / values.mean() == pytest.approx(cv, abs=0.02)


def test_other_lengths_leave_arrivals_as_they_are() -> None:
    load = read_load("poisson:8/s")
    one, other = (list(drawn(load, read_lengths(text), 50, seed=1)) for text in ("fixed:9,9", "lognormal:99,9"))
    assert [each.arrival_s for each in one] == [each.arrival_s for each in other]


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        (read_load, "poisso:8/s", "did you mean 'poisson'?"),
        (read_load, "poisson:0/s", "requests per second"),
        (read_load, "gamma:8/s", "no cv"),
        (read_load, "poisson:8/s,cv=3", "'cv=3'"),
        (read_load, "closed:3.5", "a number of clients"),
        (read_load, "closed:3,think=1", "a time with its unit"),
        (read_lengths, "lognormal:8", "means of prompts and outputs"),
        (read_lengths, "normal:8,8", "did you mean 'lognormal'?"),
        (read_lengths, "uniform:8,8,cv=x", "such as cv=0.5"),
        (read_lengths, "uniform:8,8,cv=0.6", "a number above 0 and below 0.58"),
        (read_lengths, "fixed:8,8,cv=0.6", "'cv=0.6'"),
        (read_load, "mmpp:8/s,share=1", "a number above 0 and below 1"),
        (read_load, "mmpp:8/s,burst=0.5", "a number from 1 to 1e+06, such as burst=5"),
        (read_load, "mmpp:8/s,lasts=1e-6,share=0.5", "1.6e-05 requests in a calm and a busy spell"),
        (read_load, "mmpp:8/s,lasts=1e9", "0.01 to 1e+07"),
        (read_load, "gamma:8/s,cv=1e-200", "a number from 0.001 to 1000"),
        (read_load, "poisson:1e12/s", "requests per second from 1e-06 to 1e+06"),
        (read_load, "constant:1e-300/s", "requests per second from 1e-06 to 1e+06"),
        (read_prefix, "share=1.5", "0 to 1, such as share=0.5"),
        (read_prefix, "tokens=2.5", "such as tokens=512"),
        (read_prefix, "text=2", "share, tokens, groups"),
    ],
)
def test_wrong_texts_are_refused(read: object, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)  # type: ignore[operator]
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "arrival_s,prompt,output\n3.5,10,2\n4,20,1\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,10,2\n2023-11-16 18:15:47.1805900,20,1\n",
    ],
)
def test_traces_begin_at_zero(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "trace.csv").write_text(text, encoding="utf-8")
    first, second = read_trace(path)
    assert first == Request(0.0, 10, 2)
    assert second.arrival_s == pytest.approx(0.5, abs=1e-6)
    assert second[1:3] == (20, 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("arrival_s,prompt\n1,2\n", ["trace.csv:1: no column output"]),
        ("arrival_s,prompt,output\n", ["no requests"]),
        (
            "arrival_s,prompt,output\n2,1,1\n1,1,1\n3,0,1\nx,1,1\n",
            ["trace.csv:3: arrival_s 1", "trace.csv:4: 3, 0, 1", "trace.csv:5"],
        ),
        ("arrival_s,prompt,output,prefix,prefix_tokens\n0,9,1,a,10\n", ["trace.csv:2: 0, 9, 1, a, 10"]),
        ('timestamp,input_length,output_length,hash_ids\n0,512,1,"[1, 2]"\n', ["a prefix of at most"]),
    ],
)
def test_wrong_traces_are_told_line_by_line(tmp_path: Path, text: str, told: list[str]) -> None:
    (path := tmp_path / "trace.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_trace(path)
    assert len(caught.value.problems) == len(told)
    assert all(each in str(caught.value) for each in told)


@pytest.mark.parametrize(
    ("name", "text", "prefix"),
    [
        ("a.csv", "arrival_s,prompt,output,prefix,prefix_tokens\n0,9,1,a,8\n1,9,1,,\n", [(("a", 8),), ()]),
        (
            "a.jsonl",
            '{"timestamp": 0, "input_length": 700, "output_length": 1, "hash_ids": [4, 5]}\n'
            '{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [4]}\n',
            [((4, 512), (5, 188)), ((4, 512),)],
        ),
    ],
)
def test_traces_name_shared_prefixes(tmp_path: Path, name: str, text: str, prefix: list[object]) -> None:
    (path := tmp_path / name).write_text(text, encoding="utf-8")
    found = read_trace(path)
    assert [each.prefix for each in found] == prefix
    assert [each.arrival_s for each in found] == [0.0, 3.0 if name == "a.jsonl" else 1.0]


def test_prefixes_come_before_prompts_in_their_share() -> None:
    plain = list(drawn(read_load("poisson:8/s"), read_lengths("fixed:100,9"), COUNT, seed=0))
    found = list(with_prefixes(plain, read_prefix("share=0.25,tokens=64,groups=3"), seed=0))
    shared = [each for each in found if each.prefix]
    assert len(shared) / COUNT == pytest.approx(0.25, abs=0.01)
    assert {each.prefix for each in shared} == {((group, 64),) for group in range(3)}
    assert all(each.prompt == (164 if each.prefix else 100) for each in found)
    assert [each.arrival_s for each in found] == [each.arrival_s for each in plain]


def test_all_problems_of_a_load_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        read_load("mmpp:1e12/s,burst=0.5,share=2")
    assert [str(each.what) for each in caught.value.problems] == ["'1e12/s'", "'0.5'", "'2'"]


def test_thinking_takes_no_negative_time() -> None:
    with pytest.raises(UsageError, match="a time with its unit, 0 or more"):
        read_load("closed:4,think=-1s")
    assert read_load("closed:4,think=0s").think_s == 0.0


def test_a_trace_says_all_of_its_requests(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt,output\n0,5,5\n")
    given = ["serve", "llama?layers=1,hidden=64", "--on", "t4", "--trace", str(path), "--load", "poisson:3/s"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2 and "--load: a trace beside it" in done.stderr


def test_a_rate_may_have_another_unit_of_time() -> None:
    assert read_load("poisson:480/min").rate == read_load("poisson:28800/h").rate == read_load("poisson:8").rate == 8


def test_more_clients_than_requests_are_as_many() -> None:
    found = served(Question("llama?layers=1,hidden=64", "t4", "closed:1000000", "fixed:1,1", requests=2))
    assert found.load.clients == 2


def test_many_bad_rows_are_told_in_few_lines_and_no_text_is_no_codec(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("time_s,rate\n" + "0,x\n" * 1003, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_rates(path)
    assert len(str(caught.value).splitlines()) == 9 and "995 more of this kind" in str(caught.value)
    path.write_bytes(b"\xff\xfe\xb8")
    for read in (read_rates, read_trace):
        with pytest.raises(UsageError, match="cannot be read: it is no text"):
            read(path)
