"""Pictures that are composed but not painted, which is most of the time of a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest


@contextmanager
def unpainted() -> Iterator[None]:
    """Return what is saved inside is an empty picture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", _saved)
        patch.setattr("accelsim.report.style._write_svg", _saved)
        yield


def _saved(figure: object, file: IO[bytes], **_: Any) -> None:
    file.write(b"<svg xmlns='http://www.w3.org/2000/svg'></svg>")
