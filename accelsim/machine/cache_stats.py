"""What a cache did in a run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class CacheStats:
    """Accesses to lines that hit and that missed; bytes fetched from ``memory``, written back to it, of stores that
    passed through to it and that changed a line on the way; bytes that are left which the memory does not have."""

    memory: str
    line_B: int
    hits: int = 0
    misses: int = 0
    fetched_B: int = 0
    written_back_B: int = 0
    through_B: int = 0
    changed_B: int = 0
    dirty_B: int = 0
    alone: set[int] = field(default_factory=set)
    """Transfers for which the memory behind had nothing to do, or was done before the cache."""

    @property
    def hit_rate(self) -> float:
        """Share of the accesses that hit; 0 without any."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0

    def as_dict(self) -> dict[str, int | float | str]:
        """Return the facts for JSON."""
        return {
            "memory": self.memory, "line_B": self.line_B, "hits": self.hits, "misses": self.misses,
            "hit_rate": self.hit_rate, "fetched_B": self.fetched_B, "written_back_B": self.written_back_B,
            "through_B": self.through_B, "dirty_B": self.dirty_B,
        }  # fmt: skip
