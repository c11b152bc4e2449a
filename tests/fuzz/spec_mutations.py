"""Mutations of spec files: of their tree (keys, types, numbers, units, references) and of their text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = ("0", "1", "2", "3", "7", "16", "255", "65536", "65537", "1e6", "-1", "-0", "0.5", "1e-320", "1e308", "1e400", "nan",
           "inf", "-inf", "9" * 400, "9" * 5000, str(2**31), str(2**63 - 1), str(2**63), str(2**64), "1e-15", "1e-30", "٣",
           "0x10", "1_000", "1e3", "+5", ".5", "5.", "1e", "true", "null")  # fmt: skip
UNITS = ("", " B", " KiB", " GiB", " EiB", " GB/s", " B/s", " bit/s", " Hz", " GHz", " PHz", " J", " pJ", " aJ", " pJ/B", " pJ/bit",
         " J/B", " W", " MW", " pW", " s", " fs", " as", " ns", " TOPS", " op/s", " mm2", " m2", " MT/s", " mA", " A", " V", " tCK",
         " bit", " Gbit", " Tbit", " potato")  # fmt: skip
TEXTS = ("", " ", "x", "~", "yes", "int8", "fp99", "xx", "x" * 300, "x" * 30_000, "a\0b", "é" * 50, "\x1b[31m", "../x", "/etc/passwd",
         "memories/hbm2", "dram/ddr4-2400", "dram/lpddr4-2400", "energy/scaled-28nm", "links/pcie-gen3-x16", "chips/tpu-v1", "processors/edu-cpu",
         "networks/mesh-4x4", "./m", "ws", "os", "sequential", "scalesim", "weights", "activations", "guess", "memory", "2020-13-45",
         "rorabachcobg", "fp32", "int4xint8", "int32")  # fmt: skip
Path = tuple[Any, ...]


def mutate_tree(tree: Any, rng: random.Random) -> Any:
    """The tree with one to four mutations."""
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 3))):
        places = list(_places(tree, ()))
        if not places:
            return hostile(rng)
        path = rng.choice(places)
        around = _at(tree, path[:-1])
        rng.choices(list(MUTATORS), list(MUTATORS.values()))[0](around, path[-1], rng)
    return tree


def override(tree: Any, rng: random.Random) -> str:
    """``path=value`` for a field of a chip."""
    path = rng.choice([path for path in _places(tree, ()) if path[-1] not in ("source", "note", "as_of", "title")])
    return f"{'.'.join(map(str, path))}={_text(_near(_at(tree, path), rng))}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def mutate_text(text: str, rng: random.Random) -> str:
    """The text with one to three mutations of lines or characters."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        kind = rng.randrange(8)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, rng.choice(lines))
        elif kind == 2:
            lines[at] = " " * rng.randrange(6) + lines[at].lstrip()
        elif kind == 3:
            lines.insert(at, rng.choice(ODDITIES))
        elif kind == 4:
            lines[at] = re.sub(r"[0-9.]+", lambda _: rng.choice(NUMBERS), lines[at], count=1)
        elif kind == 5:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 6 and lines[at]:
            place = rng.randrange(len(lines[at]))
            lines[at] = (
                lines[at][:place] + rng.choice("{}[]:,&*!|>%@`'\"#-?~\t \x00\x07é\ufeff") + lines[at][place + 1 :]
            )
        else:
            lines[at] = re.sub(r":.*", lambda _: f": {rng.choice(TEXTS)}", lines[at], count=1)
        text = "\n".join(lines)
    return text


ODDITIES = ("<<: *a", "? [a, b]\n: c", "!!python/object:os.system x: 1", "--- ", "...", "%YAML 9.9", "\t", "a: &a [*a]", "use: tpu-v1",
            "use: [memories/hbm2]", "use: {a: b}", "use: memories/hbm2", "use: chips/edu-4x4", "use: ./m", "use: null", "1: 2", "null: 3",
            "true: 4", "[a]: b", "'': 5", "name: b", "clock: 1 GHz", "host: null", "vector: null", "engines: {}", "cores: {}", "cores: {core: 2}", "cores: {core: null}", "type: simd", "peak: {}", "cores: 3",
            "power: {idle: 5 W}", "- a", "x" * 300 + ": 1", "note: |\n  a", "energy: energy/horowitz-45nm", "memories: {}")  # fmt: skip


def hostile(rng: random.Random) -> Any:
    """A value that fits nowhere, or anywhere by chance."""
    kind = rng.randrange(6)
    if kind <= 1:
        return rng.choice(NUMBERS) + rng.choice(UNITS)
    if kind == 2:
        return rng.choice(TEXTS)
    if kind == 3:
        return rng.choice([None, True, 0, 1, -1, 3.5, float("inf"), 2**63, 2**70])
    return rng.choice(
        [[], {}, [[]], [1], ["weights"], {"a": 1}, {"use": "memories/hbm2"}, {"use": [1]}, [None], {"": ""}]
    )


def _near(value: Any, rng: random.Random) -> Any:
    """A value of the same sort: the same unit with another number, half or twice as much; or a hostile one."""
    match = re.match(r"([0-9.eE+-]+)(\s*\S*)$", str(value))
    if match is None or rng.random() < 0.2:
        return hostile(rng)
    if rng.random() < 0.3:
        return rng.choice(NUMBERS) + match[2]
    try:
        number = float(match[1]) * rng.choice((0, 0.5, 2, 2, 3, 10, 100, 0.1, 1000, 1e-3, 1e6, 1e-6, 1e9))
    except ValueError:
        return hostile(rng)
    return f"{int(number) if number.is_integer() else number!r}{match[2]}"


def _places(value: Any, path: Path) -> Any:
    """Paths of everything inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from _places(each, (*path, key))


def _at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = tree[part]
    return tree


def _replace(around: Any, key: Any, rng: random.Random) -> None:
    around[key] = hostile(rng)


def _nudge(around: Any, key: Any, rng: random.Random) -> None:
    around[key] = _near(around[key], rng)


def _remove(around: Any, key: Any, rng: random.Random) -> None:
    del around[key]


def _rename(around: Any, key: Any, rng: random.Random) -> None:
    new = rng.choice((*TEXTS, f"{key}s", str(key)[1:], str(key).upper()))
    if isinstance(around, dict):
        around[new] = around.pop(key)
    else:
        around.insert(key, around[key])


def _swap(around: Any, key: Any, rng: random.Random) -> None:
    other = rng.choice(list(around) if isinstance(around, dict) else range(len(around)))
    around[key], around[other] = around[other], around[key]


def _wrap(around: Any, key: Any, rng: random.Random) -> None:
    around[key] = rng.choice(([around[key]], {"a": around[key]}, {"use": around[key]}, [around[key]] * 2))


def _repeat(around: Any, key: Any, rng: random.Random) -> None:
    if isinstance(around, dict):
        around[rng.choice((f"{key}2", "b", "int16", "fp32"))] = around[key]
    else:
        around.append(around[key])


MUTATORS: dict[Callable[[Any, Any, random.Random], None], int] = {
    _nudge: 12, _replace: 5, _remove: 3, _rename: 2, _swap: 1, _wrap: 1, _repeat: 1,
}  # fmt: skip
"""Mutator -> how often it is drawn."""
