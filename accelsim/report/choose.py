"""Answer about a choice of hardware: the best, how sure that is, the front, why others lose, which load suits whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from accelsim import usercache
from accelsim.errors import UsageError, count_of
from accelsim.explore.choose.checks import with_limits
from accelsim.explore.choose.choice import APART, Choice
from accelsim.explore.choose.figures import belief, cost_belief, hour_USD
from accelsim.explore.choose.question import MEASURES, SERVICE, Question
from accelsim.explore.choose.search import Entry, Told, search
from accelsim.explore.sweep.store import Store
from accelsim.files import make_folder
from accelsim.report.answer import Answer, Field, Part, Table, bullet, in_unit
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, points, rule
from accelsim.report.prices import usd
from accelsim.report.style import BLUE, FAINT, GREY, INK, ORANGE, VERMILLION
from accelsim.report.text import percent, si

STORE = "choices.db"
"""Store in the user's cache folder."""
NAMES = {"cost": "Cheapest", "speed": "Fastest", "energy": "Least energy"}


def choose(
    model: str,
    limits: Mapping[str, object] | None = None,
    objective: str = "cost",
    *,
    on: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    batch: int | None = None,
    train: bool = False,
    tokens: float | None = None,
    providers: Sequence[str] = (),
    term: str = "on-demand",
    prices: str | Path | None = None,
    data: str = "digits",
    load: str = "",
    lengths: str = "lognormal:1024,256",
    schedulers: Sequence[str] = (),
    requests: int | None = None,
    store: str | Path | None = None,
    workers: int = 1,
) -> Answer:
    """Choose the hardware for a model: what is cheapest, fastest, thriftiest within limits, and how sure that is.

    ``limits``: name -> number in SI units, USD or days, or text ('10ms'). The result has ``to_dict()``, ``frame()``
    and ``plot()``. With a ``load`` the choice is for a service. Raises UsageError, SpecError and ModelError.
    """
    texts = [f"{name}={value}{'' if isinstance(value, str) else _ends(name)}" for name, value in (limits or {}).items()]
    question = Question(
        model, {}, objective, tuple(on), tuple(dtypes), batch, train,
        None if tokens is None else int(tokens), tuple(providers), term,  # type: ignore[arg-type]
        None if prices is None else Path(prices), data, load, lengths, tuple(schedulers), requests,
    )  # fmt: skip
    return answer(with_limits(question, texts), opened(store), workers)


def _ends(name: str) -> str:
    unit = MEASURES[name].unit if name in MEASURES else ""
    return unit if unit in ("s", "J", "W") else ""


def opened(store: str | Path | None) -> Store:
    """Return the store of that path; by default the one in the user's cache folder, or in memory where there is none.

    Raises UsageError for a file that is no store.
    """
    if store is not None:
        return Store(Path(store))
    folder = usercache.folder()
    if folder is None:
        return Store(Path(":memory:"))
    return Store(make_folder(folder) / STORE)


