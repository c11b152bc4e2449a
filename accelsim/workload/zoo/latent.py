"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads from one short row."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from accelsim.workload.zoo.attention import Attention
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.sizes import Sizes
from accelsim.workload.zoo.style import Style


class LatentAttention(Attention):
    """Writer of latent attention. A row of the cache is a latent and one key with positions, which all heads share.

    Calls of one token are absorbed: queries go through the projection of keys, results through that of values, and
    heads look at the rows of the cache themselves. Others expand these rows to keys and values of each head.
    """

    parts = 2

    def __init__(self, b: Builder, sizes: Sizes, style: Style, absorbed: bool | None = None) -> None:
        super().__init__(b, sizes, style)
        assert style.latent is not None
        self.latent, self.turned_depth = style.latent, style.latent.turned
        self.absorbed = sizes.seq == 1 if absorbed is None else absorbed
        self.scale = style.score_scale or 1.0 / sqrt(self.latent.plain + self.latent.turned)

    @property
    def width(self) -> int:
        """Elements that go into the projection back."""
        return self.sizes.heads * self.latent.values

    def whole(self, x: str, name: str, window: int) -> tuple[str, list[str]]:
        """Write attention; return its result and the new cache [batch, 1, past + seq, keys + turned]."""
        plain, turned, row = self.projected(x, name)
        kept = self.kept((row,), name, window)
        return self.out(self.attended((plain, turned), kept, name, window), name), kept

    def attended(self, queries: Sequence[str], kept: Sequence[str], name: str, window: int) -> str:
        """Write what goes into the projection back."""
        (plain, turned), (rows,) = queries, kept
        return (self._absorbed if self.absorbed else self._expanded)(plain, turned, rows, name, window)

    def projected(self, x: str, name: str, window: int = 0) -> tuple[str, ...]:
        """Write queries without positions [batch, seq, heads, plain], with them [batch, seq, heads, turned], and new
        rows of the cache [batch, 1, seq, keys + turned]."""
        b, sizes, of, biased = self.b, self.sizes, self.latent, "qkv" in self.sizes.biased
        if of.queries:
            x_q = b.project(x, of.queries, f"{name}.q.down", bias=biased)
            x_q = b.rms_norm(x_q, f"{name}.q.norm", self.style.epsilon)
        q = b.project(x_q if of.queries else x, sizes.heads * (of.plain + of.turned), f"{name}.q", bias=False)
        q = b.reshaped(q, (sizes.batch, sizes.seq, sizes.heads, of.plain + of.turned), f"{name}.q.split")
        names = [f"{name}.q.plain", f"{name}.q.turning"]
        plain, turning = b.ops("Split", [q], names, f"{name}.q.parts", axis=3, split=[of.plain, of.turned])
        y = b.project(x, of.keys + of.turned, f"{name}.kv", bias=biased)
        names = [f"{name}.latent", f"{name}.k.turning"]
        latent, key = b.ops("Split", [y], names, f"{name}.kv.parts", axis=2, split=[of.keys, of.turned])
        latent = b.rms_norm(latent, f"{name}.latent.norm", self.style.epsilon)
        key = self.turned(b.reshaped(key, (sizes.batch, sizes.seq, 1, of.turned), f"{name}.k.split"))
        key = b.reshaped(key, (sizes.batch, sizes.seq, of.turned), f"{name}.k.flat")
        row = b.op("Concat", [latent, key], f"{name}.row", axis=2)
        row = b.reshaped(row, (sizes.batch, 1, sizes.seq, of.keys + of.turned), f"{name}.rows")
        return plain, self.turned(turning), row

    def _absorbed(self, plain: str, turned: str, kept: str, name: str, window: int) -> str:
        """Attend to the rows of the cache, which are keys, and in their first elements values."""
        b, sizes, of = self.b, self.sizes, self.latent
        weight = b.weight(f"{name}.keys.weight", (sizes.heads, of.plain, of.keys))
        q = self._by_head(self.rows(plain), weight, f"{name}.absorbed")
        q = b.op("Concat", [q, self.rows(turned)], f"{name}.q.whole", axis=3)
        q = b.reshaped(q, (sizes.batch, 1, sizes.heads * sizes.seq, of.keys + of.turned), f"{name}.q.grouped")
        mixed = self.mixed(q, kept, kept, name, window)
        mixed = b.op("Slice", [mixed], f"{name}.mixed.latent", starts=[0], ends=[of.keys], axes=[3], steps=[1])
        mixed = b.reshaped(mixed, (sizes.batch, sizes.heads, sizes.seq, of.keys), f"{name}.mixed.heads")
        weight = b.weight(f"{name}.values.weight", (sizes.heads, of.keys, of.values))
        return self.joined(self._by_head(mixed, weight, f"{name}.values"), name)

    def _by_head(self, x: str, weight: str, name: str) -> str:
        """x [batch, heads, seq, k] times the weight [heads, k, m] of each head."""
        b, (batch, heads, seq, k) = self.b, self.b.shape(x)
        x = b.reshaped(self._outside(x, f"{name}.in"), (heads, batch * seq, k), f"{name}.in.rows")
        y = b.reshaped(b.matmul(x, weight, name), (heads, batch, seq, b.shape(weight)[2]), f"{name}.heads")
        return self._outside(y, f"{name}.out")

    def _outside(self, x: str, name: str) -> str:
        """Change the first two axes."""
        one, other, *rest = self.b.shape(x)
        if 1 in (one, other):
            return self.b.reshaped(x, (other, one, *rest), name)
        return self.b.op("Transpose", [x], name, perm=[1, 0, 2, 3])

    def _expanded(self, plain: str, turned: str, kept: str, name: str, window: int) -> str:
        """Attend with keys and values of each head."""
        b, sizes, of = self.b, self.sizes, self.latent
        total, heads = b.shape(kept)[2], sizes.heads
        rows = b.reshaped(kept, (sizes.batch, total, of.keys + of.turned), f"{name}.kept")
        names = [f"{name}.kept.latent", f"{name}.kept.key"]
        latent, key = b.ops("Split", [rows], names, f"{name}.kept.parts", axis=2, split=[of.keys, of.turned])
        y = b.project(latent, heads * (of.plain + of.values), f"{name}.expanded", bias=False)
        y = b.reshaped(y, (sizes.batch, total, heads, of.plain + of.values), f"{name}.expanded.split")
        names = [f"{name}.k.plain", f"{name}.v"]
        keys, v = b.ops("Split", [y], names, f"{name}.expanded.parts", axis=3, split=[of.plain, of.values])
        key = b.reshaped(key, (sizes.batch, total, 1, of.turned), f"{name}.kept.key.split")
        key = b.op("Expand", [key], f"{name}.k.shared", shape=[sizes.batch, total, heads, of.turned])
        k = self.rows(b.op("Concat", [keys, key], f"{name}.k.whole", axis=3))
        q = self.rows(b.op("Concat", [plain, turned], f"{name}.q.whole", axis=3))
        return self.joined(self.mixed(q, k, self.rows(v), name, window), name)
