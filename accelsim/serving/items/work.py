"""Work of the host for one item, before and after the chip: known kinds with their sources, and times of a user."""

from __future__ import annotations

from typing import NamedTuple

from accelsim import units
from accelsim.errors import Problem, UsageError, nearest

HERE = (
    "measured for this project in 2026-11 on one core of an AMD EPYC that others used too, the fastest of five "
    "rounds; expect half to twice as much elsewhere"
)
JPEG = (
    "one thread of OpenCV with libjpeg-turbo on ImageNet's validation images: 721 a second on a Xeon 8581C, 664 on an "
    "EPYC 9B14, 445 on a Neoverse N1 (Iglovikov and Kosarevsky, arXiv 2605.08731)"
)


class Kind(NamedTuple):
    """A kind of work: seconds that one core needs for an item, what it is, and where the figure comes from."""

    seconds: float
    text: str
    source: str


KINDS = {
    "decode-jpeg": Kind(1 / 721, "a JPEG of about 500 x 375 pixels becomes RGB", JPEG),
    "resize": Kind(1.75e-3, "500 x 375 pixels become 256 at the shorter side, cut to 224 x 224 (Pillow)", HERE),
    "normalise": Kind(0.86e-3, "224 x 224 pixels become 32-bit numbers, channels first (NumPy)", HERE),
    "tokenise": Kind(0.29e-3, "a text of 117 word pieces (Hugging Face tokenizers 0.23)", HERE),
    "top5": Kind(19e-6, "softmax and the best 5 of 1,000 classes (NumPy)", HERE),
    "nms": Kind(3.7e-3, "non-maximum suppression of 200 boxes (NumPy)", HERE),
}
"""Kinds of work by name."""
KEEP = "keep"


class Work(NamedTuple):
    """Work of the host for an item: seconds of a core, names of its kinds; ``keep``: share of items that need the chip
    afterwards, the others are answered at once."""

    seconds: float = 0.0
    names: tuple[str, ...] = ()
    keep: float = 1.0


def read_work(text: str, where: str) -> Work:
    """Return the work of a text: 'decode-jpeg,resize', '3ms', 'decode-jpeg,keep=30%'. Raises UsageError with all
    problems."""
    found, problems = Work(), list[Problem]()
    for part in (each.strip() for each in text.split(",") if each.strip()):
        name, equals, share = part.partition("=")
        try:
            if equals and name == KEEP and where == "--before":
                found = found._replace(keep=_share(share))
            else:
                seconds = KINDS[part].seconds if part in KINDS else units.parse(part, "s")
                if not 0 < seconds < float("inf"):
                    raise ValueError
                found = found._replace(seconds=found.seconds + seconds, names=(*found.names, part))
        except ValueError:
            expected = f"{', '.join(KINDS)}, or a time with its unit, such as 3ms"
            expected += ", or keep=30%" if where == "--before" else ""
            problems.append(Problem(f"{part!r}", where, expected, nearest(part, KINDS)))
    UsageError.raise_for(problems)
    return found


def _share(text: str) -> float:
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise ValueError
    return value
