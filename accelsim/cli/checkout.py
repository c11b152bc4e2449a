"""Commands that need a checkout of the project: they run modules of ``tests``, which the installed package lacks."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from accelsim.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, where the package is used from one."""


def from_checkout(module: str, command: str) -> Any:
    """Import ``module`` of the checkout for ``command``. Raise UsageError in an installed package."""
    if not ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file():
        what = f"'{command}' needs a checkout of the project, which holds the checks and what they compare with"
        raise UsageError(what, expected=f"in a checkout: pip install -e . && {command}; this is an installed package")
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return import_module(module)
