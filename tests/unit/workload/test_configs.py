"""Decoders from configurations of Hugging Face: published counts, values, problems with their lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accelsim.cluster.step.transformer import transformer_of
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.graph import Graph
from accelsim.workload.masks import HIDDEN, CausalMask
from accelsim.workload.onnx.reference import compare, reference_outputs
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.weights import parameters
from accelsim.workload.zoo.configs import FAMILIES
from accelsim.workload.zoo.published import FILE

PUBLISHED = json.loads(FILE.read_text())
COUNTS = {
    "llama3.1-8b": 8_030_261_248, "llama3.1-70b": 70_553_706_496, "llama3.1-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400, "llama3.2-3b": 3_212_749_824, "mistral-7b": 7_241_732_096,
    "mistral-small-24b": 23_572_403_200, "mixtral-8x22b": 140_620_634_112, "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512, "qwen2.5-72b": 72_706_203_648, "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-0.6b": 596_049_920, "qwen3-8b": 8_190_735_360, "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624, "qwen3-235b-a22b": 235_093_634_560, "gemma2-9b": 9_241_705_984,
    "gemma2-27b": 27_227_128_320, "gemma3-1b": 999_885_952, "gemma3-27b": 27_009_346_304,
    "phi3-mini": 3_821_079_552, "phi4": 14_659_507_200, "phi4-mini": 3_836_021_760,
    "deepseek-v2-lite": 15_706_484_224, "deepseek-v2": 235_741_434_880, "deepseek-v3": 671_026_419_200,
    "gpt-oss-20b": 20_914_757_184, "gpt-oss-120b": 116_829_156_672,
}  # fmt: skip
"""Elements of the released checkpoints, as the index of their safetensors states them (of Gemma 3 27B the language
model; of DeepSeek-V3 without the layer that predicts a second token, 671 billion by arXiv 2412.19437)."""
TINY = {
    "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 64, "head_dim": 8,
}  # fmt: skip
MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 12}
LATENT = {"kv_lora_rank": 12, "q_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
          "num_key_value_heads": 4, "head_dim": None, "first_k_dense_replace": 1, "n_shared_experts": 2}  # fmt: skip
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 0.7}
SMALL = {
    "llama": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 16,
                               "low_freq_factor": 1.0, "high_freq_factor": 4.0},
              "attention_bias": True, "mlp_bias": True},
    "mistral": {"sliding_window": 3},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2": {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
    "qwen2_moe": MOE | {"num_experts": 4, "shared_expert_intermediate_size": 20},
    "qwen3": {},
    "qwen3_moe": MOE | {"num_experts": 4, "norm_topk_prob": True},
    "gemma2": {"sliding_window": 3, "query_pre_attn_scalar": 12},
    "gemma3_text": {"sliding_window": 3, "sliding_window_pattern": 2},
    "gemma3": {"text_config": TINY | {"sliding_window": 3, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}},
    "phi3": {"partial_rotary_factor": 0.5, "sliding_window": 4},
    "deepseek_v2": MOE | LATENT | {"n_routed_experts": 6, "topk_method": "group_limited_greedy", "n_group": 3,
                                   "topk_group": 2, "routed_scaling_factor": 4.0},
    "deepseek_v3": MOE | LATENT | {"n_routed_experts": 8, "n_group": 4, "topk_group": 2, "rope_scaling": YARN},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 3,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
}  # fmt: skip

GOLDEN = {
    "deepseek_v2": (-0.12660, 1.08131, 2.11653, 1.52194, 1.20171, 0.80725),
    "deepseek_v3": (-0.17913, 1.06797, 2.23320, 1.19146, 1.77639, 0.03800),
    "gemma2": (0.20439, -0.10692, -0.03983, -0.09951, -0.11543, -0.03834),
    "gemma3": (0.02566, -0.07700, -0.26741, 0.00065, -0.22758, -0.02547),
    "gemma3_text": (-0.00434, -0.08662, -0.34314, -0.04253, -0.15963, -0.09451),
    "gpt_oss": (0.11322, 0.37928, -0.63780, -1.81354, -2.00278, 0.13116),
    "llama": (-0.48046, -1.82779, -0.31159, -0.02174, -1.33415, -1.15317),
    "mistral": (-0.65055, -0.30588, -1.16210, 0.01635, -1.09247, 0.75012),
    "mixtral": (0.06803, -1.32653, -1.09477, -0.71179, -1.60289, 0.48557),
    "phi3": (-1.80303, -2.49193, -0.48267, 0.67130, -0.21368, -2.07676),
    "qwen2": (1.66957, -0.51625, -0.41645, 0.00444, -0.01768, -0.50392),
    "qwen2_moe": (0.01774, 0.79407, -2.56587, 1.27630, -0.54859, -0.57080),
    "qwen3": (1.46969, 0.38547, -1.37535, 0.11080, -1.22229, -1.24587),
    "qwen3_moe": (-0.80856, -0.25722, -0.96429, 0.67036, -1.75320, -1.08605),
}  # fmt: skip
"""First three logits of both sequences after seven tokens, by transformers 5.24.0 with PyTorch 2.14.1 (attention
'eager', float32), which was given the seeded weights of the small members above. Its rotary positions of DeepSeek are
in pairs, so rows of these weights were reordered; RMSNorm of Gemma is 1 + weight, so 1 was subtracted."""


def config(folder: Path, kind: str, **changes: object) -> str:
    """Write a small configuration of a family; return its path."""
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": kind, **TINY, **SMALL[kind], **changes}, indent=2))
    return str(path)


def test_every_family_has_a_small_member() -> None:
    assert SMALL.keys() == FAMILIES.keys() and COUNTS.keys() == PUBLISHED.keys()


@pytest.mark.parametrize("name", COUNTS)
def test_published_parameter_counts(name: str) -> None:
    assert parameters(load_model(f"{name}?seq=1", data=False)) == COUNTS[name]


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize(("past", "seq"), [(0, 6), (5, 1), (3, 4)])
def test_every_tensor_equals_onnxruntime(kind: str, past: int, seq: int, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model(f"{config(tmp_path, kind)}?past={past},seq={seq}", batch=2)
    feeds = synthetic(graph, 0)
    rows = compare(run(graph, feeds, keep=True), reference_outputs(graph, feeds, every_tensor=True).values)
    assert len(rows) == sum(len(node.writes) for node in graph.nodes)
    assert max(row.relative for row in rows) <= 1e-5


ACTIVE = {
    "mixtral-8x7b": (12.9, True), "mixtral-8x22b": (39, False), "qwen1.5-moe-a2.7b": (2.7, True),
    "qwen3-30b-a3b": (3.3, True), "qwen3-235b-a22b": (22, True), "deepseek-v2-lite": (2.4, False),
    "deepseek-v2": (21, True), "deepseek-v3": (36.6, False), "gpt-oss-20b": (3.61, False),
    "gpt-oss-120b": (5.13, False),
}  # fmt: skip
"""Active parameters per token, billions, as the cards of these models state them, and whether these count the rows of
the embedding that a token does not meet."""


@pytest.mark.parametrize("name", ACTIVE)
def test_published_active_parameters(name: str) -> None:
    model, (billions, embedded) = transformer_of(name), ACTIVE[name]
    assert model is not None and model.parameters == parameters(load_model(f"{name}?seq=1", data=False))
    found = model.active_parameters + (model.embedding_parameters if embedded else 0)
    digits = len(str(billions).partition(".")[2])
    assert abs(found / 1e9 - billions) <= 0.6 * 10**-digits


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [("llama3.1-8b", 131_072), ("llama3.1-70b", 327_680), ("qwen3-32b", 262_144), ("deepseek-v3", 70_272)],
)
def test_bytes_kept_by_token(name: str, nbytes: int) -> None:
    """Published figures in 16 bits: 2 x layers x heads of keys x depth x 2 B, of latent attention (512 + 64) x 2 B."""
    model = transformer_of(name)
    assert model is not None and 2 * sum(model.cached(layer, 1) for layer in model.kinds) == nbytes


def called(model: str, tokens: np.ndarray, pieces: tuple[int, ...]) -> np.ndarray:
    """Logits after the last token, the prompt in pieces, each cache as long as the next call has it."""
    past, caches = 0, dict[str, np.ndarray]()
    for seq in pieces:
        graph = shared_projections(load_model(f"{model}?past={past},seq={seq}", batch=len(tokens)))
        kept = {name: caches[name][:, :, -graph.tensors[name].shape[2] :] for name in graph.states}
        found = run(graph, {"tokens": tokens[:, past : past + seq], **kept})
        names = [name for layer in range(2) for name in (f"l{layer}.k_past", f"l{layer}.v_past")]
        outputs = graph.outputs[1:]
        names = names if len(outputs) == 4 else names[::2]
        new = dict(zip(names, (found[name] for name in outputs), strict=True))
        caches = {
            name: new[name] if name in graph.states or not past else np.concatenate([caches[name], new[name]], 2)
            for name in new
        }
        past += seq
    return found["logits"]


def shared_projections(graph: Graph) -> Graph:
    """Absorbed latent attention with the numbers of the projection that the other form has in one piece."""
    for layer in range(2):
        keys, values = (graph.tensors.get(f"l{layer}.{name}.weight") for name in ("keys", "values"))
        if keys is not None and values is not None:
            heads, plain, rank = keys.shape
            whole = load_whole(graph, f"l{layer}.expanded.weight", (rank, heads * (plain + values.shape[2])))
            parts = whole.reshape(rank, heads, plain + values.shape[2])
            keys.data = np.ascontiguousarray(parts[..., :plain].transpose(1, 2, 0))
            values.data = np.ascontiguousarray(parts[..., plain:].transpose(1, 0, 2))
    return graph


def load_whole(graph: Graph, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values that a weight of this name has in the form that is not absorbed."""
    from accelsim.workload.sources.weights import Law, Seeded

    return Seeded(0, name, shape, Law(0.0, (2.0 / shape[0]) ** 0.5))()


