"""The architecture of a dense decoder: how many weights a layer has, and of which kind."""

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


@dataclass(frozen=True)
class Transformer:
    """A dense causal decoder.

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
        if not len(faults):
            settle(self, whole=(*_SHAPE, *_OPTIONAL_SHAPE), real=("parameters",))
            self._check_shape(faults)
        faults.raise_any()
        if self.parameters == 0:
            object.__setattr__(self, "parameters", float(self.counted_parameters))

    def _check_shape(self, faults: Faults) -> None:
        faults.require(
            self.head_dim is not None or self.hidden % self.heads == 0,
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
        """Return a published model: LLaMA-7B/13B/33B/65B, GPT-3 175B, LLaMA-3 8B/70B/405B.

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
        return cls(
            name=row["name"],
            parameters=float(row["parameters"]),
            gated=row["gated"] == "true",
            tied=row["tied"] == "true",
            **{field: int(row[field]) for field in ("layers", "hidden", "ffn", "heads", "kv_heads", "vocabulary")},
        )

    @classmethod
    def from_hf(cls, config: Mapping[str, object], name: str = "") -> Transformer:
        """Read the contents of a Hugging Face `config.json` of a dense decoder.

        Parameters
        ----------
        config
            The parsed file, ``json.loads(Path("config.json").read_text())``.
        name
            Defaults to `_name_or_path` or `model_type` in the file.

        Returns
        -------
        Transformer
            With `parameters` counted from the architecture.

        Raises
        ------
        InputError
            A key is missing, or the model is not a dense decoder (mixture of experts, encoder-decoder).

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
        """Width of all query heads together, usually `hidden`."""
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @property
    def layer_weights(self) -> int:
        """Matrix weights of one layer: query, key, value, output, and two or three feed-forward matrices.

        12 h² for multi-head attention with h_f = 4 h and no gate, which is what Eq. 5 of [1] counts.
        """
        kv_width = self.attention_width * (self.kv_heads or self.heads) // self.heads
        attention = 2 * self.hidden * (self.attention_width + kv_width)
        return attention + (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def counted_parameters(self) -> int:
        """Matrix weights of all layers and of the embeddings (norms and biases, some 0.01 %, left out)."""
        return self.layers * self.layer_weights + (1 if self.tied else 2) * self.vocabulary * self.hidden
