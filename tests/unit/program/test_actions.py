"""Names of actions: typed where they are used, text where they are written."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from accelsim.program.actions import (
    COMMANDS,
    IO,
    NOT_DONE,
    PADDING,
    READ,
    SKIPPED,
    TRANSFER,
    WRITE,
    Action,
    ActionName,
    is_done,
    mac,
    multiplications,
    op,
    transferred,
)


def test_a_name_is_its_text_in_files() -> None:
    name = mac("int4xint8")
    assert (name.kind, name.of) == ("mac", "int4xint8")
    assert name == "mac.int4xint8" and hash(name) == hash("mac.int4xint8")
    assert json.dumps({name: [READ, IO[1]]}) == '{"mac.int4xint8": ["read", "io.write"]}'
    assert (READ.kind, READ.of) == ("read", "") and f"{op('fp32')}" == "op.fp32"
    assert [str(each) for each in COMMANDS] == ["act", "rd", "wr", "ref", "refpb"]


@pytest.mark.parametrize("name", [mac("fp8_e5m2b20"), READ, ActionName("exchange", "send")])
def test_a_name_is_frozen_and_survives_copies(name: ActionName) -> None:
    with pytest.raises(AttributeError):
        name.kind = "op"
    for other in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):
        assert (other, other.kind, other.of) == (name, name.kind, name.of)


def test_what_nothing_carried_out_is_no_work() -> None:
    assert is_done(mac("int8")) and not any(map(is_done, (*NOT_DONE, op("fp32"), READ)))
    entries = [Action("matrix", *rest) for rest in (
        (mac("int8"), "", 7), (mac("fp16"), "", 2), (PADDING, "", 5), (SKIPPED, "", 11), (READ, "x", 13))]  # fmt: skip
    assert multiplications(entries) == (9, 5)


@pytest.mark.parametrize(("write", "way"), [(False, READ), (True, WRITE)])
def test_a_transfer_is_counted_at_the_memory_and_at_its_link(write: bool, way: ActionName) -> None:
    assert transferred("hbm", False, "x", 64, write) == [Action("hbm", way, "x", 64)]
    assert transferred("hbm", True, "x", 64, write)[1:] == [Action("hbm.link", TRANSFER, "x", 64)]
