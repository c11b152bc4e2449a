"""Decoders from a Hugging Face ``config.json``: families as data, their sizes and style from a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from accelsim.errors import ModelError
from accelsim.workload.zoo.config_facts import MISSING, Facts, read_facts
from accelsim.workload.zoo.entry import READERS, Entry
from accelsim.workload.zoo.language import entry_of
from accelsim.workload.zoo.rotary import STRETCHES, magnitude
from accelsim.workload.zoo.style import PLAIN, Experts, Latent, Quantised, Rope, Style


@dataclass(frozen=True)
class Family:
    """Decoders of one ``model_type``. ``style``: what a file does not state; ``facts``: values of keys that a file
    leaves out (those of the class of the library ``transformers``); ``experts``: what a mixture does that a file does
    not state (None: no mixture). ``every``: of so many layers one sees all tokens, the others a window (1: a window is
    that of all layers); ``asks``: key that a window needs beside its size. ``inner``: key of a dict with the facts."""

    style: Style = PLAIN
    facts: Mapping[str, Any] = field(default_factory=dict)
    experts: Experts | None = None
    every: int = 1
    asks: str = ""
    inner: str = ""


QWEN = {"rms_norm_eps": 1e-6, "sliding_window": 4096, "max_window_layers": 28, "max_position_embeddings": 32768}
QWEN_3 = {**QWEN, "head_dim": 128}
GEMMA = {
    "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "sliding_window": 4096, "head_dim": 256,
    "query_pre_attn_scalar": 256, "hidden_activation": "gelu_pytorch_tanh",
}  # fmt: skip
GEMMA_2 = {**GEMMA, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
GEMMA_3 = {
    **GEMMA, "rope_theta": 1e6, "rope_local_base_freq": 10000.0, "num_attention_heads": 8, "num_key_value_heads": 4,
    "vocab_size": 262208,
}  # fmt: skip
DEEPSEEK = {"rms_norm_eps": 1e-6, "topk_method": "greedy", "scoring_func": "softmax"}
SANDWICH = Style(post_norms=True, scaled=True)
FAMILIES = {
    "llama": Family(facts={"rms_norm_eps": 1e-6}),
    "mistral": Family(facts={"rms_norm_eps": 1e-6, "num_key_value_heads": 8, "sliding_window": 4096}),
    "mixtral": Family(facts={"rope_theta": 1e6, "num_key_value_heads": 8}, experts=Experts()),
    "qwen2": Family(Style(biased=("qkv",)), QWEN, asks="use_sliding_window"),
    "qwen2_moe": Family(Style(biased=("qkv",)), QWEN, Experts("softmax", shared_gate=True), asks="use_sliding_window"),
    "qwen3": Family(Style(qk_norm=True), QWEN_3, asks="use_sliding_window"),
    "qwen3_moe": Family(Style(qk_norm=True), QWEN, Experts("softmax"), asks="use_sliding_window"),
    "gemma2": Family(SANDWICH, GEMMA_2, every=2),
    "gemma3": Family(replace(SANDWICH, qk_norm=True), GEMMA_3, every=6, inner="text_config"),
    "gemma3_text": Family(replace(SANDWICH, qk_norm=True), GEMMA_3, every=6),
    "phi3": Family(),
    "deepseek_v2": Family(facts=DEEPSEEK, experts=Experts("softmax")),
    "deepseek_v3": Family(
        facts={
            **DEEPSEEK, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True,
            "routed_scaling_factor": 2.5,
        },
        experts=Experts("sigmoid", corrected=True, pair=True),
    ),
    "gpt_oss": Family(
        Style(activation="clamped", sinks=True),
        {"attention_bias": True, "head_dim": 64, "sliding_window": 128, "rope_theta": 150000.0},
        Experts("chosen", bias=True), every=2,
    ),
}  # fmt: skip
"""``model_type`` -> its family."""
GATES = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu"}
"""Activation as a file has it -> ``Style.activation``."""


@cache
def entry_of_file(path: Path, changed_ns: int) -> Entry | None:
    """Return the model that a configuration describes, which was ``changed_ns`` last; None for a JSON file that is no
    configuration of one. Raises ModelError, all problems at once with file and line.
    """
    facts = read_facts(path)
    if facts is None:
        return None
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    return read_entry(name, f"{path.name} of Hugging Face", facts)


def read_entry(name: str, description: str, facts: Facts) -> Entry:
    """Return the model that facts describe. Raises ModelError with all problems."""
    kind = facts.text("model_type", "")
    family = FAMILIES.get(kind)
    if family is None:
        raise ModelError(facts.unknown(kind, FAMILIES))
    facts = facts.inner(family.inner) if family.inner else facts
    facts = replace(facts, defaults=family.facts)
    sizes, style = _sizes(facts, family), _style(facts, family)
    ModelError.raise_for(facts.problems)
    return entry_of(name, description, style, sizes)


def _sizes(facts: Facts, family: Family) -> dict[str, int]:
    hidden, heads = facts.whole("hidden_size"), facts.whole("num_attention_heads")
    found = {
        "layers": facts.whole("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": facts.whole("num_key_value_heads", default=heads),
        "ffn": facts.whole("intermediate_size"),
        "vocab": facts.whole("vocab_size"),
    }
    if depth := facts.whole("head_dim", default=0, least=0):
        found |= {"head_dim": depth} if depth * heads != hidden else {}
    if family.experts is None or not facts.whole(
        *EXPERTS, default=0 if facts.has("kv_lora_rank") else MISSING, least=0
    ):
        return found
    found |= {"experts": facts.whole(*EXPERTS), "top_k": facts.whole("num_experts_per_tok", "experts_per_token")}
    inner = facts.whole("moe_intermediate_size", default=found["ffn"])
    return found | ({"expert_ffn": inner} if inner != found["ffn"] else {})


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Keys of the number of experts."""


