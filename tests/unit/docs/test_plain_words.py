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
OPENING = re.compile(r"(What|How|Of|Those|The same|Whether|Which|Who|By|As|So|That)\b")
"""A genitive, a relative clause or a comparison instead of a verb or the thing."""
UNCLEAN = ("engines", "machine")
"""Packages with docstrings that open like this. May only shrink."""


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


def package(path: Path) -> str:
    """'spec' of accelsim/spec/chip.py, 'cli' of accelsim/cli.py."""
    return path.relative_to(ROOT / "accelsim").parts[0].removesuffix(".py")


def riddles(path: Path) -> list[str]:
    """First lines of the docstrings of a file that open with a genitive or a relative clause."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    texts = [ast.get_docstring(node) or "" for node in nodes]
    return [text.splitlines()[0] for text in texts if OPENING.match(text)]


def test_docstrings_open_with_a_verb_or_their_thing() -> None:
    found: dict[str, list[str]] = {}
    for path in (ROOT / "accelsim").rglob("*.py"):
        found.setdefault(package(path), []).extend(f"{path.name}: {line}" for line in riddles(path))
    news = {name: lines for name, lines in found.items() if lines and name not in UNCLEAN}
    assert not news, f"open with a verb or the thing: {news}"
