"""docs/spec-reference.md and the JSON schema: made from the models, and in step with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from accelsim.spec.memory import FROM_DRAM
from accelsim.spec.yaml.load import KINDS, load_chip
from accelsim.spec.yaml.schema import schema
from tests.helpers.spec_reference import reference_markdown

PAGE = Path(__file__).parents[3] / "docs" / "spec-reference.md"


def test_page_is_in_step() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_markdown(), (
        "run: python -m tests.helpers.spec_reference > docs/spec-reference.md"
    )


@pytest.mark.parametrize(
    ("chip", "engine"), [("edu-4x4", "matrix"), ("eyeriss", "array"), ("ipu-gc200", "tiles"), ("a100-80-sxm", "sm")]
)
def test_an_engine_needs_no_more_than_the_page_requires(chip: str, engine: str) -> None:
    """It multiplies the same formats without what may be left out, which then has its default."""
    unit = load_chip(chip).engines[engine]
    required = {name for name, field in type(unit).model_fields.items() if field.is_required()}
    bare = type(unit).model_validate(unit.model_dump(mode="json", include=required))
    assert bare.model_dump(exclude_defaults=True).keys() == required
    assert bare.rates().keys() == unit.rates().keys() != set()


def test_every_field_says_what_it_is() -> None:
    rows = [line for line in reference_markdown(left_out=()).splitlines() if line.startswith(("- `", "- **`"))]
    assert len(rows) > 500
    assert [row for row in rows if not re.search(r"(`\**|\)): \S", row)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_schema_has_every_field_and_knows_composition(kind: str) -> None:
    made = schema(kind)
    assert set(made["properties"]) == {"use", *KINDS[kind].model_fields}
    assert made["additionalProperties"] is False
    required = [name for name, field in KINDS[kind].model_fields.items() if field.is_required()]
    instead = {"energy": [{"required": ["node", "register", "sram", "arithmetic"]}]}.get(kind, [])
    sram = {"required": ["kind", "capacity", "bandwidth", "latency"], "properties": {"kind": {"const": "sram"}}}
    of_a_memory = [{"required": list(FROM_DRAM)}, {"required": ["dram"]}, sram]
    ways = [{"required": required}, *instead] if required else of_a_memory
    assert made["anyOf"] == [*ways, {"required": ["use"]}]


def test_a_block_may_be_the_name_of_a_file() -> None:
    memory = schema("chips")["$defs"]["Attachment"]["properties"]["memory"]
    assert {"$ref": "#/$defs/Memory"} in memory["anyOf"]
    assert any(choice.get("type") == "string" for choice in memory["anyOf"])


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [("capacity", ["24 MiB", "64 B", "1e3 B"], ["24", "24 GHz"]), ("bandwidth", ["34 GB/s", "1 Gbit/s"], ["34 GB"])],
)
def test_patterns_of_quantities(field: str, good: list[str], bad: list[str]) -> None:
    described: dict[str, Any] = schema("memories")["properties"][field]
    assert (described["type"] == "string" and described["unit"] in described["examples"][0]) or described["unit"] == "B"
    assert all(re.search(described["pattern"], text) for text in good)
    assert not any(re.search(described["pattern"], text) for text in bad)
