"""The page about number formats: its row, and nothing else, makes a format that is cast, shown and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.helpers.doc_blocks import ROOT

PAGE = ROOT / "docs" / "add-a-format.md"
TABLE = Path("accelsim") / "formats" / "table.py"
RUN = """
import sys
import accelsim
from accelsim.cli import main
run = accelsim.run("gemm?M=8,N=8,K=8", on="systolic-generic", dtype="fp10_e5m4", emulate=True)
print(run.program.dtype, run.check() or "holds")
main(["formats", "show", "fp10_e5m4", "3.14159"])
"""


def test_the_row_of_the_page_is_all_it_takes(tmp_path: Path) -> None:
    for folder in ("accelsim", "hwspecs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    ((row, title),) = re.findall(r'^    (_float\("fp10_e5m4".*?"(10-bit float)".*)$', PAGE.read_text("utf-8"), re.M)
    text = (tmp_path / TABLE).read_text(encoding="utf-8")
    assert text.count("_ROWS = (\n") == 1
    (tmp_path / TABLE).write_text(text.replace("_ROWS = (\n", f"_ROWS = (\n    {row}\n"), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[:2] == ["fp10_e5m4 holds", f"fp10_e5m4: {title}"]
