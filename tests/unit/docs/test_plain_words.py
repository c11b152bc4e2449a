"""Pages and docstrings are written in plain words: few chains of "of", docstrings that open with their thing."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.doc_blocks import PAGES, ROOT

MOST = 35
"""Words "of" in 1,000 words of prose."""
SHORT = 100
"""Pages with fewer words of prose vary too much to count."""
OPENING = re.compile(
    r"(What|How|Of|Those|The same|Where|Whether|When|Which|Who|By|As|So|That|All of|Its|In|Nothing|Behind)\b"
)
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


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Docstrings of modules, classes and functions, and the texts below variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        block = getattr(node, "body", ())
        for before, each in pairwise(block if isinstance(block, list) else ()):
            if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(each, ast.Expr):
                value = each.value.value if isinstance(each.value, ast.Constant) else ""
                yield inspect.cleandoc(value) if isinstance(value, str) else ""


def source(path: Path) -> str:
    """Code of a file, that of a lesson with its gaps filled."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"<<\w+>>", "0", text) if path.suffix == ".in" else text


def riddles(text: str) -> list[str]:
    """First lines of the docstrings of a source that open with a genitive or a relative clause."""
    return [found.splitlines()[0] for found in docstrings(ast.parse(text)) if OPENING.match(found)]


def test_docstrings_of_all_kinds_are_seen() -> None:
    text = '"""Of a."""\nb = 1\n"""What b."""\nclass C:\n    """The C."""\n    d: int = 0\n    """\n    Its d."""\n    def e(): """By e."""'
    assert riddles(text) == ["Of a.", "What b.", "Its d.", "By e."]


def test_docstrings_open_with_a_verb_or_their_thing() -> None:
    files = [*(ROOT / "accelsim").rglob("*.py"), *(ROOT / "accelsim" / "lessons").rglob("*.py.in")]
    found = [f"{path.relative_to(ROOT)}: {line}" for path in files for line in riddles(source(path))]
    assert not found, "open with a verb or the thing:\n" + "\n".join(found)
