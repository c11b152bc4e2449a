"""The pace at which rows enter the array."""

from __future__ import annotations

from accelsim.program.roles import Roles
from accelsim.program.writing.entries import nbytes


def cycles_per_row(roles: Roles, dtype: str, a_dtype: str) -> int:
    """Clocks per streamed row: the unit's rate for the format, or what the buffers around it can feed and take."""
    unit = roles.matrix
    feed = nbytes(a_dtype, unit.rows)
    take = nbytes(unit.formats[dtype].accumulate, unit.cols)
    return max(
        unit.formats[dtype].cycles_per_row,
        -(-feed // roles.buffer(roles.activations).read_width),
        -(-take // roles.buffer(roles.sums).write_width),
    )
