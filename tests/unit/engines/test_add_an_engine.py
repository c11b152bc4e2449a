"""The page about new engine types: its files, in a folder of their own, make a type that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.helpers.doc_blocks import ROOT

PAGE = ROOT / "docs" / "add-an-engine.md"
RUN = """
import sys
import accelsim.engines
accelsim.engines.__path__.append(sys.argv[1])
import accelsim
from accelsim.account.critical_path import by_blame
from accelsim.account.categories import by_category
from accelsim.account.energy import energy_table
from accelsim.errors import SpecError
from accelsim.spec.yaml.load import load_chip
SETS = ["vector.functions.Tanh=none", "cores.core.engines.table={type: lut, lanes: 4, entries: 256, functions: {Tanh: 1}}"]
run = accelsim.run("digits-tanh", on=load_chip("edu-4x4", SETS))
print({command.engine for command in run.program.commands if command.engine == "table"})
print(any(blame.kind == "lookup" for blame in by_blame(run)))
print("tables" in by_category(run.chip, energy_table(run)))
try:
    load_chip("edu-4x4", [*SETS, "table.functions.Relu=1"])
except SpecError as error:
    print(error)
"""


def test_the_files_of_the_page_make_a_type(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, code in re.findall(r"```python\n# accelsim/engines/(\S+)\n(.*?)```", text, re.S):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "lut" / "__init__.py").write_text("", encoding="utf-8")
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    placed, reason, category, *refused = done.stdout.splitlines()
    assert (placed, reason, category) == ("{'table'}", "True", "True")
    assert "no function with a table; expected Sigmoid, Tanh" in "\n".join(refused)
