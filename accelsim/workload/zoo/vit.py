"""Vision transformers (Dosovitskiy et al., arXiv 2010.11929): patches of an image as the tokens of an encoder."""

from __future__ import annotations

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register
from accelsim.workload.zoo.transformer import check_heads, pre_norm_block, project_qkv


def vit(batch: int, params: Params) -> Graph:
    """Vision transformer on x [batch, 3, resolution, resolution]: the classifier reads the class token, as logits.

    A convolution whose stride is its kernel makes one token of each patch; the class token goes before them, learnt
    positions are added. Raises ModelError for heads that do not divide hidden, or patches that do not fill the image.
    """
    check_heads(params)
    size, patch, hidden = params["resolution"], params["patch"], params["hidden"]
    if size % patch:
        expected = "a patch that divides the resolution"
        raise ModelError(Problem(f"resolution={size}, patch={patch}", "vit-b16", expected))
    b = Builder("vit-b16")
    x = _tokens(b, b.input("x", (batch, 3, size, size)), hidden, patch)
    for layer in range(params["layers"]):
        name = f"l{layer}"
        x = pre_norm_block(b, x, project_qkv(b, x, params, name), params, name)
    x = b.layer_norm(x, "norm")
    first = b.op("Slice", [x], "first", starts=[0], ends=[1], axes=[1], steps=[1])
    return b.finish(b.dense(b.reshaped(first, (batch, hidden), "first.flat"), params["classes"], "classes"))


def _tokens(b: Builder, x: str, hidden: int, patch: int) -> str:
    """[batch, patches + 1, hidden]: the class token, then the patches row by row, each with its position added."""
    x = b.conv(x, hidden, patch, "patches", stride=patch)
    batch, _, height, width = b.shape(x)
    flat = b.reshaped(x, (batch, hidden, height * width), "patches.flat")
    patches = b.op("Transpose", [flat], "patches.tokens", perm=[0, 2, 1])
    token = b.op("Expand", [b.weight("class.weight", (1, 1, hidden))], "class", shape=[batch, 1, hidden])
    x = b.op("Concat", [token, patches], "tokens", axis=1)
    return b.op("Add", [x, b.weight("positions.weight", (1, *b.shape(x)[1:]))], "embeddings")


register(
    Entry("vit-b16", "builder", "ViT-B/16, a vision transformer (Dosovitskiy et al., arXiv 2010.11929)", vit,
          {"layers": 12, "hidden": 768, "heads": 12, "patch": 16, "resolution": 224, "classes": 1000})
)  # fmt: skip
