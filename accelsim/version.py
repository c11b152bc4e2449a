"""Version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """Version of accelsim, or 'not installed' in a bare source tree."""
    try:
        return version("accelsim")
    except PackageNotFoundError:
        return "not installed"
