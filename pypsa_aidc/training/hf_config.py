"""The keys under which Hugging Face `config.json` files keep the shape of a decoder, dense or with experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.transformer import Experts, LatentAttention

_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("vocab_size",),
    "ffn": ("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
}
_REQUIRED = ("layers", "hidden", "heads", "vocabulary")
_EXPERT_KEYS = {
    "count": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "active": ("num_experts_per_tok", "experts_per_token", "moe_top_k", "num_experts_per_token"),
    "ffn": ("moe_intermediate_size", "intermediate_size"),
}
_LATENT_KEYS = {
    "kv_rank": "kv_lora_rank",
    "nope_dim": "qk_nope_head_dim",
    "rope_dim": "qk_rope_head_dim",
    "value_dim": "v_head_dim",
}
_SPARSE_TYPES = frozenset(
    [
        "deepseek_v2",
        "deepseek_v3",
        "glm4_moe",
        "gpt_oss",
        "granitemoe",
        "kimi_k2",
        "llama4_text",
        "mixtral",
        "olmoe",
        "phimoe",
        "qwen2_moe",
        "qwen3_moe",
        "qwen3_vl_moe_text",
    ]
)
_GATED_TYPES = _SPARSE_TYPES | frozenset(
    [
        "cohere",
        "deepseek",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm4",
        "granite",
        "internlm2",
        "llama",
        "mistral",
        "olmo",
        "olmo2",
        "phi3",
        "qwen2",
        "qwen2_5_vl_text",
        "qwen3",
        "qwen3_vl_text",
        "smollm3",
        "stablelm",
    ]
)
_PLAIN_TYPES = frozenset(["bloom", "gpt2", "gpt_neo", "gpt_neox", "gptj", "nemotron", "opt", "phi", "starcoder2"])
_TIED_BY_DEFAULT = frozenset(["bloom", "cohere", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neo", "opt"])


def fields(config: Mapping[str, object], name: str) -> dict[str, Any]:
    """Translate a parsed `config.json` into the shape of a `Transformer`, or raise `InputError` with every fault."""
    given = Faults(f"Hugging Face config {name!r}")
    given.kind("config", config, Mapping, "the parsed file", "json.loads(Path('config.json').read_text()).")
    given.raise_any()
    model_type = str(config.get("model_type") or "")
    nested = config.get("text_config")
    if isinstance(nested, Mapping):
        # Multimodal files keep the decoder one level down, and leave out there what equals the default of its type.
        name = name or str(config.get("_name_or_path") or "")
        config, model_type = nested, str(nested.get("model_type") or model_type)
    faults = Faults(f"Hugging Face config {name or config.get('_name_or_path') or model_type!r}")
    faults.require(not config.get("is_encoder_decoder"), "is_encoder_decoder", True, "a decoder-only model")
    shape: dict[str, Any] = {}
    for field, keys in _KEYS.items():
        value = _first(config, keys)
        if value is None:
            faults.require(field not in _REQUIRED, " or ".join(keys), None, "a whole number of at least 1")
        else:
            faults.number(field, value, at_least=1, integer=True)
            shape[field] = value
    gated = model_type in _GATED_TYPES
    if not gated and model_type not in _PLAIN_TYPES:
        faults.add(
            "model_type",
            model_type,
            f"one of {', '.join(sorted(_GATED_TYPES | _PLAIN_TYPES))}",
            "Build Transformer(...) by hand: whether the feed-forward block is gated is not in the file.",
        )
    faults.require(
        not gated or "ffn" in shape,
        " or ".join(_KEYS["ffn"]),
        None,
        "a whole number of at least 1",
        f"The width of the gated feed-forward block of {model_type!r} has no default.",
    )
    experts = None if len(faults) else _experts(config, model_type, int(shape["layers"]), faults)
    latent = _latent(config, faults)
    faults.raise_any()
    if latent is not None:
        shape.pop("kv_heads", None)
        shape.pop("head_dim", None)
    shape.setdefault("ffn", 4 * shape["hidden"])
    tied = bool(config.get("tie_word_embeddings", model_type in _TIED_BY_DEFAULT))
    name = name or str(config.get("_name_or_path") or model_type)
    return dict(shape, gated=gated, tied=tied, name=name, experts=experts, latent=latent)


def _first(config: Mapping[str, object], keys: tuple[str, ...]) -> Any:
    return next((config[key] for key in keys if config.get(key) is not None), None)


def _experts(config: Mapping[str, object], model_type: str, layers: int, faults: Faults) -> Experts | None:
    count = _first(config, _EXPERT_KEYS["count"])
    if count in (None, 0, 1, "0", "1"):
        return None
    where = next(key for key in _EXPERT_KEYS["count"] if config.get(key) is not None)
    faults.require(
        model_type in _SPARSE_TYPES,
        where,
        count,
        f"a dense {model_type!r}",
        f"Models with experts that are read: {', '.join(sorted(_SPARSE_TYPES))}. Else build Transformer(...) by hand.",
    )
    shape = {field: _first(config, keys) for field, keys in _EXPERT_KEYS.items()}
    for field, value in shape.items():
        faults.number(" or ".join(_EXPERT_KEYS[field]), value, at_least=1, integer=True)
    shared: Any = config.get("shared_expert_intermediate_size")
    if shared is None:
        default = 1 if model_type == "llama4_text" else 0
        shared = int(config.get("n_shared_experts") or default) * int(shape["ffn"] or 0)  # type: ignore[call-overload]
    period = _first(config, ("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step"))
    faults.number("every which layer has experts", 1 if period is None else period, at_least=1, integer=True)
    if len(faults):
        return None
    leading = int(config.get("first_k_dense_replace") or 0)  # type: ignore[call-overload]
    listed = config.get("mlp_only_layers")
    without = {*range(leading), *(listed if isinstance(listed, list | tuple) else ())}
    without |= {layer for layer in range(layers) if (layer + 1) % int(period or 1)}
    groups = int(config.get("topk_group") or 0) if int(config.get("n_group") or 1) > 1 else 0  # type: ignore[call-overload]
    return Experts(**shape, shared_ffn=int(shared), dense_layers=len(without), groups=groups)


def _latent(config: Mapping[str, object], faults: Faults) -> LatentAttention | None:
    if config.get("kv_lora_rank") is None:
        return None
    shape: dict[str, Any] = {field: config.get(key) for field, key in _LATENT_KEYS.items()}
    for field, key in _LATENT_KEYS.items():
        faults.number(key, shape[field], at_least=1, integer=True)
    return None if len(faults) else LatentAttention(query_rank=config.get("q_lora_rank") or 0, **shape)  # type: ignore[arg-type]