def answer(question: Question, store: Store, workers: int = 1, told: Told = lambda done, every: None) -> Answer:
    """Search, and report the choice. Raises UsageError, SpecError and ModelError; where nothing keeps the limits the
    answer fails with the nearest miss."""
    choice = Choice(search(question, store, workers, told))
    rows = [_row(choice, each) for each in choice.searched.entries]
    said, losers = sentences(choice), [{"chip": chip, "why": why} for chip, why in choice.why()]
    front = [_row(choice, each) for each in choice.front]
    facts = {
        "model": question.model, "task": question.task, "objective": question.objective,
        "limits": dict(question.limits), "cost_of": question.unit,
        "candidates": len(rows), "ran": choice.searched.ran,
        "simulated": sum(each.facts is not None for each in choice.searched.entries),
        "best": {aim: each and _row(choice, each) for aim in NAMES for each in [choice.best(aim)]},
        "runner_up": choice.runner_up and _row(choice, choice.runner_up),
        "sure": choice.sure(), "sure_at_these_prices": choice.sure(spread=False), "keeps": choice.kept,
        "front": front, "others": losers,
        "loads": [
            {"per_s": each.per_s, "chip": each.entry.candidate.text, "instance": each.rented.offer.full_name,
             "instances": each.instances, "usd_per_hour": each.hour_USD, "perhaps": list(each.perhaps)}
            for each in choice.loads()
        ],
        "sentences": said,
    }  # fmt: skip
    shown: list[Part] = [*map(bullet, said)]
    if front:
        shown += ["", Table(_fields(choice), front, legend="Front")]
    if losers and choice.winner is not None:
        shown += ["", Table((Field("chip", "chip"), Field("why", "why not")), losers)]
    if facts["loads"]:
        steps = _steps(cast("list[dict[str, Any]]", facts["loads"]))
        fields = LOADS if any(each["perhaps"] for each in steps) else LOADS[:-1]
        shown += ["", Table(fields, steps, legend="Load")]
    pictures = {"choice": partial(_scatter, choice), "loads": partial(_lines, choice)}
    fails = UsageError(said[0], expected="other limits") if choice.winner is None else False
    return Answer(facts, shown if not fails else [], rows, pictures, fails=fails)


LOADS = (
    Field(
        "per_s", "from /s", si, meaning="requests per second from which on it is the cheapest simulated, idle time paid"
    ),
    Field("chip", "chip"),
    Field("instance", "instance"),
    Field("instances", "instances", "{:,}".format),
    Field("usd_per_hour", "USD/h", usd),
    Field("perhaps", "perhaps cheaper", ", ".join, meaning="not simulated, and bounds do not exclude it"),
)


