"""The functions of ``bank_kernel``, compiled by numba (extra ``fast``). The machine code is kept beside the sources.

Each function is made again with this module's names around it, so that it calls compiled functions.
"""

from __future__ import annotations

from types import FunctionType

import numba

from accelsim.dram import bank_kernel

globals().update({name: value for name, value in vars(bank_kernel).items() if name.isupper()})
for _each in bank_kernel.LOOP:
    _here = FunctionType(_each.__code__, globals(), _each.__name__)
    globals()[_each.__name__] = numba.njit(cache=True)(_here)