def _style(facts: Facts, family: Family) -> Style:
    base, depth = family.style, facts.whole("query_pre_attn_scalar", default=0, least=0)
    biased = ("qkv", "out") if facts.flag("attention_bias") else base.biased
    gate = facts.one_of(("hidden_activation", "hidden_act"), GATES, "silu")
    rope, local = _ropes(facts)
    latent = _latent(facts)
    return replace(
        base,
        rope=rope,
        local=local,
        tied=facts.flag("tie_word_embeddings"),
        epsilon=facts.number("rms_norm_eps", default=1e-5),
        activation=base.activation if base.activation != "silu" else gate,
        biased=(*biased, "ffn") if facts.flag("mlp_bias") else biased,
        score_scale=depth**-0.5 if depth else _latent_scale(latent, rope),
        score_cap=facts.number("attn_logit_softcapping", default=0.0),
        logit_cap=facts.number("final_logit_softcapping", default=0.0),
        windows=_windows(facts, family),
        latent=latent,
        experts=_experts(facts, family),
        quantised=_quantised(facts),
    )


METHODS = ("mxfp4", "awq", "gptq", "fp8")
"""Methods of quantised weights that are read; other files are read without theirs."""


def _quantised(facts: Facts) -> Quantised | None:
    """Return the quantised weights that a file states; None for none, or by an unknown method."""
    given = facts.table("quantization_config")
    if given.get("quant_method") not in METHODS:
        return None
    inner = replace(facts, values=given, defaults={})
    kept = given.get("modules_to_not_convert") or given.get("ignored_layers") or []
    if not isinstance(kept, list) or not all(isinstance(each, str) for each in kept):
        facts.refuse("modules_to_not_convert", f"modules_to_not_convert = {kept!r}", "a list of names")
        kept = []
    if single := [each for each in kept if re.search(r"layers\.\d", each)]:
        facts.refuse(
            "modules_to_not_convert", f"{single[0]} alone", "modules of all layers, such as model.layers.*.mlp"
        )
    names = tuple(re.sub(r"^(re:)?(\.\*)?(model\.)?(layers\.\*\.)?", "", each).rstrip("$") for each in kept)
    return Quantised(given["quant_method"], inner.whole("bits", default=0, least=0), names)


def _latent(facts: Facts) -> Latent | None:
    if not facts.has("kv_lora_rank"):
        return None
    parts = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return Latent(facts.whole("q_lora_rank", default=0, least=0), *(facts.whole(part) for part in parts))