def _steps(loads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Loads at which another chip or instance becomes the cheapest, or may do so."""
    keys = [(each["chip"], each["instance"], each["perhaps"]) for each in loads]
    return [each for at, each in enumerate(loads) if not at or keys[at] != keys[at - 1]]


def _row(choice: Choice, entry: Entry) -> dict[str, object]:
    """A candidate for JSON and CSV."""
    question, candidate, facts = choice.question, entry.candidate, entry.facts or {}
    cost = cost_belief(question, candidate, facts, False) if facts else None
    rented = candidate.rents[0] if candidate.rents else None
    keys = ["latency_s", "latency_low_s", "latency_high_s", "throughput_per_s", "energy_per_sample_J"]
    keys += [each.key for each in MEASURES.values() if question.task in each.tasks and each.key in facts]
    return {
        "chip": candidate.chip, "count": candidate.count, "dtype": candidate.dtype, "batch": candidate.batch,
        "plan": candidate.plan, "nodes": candidate.nodes,
        **({"replicas": facts.get("replicas"), "scheduler": candidate.scheduler} if candidate.scheduler else {}),
        "instance": rented and rented.offer.full_name,
        "usd_per_hour": hour_USD(candidate, cast(float, facts.get("replicas", 1))),
        "providers": len(candidate.rents), "cost_usd": facts.get("cost_USD"),
        "cost_low_usd": cost and cost.low, "cost_high_usd": cost and cost.high,
        **{key: facts.get(key) for key in keys},
        "status": "simulated" if entry.facts is not None else entry.dropped or "failed",
        "keeps_limits": entry.able, "front": any(entry is each for each in choice.front),
        "error": entry.error,
    }  # fmt: skip


def _fields(choice: Choice) -> list[Field]:
    question = choice.question
    speed = MEASURES[question.speed]
    plain = [Field("plan", "plan")] if any(each.candidate.plan for each in choice.front) else []
    more = [
        Field(MEASURES[name].key, name, in_unit(MEASURES[name].unit))
        for name in ("ttft", "tpot")
        if name in question.limits
    ]
    served = question.task == SERVICE
    sample = "request" if served else "sample"
    return [
        Field("", "on", lambda row: f"{row['count']} x {row['chip']}" if row["count"] > 1 else row["chip"], True),
        *plain,
        Field("dtype", "format"),
        *(
            [Field("replicas", "replicas", "{:,}".format), Field("scheduler", "scheduler")]
            if served
            else [Field("batch", "batch", "{:,}".format)]
        ),
        Field("instance", "instance"),
        *([Field("usd_per_hour", "USD/h", usd, meaning="whole instances of all replicas")] if served else []),
        Field("cost_usd", "USD", usd, meaning=f"cost of {_of(question)}"),
        Field(speed.key, question.speed, in_unit(speed.unit) if speed.unit == "s" else "{:.3g}".format),
        *more,
        Field("energy_per_sample_J", "energy", in_unit("J"), meaning=f"energy of a {sample}"),
    ]


def _of(question: Question) -> str:
    return {"training": "the training", "million new tokens": "a million new tokens"}.get(question.unit, question.unit)


def sentences(choice: Choice) -> list[str]:
    """Say what is best, how sure that is, and what was looked at."""
    question = choice.question
    if choice.winner is None:
        return list(_nothing(choice))
    said = [_best(choice, choice.aim), *_sure(choice)]
    if question.task == SERVICE:
        said.append(f"{question.load}, {question.lengths} tokens: times are what 99 of 100 requests keep.")
    said += [_best(choice, aim) for aim in NAMES if aim != choice.aim and choice.best(aim) is not None]
    every = choice.searched.entries
    simulated = sum(each.facts is not None for each in every)
    said.append(
        f"{count_of(len(every), 'candidate')}: {simulated:,} simulated, "
        f"{sum(bool(each.dropped) for each in every):,} dropped by bounds"
        + (f", of these {ruled:,} by the measured rules of batches." if (ruled := sum(e.ruled for e in every)) else ".")
    )
    if any(each.candidate.dtype == "int8" for each in choice.front) and "accuracy" not in question.limits:
        said.append("Accuracy in int8 was not looked at; --dtype leaves it out.")
    return said


def _name(entry: Entry) -> str:
    each = entry.candidate
    plan = f", {each.plan}" if each.plan else ""
    if each.scheduler:
        replicas = "" if entry.facts is None else f", {count_of(cast(int, entry.facts['replicas']), 'replica')}"
        return f"{each.text} in {each.dtype}{plan}, {each.scheduler}{replicas}"
    return f"{each.text} in {each.dtype}{plan}, batch {each.batch:,}"


def _best(choice: Choice, aim: str) -> str:
    entry = choice.best(aim)
    assert entry is not None and entry.facts is not None
    figures = _figures(choice, entry)
    rented = f" on {entry.candidate.rents[0].offer.full_name}" if entry.candidate.rents else ""
    return f"{NAMES[aim]}: {_name(entry)}{rented} ({figures})."


def _figures(choice: Choice, entry: Entry) -> str:
    assert entry.facts is not None
    question, facts = choice.question, entry.facts
    parts = []
    if (cost := facts["cost_USD"]) is not None:
        own = cost_belief(question, entry.candidate, facts, False)
        ends = f", 90 %: {usd(own.low)} to {usd(own.high)}" if own and own.low < own.high else ""
        parts.append(f"{usd(cast(float, cost))} USD for {_of(question)}{ends}")
    names = dict.fromkeys([question.speed, *(name for name in question.limits if name != "cost"), "energy"])
    for name in names:
        if isinstance(figure := facts.get(MEASURES[name].key), float):
            unit = MEASURES[name].unit
            parts.append(f"{name} {si(figure, unit) if unit != 'd' else f'{figure:.3g}'}")
    return "; ".join(parts)


def _sure(choice: Choice) -> Iterator[str]:
    assert choice.winner is not None
    other = choice.runner_up
    better = {"cost": "cheaper", "speed": "faster", "energy": "thriftier"}[choice.aim]
    if other is not None:
        name, joint, own = _name(other), choice.sure(), choice.sure(spread=False)
        if joint is None or own is None:
            yield f"Runner-up: {name}. They cannot be told apart for sure: a time has no interval."
        elif joint < APART:
            yield f"It cannot be told apart from {name}: it is {better} with a probability of {percent(joint)}."
        else:
            yield f"It is {better} than the runner-up, {name}, with a probability of {percent(joint)}."
        if joint is not None and own is not None and abs(own - joint) > 0.005:
            yield f"At exactly these prices the probability is {percent(own)}."
    for limit, odds in choice.kept.items():
        yield (
            f"It keeps the limit of {limit} with a probability of {percent(odds)}."
            if odds is not None
            else f"How sure it keeps the limit of {limit} is not known: the time has no interval."
        )


def _nothing(choice: Choice) -> Iterator[str]:
    entry = choice.nearest
    if entry is None:
        errors = [each.error for each in choice.searched.entries if each.error]
        yield "nothing fits" + (f": {errors[0].splitlines()[0]}" if errors else "")
        return
    lacks = [
        f"{miss.name} is {miss.factor:.3g} times {'too low' if MEASURES[miss.name].most else 'the limit'}"
        for miss in entry.missed
    ]
    rough = "" if entry.facts is not None else " at least, by its peak"
    yield f"nothing keeps the limits; the nearest is {_name(entry)}, whose {' and '.join(lacks)}{rough}"


def _scatter(choice: Choice) -> Picture | None:
    """Cost against speed with error bars, the front and the limit."""
    question = choice.question
    key = MEASURES[question.speed].key
    able = [each for each in choice.searched.entries if each.facts is not None and each.candidate.hour_USD is not None]
    marks: list[Mark] = []
    for each in able:
        facts = cast("Mapping[str, Any]", each.facts)
        color = BLUE if each.able else FAINT
        marks.append(points([facts[key]], [facts["cost_USD"]], "", color, markersize=4))
        if each in choice.front:
            time, cost = belief(facts, key), cost_belief(question, each.candidate, facts, False)
            if time is not None and cost is not None:
                marks.append(line([time.low, time.high], [facts["cost_USD"]] * 2, "", GREY, linewidth=0.7))
                marks.append(line([facts[key]] * 2, [cost.low, cost.high], "", GREY, linewidth=0.7))
    if not marks:
        return None
    front = [cast("Mapping[str, Any]", each.facts) for each in choice.front]
    marks.append(line([each[key] for each in front], [each["cost_USD"] for each in front], "front", INK, linewidth=1))
    for each, facts in zip(choice.front, front, strict=True):
        text = f"{each.candidate.text}, {each.candidate.plan or facts.get('replicas') or each.candidate.batch}"
        marks.append(note(facts[key], facts["cost_USD"], text, (5, 5)))
    if question.speed in question.limits:
        marks.append(rule(x=question.limits[question.speed], label="limit", color=VERMILLION))
    across = Axis(question.speed, "s" if key.endswith("_s") else "", "log")
    up = Axis(f"USD for {_of(question)}", scale="log")
    return Picture(4.6, [Panel(f"{question.model}: cost against speed", marks, across, up, grid="both")], legend=3)


def _lines(choice: Choice) -> Picture | None:
    """USD per hour over load of the winner, the runner-up and what is cheapest at any load."""
    loads = choice.loads()
    if not loads:
        return None
    shown = dict.fromkeys(each.rented.offer.full_name for each in loads)
    marks = []
    for name, color in zip(shown, (BLUE, ORANGE, VERMILLION, GREY, INK), strict=False):
        own = [each for each in loads if each.rented.offer.full_name == name]
        label = f"{own[0].entry.candidate.text} ({name})"
        marks.append(points([each.per_s for each in own], [each.hour_USD for each in own], label, color))
    across, up = Axis("load", "/s", "log"), Axis("USD per hour", scale="log")
    return Picture(4.0, [Panel("Cheapest at each load, whole instances", marks, across, up, grid="both")], legend=2)
