"""Hashes of specs. pydantic takes a tenth of a second to learn how to write a chip as JSON, so they are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256

from accelsim import usercache
from accelsim.spec.base import Model

_KNOWN = usercache.Table("digests", 1024)
"""SHA-256 of the JSON of a model by that of its ``repr``, which names every field with all digits."""


def digest(model: Model, include: Iterable[str] | None = None) -> str:
    """Return the SHA-256 of a model as JSON with sorted keys, of all fields or of those named in ``include``."""
    named = None if include is None else set(include)
    asked = f"{model!r}\0{None if named is None else sorted(named)}"
    key = sha256(asked.encode(errors="surrogateescape")).hexdigest()
    known = _KNOWN.get(key) if usercache.folder() else None
    if isinstance(known, str):
        return known
    content = model.model_dump(mode="json", include=named)
    made = sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
    _KNOWN.put(key, made)
    return made
