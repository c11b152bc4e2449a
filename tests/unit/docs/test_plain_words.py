"""Pages and docstrings are written in plain words: few chains of "of", docstrings that open with their thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.helpers.doc_blocks import PAGES, ROOT

MOST = 35
"""Words "of" in 1,000 words of prose."""
SHORT = 100
"""Pages with fewer words of prose vary too much to count."""
OPENING = re.compile(r"(What|How|Of|Those|The same|Whether|Which|Who|By|As|So|That|All of|Its|In|Nothing|Behind)\b")
"""A genitive, a relative clause or a comparison instead of a verb or the thing."""


def prose(path: Path) -> list[str]:
    """Words of a page outside of fenced blocks, tables and comments."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|^\|.*?$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return text.split()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_prose_has_few_genitives(path: Path) -> None:
    words = prose(path)
    share = 1000 * sum(word.strip("(,.;:").lower() == "of" for word in words) / max(len(words), 1)
    dense = len(words) >= SHORT and share > MOST
    assert not dense, f"{path.name}: {share:.0f} of 1,000 words are 'of', at most {MOST}"


def riddles(path: Path) -> list[str]:
    """First lines of the docstrings of a file that open with a genitive or a relative clause."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    texts = [ast.get_docstring(node) or "" for node in nodes]
    return [text.splitlines()[0] for text in texts if OPENING.match(text)]


def test_docstrings_open_with_a_verb_or_their_thing() -> None:
    files = (ROOT / "accelsim").rglob("*.py")
    found = [f"{path.relative_to(ROOT)}: {line}" for path in files for line in riddles(path)]
    assert not found, "open with a verb or the thing:\n" + "\n".join(found)
