"""What is wrong in a mapping file: told with its line, whatever the file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import UsageError
from accelsim.program.mapping_file import load_mappings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("conv: {[tm]: 2}\n", "f:1:8: a list or block as a name; expected a text"),
        ("conv: {{a: b}: 2}\n", "f:1:8: a list or block as a name; expected a text"),
        ("[conv]: {tm: 2}\n", "f:1:1: a list or block as a name; expected a text"),
        ("conv: {tm: 2}\nfc: {tm: 1}\nconv: {tm: 3}\n", "f:3:1: 'conv' is there twice; expected each name once"),
        ("conv: {tm: 2, tm: 3}\n", "f:1:15: 'tm' is there twice; expected each name once"),
        ("conv: {tm: 1000000000000000000000}\n", "f:1:12: tm is '1000000000000000000000'; expected a whole number from 1 to 2,147,483,648"),
        ("conv: {tm: ٣}\n", "f:1:12: tm is '٣'; expected a whole number from 1 to 2,147,483,648"),
        ("conv: {tm: [1]}\n", "f:1:12: tm is a list or block; expected a whole number from 1 to 2,147,483,648"),
        (f"conv: {{tm: {'9' * 5000}}}\n", "f:1:12: tm is '999"),
        ("conv: 5\n", "f:1:7: a layer without fields"),
        ("[" * 5000, "f: not YAML"),
    ],
)  # fmt: skip
def test_bad_mappings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_mappings(Path("f"))
    assert any(str(problem).startswith(told) for problem in caught.value.problems), str(caught.value)


def test_an_endless_file_is_no_mapping() -> None:
    with pytest.raises(UsageError, match="/dev/zero: cannot read the mapping: more than 16,777,216 B"):
        load_mappings(Path("/dev/zero"))
