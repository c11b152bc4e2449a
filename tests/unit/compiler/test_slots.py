"""``slots`` of the buffer of the activations: tiles in flight, beside the results that pass through the same buffer."""

from __future__ import annotations

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import Infeasible
from accelsim.explore.against_reference import check_run
from accelsim.result import run
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model


def flights(*overrides: str) -> int:
    """Slots of the streamed tiles of a product whose operands do not fit the chip."""
    chip = load_chip("edu-4x4", ["act_sram.capacity=4 KiB", *overrides])
    program = compile(load_model("gemm?M=256,N=24,K=64"), chip, Options(dtype="int8", values="off"))
    names = {region.name.rpartition(" ")[0]: 0 for region in program.regions if region.memory.endswith("act_sram")}
    kind = "slot" if "slot" in names else "tiles"
    return sum(region.name.startswith(f"{kind} ") for region in program.regions if region.memory.endswith("act_sram"))


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_so_many_tiles_are_in_flight(slots: int) -> None:
    assert flights(f"act_sram.slots={slots}") == slots


def test_without_slots_two_tiles_overlap() -> None:
    assert flights() == 2


@pytest.mark.parametrize(
    "settings",
    [
        ("slots=1",), ("slots=3",), ("slots=2", "slot_capacity=1 KiB"), ("slots=4", "slot_capacity=2 KiB"),
    ],
    ids="-".join,
)  # fmt: skip
@pytest.mark.parametrize("epilogue", ["true", "false"])
def test_every_model_runs_with_slots(settings: tuple[str, ...], epilogue: str) -> None:
    """Convolutions, pooling, residuals and host nodes; all values right."""
    overrides = [f"act_sram.{field}" for field in settings] + [f"matrix.epilogue={epilogue}"]
    graph = load_model("cnn", weights="random:0")
    result = run(graph, load_chip("edu-4x4", overrides), keep=True)
    assert check_run(result, graph).holds


def test_the_advice_helps() -> None:
    """Slots that take the whole buffer leave no room for results; with what is asked for there is room."""
    graph, fields = load_model("gemm?M=16,N=4,K=4"), ["slots=2", "slot_capacity=32 KiB"]
    settings = [f"act_sram.{field}" for field in fields]
    with pytest.raises(Infeasible) as caught:
        run(graph, load_chip("edu-4x4", settings), values="off")
    missing = caught.value.needed_B - caught.value.available_B
    assert "raise act_sram.capacity" in str(caught.value) and missing > 0
    run(graph, load_chip("edu-4x4", [*settings, f"act_sram.capacity={65536 + missing} B"]), values="off")
