"""Attention of a block: queries, keys and values, the scores of all tokens so far, and the projection back."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from accelsim.workload.graph import Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.rotary import Rotation
from accelsim.workload.zoo.sizes import Sizes
from accelsim.workload.zoo.style import Style


class Attention:
    """Writer of the attention of one call, heads by heads. ``masked``: tokens see no later ones of the call; ``parts``:
    tensors of queries."""

    masked, parts = True, 1

    def __init__(self, b: Builder, sizes: Sizes, style: Style) -> None:
        self.b, self.sizes, self.style = b, sizes, style
        self.turned_depth = int(sizes.depth * style.rope.part)
        self.scale = style.score_scale or 1.0 / sqrt(sizes.depth)

    @property
    def width(self) -> int:
        """Elements that go into the projection back."""
        return self.sizes.heads * self.sizes.depth

    def constants(self) -> None:
        """Write rotations and masks, the same for all layers of a kind."""
        tensors, sizes, style = self.b.graph.tensors, self.sizes, self.style
        ropes = {"": style.rope, ".local": style.local} if style.gated else {}
        for end, rope in ropes.items():
            for word, sine in (("cos", False), ("sin", True)) if rope else ():
                assert rope is not None
                name, made = f"{word}{end}", Rotation(sizes.seq, sizes.past, self.turned_depth, rope, sine)
                tensors[name] = Tensor(name, (sizes.seq, 1, self.turned_depth), source=made, fixed=True)
        for window in dict.fromkeys(style.windows) if sizes.seq > 1 else ():
            mask, name = CausalMask(sizes.seq, sizes.past_of(window), window=window), self._mask(window)
            tensors[name] = Tensor(name, mask.shape, source=mask, fixed=True)

    def _mask(self, window: int) -> str:
        return f"mask.{window}" if window else "mask"

    def whole(self, x: str, name: str, window: int) -> tuple[str, list[str]]:
        """Write scaled dot-product attention (Vaswani et al. 2017, eq. 1); return its result and the new caches."""
        q, k, v = self.projected(x, name, window)
        kept = self.kept((k, v), name, window)
        return self.out(self.attended((q,), kept, name, window), name), kept

    def kept(self, new: Sequence[str], name: str, window: int) -> list[str]:
        """Write the caches with the ``new`` rows that ``projected`` gives last."""
        return [self._kept(each, f"{name}.{end}", window) for each, end in zip(new, "kv", strict=False)]

    def attended(self, queries: Sequence[str], kept: Sequence[str], name: str, window: int) -> str:
        """Write what goes into the projection back [batch, seq, heads * depth]. ``queries``: as ``projected`` gives
        them; ``kept``: the caches."""
        (q,), (k, v) = queries, kept
        return self.joined(self.mixed(self.grouped(q), k, v, name, window), name)

    def out(self, attended: str, name: str) -> str:
        """Write the projection back."""
        return self.b.project(attended, self.sizes.hidden, f"{name}.out", bias="out" in self.sizes.biased)

    def projected(self, x: str, name: str, window: int = 0) -> tuple[str, ...]:
        """Write queries [batch, seq, heads, depth], keys and values [batch, kv_heads, seq, depth]."""
        sizes = self.sizes
        q = self.turned(self._normed(self._split(x, sizes.heads, f"{name}.q")), window)
        k = self.rows(self.turned(self._normed(self._split(x, sizes.kv_heads, f"{name}.k")), window))
        return q, k, self.rows(self._split(x, sizes.kv_heads, f"{name}.v"))

    def _split(self, x: str, heads: int, name: str) -> str:
        """A projection as [batch, seq, heads, depth]."""
        y = self.b.project(x, heads * self.sizes.depth, name, bias="qkv" in self.sizes.biased)
        return self.b.reshaped(y, (self.sizes.batch, self.sizes.seq, heads, self.sizes.depth), f"{name}.split")

    def _normed(self, x: str) -> str:
        if not self.style.qk_norm:
            return x
        return self.b.rms_norm(x, f"{x.removesuffix('.split')}.norm", self.style.epsilon)

    def turned(self, x: str, window: int = 0) -> str:
        """Write rotary positions of the first elements of x [batch, seq, heads, ...]."""
        if not self.style.gated:
            return x
        b, end, depth = self.b, ".local" if window and self.style.local else "", self.b.shape(x)[-1]
        stem, turning = x.removesuffix(".split"), self.turned_depth
        if turning == depth:
            return self._rotated(x, stem, end)
        parts = [f"{stem}.turning", f"{stem}.staying"]
        turns, stays = b.ops("Split", [x], parts, f"{stem}.part", axis=3, split=[turning, depth - turning])
        return b.op("Concat", [self._rotated(turns, stem, end), stays], f"{stem}.positioned", axis=3)

    def _rotated(self, x: str, stem: str, end: str) -> str:
        b, half = self.b, self.turned_depth // 2
        halves = b.ops("Split", [x], [f"{stem}.first", f"{stem}.second"], f"{stem}.halves", axis=3, split=[half] * 2)
        swapped = b.op("Concat", halves[::-1], f"{stem}.swapped", axis=3)
        across = b.op("Mul", [swapped, f"sin{end}"], f"{stem}.sin")
        return b.op("Add", [b.op("Mul", [x, f"cos{end}"], f"{stem}.cos"), across], f"{stem}.turned")

    def rows(self, x: str) -> str:
        """Write [batch, seq, heads, depth] as [batch, heads, seq, depth]; one token's rows lie that way already."""
        batch, seq, heads, depth = self.b.shape(x)
        if seq == 1:
            return self.b.reshaped(x, (batch, heads, seq, depth), f"{x}.rows")
        return self.b.op("Transpose", [x], f"{x}.rows", perm=[0, 2, 1, 3])

    def grouped(self, q: str) -> str:
        """Write queries [batch, seq, heads, depth] by the keys that they share: [batch, kv_heads, together * seq,
        depth]."""
        b, sizes, depth = self.b, self.sizes, self.b.shape(q)[-1]
        if sizes.seq > 1:
            q = b.reshaped(q, (sizes.batch, sizes.seq, sizes.kv_heads, sizes.together, depth), f"{q}.groups")
            q = b.op("Transpose", [q], f"{q}.rows", perm=[0, 2, 3, 1, 4])
        return b.reshaped(q, (sizes.batch, sizes.kv_heads, sizes.together * sizes.seq, depth), f"{q}.grouped")

    def _kept(self, new: str, name: str, window: int) -> str:
        """New keys or values behind those of the earlier tokens that a layer keeps."""
        batch, heads, _, depth = self.b.shape(new)
        past = self.sizes.past_of(window)
        return self.b.appended(name, (batch, heads, past, depth), new, axis=2) if past else new

    def mixed(self, q: str, k: str, v: str, name: str, window: int) -> str:
        """Write values weighed by their scores: [batch, kv_heads, together * seq, depth]. ``q``: [batch, kv_heads,
        together * seq, depth], keys and values [batch, kv_heads, total, depth]."""
        b, (batch, kv_heads, rows, _), total = self.b, self.b.shape(q), self.b.shape(k)[2]
        seq, turned = self.sizes.seq, b.op("Transpose", [k], f"{name}.kT", perm=[0, 1, 3, 2])
        scores = self._scaled(b.matmul(q, turned, f"{name}.scores"), name)
        if seq > 1 and self.masked:
            scores = b.reshaped(scores, (batch, kv_heads, rows // seq, seq, total), f"{name}.by_token")
            scores = b.op("Add", [scores, self._mask(window)], f"{name}.masked")
        inputs = [scores]
        if self.style.sinks:
            ones = [1] * (len(b.shape(scores)) - 3)
            inputs.append(b.weight(f"{name}.sinks", (kv_heads, rows // seq, *ones)))
        shares = b.op("Softmax", inputs, f"{name}.softmax", axis=len(b.shape(scores)) - 1)
        return b.matmul(b.reshaped(shares, (batch, kv_heads, rows, total), f"{name}.by_group"), v, f"{name}.mixed")

    def _scaled(self, scores: str, name: str) -> str:
        b, cap = self.b, self.style.score_cap
        scores = b.op("Mul", [scores, b.constant(f"{name}.scale", self.scale / (cap or 1))], f"{name}.scaled")
        return b.capped(scores, cap, f"{name}.cap") if cap else scores

    def joined(self, mixed: str, name: str) -> str:
        """Write mixed values [batch, kv_heads, together * seq, depth] as [batch, seq, heads * depth]."""
        b, (batch, kv_heads, rows, depth), seq = self.b, self.b.shape(mixed), self.sizes.seq
        if seq > 1:
            mixed = b.reshaped(mixed, (batch, kv_heads, rows // seq, seq, depth), f"{name}.heads")
            mixed = b.op("Transpose", [mixed], f"{name}.joined", perm=[0, 3, 1, 2, 4])
        return b.reshaped(mixed, (batch, seq, kv_heads * rows // seq * depth), f"{name}.attended")
