"""Rounding by the compiled loop: every format, every policy, the same bits as in NumPy."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from accelsim.formats import bits, codec
from accelsim.formats.table import FORMATS

pytest.importorskip("numba", reason="numba is not installed (extra `fast`)")
pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops

SHORT = [name for name, row in FORMATS.items() if row.kind == "float" and row.bits < 32]


@pytest.mark.parametrize("name", [*SHORT, "tf32"])
def test_every_pattern_is_rounded_to_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    patterns = np.concatenate([np.arange(0, 2**32, 40_009), rng.integers(0, 2**32, 30_000)]).astype(np.uint32)
    values = patterns.view(np.float32)
    policies = (None, "inf", "nan", "saturate")
    allowed = [each for each in policies if FORMATS[name].has_nan or each in (None, "saturate")]
    for overflow in allowed:
        if overflow == "inf" and not FORMATS[name].inf_code:
            continue
        quick = codec.cast(values, name, overflow=overflow)
        with monkeypatch.context() as patch:
            patch.setattr(bits, "compiled", lambda module: None)
            slow = codec.cast(values, name, overflow=overflow)
        np.testing.assert_array_equal(quick.view(np.int32), slow.view(np.int32))


def test_the_compiled_loop_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    monkeypatch.setattr(bits, "compiled", lambda module: used.append(module))
    codec.cast(np.ones(3, np.float32), "fp16")
    assert used == ["bits_compiled"]


@pytest.mark.parametrize("name", ["formats/bits_compiled.py", "formats/dot_compiled.py", "dram/compiled.py"])
def test_without_its_compiler_numba_is_kept_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NUMBA_DISABLE_JIT=1 leaves loops that are slower than NumPy, and whose numbers are not Python's."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    with pytest.raises(ImportError, match="NUMBA_DISABLE_JIT"):
        runpy.run_path(str(Path(bits.__file__).parents[1] / name))
