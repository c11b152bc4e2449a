"""Rules of the dynamic batcher as a text: 'dynamic:max=32,delay=2ms'."""

from __future__ import annotations

from accelsim import units
from accelsim.digits import whole
from accelsim.errors import Gather, UsageError, nearest
from accelsim.serving.items.batcher import Dynamic
from accelsim.serving.loads import named

NAME = "dynamic"
WHERE = "--scheduler"
KEYS = {
    "max": "a whole number, such as max=32",
    "delay": "a time with its unit, such as delay=2ms",
    "prefer": "batch sizes of at most max, such as prefer=8/16",
    "instances": "a whole number, such as instances=2",
    "queue": "a whole number, such as queue=100",
}
"""Parameters, and what is expected of each."""


def read_dynamic(text: str) -> Dynamic:
    """Return the rules of a text. Raises UsageError with all problems."""
    name, _, rest = text.partition(":")
    if name != NAME:
        what = f"no scheduler {name!r} for models other than language models"
        raise UsageError(what, WHERE, f"{NAME}, such as {NAME}:max=32,delay=2ms", nearest(name, [NAME]))
    gather, given = Gather(), named([part.strip() for part in rest.split(",") if part.strip()], KEYS, WHERE)

    def number(key: str, usual: float) -> float:
        found = whole(given[key]) if key in given else usual
        gather.refuse(not found, f"{key}={given.get(key)}", WHERE, KEYS[key])
        return found or 1

    most, instances = int(number("max", Dynamic().most)), int(number("instances", 1))
    queue, delay_s = number("queue", Dynamic().queue), 0.0
    prefer = [whole(part) for part in given.get("prefer", "").split("/") if part] if "prefer" in given else []
    bad = "prefer" in given and not (prefer and all(size and size <= most for size in prefer))
    gather.refuse(bad, f"prefer={given.get('prefer')}", WHERE, KEYS["prefer"])
    if "delay" in given:
        try:
            delay_s = units.parse(given["delay"], "s")
        except ValueError:
            gather.refuse(True, f"delay={given['delay']}", WHERE, KEYS["delay"])
    gather.refuse(not 0 <= delay_s < float("inf"), f"delay={given.get('delay')}", WHERE, KEYS["delay"])
    gather.done()
    return Dynamic(most, delay_s, tuple(sorted(size for size in prefer if size)), instances, queue)


def text_of(rules: Dynamic) -> str:
    """Return the text of rules, which ``read_dynamic`` reads."""
    usual = Dynamic()
    given = {
        "max": str(rules.most), "delay": f"{rules.delay_s * 1e3:.9g}ms", "prefer": "/".join(map(str, rules.prefer)),
        "instances": str(rules.instances), "queue": f"{rules.queue:.0f}",
    }  # fmt: skip
    plain = dict(zip(given, usual, strict=True))
    stated = [f"{key}={text}" for (key, text), value in zip(given.items(), rules, strict=True) if value != plain[key]]
    return f"{NAME}:{','.join(stated)}" if stated else NAME
