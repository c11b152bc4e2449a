"""Facts of a ``config.json``: values by key, each checked, with the line of every problem."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accelsim.errors import ModelError, Problem, nearest
from accelsim.files.reading import read_text

MOST_B = 1 << 24
"""Bytes of a file that is read."""
MISSING = -1
"""Default of a number that a file must state."""


@dataclass(frozen=True)
class Facts:
    """Values of one dict of a file. ``start``: where the dict begins in ``text``; ``defaults``: values of keys that it
    leaves out; ``problems``: those found so far."""

    file: str
    text_of_file: str
    values: Mapping[str, Any]
    start: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, key: str, what: str, expected: str, near: str = "") -> None:
        """Add a problem at a key."""
        self.problems.append(Problem(what, self.where(key), expected, near))

    def where(self, key: str) -> str:
        """Return file and line of a key; the file alone where it lacks it."""
        found = re.compile(rf'"{re.escape(key)}"\s*:').search(self.text_of_file, self.start)
        return f"{self.file}:{self.text_of_file.count(chr(10), 0, found.start()) + 1}" if found else self.file

    def inner(self, key: str) -> Facts:
        """Return the facts of a dict within; a missing one is a problem."""
        made = self.values.get(key)
        if not isinstance(made, dict):
            raise ModelError(Problem(f"{key} is missing or no object", self.where(key), "the sizes of the decoder"))
        found = re.search(rf'"{re.escape(key)}"\s*:', self.text_of_file)
        return replace(self, values=made, start=found.end() if found else 0)

    def has(self, key: str) -> bool:
        """Return whether a key has a value."""
        return self._value(key) is not None

    def _value(self, *keys: str) -> Any:
        for source in (self.values, self.defaults):
            for key in keys:
                if source is self.values and key in source:
                    return source[key]
                if source.get(key) is not None:
                    return source[key]
        return None

    def whole(self, *keys: str, default: int = MISSING, least: int = 1) -> int:
        """Return an integer of at least ``least``; without a default a missing one is a problem."""
        value = self._value(*keys)
        if value is None:
            if default == MISSING:
                self.refuse(keys[0], f"{keys[0]} is missing", "an integer")
            return max(default, least)
        if type(value) is not int or value < least:
            self.refuse(next(key for key in keys if key in self.values), f"{keys[0]} = {json.dumps(value)}",
                        f"an integer of at least {least}")  # fmt: skip
            return max(default, least)
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number above 0."""
        value = self._value(key)
        if value is None:
            return default
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            self.refuse(key, f"{key} = {json.dumps(value)}", "a number above 0")
            return default
        return float(value)

    def flag(self, key: str) -> bool:
        """Return whether a key is true."""
        value = self._value(key)
        if value not in (None, True, False) or type(value) is int:
            self.refuse(key, f"{key} = {json.dumps(value)}", "true or false")
        return value is True

    def text(self, key: str, default: str) -> str:
        """Return a text."""
        value = self._value(key)
        if value is not None and not isinstance(value, str):
            self.refuse(key, f"{key} = {json.dumps(value)}", "a text")
        return value if isinstance(value, str) else default

    def one_of(self, keys: Sequence[str], known: Mapping[str, str], default: str) -> str:
        """Return what a text stands for."""
        key = next((key for key in keys if self.has(key)), "")
        value = self.text(key, default) if key else default
        if value not in known:
            self.refuse(key, f"{key} = {value!r}", ", ".join(known), nearest(value, known))
        return known.get(value, default)

    def texts(self, key: str, known: Sequence[str]) -> list[str]:
        """Return a list of texts, each one of ``known``; empty where there is none."""
        value = self._value(key)
        if value is None:
            return []
        if not isinstance(value, list) or not value or any(each not in known for each in value):
            self.refuse(key, f"{key} = {json.dumps(value)[:60]}", f"a list of {' and '.join(map(repr, known))}")
            return []
        return value

    def table(self, key: str) -> Mapping[str, Any]:
        """Return a dict, empty where there is none."""
        value = self._value(key)
        if value is not None and not isinstance(value, dict):
            self.refuse(key, f"{key} = {json.dumps(value)[:60]}", "an object")
        return value if isinstance(value, dict) else {}

    def unknown(self, kind: str, known: Iterable[str]) -> Problem:
        """Return the problem of a model whose family is not known, with the listed model that has its sizes."""
        expected = f"one of {', '.join(known)}"
        listed = by_hand(self.values)
        expected += (
            f"; or its sizes by hand, such as {listed!r}"
            if listed
            else "; or a listed model with its sizes, "
            "such as 'llama?layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256'"
        )
        return Problem(f"model_type {kind!r} is not known", self.where("model_type"), expected, nearest(kind, known))


def read_facts(path: Path) -> Facts | None:
    """Return the facts of a file; None where it is no configuration of a model. Raises ModelError for broken JSON."""
    try:
        text = read_text(path, MOST_B)
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelError(f"not JSON: {error.msg}", f"{path}:{error.lineno}:{error.colno}", "a config.json") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"cannot be read: {error}", str(path), "a config.json") from error
    if not isinstance(values, dict) or not values.keys() & {"model_type", "architectures"}:
        return None
    return Facts(str(path), text, values)


BASES = {"gpt2": "gpt", "bert": "bert-base"}
"""``model_type`` of a configuration -> the listed model whose sizes can be set to it; else 'llama'."""
SIZES = {
    "layers": ("num_hidden_layers", "n_layer"),
    "hidden": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",),
    "ffn": ("intermediate_size", "n_inner"),
    "vocab": ("vocab_size",),
}
"""Parameter of such a model -> its names in configurations."""


def by_hand(values: Mapping[str, Any]) -> str:
    """Return the listed model with the sizes that a configuration states, '' where it states none."""
    base = BASES.get(str(values.get("model_type")), "llama")
    given = {name: values[key] for name, keys in SIZES.items() for key in keys if type(values.get(key)) is int}
    if base != "bert-base" and "heads" in given:
        given.setdefault("kv_heads", given["heads"])
    if base == "gpt" and "hidden" in given:
        given.setdefault("ffn", 4 * given["hidden"])
    return f"{base}?{','.join(f'{name}={value}' for name, value in given.items())}" if given else ""
