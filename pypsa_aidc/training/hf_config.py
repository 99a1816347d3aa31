"""The keys under which Hugging Face `config.json` files keep the shape of a dense decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypsa_aidc.errors import Faults

_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("vocab_size",),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
}
_REQUIRED = ("layers", "hidden", "heads", "vocabulary")
_GATED_TYPES = frozenset(
    [
        "cohere",
        "gemma",
        "gemma2",
        "gemma3_text",
        "granite",
        "internlm2",
        "llama",
        "mistral",
        "olmo",
        "olmo2",
        "phi3",
        "qwen2",
        "qwen3",
        "smollm3",
        "stablelm",
    ]
)
_PLAIN_TYPES = frozenset(["bloom", "gpt2", "gpt_neo", "gpt_neox", "gptj", "nemotron", "opt", "phi", "starcoder2"])
_TIED_BY_DEFAULT = frozenset(["bloom", "cohere", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neo", "opt"])
_EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def fields(config: Mapping[str, object], name: str) -> dict[str, Any]:
    """Translate a parsed `config.json` into the shape of a `Transformer`, or raise `InputError` with every fault."""
    given = Faults(f"Hugging Face config {name!r}")
    given.kind("config", config, Mapping, "the parsed file", "json.loads(Path('config.json').read_text()).")
    given.raise_any()
    nested = config.get("text_config")
    if isinstance(nested, Mapping):
        config = nested
    model_type = str(config.get("model_type") or "")
    faults = Faults(f"Hugging Face config {name or config.get('_name_or_path') or model_type!r}")
    for key in _EXPERT_KEYS:
        experts = config.get(key)
        faults.require(
            experts in (None, 0, 1, "0", "1"),
            key,
            experts,
            "a dense decoder, without experts",
            "Mixture-of-experts models are not supported: their FLOPs and memory follow other equations.",
        )
    faults.require(not config.get("is_encoder_decoder"), "is_encoder_decoder", True, "a decoder-only model")
    shape: dict[str, Any] = {}
    for field, keys in _KEYS.items():
        value = next((config[key] for key in keys if config.get(key) is not None), None)
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
    faults.raise_any()
    shape.setdefault("ffn", 4 * shape["hidden"])
    tied = bool(config.get("tie_word_embeddings", model_type in _TIED_BY_DEFAULT))
    return dict(shape, gated=gated, tied=tied, name=name or str(config.get("_name_or_path") or model_type))
