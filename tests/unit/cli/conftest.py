from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from accelsim.cli import main

Cli = Callable[..., Result]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line in this process, 100 characters wide whatever the terminal of the tests is; other exceptions
    than SystemExit are the test's failure."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: object) -> Result:
        return CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False)

    return run


@pytest.fixture
def refused(cli: Cli) -> Callable[..., list[str]]:
    """Runs a command line that must be refused: exit code 2, nothing on stdout; the lines of stderr."""

    def run(*args: object) -> list[str]:
        result = cli(*args)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        return result.stderr.splitlines()

    return run
