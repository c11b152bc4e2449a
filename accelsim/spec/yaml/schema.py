"""JSON schema of spec files, for editors."""

from __future__ import annotations

from typing import Any

from accelsim.errors import UsageError, nearest
from accelsim.spec.yaml.load import KINDS

_FILE = {"type": "string", "description": "name of a file below hwspecs (memories/ddr3-1600), or a path (./mine)"}


def schema(kind: str) -> dict[str, Any]:
    """JSON schema of a kind of spec file (a key of ``KINDS``), with references to other files allowed.

    Raises UsageError for another kind.
    """
    if kind not in KINDS:
        raise UsageError(f"no kind {kind!r} of spec files", "", ", ".join(KINDS), nearest(kind, KINDS))
    result = KINDS[kind].model_json_schema()
    for block in (result, *result.get("$defs", {}).values()):
        if block.get("type") == "object" and "properties" in block:
            _allow_use(block)
            block["properties"] = {name: _allow_files(inner) for name, inner in block["properties"].items()}
    return result


def _allow_use(block: dict[str, Any]) -> None:
    """A block with ``use`` needs none of its keys."""
    block["properties"] = {"use": {**_FILE, "description": "file that this block starts from"}, **block["properties"]}
    required = block.pop("required", [])
    if required:
        block["anyOf"] = [{"required": required}, {"required": ["use"]}]
    elif "anyOf" in block:
        block["anyOf"] = [*block["anyOf"], {"required": ["use"]}]


def _allow_files(inner: object) -> object:
    """Wherever a block may stand, a file's name may stand too."""
    if isinstance(inner, list):
        return [_allow_files(each) for each in inner]
    if not isinstance(inner, dict):
        return inner
    if "$ref" in inner:
        return {"anyOf": [{"$ref": inner["$ref"]}, _FILE], **{k: v for k, v in inner.items() if k != "$ref"}}
    if "discriminator" in inner:  # a block that starts from a file fits all; null: not the one of the file underneath
        return {"anyOf": [*inner["oneOf"], _FILE, {"type": "null"}]}
    return {key: _allow_files(value) if key != "enum" else value for key, value in inner.items()}
