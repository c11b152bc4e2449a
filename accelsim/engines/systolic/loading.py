"""Load the stationary operand into its PEs: chains of registers, and the control of the loads."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from accelsim.errors import HazardError
from accelsim.types import Array, Bools, Ints


def hazard(broken: Bools, edge: int, event: str, register: str, rule: str) -> None:
    """Raise HazardError for the first PE [n, R, C] where ``broken``."""
    if broken.any():
        case, row, column = (int(index) for index in np.argwhere(broken)[0])
        raise HazardError(f"{event} at edge {edge}, case {case}", f"{register} of PE ({row}, {column})", rule)


class Path(ABC):
    """Registers [n, R, C] that end up with one stationary word each: ``value``, ``real``, ``full``.

    ``lanes`` words enter a column per edge. ``n_write`` and ``n_read`` count the registers written and read.
    """

    def __init__(self, n: int, rows: int, cols: int, lanes: int, dtype: np.dtype[np.generic]) -> None:
        shape = (n, rows, cols)
        self.lanes, self.steps = lanes, -(-rows // lanes)
        self.value, self.real = np.zeros(shape, dtype), np.zeros(shape, np.bool_)
        self.full = np.zeros(shape, np.bool_)
        self.n_write, self.n_read = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    @abstractmethod
    def destination(self, k: Ints) -> Ints:
        """Row in which each lane's word of step ``k`` [n, C] ends, [n, lanes, C]; beyond the array: none."""

    @abstractmethod
    def shift(self, word: Array, real: Bools, destination: Ints, release: Bools, edge: int) -> None:
        """One edge: words enter the lanes (``destination`` -1: none), others move on.

        ``release`` frees registers at this edge. Raises HazardError where a word would overwrite one that is
        still needed.
        """

    @property
    def occupied(self) -> Bools:
        """Registers that hold a word, at its place or on its way."""
        return self.full

    def _keep(self, take: Bools, word: Array, real: Bools, arrived: Bools, release: Bools, edge: int) -> None:
        hazard(take & self.full & ~release, edge, "load", "shadow register", "a word that no fold has used yet")
        self.value, self.real = np.where(take, word, self.value), np.where(take, real, self.real)
        self.full = (self.full & ~release) | arrived
        self.n_write += take


class Chain(Path):
    """Words pass through the registers that keep them, ``lanes`` rows per edge; the lowest row's word enters first."""

    def __init__(self, n: int, rows: int, cols: int, lanes: int, dtype: np.dtype[np.generic]) -> None:
        super().__init__(n, rows, cols, lanes, dtype)
        self.hops = np.zeros((n, rows, cols), np.int64)  # hops that a word still has to go

    def destination(self, k: Ints) -> Ints:
        """Lane l enters row l and ends ``lanes`` x the remaining steps below it."""
        lane = np.arange(self.lanes)[None, :, None]
        return lane + self.lanes * (self.steps - 1 - k[:, None, :])

    def shift(self, word: Array, real: Bools, destination: Ints, release: Bools, edge: int) -> None:
        """See :meth:`Path.shift`."""
        rows = self.value.shape[1]
        left = np.where(destination >= 0, destination // self.lanes + 1, 0)
        hops = np.concatenate((left, self.hops), axis=1)[:, :rows]
        take = hops > 0
        self.n_read += take & (np.arange(rows) >= self.lanes)[None, :, None]
        self.hops = np.maximum(hops - 1, 0)
        word = np.concatenate((word, self.value), axis=1)[:, :rows]
        real = np.concatenate((real, self.real), axis=1)[:, :rows]
        self._keep(take, word, real, take & (hops == 1), release, edge)

    @property
    def occupied(self) -> Bools:
        """See :attr:`Path.occupied`."""
        held: Bools = self.full | (self.hops > 0)
        return held


class Wave(Path):
    """Words pass the PEs in registers of their own, ``lanes`` wide, one row per edge, the top row's first.

    So the load follows the swap at the same speed, however many words enter per edge.
    """

    def __init__(self, n: int, rows: int, cols: int, lanes: int, dtype: np.dtype[np.generic]) -> None:
        super().__init__(n, rows, cols, lanes, dtype)
        shape = (n, lanes, rows, cols)
        self.passing, self.passing_real = np.zeros(shape, dtype), np.zeros(shape, np.bool_)
        self.hops = np.zeros(shape, np.int64)

    def destination(self, k: Ints) -> Ints:
        """The words of rows k x lanes and following enter together."""
        return np.arange(self.lanes)[None, :, None] + self.lanes * k[:, None, :]

    def shift(self, word: Array, real: Bools, destination: Ints, release: Bools, edge: int) -> None:
        """See :meth:`Path.shift`."""
        hops = np.concatenate(((destination + 1)[:, :, None], self.hops[:, :, :-1]), axis=2)
        words = np.concatenate((word[:, :, None], self.passing[:, :, :-1]), axis=2)
        reals = np.concatenate((real[:, :, None], self.passing_real[:, :, :-1]), axis=2)
        arrives, passes = hops == 1, hops > 1
        self.n_read[:, 1:] += (hops[:, :, 1:] > 0).sum(axis=1)
        self.n_write += passes.sum(axis=1)
        self.hops, self.passing, self.passing_real = np.maximum(hops - 1, 0), words, reals
        take = arrives.any(axis=1)
        self._keep(take, (words * arrives).sum(axis=1), (reals & arrives).any(axis=1), take, release, edge)


class Loads:
    """Control of the loads of each column [n, C]: ``fold`` last begun, ``k`` steps of it have entered."""

    def __init__(self, n: int, cols: int, steps: int) -> None:
        self.fold, self.k, self.steps = np.full((n, cols), -1), np.full((n, cols), steps), steps

    def advance(self, allowed: Bools, folds: Ints) -> tuple[Ints, Bools, Bools]:
        """One edge: begin the next fold where ``allowed`` [n, C]; gives step, where active, where begun."""
        begin = allowed & (self.k >= self.steps) & (self.fold + 1 < folds[:, None])
        self.fold = self.fold + begin
        step = np.where(begin, 0, self.k)
        active = step < self.steps
        self.k = step + active
        return step, active, begin

    def ready(self, fold: Ints) -> Bools:
        """Return whether all words of ``fold`` [n] have entered column 0 at an earlier edge."""
        done: Bools = (self.fold[:, 0] == fold) & (self.k[:, 0] >= self.steps)
        return done
