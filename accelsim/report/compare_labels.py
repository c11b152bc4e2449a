"""Labels of compared runs: the settings of chip, model and request that differ, and those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accelsim.machine.memory_models import DEFAULT
from accelsim.request import OPTIONS

Summary = Mapping[str, Any]

RESOLVED = ("model", "on", "dtype", "batch", "values", "memory_model")
"""Fields of a request that the summary itself says the outcome of."""
UNSEEN = tuple(name for name, row in OPTIONS.items() if row.limits)
"""Fields that change no figure."""
USUAL = (f"memory-model {DEFAULT}", "values exact")
NAMES = ("label", "source")
"""Keys that a summary has only once it was read: name and path of its directory."""
PLAIN = "defaults"
"""The label of a run in which nothing was asked for that others asked for."""


def settings(entry: Summary) -> dict[str, str]:
    """Each setting of a run in words, by what it is a setting of; settings at their defaults are left out."""
    asked = entry.get("run", {}).get("asked", {})
    model = asked.get("model")
    found = {
        "chip": entry["chip"],
        "model": model if isinstance(model, str) and "?" in model else entry["model"],
        "dtype": entry["dtype"],
        "batch": f"batch {entry['batch']}",
        "values": f"values {entry['values']}" if entry.get("values") else "",
        "memory_model": f"memory-model {entry.get('memory_model', DEFAULT)}",
    }
    found |= {key: text for name, value in asked.items() for key, text in _asked(name, value)}
    return {key: text for key, text in found.items() if text}


def _asked(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(key, words) of one field of a request; a mapping or a list of overrides has one for each of its entries."""
    if name in RESOLVED or name in UNSEEN:
        return
    words = name.replace("_", "-")
    if name == "set":
        for text in value:
            path, _, setting = text.partition("=")
            yield f"set {path.strip()}", f"{path.strip()}={setting.strip()}"
    elif isinstance(value, Mapping):
        for key, part in value.items():
            shown = ",".join(map(str, part)) if isinstance(part, list | tuple) else str(part)
            yield f"{name} {key}", f"{'' if name == 'param' else words + ' '}{key}={shown}"
    else:
        yield name, words if value is True else f"{words} {value}"


def _traces(entry: Summary) -> dict[str, str]:
    """Return what still tells runs of the same settings apart, the most telling first."""
    record = entry.get("run", {})
    asked = record.get("asked", {})
    return {
        "on": str(asked.get("on", "")),
        "file": str(asked.get("model", "")),
        "chip_sha256": f"chip {record['chip_sha256'][:8]}" if record.get("chip_sha256") else "",
        "model_sha256": f"model {record['model_sha256'][:8]}" if record.get("model_sha256") else "",
    }


def labels(entries: Sequence[Summary]) -> list[str]:
    """A name for each run: all that differs of chip, model, format, batch and what was asked for.

    Where that leaves two alike: the files of chip and model or their hashes, then the directories; numbers only for
    runs that nothing tells apart.
    """
    names = _joined([settings(entry) for entry in entries], ("chip", "model"))
    if _tied(names):
        extra = [_traces(entry) for entry in entries]
        for key in extra[0]:
            if _tied(names) and len({each[key] for each in extra}) > 1:
                names = [_and(name, each[key]) for name, each in zip(names, extra, strict=True)]
    for key in NAMES:
        if _tied(names):
            names = [str(entry.get(key) or name) for entry, name in zip(entries, names, strict=True)]
    return [f"{name} ({n})" if names.count(name) > 1 else name for n, name in enumerate(names, 1)]


def _and(name: str, more: str) -> str:
    return " ".join(part for part in (name if name != PLAIN else "", more) if part) or PLAIN


def _joined(found: Sequence[Mapping[str, str]], always: Sequence[str]) -> list[str]:
    shown = [key for key in _keys(found) if len({each.get(key) for each in found}) > 1] or list(always)
    return [" ".join(each[key] for key in shown if key in each) or PLAIN for each in found]


def _keys(found: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(key for each in found for key in each))


def _tied(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def common(entries: Sequence[Summary]) -> list[str]:
    """The settings that all runs share, in words, without the usual memory model and the usual policy of values."""
    found = [settings(entry) for entry in entries]
    shared = [found[0][key] for key in _keys(found) if len({each.get(key) for each in found}) == 1]
    return [text for text in shared if text not in USUAL]
