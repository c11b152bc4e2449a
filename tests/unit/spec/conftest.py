from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Write:
    """Writes a file below a hwspecs directory of our own, which goes in front: a chip, or what the test's KIND says."""
    monkeypatch.setenv("ACCELSIM_HWSPECS", str(tmp_path))
    usual = f"{getattr(request.module, 'KIND', 'chips')}/mine.yaml"

    def writer(text: str, name: str = usual) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return writer
