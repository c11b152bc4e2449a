"""Pages of the site that are no files of docs/: lessons, the Python reference, reports, the rules for specs.

MkDocs calls ``on_files`` and ``on_page_markdown`` (``hooks`` in mkdocs.yml).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import accelsim
from accelsim.lessons.registry import lessons
from accelsim.lessons.work import filled

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "reports/accuracy.md": "reports/accuracy.md",
    "reports/light-models.md": "reports/light-models.md",
    "reports/dram.md": "reports/dram.md",
    "reports/eyeriss-alexnet/README.md": "reports/eyeriss-alexnet.md",
    "reports/digits-cnn/accuracy.md": "reports/digits-cnn.md",
    "reports/digits-mlp/accuracy.md": "reports/digits-mlp.md",
    "reports/digits-tanh/accuracy.md": "reports/digits-tanh.md",
    "hwspecs/README.md": "hwspecs.md",
}
"""File of the repository -> its page."""
PICTURES = ("reports/dram.png", "reports/eyeriss-alexnet/hierarchy.png", "reports/digits-cnn/accuracy.png",
            "reports/digits-mlp/accuracy.png", "reports/digits-tanh/accuracy.png")  # fmt: skip
REPOSITORY = "The file `{}` of the repository."


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for name, text in _made():
        files.append(File.generated(config, name, content=text))
    for name in PICTURES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def _made() -> Iterator[tuple[str, str]]:
    for lesson in lessons():
        text = filled(lesson, "text.md", "")
        yield f"lessons/{lesson.folder}.md", re.sub(r"`docs/([\w-]+\.md)`", r"[\1](../\1)", text)
    yield "reference.md", _reference()
    for source, page in OUTSIDE.items():
        yield page, _outside((ROOT / source).read_text(encoding="utf-8"), source, page)


def _reference() -> str:
    """The docstrings of all public names."""
    parts = ["# Python reference\n\nMade from the docstrings. How they are used is in [The Python API](python.md).\n"]
    for name in accelsim.__all__:
        if name not in ("errors", "__version__"):
            parts.append(f"\n::: {accelsim._HOME[name]}.{name}\n")
    parts.append("\n::: accelsim.lessons.check\n\n::: accelsim.errors\n")
    return "".join(parts)


def _outside(text: str, source: str, page: str) -> str:
    """Links of a file elsewhere: to pages that are here as they are here, to pictures, else as plain names."""
    folder, depth = Path(source).parent, "../" * page.count("/")

    def link(match: re.Match[str]) -> str:
        label, target, mark = match[2], match[3], match[1]
        if target.startswith(("http", "#")):
            return match[0]
        path, _, anchor = target.partition("#")
        whole = Path(_plain(folder / path)).as_posix()
        where = OUTSIDE.get(whole) or (whole.removeprefix("docs/") if whole.startswith("docs/") else None)
        where = where or (whole if whole in PICTURES else None)
        if where is None:
            return f"{label} (`{whole}`)" if label != f"`{whole}`" else label
        return f"{mark}[{label}]({depth}{where}{'#' + anchor if anchor else ''})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def _plain(path: Path) -> str:
    """Without '..'."""
    parts: list[str] = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of pages in docs/ to files of the repository that have a page here."""
    for source, target in OUTSIDE.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    return markdown
