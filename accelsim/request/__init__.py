"""Requests for a run: the fields, and their record, from which a saved run can be told apart and repeated.

How it is done (``job``, ``tuning``) imports the whole simulator, so it is asked for by name.
"""

from __future__ import annotations

from accelsim.request.fields import OPTIONS, Request
from accelsim.request.recording import IN_MEMORY, command, differences, how_to_repeat, record, repeated

__all__ = ["IN_MEMORY", "OPTIONS", "Request", "command", "differences", "how_to_repeat", "record", "repeated"]
