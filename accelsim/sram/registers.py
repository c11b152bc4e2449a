"""Register files and accumulators: memories too small, or used too differently, for the SRAM model."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.errors import Problem, UsageError
from accelsim.spec.scaling import POLYNOMIALS, interpolate_log, scale_energy
from accelsim.sram.model import PORT_PITCH, Sram, sram

BASE_NM, BASE_V = 45.0, 0.9
"""Node and voltage of the points."""
FLIP_FLOP = (4.0, 0.03e-12 / 8)
"""(bytes, J per bit) of a single register of 32 bits: a guess, the energy of an int8 addition per byte (Horowitz, ISSCC
2014), since a flip-flop and a full adder are of like size."""
KIBIBYTE = (1024.0, 1e-12 / 32)
"""(bytes, J per bit) of a register file of 1 KB: 1 pJ per 32-bit read at 45 nm, Han et al., NIPS 2015, recalled."""


@dataclass(frozen=True)
class RegisterFile:
    """Energy of an access of one word. ``status``: 'recalled' (not read again), 'guess', or 'extrapolated'."""

    read_J: float
    write_J: float
    note: str
    status: str


def register_file(
    capacity_B: float, word_bits: int = 32, ports: int = 2, node_nm: float = BASE_NM
) -> RegisterFile:
    """Energy of a register file: the power law between one register and 1 KB (``FLIP_FLOP``, ``KIBIBYTE``).

    ``ports`` beyond two (one read, one write) lengthen the wires as in :mod:`accelsim.sram.model`; a write is taken
    to cost as much as a read; nodes (7 to 130 nm) scale by :func:`accelsim.spec.scaling.scale_energy` at 0.9 V.
    Below 4 B the energy per bit stays, above 1 KiB the power law goes on ('extrapolated'). UsageError for sizes
    below 1 or other nodes.
    """
    given = {"capacity_B": capacity_B, "word_bits": word_bits, "ports": ports}
    problems = [
        Problem(f"{value:g} is too small", name, "at least 1") for name, value in given.items() if value < 1
    ]
    if not min(POLYNOMIALS) <= node_nm <= max(POLYNOMIALS):
        problems.append(Problem(f"no scaling to {node_nm:g} nm", "node_nm", "7 to 130 nm"))
    if problems:
        raise UsageError(problems)
    per_bit = interpolate_log(max(capacity_B, FLIP_FLOP[0]), FLIP_FLOP, KIBIBYTE)
    wide = 1 + PORT_PITCH * max(0, ports - 2)
    access_J = scale_energy(word_bits * per_bit * wide, BASE_NM, BASE_V, node_nm, BASE_V)
    status, note = _standing(capacity_B)
    return RegisterFile(access_J, access_J, note, status)


def _standing(capacity_B: float) -> tuple[str, str]:
    if capacity_B > KIBIBYTE[0]:
        return "extrapolated", "beyond 1 KiB, the largest register file that is known"
    if capacity_B == KIBIBYTE[0]:
        return "recalled", "1 KB: Han et al., NIPS 2015"
    return "guess", "between a guessed flip-flop and 1 KB of Han et al., NIPS 2015 (recalled)"


@dataclass(frozen=True)
class Accumulator:
    """A memory of partial sums. ``update_J``: one sum read, added to elsewhere, and written back; ``memory``: its
    SRAM."""

    update_J: float
    memory: Sram


def accumulator(
    capacity_B: float, word_bits: int = 32, banks: int = 1, node_nm: float = 45, cell: str = "itrs-lop"
) -> Accumulator:
    """An accumulator memory with a read and a write port, so that a bank takes an update per clock.

    With single-ported banks twice as many of them do as well: ``accelsim.sram.banks`` tells when updates collide.
    """
    memory = sram(capacity_B, word_bits, 2, banks, node_nm, cell)
    return Accumulator(memory.read_J + memory.write_J, memory)
