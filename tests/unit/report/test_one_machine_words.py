"""What is said of a step as one machine."""

from __future__ import annotations

from dataclasses import replace

from accelsim.cluster.step.one_machine import OneMachine
from accelsim.report.one_machine import facts_of, sentences

BARE = OneMachine((1_020 * 10**9,), 10**12, False, 100, 0, ())


def test_equal_times_are_told_as_equal() -> None:
    same = replace(BARE, ends_fs=(10**12,))
    (told,) = sentences(same, replace(same, copies=True))
    assert told.endswith("the same to the femtosecond.") and "takes 1 ms" in told


def test_the_difference_is_told_with_its_parts() -> None:
    whole = replace(BARE, ends_fs=(1_100 * 10**9,), copies=True)
    first, second = sentences(BARE, whole)
    assert "takes 1.1 ms; played pass by pass" in first and "takes 10.0% longer" in first
    assert "+80 us copies" in second and "+20 us tokens" in second
    quick = sentences(replace(BARE, ends_fs=(10**12,)), replace(BARE, ends_fs=(990 * 10**9,)))
    assert "less" in quick[0] and "-10 us copies" in quick[1] and "tokens" not in quick[1]
    facts = facts_of(BARE, whole)
    assert facts["machine_s"] == 1.1e-3 and facts["without_copies_s"] == 1.02e-3 and facts["played_s"] == 1e-3
