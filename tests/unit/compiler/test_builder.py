"""What a command waits for follows from the regions that it reads and writes."""

from __future__ import annotations

from typing import Any

from accelsim.engines.registry import sequential
from accelsim.program.commands import Effect, Wait
from accelsim.program.work import Transfer
from accelsim.program.writing.allocator import Space
from accelsim.program.writing.builder import Builder

NONE = Effect("none")
ENGINES = {"in": "dma", "out": "dma", "matrix": "systolic", "vector": "simd"}


class Writer:
    """A builder with short names: each method emits a command and returns its id."""

    def __init__(self) -> None:
        self.builder = Builder(ENGINES, sequential(ENGINES.values()))
        self.space = Space("sram", 100)
        home = self.builder.region("dram", "home", 100)
        assert home is not None
        self.home = home

    def region(self, size_B: int = 10, offset: int | None = None) -> int:
        found = self.builder.region("sram", "r", size_B, self.space, offset)
        assert found is not None
        return found

    def load(self, target: int, memory: str = "dram") -> int:
        return self._emit("Load", "in", Transfer(memory, 10, False), [(self.home, "src")], [(target, "whole")])

    def store(self, source: int, memory: str = "dram") -> int:
        home = self.builder.region(memory, "result", 10)
        assert home is not None
        return self._emit("Store", "out", Transfer(memory, 10, True), [(source, "src")], [(home, "whole")])

    def matmul(self, w: int, a: int, acc: int, role: str = "whole") -> int:
        return self._emit("MatMul", "matrix", None, [(w, "w"), (a, "a")], [(acc, role)])

    def vector(self, source: int, target: int) -> int:
        return self._emit("Vector", "vector", None, [(source, "src")], [(target, "whole")])

    def _emit(self, kind: Any, engine: str, work: Any, reads: Any, writes: Any) -> int:
        return self.builder.emit(kind, engine, 0, kind, work, NONE, reads, writes)

    def waits(self, command: int) -> set[Wait]:
        return set(self.builder.commands[command].waits)


def test_a_read_waits_for_the_write() -> None:
    w = Writer()
    x, y, acc = w.region(), w.region(), w.region()
    first, second = w.load(x), w.load(y)
    product = w.matmul(x, y, acc)
    assert w.waits(product) == {Wait(first, "done", "w"), Wait(second, "done", "a")}
    assert w.waits(w.vector(acc, w.region())) == {Wait(product, "done", "full")}


def test_a_write_waits_until_each_operand_has_been_read() -> None:
    """The stationary operand is free when it is shifted in, the streamed one when its last row is."""
    w = Writer()
    x, y, acc = w.region(), w.region(), w.region()
    w.load(x), w.load(y)
    product = w.matmul(x, y, acc)
    assert w.waits(w.load(x)) == {Wait(product, "w", "empty")}
    assert w.waits(w.load(y)) == {Wait(product, "a", "empty")}


def test_an_operand_that_is_both_is_free_when_both_have_been_read() -> None:
    w = Writer()
    x, acc = w.region(), w.region()
    w.load(x)
    product = w.matmul(x, x, acc)
    assert w.waits(w.load(x)) == {Wait(product, "w", "empty"), Wait(product, "a", "empty")}


def test_units_that_run_in_order_do_not_wait_for_themselves() -> None:
    w = Writer()
    x, y = w.region(), w.region()
    w.load(x)
    w.vector(x, y)
    assert w.waits(w.vector(y, x)) == set()


def test_a_dma_engine_does_wait_for_itself() -> None:
    """Its transfers are issued in order but end later."""
    w = Writer()
    x = w.region()
    first = w.load(x)
    assert w.waits(w.load(x)) == {Wait(first, "done", "empty")}


def test_readers_behind_different_ports_of_one_engine_are_all_waited_for() -> None:
    """Stores of one tensor to two memories end in either order."""
    w = Writer()
    x = w.region()
    loaded = w.load(x)
    one, other = w.store(x, "dram"), w.store(x, "host")
    assert w.waits(one) == w.waits(other) == {Wait(loaded, "done", "full")}
    assert w.waits(w.load(x)) == {Wait(one, "done", "empty"), Wait(other, "done", "empty")}


def test_partial_sums_wait_for_their_slot_once() -> None:
    w = Writer()
    x, y, acc = w.region(), w.region(), w.region()
    w.load(x), w.load(y)
    w.matmul(x, y, acc, "begin")
    w.matmul(x, y, acc, "end")
    out = w.vector(acc, w.region())
    again = w.matmul(x, y, acc, "begin")
    assert Wait(out, "done", "acc") in w.waits(again)
    versions = [command.writes[0].version for command in w.builder.commands if command.kind == "MatMul"]
    assert versions == [1, 1, 2]


def test_who_takes_over_the_bytes_waits_for_who_had_them() -> None:
    w = Writer()
    x, y = w.region(), w.region()
    w.load(x)
    w.matmul(x, x, y)
    reader = w.store(x)
    w.space.release(x)
    heir = w.region()
    assert w.builder.regions[heir].overlaps == (x,)
    assert Wait(reader, "done", "empty") in w.waits(w.load(heir))


def test_a_slot_that_was_never_used_does_not_hide_who_had_its_bytes_before() -> None:
    """Region, then a slot over it that nobody writes, then another region: it waits for the first one's readers."""
    w = Writer()
    x = w.region()
    w.load(x)
    reader = w.store(x)
    w.space.release(x)
    idle = w.region()
    w.space.release(idle)
    heir = w.region()
    assert w.builder.regions[heir].overlaps == (x,)
    assert w.waits(w.load(heir)) == {Wait(reader, "done", "empty")}


def test_slots_that_were_never_used_do_not_pile_up() -> None:
    """However many there were, a region knows only those before it that were written."""
    w = Writer()
    x = w.region()
    w.load(x)
    w.space.release(x)
    for _ in range(50):
        idle = w.region()
        assert w.builder.regions[idle].overlaps == (x,)
        w.space.release(idle)


def test_a_region_that_does_not_fit_is_none() -> None:
    w = Writer()
    w.region(100)
    assert w.builder.region("sram", "r", 1, w.space, None) is None
