"""Programs written by hand: commands, regions and waits as a test wants them, right or wrong."""

from __future__ import annotations

from typing import Any

from accelsim.program.actions import READ, WRITE
from accelsim.program.commands import Action, Command, Effect, Region, Step, Use, Wait
from accelsim.program.program import Program
from accelsim.program.work import Cycles, Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph, Node, Tensor

ENGINES = {"dma_in": "dma", "dma_out": "dma", "matrix": "systolic", "vector": "simd"}


def chip(**memory: Any) -> Chip:
    """edu-4x4: 100 MHz, one memory of 4 B per clock, 10 clocks of latency; fields of the memory replaced."""
    base = load_chip("edu-4x4")
    attached = base.memories["dram"]
    changed = attached.model_copy(update={"memory": attached.memory.model_copy(update=memory)})
    return base.model_copy(update={"memories": {"dram": changed}})


def region(
    index: int, memory: str = "act_sram", offset: int = 0, size_B: int = 64, overlaps: tuple[int, ...] = ()
) -> Region:
    return Region(index, memory, f"r{index}", offset, size_B, overlaps)


def load(index: int, target: int, nbytes: int = 16, waits: tuple[Wait, ...] = (), version: int = 1) -> Command:
    """A Load of region 0, a preset in the memory."""
    return Command(
        index, "Load", "dma_in", 0, f"load {index}", Transfer("dram", nbytes, False), Effect("none"), waits,
        (Use(0, 0, "src"),), (Use(target, version, "whole"),), (Action("dram", READ, "x", nbytes),),
    )  # fmt: skip


def store(
    index: int, source: int, target: int, nbytes: int = 16, waits: tuple[Wait, ...] = (), version: int = 1
) -> Command:
    return Command(
        index, "Store", "dma_out", 0, f"store {index}", Transfer("dram", nbytes, True), Effect("none"), waits,
        (Use(source, version, "src"),), (Use(target, 1, "whole"),), (Action("dram", WRITE, "x", nbytes),),
    )  # fmt: skip


def vector(
    index: int,
    source: int,
    target: int,
    clocks: int = 5,
    waits: tuple[Wait, ...] = (),
    versions: tuple[int, int] = (1, 1),
) -> Command:
    return Command(
        index, "Vector", "vector", 0, f"vector {index}", Cycles(clocks), Effect("none"), waits,
        (Use(source, versions[0], "src"),), (Use(target, versions[1], "whole"),),
    )  # fmt: skip


def program(commands: list[Command], regions: list[Region], on: Chip | None = None) -> Program:
    """Region 0 must be the source in the memory: it holds x from the start."""
    graph = Graph("by hand", [], {"x": Tensor("x", (16,), "int8")}, ["x"], [])
    step = Step("by hand", "hand", "vector", (16,), Node("by hand", "Relu", ["x"], ["y"]))
    return Program(graph, on or chip(), "int8", commands, regions, [step], {0: ("x", 0)}, {}, dict(ENGINES))


HOME = Region(0, "dram", "x", -1, 64)
