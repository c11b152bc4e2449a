"""Cases of known fate, to test the harness itself."""

from __future__ import annotations

import os
import time

from accelsim.errors import ModelError


def case(seed: int) -> None:
    """0 passes, 1 is refused, 2 raises, 3 does not end, 4 ends its process, 5 asks for too much memory."""
    if seed == 1:
        raise ModelError("refused")
    if seed == 2:
        raise KeyError("a bug")
    if seed == 3:
        time.sleep(60)
    if seed == 4:
        os._exit(3)
    if seed == 5:
        bytearray(1 << 34)