def _latent_scale(latent: Latent | None, rope: Rope) -> float:
    """Factor of scores of latent attention where YaRN stretches it; 0: as usual."""
    numbers: dict[str, Any] = dict(rope.numbers)
    if latent is None or rope.stretch != "yarn" or not numbers.get("mscale_all_dim"):
        return 0.0
    grown = magnitude(numbers["factor"], numbers["mscale_all_dim"])
    return float(grown**2 * (latent.plain + latent.turned) ** -0.5)


def _experts(facts: Facts, family: Family) -> Experts | None:
    if family.experts is None:
        return None
    score = facts.text("scoring_func", family.experts.score)
    grouped = facts.text("topk_method", "") in ("group_limited_greedy", "noaux_tc")
    each, shared = (facts.whole(key, default=0, least=0) for key in ("moe_intermediate_size", "n_shared_experts"))
    for key, only in (("decoder_sparse_step", 1), ("moe_layer_freq", 1), ("mlp_only_layers", [])):
        if facts.values.get(key) not in (None, only):
            facts.refuse(key, f"{key} = {facts.values[key]}", f"{only}: dense layers come first, if at all")
    normalise = score != "chosen" and facts.flag("norm_topk_prob")
    return replace(
        family.experts,
        score=score,
        normalise=normalise,
        scale=facts.number("routed_scaling_factor", default=1.0),
        groups=facts.whole("n_group", default=1) if grouped else 1,
        top_groups=facts.whole("topk_group", default=1) if grouped else 1,
        shared=each * shared or facts.whole("shared_expert_intermediate_size", default=0, least=0),
        dense=facts.whole("first_k_dense_replace", default=0, least=0),
    )


FULL, SLIDING = "full_attention", "sliding_attention"


def _windows(facts: Facts, family: Family) -> tuple[int, ...]:
    """Tokens that each layer sees, 0 for all."""
    size = facts.whole("sliding_window", default=0, least=0)
    if not size or (family.asks and not facts.flag(family.asks)):
        return (0,)
    if kinds := facts.texts("layer_types", (FULL, SLIDING)):
        return tuple(size if kind == SLIDING else 0 for kind in kinds)
    if family.asks:
        layers, first = facts.whole("num_hidden_layers"), facts.whole("max_window_layers", default=0, least=0)
        return tuple(size if index >= first else 0 for index in range(layers))
    every = facts.whole("sliding_window_pattern", "_sliding_window_pattern", default=family.every)
    return (size,) if every == 1 else (*[size] * (every - 1), 0)


def _ropes(facts: Facts) -> tuple[Rope, Rope | None]:
    """Positions of layers that see all tokens, and of others where these differ."""
    nested = facts.table("rope_parameters")
    if FULL in nested:
        return _rope(facts, nested[FULL]), _rope(facts, nested.get(SLIDING, {}))
    local = facts.number("rope_local_base_freq", default=0.0)
    return _rope(facts, {**facts.table("rope_scaling"), **nested}), Rope(local) if local else None


def _rope(facts: Facts, given: Mapping[str, Any]) -> Rope:
    """Positions as a dict says, or the keys around it."""
    around = {key: each for key, each in facts.values.items() if key not in ("type", "factor")}
    facts = replace(facts, values={**around, **given})
    theta, part = facts.number("rope_theta", default=10000.0), facts.number("partial_rotary_factor", default=1.0)
    kind = facts.text("rope_type", facts.text("type", "default"))
    if kind == "default":
        return Rope(theta, part)
    if kind not in STRETCHES:
        facts.refuse("rope_scaling", f"positions of type {kind!r}", ", ".join(("default", *STRETCHES)))
        return Rope()
    longest = facts.whole("max_position_embeddings", default=0, least=0)
    trained = facts.whole("original_max_position_embeddings", default=longest, least=0)
    factor = facts.number("factor", default=longest / trained if trained else 1.0)
    numbers = {**given, "factor": factor, "original_max_position_embeddings": trained}
    kept = {key: tuple(each) if isinstance(each, list) else each for key, each in sorted(numbers.items())}
    return Rope(theta, part, kind, tuple((key, each) for key, each in kept.items() if isinstance(each, NUMBERS)))


NUMBERS = (bool, int, float, tuple)
"""Types of the numbers of a rule for longer contexts."""

READERS[".json"] = entry_of_file
