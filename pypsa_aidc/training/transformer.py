"""The architecture of a causal decoder, dense or with experts: its weights, and which of them a token uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pypsa_aidc.errors import Faults
from pypsa_aidc.plain import settle
from pypsa_aidc.training import presets

_COUNT_FACTOR = 1.5
"""Given and counted parameters may differ by this factor: enough for embeddings and biases, too little for billions."""
_SHAPE = ("layers", "hidden", "ffn", "heads", "vocabulary")
_OPTIONAL_SHAPE = ("kv_heads", "head_dim")
_LATENT = ("query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim")
_TEXT = ("name", "parameters", "gated", "tied", "source")
"""Columns of the table of presets that are no whole numbers."""


@dataclass(frozen=True)
class Experts:
    """The mixture of experts that takes the place of the feed-forward block in most layers.

    Parameters
    ----------
    count
        Routed experts in a layer.
    active
        Routed experts that a token uses.
    ffn
        Width of one expert.
    shared_ffn
        Width of the expert that every token uses beside them; 0 if there is none.
    dense_layers
        Layers that keep the dense feed-forward block of width `Transformer.ffn`.
    groups
        Most servers that the experts of one token may stand on; 0 for no limit (4 for DeepSeek-V3).

    Raises
    ------
    InputError
        Any field out of range; all of them at once.

    Examples
    --------
    >>> Experts(count=8, active=2, ffn=14336).active
    2
    """

    count: int
    active: int
    ffn: int
    shared_ffn: int = 0
    dense_layers: int = 0
    groups: int = 0

    def __post_init__(self) -> None:
        faults = Faults("Experts")
        for field in ("count", "active", "ffn"):
            faults.number(field, getattr(self, field), at_least=1, integer=True)
        for field in ("shared_ffn", "dense_layers", "groups"):
            faults.number(field, getattr(self, field), at_least=0, integer=True)
        if not len(faults):
            expected = f"at most count = {self.count}"
            faults.require(self.active <= self.count, "active", self.active, expected)
        faults.raise_any()
        settle(self, whole=("count", "active", "ffn", "shared_ffn", "dense_layers", "groups"))


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: queries, keys and values pass through matrices of low rank (DeepSeek-V2, 2024).

    Parameters
    ----------
    query_rank
        Rank of the query matrix; 0 if queries are not compressed.
    kv_rank
        Rank of the key and value matrix.
    nope_dim, rope_dim
        Width of a query or key head without and with rotary position.
    value_dim
        Width of a value head.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.
    """

    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int

    def __post_init__(self) -> None:
        faults = Faults("LatentAttention")
        for field in ("kv_rank", "nope_dim", "value_dim"):
            faults.number(field, getattr(self, field), at_least=1, integer=True)
        for field in ("query_rank", "rope_dim"):
            faults.number(field, getattr(self, field), at_least=0, integer=True)
        faults.raise_any()
        settle(self, whole=("query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim"))


