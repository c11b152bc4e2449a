"""The scheduler and the row policy of docs/add-a-dram.md: the standard holds, and both loops give the same."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from accelsim.dram.bank import Bank
from accelsim.dram.device import PAGE_POLICIES, SCHEDULERS, Choice, Command
from tests.helpers import protocol
from tests.helpers.bank_cases import made

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

PAGE = Path(__file__).parents[3] / "docs/add-a-dram.md"
KERNELS = ("python", *(("numba",) if importlib.util.find_spec("numba") else ()))


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both, as the page says."""
    for name, text in re.findall(r"<!-- file: (\w+)\.py -->\n```python\n(.*?)```", PAGE.read_text(), re.S):
        (tmp_path / f"{name}.py").write_text(text)
        table = SCHEDULERS if "def pick" in text else PAGE_POLICIES
        monkeypatch.setitem(table, name, Choice("of the page", name))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(("scheduler", "policy"), [("fcfs", "open"), ("bursts", "eager"), ("fcfs", "eager")])
def test_both_loops_follow_it_and_the_standard(named: None, scheduler: str, policy: str) -> None:
    dram = made(groups=4, refresh="all_bank", scheduler=scheduler, page_policy=policy)
    rng = np.random.default_rng(1)
    addresses, writes = rng.integers(0, 1 << 12, 1500) * 64, rng.random(1500) < 0.2
    ends = []
    for kernel in KERNELS:
        found = Bank(dram, kernel=kernel).serve(addresses, writes, record=True, commands=True)
        assert found.commands is not None and found.done is not None
        log = protocol.rows(found.commands)
        assert protocol.violations(dram, log) == []
        ends.append((found.end, found.counts))
        if scheduler == "fcfs":
            assert (np.diff(found.done[~writes]) > 0).all()
    assert all(each == ends[0] for each in ends)


def test_eager_rows_are_closed_when_nothing_waits_for_them(named: None) -> None:
    dram = made(page_policy="eager")
    one = Bank(dram, kernel="python").serve(np.zeros(1, np.int64), False, commands=True)
    two = Bank(dram, kernel="python").serve(np.zeros(2, np.int64), False, commands=True)
    kinds = [[row.command for row in protocol.rows(each.commands)] for each in (one, two)]  # type: ignore[arg-type]
    assert kinds[0] == [Command.ACT, Command.RD, Command.PRE]
    assert kinds[1] == [Command.ACT, Command.RD, Command.RD, Command.PRE]
