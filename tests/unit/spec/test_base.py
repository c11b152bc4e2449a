"""Models of specs are values: frozen, equal by their fields, copied and kept whole; pydantic checks and writes them."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import pytest
from pydantic import ValidationError

from accelsim.spec.base import Model, defaults
from accelsim.spec.declaring import Field, model_validator
from accelsim.spec.quantity import Seconds


class Inner(Model):
    wait: Seconds = Field(description="a time")
    tags: list[str] = Field([], description="names")


class Outer(Inner):
    kind: str = "plain"
    parts: dict[str, Inner] = Field(default_factory=dict, description="blocks")

    @model_validator(mode="after")
    def _not_empty(self) -> Outer:
        if self.kind == "":
            raise ValueError("no kind; expected one")
        return self


BLOCK: dict[str, Any] = {"wait": "3 ns", "parts": {"a": {"wait": "1 us"}}}


def test_a_model_is_a_value() -> None:
    made = Outer.model_validate(BLOCK)
    assert made == Outer(**BLOCK) == deepcopy(made) == pickle.loads(pickle.dumps(made))
    assert pickle.loads(pickle.dumps(made)).model_fields_set == {"wait", "parts"}
    assert made != made.model_copy(update={"wait": 4e-9})
    assert made.model_copy(update={"kind": "other"}).model_fields_set == {"wait", "parts", "kind"}
    assert repr(made.parts["a"]) == "Inner(source=None, as_of=None, note=None, wait=1e-06, tags=[])"
    assert Outer.model_validate(made.model_dump(mode="json")) == made
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_a_model_is_frozen() -> None:
    made = Inner(wait="3 ns")
    with pytest.raises(AttributeError, match="Inner is frozen; wait cannot be set"):
        made.wait = 1.0
    with pytest.raises(AttributeError, match="Inner is frozen; wait cannot be deleted"):
        del made.wait


def test_defaults_belong_to_instances() -> None:
    made, other = Outer.model_construct(wait=1.0), Outer.model_construct()
    assert (made.kind, made.tags, made.parts) == ("plain", [], {}) and made.tags is not other.tags
    assert list(defaults(Outer)) == ["source", "as_of", "note", "wait", "tags", "kind", "parts"]
    assert list(defaults(Outer)) == list(Outer.model_fields)
    for model in (Outer, other):
        assert not hasattr(model, "wait")


@pytest.mark.parametrize("wrong", [{"more": 1}, {"kind": ""}, {"wait": 3}, {"as_of": "2026-13"}])
def test_everything_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Outer.model_validate(BLOCK | wrong)
