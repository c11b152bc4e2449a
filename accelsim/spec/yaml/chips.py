"""Chips, clusters, sites and intervals that were read before, from the cache: neither files nor laws are read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from accelsim import usercache
from accelsim.spec.yaml import where

if TYPE_CHECKING:
    from accelsim.spec.base import Model
    from accelsim.spec.chip import Chip
    from accelsim.spec.gpu_power import GpuPower
    from accelsim.spec.intervals import Intervals
    from accelsim.spec.site import Site

_KNOWN = usercache.Table("chips", 512)
"""Chips, clusters and sites by ``_key``, each a pickle as text."""
T = TypeVar("T")
M = TypeVar("M", bound="Model")


def load_chip(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Chip:
    """Return the chip of ``accelsim.spec.yaml.load.load_chip``, which raises SpecError with all problems at once."""
    from accelsim.spec.chip import Chip

    def read() -> Chip:
        from accelsim.spec.yaml import load

        return load.load_chip(name_or_path, overrides)

    return kept(Chip, [str(name_or_path), *overrides], read)


def load_site(name_or_path: str | Path) -> Site:
    """Return a site: a file of ``sites/``, or any file. Raises SpecError with all problems at once."""
    from accelsim.spec.site import Site

    return kept_part(name_or_path, "sites", Site)


def load_intervals(name_or_path: str | Path) -> Intervals:
    """Return a table of intervals: a file of ``intervals/``, or any file. Raises SpecError, all problems at once."""
    from accelsim.spec.intervals import Intervals

    return kept_part(name_or_path, "intervals", Intervals)


def load_power(name_or_path: str | Path) -> GpuPower:
    """Return a table of what GPUs draw: a file of ``power/``, or any file. Raises SpecError, all problems at once."""
    from accelsim.spec.gpu_power import GpuPower

    return kept_part(name_or_path, "power", GpuPower)


def kept_part(name_or_path: str | Path, folder: str, kind: type[M]) -> M:
    """Load a spec as ``accelsim.spec.yaml.parts.load_part``, through the cache that chips use."""

    def read() -> M:
        from accelsim.spec.yaml.parts import load_part

        return load_part(name_or_path, folder, kind)

    return kept(kind, [str(name_or_path)], read)


def kept(kind: type[T], asked: Sequence[str], read: Callable[[], T]) -> T:
    """Return the ``kind`` that ``read`` makes of what is ``asked`` for.

    It is kept as long as no source of accelsim and no spec file below the roots changes; one that takes anything from
    elsewhere is read each time.
    """
    key = _key(kind, asked) if usercache.folder() else None
    if key and (found := usercache.unpacked(_KNOWN.get(key), kind)) is not None:
        return found
    made = read()
    if key and set(where.every_file()) >= where.READ:
        _KNOWN.put(key, usercache.packed(made))
    return made


def _key(kind: type, asked: Sequence[str]) -> str | None:
    """Return a hash of what was asked for and of all spec files."""
    files = _contents(where.states())
    return files and usercache.digest([files, kind.__name__, *asked])


@lru_cache(maxsize=4)
def _contents(states: tuple[tuple[str, int, int], ...]) -> str | None:
    """Return a hash of the contents of files, whose sizes and times say when they must be read again."""
    return usercache.key_of(Path(path) for path, *_ in states)


def load_at(name_or_path: str | Path, overrides: Sequence[str] = (), site: str | Path | None = None) -> Chip:
    """Return a chip at a site, as ``load_chip`` and ``load_site`` read them."""
    from accelsim.spec.site import with_site

    chip = load_chip(name_or_path, overrides)
    return chip if site is None else with_site(chip, load_site(site))