@pytest.mark.parametrize("kind", SMALL)
def test_logits_equal_those_of_transformers(kind: str, tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, 64, (2, 7))
    logits = run(load_model(f"{config(tmp_path, kind)}?seq=7", batch=2), {"tokens": tokens})["logits"]
    np.testing.assert_allclose(logits[:, 0, :3].reshape(-1), GOLDEN[kind], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", SMALL)
def test_calls_with_a_cache_equal_one_long_prompt(kind: str, tmp_path: Path) -> None:
    """Windows forget tokens that no later token sees; latent attention is the same absorbed (one token) and not."""
    model, tokens = config(tmp_path, kind), np.random.default_rng(0).integers(0, 64, (2, 7))
    whole = called(model, tokens, (7,))
    for pieces in ((6, 1), (4, 1, 1, 1), (3, 4)):
        np.testing.assert_allclose(called(model, tokens, pieces), whole, rtol=2e-4, atol=2e-5)


def test_a_window_hides_all_but_the_last_tokens() -> None:
    """Token i at place past + i sees itself and the window - 1 places before."""
    for tokens, past, window in ((5, 0, 3), (4, 2, 3), (1, 6, 4), (6, 0, 1)):
        mask = CausalMask(tokens, past, window=window)()
        for row in range(tokens):
            seen = [place for place in range(past + tokens) if mask[row, place] == 0]
            assert seen == list(range(max(0, past + row - window + 1), past + row + 1))
        assert set(np.unique(mask)) <= {0, HIDDEN}


def test_a_window_changes_no_short_prompt_and_any_longer_one(tmp_path: Path) -> None:
    tokens = np.random.default_rng(1).integers(0, 64, (1, 6))
    for seq, equal in ((3, True), (6, False)):
        logits = [
            run(load_model(f"{config(tmp_path, 'mistral', sliding_window=window)}?seq={seq}"),
                {"tokens": tokens[:, :seq]})["logits"]
            for window in (3, None)
        ]  # fmt: skip
        assert np.array_equal(*logits) is equal


def test_all_problems_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n"model_type": "llama",\n"hidden_size": -4,\n"num_attention_heads": "four",\n"vocab_size": 64,\n'
                    '"hidden_act": "relu6",\n"tie_word_embeddings": "yes",\n"rope_scaling": {"type": "ntk"}\n}')  # fmt: skip
    with pytest.raises(ModelError) as caught:
        load_model(path)
    told = {problem.where.removeprefix(str(path)): problem.what for problem in caught.value.problems}
    assert told.keys() == {":3", ":4", ":6", ":7", ":8", ""}
    missing = {problem.what for problem in caught.value.problems if problem.where == str(path)}
    assert missing == {"num_hidden_layers is missing", "intermediate_size is missing"}


def test_an_unknown_family_is_told_with_those_known_and_sizes_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 99}))
    with pytest.raises(ModelError) as caught:
        load_model(path)
    (problem,) = caught.value.problems
    assert problem.where == f"{path}:1" and "one of llama, mistral" in problem.expected
    listed = "gpt?layers=2,hidden=64,heads=4,vocab=99,kv_heads=4,ffn=256"
    assert f"such as {listed!r}" in problem.expected and load_model(listed).nodes


def test_a_file_that_is_no_configuration_or_no_json(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama",\n}')
    with pytest.raises(ModelError, match=r"config.json:2:1: not JSON"):
        load_model(path)
    path.write_text('{"problem": {"shape": {"data-spaces": []}}}')
    with pytest.raises(ModelError, match="looks like a problem of Timeloop"):
        load_model(path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    first = parameters(load_model(config(tmp_path, "llama")))
    assert parameters(load_model(config(tmp_path, "llama", vocab_size=128))) > first
