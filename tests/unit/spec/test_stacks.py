"""Serving stacks by name: which constants a chip has then, and which stacks and chips there are."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.errors import UsageError
from accelsim.spec.chip import Chip
from accelsim.spec.serving import Serving
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.stacks import stacks, with_stack, without_host

STACK = "tensorrt-llm"


def constants(chip: Chip) -> Serving:
    found: Serving = chip.engines["sm"].serving  # type: ignore[attr-defined]
    return found


def test_every_stack_names_chips_that_have_constants_of_their_own() -> None:
    known = stacks()
    assert set(known) == {"vllm", STACK} and set(known[STACK]) <= set(known["vllm"])


@pytest.mark.parametrize("name", ["h100-sxm", "h100-pcie"])
def test_a_stack_brings_its_kernels_and_leaves_the_others(name: str) -> None:
    """Also to a chip of the same die."""
    own = load_chip(name)
    before, after = constants(own), constants(with_stack(own, STACK))
    assert after.layers == before.layers and after.prefill == before.prefill
    assert after.decode["fp8_e4m3fn"].stream > 0 == before.decode["fp8_e4m3fn"].stream
    assert after.host > 0 == before.host and after.device == "h100-sxm"


def test_a_host_can_be_taken_away() -> None:
    chip, host_s = without_host(with_stack(load_chip("l40s"), STACK))
    assert host_s == pytest.approx(20e-6) and constants(chip).host == 0
    assert without_host(chip)[1] == 0


@pytest.mark.parametrize(
    ("chip", "stack", "words"),
    [("h100-sxm", "tensorrt", "tensorrt-llm"), ("b200-sxm", STACK, "one of a100-80-sxm, h100-sxm, l40s"),
     ("t4", STACK, "no constants of tensorrt-llm on t4"), ("tpu-v4", STACK, "on tpu-v4")],
)  # fmt: skip
def test_what_is_not_known_is_refused(chip: str, stack: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        accelsim.generate("llama?prompt=4,new=2", chip, values="off", stack=stack)
