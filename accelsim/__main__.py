"""``python -m accelsim``: the same as the command ``accelsim``."""

from __future__ import annotations

from accelsim.cli import main

main(prog_name="accelsim")
