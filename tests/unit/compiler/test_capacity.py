"""What must be in a memory at one time: terms that add up, peaks by hand, refusals with data and words."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.compiler.lower.capacity import needs
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import Infeasible, MemoryNeed, OverCapacity
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.weights import parameters

OFF = Options(values="off", dtype="fp32")
DECODE = "llama?layers=2,hidden=64,heads=4,kv_heads=2,ffn=48,vocab=64,seq=1,past=31"
SPACE = "memories.dram.memory.capacity"


def edu(capacity: str = "1 GiB", *others: str) -> Chip:
    return load_chip("edu-4x4", [f"{SPACE}={capacity}", *others])


def chain() -> Graph:
    """x of 1,024 numbers, y = x @ w of 512, z = y @ v of 256, all too large for buffers of 1 KiB."""
    rng = np.random.default_rng(0)
    shapes = {"w": (32, 16), "v": (16, 8)}
    tensors = {name: Tensor(name, shape) for name, shape in (("x", (32, 32)), ("y", (32, 16)), ("z", (32, 8)))}
    for name, shape in shapes.items():
        tensors[name] = Tensor(name, shape, data=rng.normal(size=shape).astype(np.float32))
    nodes = [Node("first", "MatMul", ["x", "w"], ["y"]), Node("second", "MatMul", ["y", "v"], ["z"])]
    return Graph("chain", nodes, tensors, ["x"], ["z"])


SMALL = tuple(f"{name}.capacity=1 KiB" for name in ("act_sram", "weight_sram", "accumulators"))


def test_the_peak_of_a_chain_is_that_of_a_count_by_hand() -> None:
    need = compile(chain(), edu("1 GiB", *SMALL), OFF).needs["dram"]
    assert need.weights_B == 4 * (32 * 16 + 16 * 8)
    assert need.states_B == 0
    assert need.activations_B == 4 * (1024 + 512)  # x and y together; x has gone when z comes
    assert need.layer == "first"
    assert need.needed_B == need.weights_B + need.activations_B


def test_what_fits_on_the_chip_needs_no_memory() -> None:
    need = compile(chain(), edu(), OFF).needs["dram"]
    assert need.activations_B == 4 * 1024  # the input arrives there; y never leaves the chip
    assert need.layer == "first"


def test_it_fits_to_the_byte_and_not_a_byte_less() -> None:
    needed_B = compile(chain(), edu("1 GiB", *SMALL), OFF).needs["dram"].needed_B
    assert compile(chain(), edu(f"{needed_B} B", *SMALL), OFF).needs["dram"].fits
    with pytest.raises(OverCapacity) as caught:
        compile(chain(), edu(f"{needed_B - 1} B", *SMALL), OFF)
    (need,) = caught.value.needs
    assert (need.memory, need.needed_B, need.available_B, need.layer) == ("dram", needed_B, needed_B - 1, "first")
    assert (caught.value.buffer, caught.value.needed_B, caught.value.op) == ("dram", needed_B, "first")
    assert isinstance(caught.value, Infeasible)
    assert f"{needed_B:,} B of {needed_B - 1:,} B" in str(caught.value)


def test_states_stay_for_the_whole_run() -> None:
    graph = load_model(DECODE)
    cache_B = 4 * sum(graph.tensors[late].elements for late in graph.states.values())
    need = compile(graph, edu(), OFF).needs["dram"]
    assert need.states_B == cache_B > 0
    assert need.weights_B >= 4 * (parameters(graph) - 64 * 64)  # of the table of words one row is enough


def test_a_prompt_leaves_its_states_behind() -> None:
    graph = load_model(DECODE.replace("seq=1,past=31", "seq=32"))
    assert graph.kept and not graph.states
    kept_B = 4 * sum(graph.tensors[name].elements for name in graph.kept)
    program = compile(graph, edu(), OFF)
    stored = {region.name: region.size_B for region in program.regions if region.memory == "dram"}
    assert sum(stored[name] for name in graph.kept) == kept_B
    assert needs(program)["dram"].needed_B >= kept_B + needs(program)["dram"].weights_B


def test_weights_and_states_alone_are_told_before_anything_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelsim.compiler.lower.lower._lower_node", lambda *_: pytest.fail("lowered"))
    with pytest.raises(OverCapacity, match=r"weights, .* of states and at most .* of activations"):
        compile(load_model(DECODE), edu("64 KiB"), OFF)


@pytest.mark.parametrize("model", ["gpt3", "llama2-70b", "mixtral-8x7b"])
def test_models_of_many_billion_parameters_do_not_fit_into_16_gib(model: str) -> None:
    graph = load_model(model, params={"seq": 1, "past": 64})
    with pytest.raises(OverCapacity) as caught:
        compile(graph, load_chip("neuroncore-v2"), Options(values="off"))
    (need,) = caught.value.needs
    assert need.memory == "hbm" and need.available_B == 16 * 2**30
    assert need.weights_B == pytest.approx(2 * parameters(graph), rel=0.01)
    assert need.activations_B > 0 and need.layer


def test_weights_of_several_cores_are_there_once_and_activations_for_each() -> None:
    one, two = (compile(chain(), edu("1 GiB", *SMALL, f"cores={n}"), OFF).needs["dram"] for n in (1, 2))
    assert two.weights_B == one.weights_B
    assert two.activations_B == 2 * one.activations_B


def test_padded_tiles_take_the_room_that_they_take() -> None:
    need = compile(load_model("gemm?M=8,N=10,K=10"), load_chip("tpu-v1"), Options(values="off")).needs["ddr3"]
    assert need.weights_B == 256 * 256


def test_what_is_converted_outside_the_run_is_not_there_as_numbers() -> None:
    both = [
        compile(chain(), load_chip("tpu-v1"), Options(values="off", edges=edges)).needs["pcie_memory"]
        for edges in ("host", "outside")
    ]
    assert both[0].activations_B >= 4 * 1024  # fp32 before the host makes codes
    assert both[1].activations_B == 1024


def test_constants_of_the_host_are_in_its_memory() -> None:
    tensors = {name: Tensor(name, (64,)) for name in "xy"}
    tensors["c"] = Tensor("c", (64,), data=np.ones(64, np.float32))
    graph = Graph("host", [Node("pow", "Pow", ["x", "c"], ["y"])], tensors, ["x"], ["y"])
    program = compile(graph, load_chip("tpu-v1"), Options(values="off"))
    assert program.steps[0].engine == "host"
    assert program.needs["pcie_memory"].weights_B == 256
    assert program.needs["ddr3"].weights_B == 0


def test_a_plain_processor_has_a_memory_too() -> None:
    chip = load_chip("haswell-e5-2699v3", ["host.memory.capacity=1 MiB"])
    with pytest.raises(OverCapacity, match=r"host: .* of weights"):
        compile(load_model("mlp"), chip, Options(values="off"))


def test_every_memory_that_is_too_small_is_told_at_once() -> None:
    small = ["memories.ddr3.memory.capacity=1 KiB", "memories.pcie_memory.memory.capacity=1 KiB"]
    with pytest.raises(OverCapacity) as caught:
        compile(load_model("mlp"), load_chip("tpu-v1", small), Options(values="off"))
    assert [need.memory for need in caught.value.needs] == ["ddr3", "pcie_memory"]
    assert len(str(caught.value).splitlines()) == 2


def test_errors_and_needs_go_through_pickle() -> None:
    need = MemoryNeed("hbm", 5, 4, 3, "l0", 8)
    error = OverCapacity("model", [need])
    assert pickle.loads(pickle.dumps(error)).needs == (need,)
    assert need.needed_B == 12 and not need.fits
    assert need.as_dict()["needed_B"] == 12
    assert str(need) == "hbm: 5 B of weights, 4 B of states and at most 3 B of activations (at l0) do not fit into 8 B " \
        "(12 B of 8 B)"  # fmt: skip
    assert str(MemoryNeed("hbm", 0, 0, 0, "", 8)) == "hbm: holds nothing of 8 B"


def noted(run: Any) -> list[str]:
    return [note for note in run.summary()["notes"] if note.startswith("capacity ignored")]


def test_ignored_it_is_said_and_nothing_else_changes() -> None:
    small = [f"{SPACE}=16 KiB"]
    with pytest.raises(OverCapacity):
        accelsim.run("mlp", "edu-4x4", values="off", set=small)
    run = accelsim.run("mlp", "edu-4x4", values="off", set=small, ignore_capacity=True)
    whole = accelsim.run("mlp", "edu-4x4", values="off", ignore_capacity=True)
    assert (run.time_fs, run.energy_J) == (whole.time_fs, whole.energy_J)
    assert len(noted(run)) == 1 and "dram" in noted(run)[0] and "16 KiB" in noted(run)[0]
    assert not noted(whole)  # there was nothing to ignore
    assert "--ignore-capacity" in run.asked["command"]
    assert run.summary()["memory_needs"]["dram"]["available_B"] == 16 * 1024
    assert run.what_ifs()


def test_the_block_that_ignores_ends() -> None:
    with limited(ignore_capacity=True), limited(commands=10**6):
        assert compile(chain(), edu("1 KiB"), OFF).notes[-1].startswith("capacity ignored: dram:")
    with pytest.raises(OverCapacity):
        compile(chain(), edu("1 KiB"), OFF)