@dataclass(frozen=True)
class Transformer:
    """A causal decoder, dense or with experts.

    Parameters
    ----------
    name
        For messages and tables.
    layers, hidden, ffn, heads, vocabulary
        l, h, h_f, n_h and V of the descriptor, Eq. 4 of [1]. `hidden` must be a multiple of `heads` unless
        `head_dim` is given.
    parameters
        N, trainable parameters (13.0e9, not 13); must agree with the architecture within a factor of 1.5.
        Left out (0), they are counted from the architecture.
    kv_heads
        Key and value heads of grouped-query attention; `None` means one for each head.
    gated
        Whether the feed-forward block has a third matrix (SwiGLU).
    tied
        Whether the input and output embeddings are one matrix.
    head_dim
        Width of a head; `None` means ``hidden / heads``.
    experts
        Mixture of experts; `None` for a dense model. `ffn` is then the width of the layers that stay dense.
    latent
        Multi-head latent attention in place of grouped queries; not together with `kv_heads` or `head_dim`.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.

    References
    ----------
    [1] Tong et al., "Execution-Feasible Dispatch of LLM Pre-training Loads for Renewable-Dominant AI Data
    Centers", arXiv:2610.13047 (2026).

    Examples
    --------
    >>> llama = Transformer.preset("LLaMA-3 8B")
    >>> llama.kv_heads, round(llama.counted_parameters / 1e9, 2)
    (8, 8.03)
    """

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    vocabulary: int
    parameters: float = 0.0
    kv_heads: int | None = None
    gated: bool = False
    tied: bool = False
    head_dim: int | None = None
    experts: Experts | None = None
    latent: LatentAttention | None = None

    def __post_init__(self) -> None:
        faults = Faults(f"Transformer {self.name!r}")
        faults.kind("name", self.name, str, "text")
        faults.number("parameters", self.parameters, at_least=0)
        for field in _SHAPE:
            faults.number(field, getattr(self, field), at_least=1, integer=True)
        for field in _OPTIONAL_SHAPE:
            if getattr(self, field) is not None:
                faults.number(field, getattr(self, field), at_least=1, integer=True)
        for field in ("gated", "tied"):
            faults.flag(field, getattr(self, field))
        faults.kind("experts", self.experts, (Experts, type(None)), "Experts, or None")
        faults.kind("latent", self.latent, (LatentAttention, type(None)), "LatentAttention, or None")
        if not len(faults):
            settle(self, whole=(*_SHAPE, *_OPTIONAL_SHAPE), real=("parameters",))
            self._check_shape(faults)
        faults.raise_any()
        if self.parameters == 0:
            object.__setattr__(self, "parameters", float(self.counted_parameters))

    def _check_shape(self, faults: Faults) -> None:
        faults.require(
            self.latent is not None or self.head_dim is not None or self.hidden % self.heads == 0,
            "hidden",
            self.hidden,
            f"a multiple of heads = {self.heads}",
            "Give head_dim if the heads do not divide the hidden size.",
        )
        faults.require(
            self.heads % (self.kv_heads or self.heads) == 0,
            "kv_heads",
            self.kv_heads,
            f"a divisor of heads = {self.heads}",
        )
        for field in ("kv_heads", "head_dim") if self.latent is not None else ():
            faults.require(getattr(self, field) is None, field, getattr(self, field), "None with latent attention")
        if self.experts is not None:
            dense = self.experts.dense_layers
            expected = f"fewer than layers = {self.layers}"
            faults.require(dense < self.layers, "experts.dense_layers", dense, expected)
        if self.parameters and not len(faults):
            ratio = self.parameters / self.counted_parameters
            faults.require(
                1 / _COUNT_FACTOR <= ratio <= _COUNT_FACTOR,
                "parameters",
                self.parameters,
                f"about {self.counted_parameters:.3g}, the weights that layers, hidden, ffn and vocabulary count to",
                "Give parameters, not billions of them; set gated=True for a SwiGLU model.",
            )

    @classmethod
    def preset(cls, name: str) -> Transformer:
        """Return a published model, from LLaMA-7B and GPT-3 175B to LLaMA-3 405B and DeepSeek-V3.

        Raises
        ------
        InputError
            Unknown name; the error lists the known ones.

        Examples
        --------
        >>> Transformer.preset("LLaMA-13B").layers
        40
        """
        row = presets.preset("transformers", name)
        whole = {key: int(value) for key, value in row.items() if key not in _TEXT and value}
        experts = latent = None
        if "experts" in whole:
            shape = {field: whole[field] for field in ("active", "shared_ffn", "dense_layers", "groups")}
            experts = Experts(whole["experts"], ffn=whole["expert_ffn"], **shape)
        if "kv_rank" in whole:
            latent = LatentAttention(*(whole[field] for field in _LATENT))
        return cls(
            row["name"],
            **{field: whole[field] for field in _SHAPE},
            parameters=float(row["parameters"]),
            kv_heads=whole.get("kv_heads"),
            gated=row["gated"] == "true",
            tied=row["tied"] == "true",
            head_dim=whole.get("head_dim"),
            experts=experts,
            latent=latent,
        )

    @classmethod
    def from_hf(cls, config: Mapping[str, object], name: str = "") -> Transformer:
        """Read the contents of a Hugging Face `config.json` of a decoder, dense or with experts.

        Parameters
        ----------
        config
            The parsed file, ``json.loads(Path("config.json").read_text())``. The text part of a multimodal model
            (`text_config`) is taken where there is one.
        name
            Defaults to `_name_or_path` or `model_type` in the file.

        Returns
        -------
        Transformer
            With `parameters` counted from the architecture.

        Raises
        ------
        InputError
            A key is missing, or the model is no decoder of a known kind (encoder-decoder, unknown `model_type`).

        Examples
        --------
        >>> config = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
        >>> Transformer.from_hf(config).ffn
        3072
        """
        from pypsa_aidc.training.hf_config import fields

        return cls(**fields(config, name))

    @property
    def attention_width(self) -> int:
        """Width of all query heads together, usually `hidden`; for latent attention the mean of scores and values."""
        if self.latent is not None:
            return self.heads * (self.latent.nope_dim + self.latent.rope_dim + self.latent.value_dim) // 2
        return self.heads * self.head_width

    @property
    def head_width(self) -> int:
        """Width of one query head."""
        if self.latent is not None:
            return self.latent.nope_dim + self.latent.rope_dim
        return self.head_dim or self.hidden // self.heads

    @property
    def kv_width(self) -> int:
        """Width of all key heads together; key and value of a token are twice that."""
        if self.latent is not None:
            return self.attention_width
        return self.head_width * (self.kv_heads or self.heads)

    @property
    def attention_weights(self) -> int:
        """Matrix weights of the attention of one layer."""
        if self.latent is None:
            return 2 * self.hidden * (self.attention_width + self.kv_width)
        return sum(rows * columns for rows, columns in self.latent_matrices)

    @property
    def latent_matrices(self) -> tuple[tuple[int, int], ...]:
        """Matrices of latent attention as (width in, width out): down, query up, key and value up, output."""
        assert self.latent is not None
        low, query = self.latent, self.heads * self.head_width
        down = low.query_rank + low.kv_rank + low.rope_dim
        direct = 0 if low.query_rank else query
        return (
            (self.hidden, down + direct),
            (low.query_rank, query if low.query_rank else 0),
            (low.kv_rank, self.heads * (low.nope_dim + low.value_dim)),
            (self.heads * low.value_dim, self.hidden),
        )

    @property
    def layer_weights(self) -> int:
        """Matrix weights of one dense layer: query, key, value, output, and two or three feed-forward matrices.

        12 h² for multi-head attention with h_f = 4 h and no gate, which is what Eq. 5 of [1] counts.
        """
        return self.attention_weights + self._block(self.ffn)

    @property
    def matrix_weights(self) -> int:
        """Matrix weights of all layers that one token is multiplied with: of the experts only the active ones."""
        mixed = self.experts
        if mixed is None:
            return self.layers * self.layer_weights
        sparse = self.attention_weights + self._block(mixed.active * mixed.ffn + mixed.shared_ffn)
        sparse += self.hidden * mixed.count
        return mixed.dense_layers * self.layer_weights + (self.layers - mixed.dense_layers) * sparse

    @property
    def active_parameters(self) -> int:
        """Weights that one token uses, embeddings included: the second number in names like 671B-A37B."""
        return self.matrix_weights + self.embedding_weights

    @property
    def expert_weights(self) -> int:
        """Weights of all routed experts of one layer; 0 for a dense model."""
        return 0 if self.experts is None else self.experts.count * self._block(self.experts.ffn)

    @property
    def resident_weights(self) -> int:
        """Weights of one sparse layer beside its routed experts; of any layer of a dense model."""
        if self.experts is None:
            return self.layer_weights
        return self.attention_weights + self._block(self.experts.shared_ffn) + self.hidden * self.experts.count

    @property
    def embedding_weights(self) -> int:
        """Weights of the input and output embeddings."""
        return (1 if self.tied else 2) * self.vocabulary * self.hidden

    @property
    def counted_parameters(self) -> int:
        """Matrix weights of all layers and of the embeddings (norms and biases, some 0.01 %, left out)."""
        if self.experts is None:
            return self.layers * self.layer_weights + self.embedding_weights
        dense = self.experts.dense_layers
        sparse = self.resident_weights + self.expert_weights
        return dense * self.layer_weights + (self.layers - dense) * sparse + self.embedding_weights

    def _block(self, width: int) -> int:
        """Weights of a feed-forward block."""
        return (3 if self.gated else 2) * self.hidden * width
