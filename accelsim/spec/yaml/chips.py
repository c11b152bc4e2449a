"""Chips, sites and tables by name, from the cache where they were read before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.spec.yaml.kept import kept, kept_part

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.spec.gpu_power import GpuPower
    from accelsim.spec.intervals import Intervals
    from accelsim.spec.site import Site


def meant(name_or_path: str | Path) -> str | Path:
    """Return the chip or cluster that the name of an instance stands for; any other name as it is."""
    if ":" not in str(name_or_path):
        return name_or_path
    from accelsim.spec.yaml.instances import stands_for

    return stands_for(str(name_or_path))


def load_chip(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Chip:
    """Return the chip of ``accelsim.spec.yaml.load.load_chip``, or that of an instance ('aws:g4dn.xlarge').

    Raises SpecError with all problems at once, and UsageError for an instance that is no one chip.
    """
    from accelsim.spec.chip import Chip

    def read() -> Chip:
        from accelsim.spec.yaml import load

        return load.load_chip(meant(name_or_path), overrides)

    return kept(Chip, [str(name_or_path), *overrides], read)


def load_site(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Site:
    """Return a site: a file of ``sites/``, or any file, with overrides. Raises SpecError with all problems at once."""
    from accelsim.spec.site import Site

    return kept_part(name_or_path, "sites", Site, overrides)


def load_intervals(name_or_path: str | Path) -> Intervals:
    """Return a table of intervals: a file of ``intervals/``, or any file. Raises SpecError, all problems at once."""
    from accelsim.spec.intervals import Intervals

    return kept_part(name_or_path, "intervals", Intervals)


def load_power(name_or_path: str | Path) -> GpuPower:
    """Return a table of what GPUs draw: a file of ``power/``, or any file. Raises SpecError, all problems at once."""
    from accelsim.spec.gpu_power import GpuPower

    return kept_part(name_or_path, "power", GpuPower)


def load_at(name_or_path: str | Path, overrides: Sequence[str] = (), site: str | Path | None = None) -> Chip:
    """Return a chip at a site, as ``load_chip`` and ``load_site`` read them."""
    from accelsim.spec.site import with_site

    chip = load_chip(name_or_path, overrides)
    return chip if site is None else with_site(chip, load_site(site))
