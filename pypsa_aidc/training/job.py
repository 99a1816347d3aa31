"""The descriptor of a pre-training job, Eq. 4 of [1], and the work that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pypsa_aidc.errors import Faults
from pypsa_aidc.plain import settle
from pypsa_aidc.training.transformer import Transformer

CHI_WITHOUT_RECOMPUTATION = 72.0
CHI_FULL_RECOMPUTATION = 96.0


@dataclass(frozen=True)
class Job:
    """An LLM pre-training job of which one tranche is to be done within the horizon; Eq. 4 of [1].

    Parameters
    ----------
    name
        Unique among the jobs of a site.
    model
        Architecture: N, l, h, h_f, n_h and V.
    tokens
        D, tokens of the whole run.
    batch
        B, global batch in sequences.
    sequence
        s, tokens a sequence.
    tranche_ratio
        r, share of the whole run to be done within the horizon, in (0, 1]. A daily ratio for a horizon of one day.
    deadline
        T_dead in hours after the first snapshot; `None` is the end of the horizon.
    chi_f
        FLOP coefficient of Eq. 5: 72 without, 96 with full activation recomputation (forward 1, backward 2,
        recomputed forward 1, times 24). The vocabulary projection is no layer and never recomputed: its 6 h V FLOPs a
        token, which is V/(16 l h) at 96, do not depend on it.
    flops
        ``"architecture"`` counts the matrix weights the model really has (grouped-query attention, SwiGLU);
        ``"eq5"`` is Eq. 5 as printed, with 12 h² weights a layer. Both agree for multi-head attention with
        h_f = 4 h and no gate. Of experts, ``"architecture"`` counts those that a token uses.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.

    Examples
    --------
    LLM-A of the paper's case (Table I of [1]):

    >>> job = Job("A", Transformer.preset("LLaMA-13B"), tokens=1e12, batch=1024, sequence=2048,
    ...           tranche_ratio=0.049, chi_f=96, flops="eq5")
    >>> job.tranche_iterations
    23366
    >>> f"{job.tranche_flops:.4e}"
    '5.3097e+21'
    """

    name: str
    model: Transformer
    tokens: float
    batch: int
    sequence: int
    tranche_ratio: float
    deadline: float | None = None
    chi_f: float = CHI_WITHOUT_RECOMPUTATION
    flops: Literal["architecture", "eq5"] = "architecture"

    def __post_init__(self) -> None:
        faults = Faults(f"Job {self.name!r}")
        faults.kind("name", self.name, str, "text")
        faults.kind("model", self.model, Transformer, "a Transformer", "E.g. Transformer.preset('LLaMA-13B').")
        faults.number("tokens", self.tokens, at_least=1)
        faults.number("batch", self.batch, at_least=1, integer=True)
        faults.number("sequence", self.sequence, at_least=1, integer=True)
        faults.number(
            "tranche_ratio", self.tranche_ratio, above=0, at_most=1, remedy="Give a share: 0.049 for 4.9 per cent."
        )
        if self.deadline is not None:
            faults.number("deadline", self.deadline, above=0)
        faults.number("chi_f", self.chi_f, above=0, remedy="72 without, 96 with full recomputation.")
        faults.require(self.flops in ("architecture", "eq5"), "flops", self.flops, "'architecture' or 'eq5'")
        if isinstance(self.model, Transformer) and (self.model.experts or self.model.latent):
            remedy = "Eq. 5 knows dense layers of 12 h² weights only."
            faults.require(self.flops != "eq5", "flops", self.flops, f"'architecture' for {self.model.name!r}", remedy)
        if not len(faults):
            remedy = "Tokens of the whole run: 15e12, not 15."
            faults.number("tokens", self.tokens, at_least=self.batch * self.sequence, remedy=remedy)
        faults.raise_any()
        settle(self, whole=("batch", "sequence"), real=("tokens", "tranche_ratio", "deadline", "chi_f"))

    @property
    def iteration_flops(self) -> float:
        """F_iter, Eq. 5: matrices, attention scores and vocabulary projection of one global batch, in FLOPs."""
        model = self.model
        weights = 12 * model.hidden**2 * model.layers if self.flops == "eq5" else model.matrix_weights
        attention = model.layers * model.attention_width * self.sequence / 6
        vocabulary = 6 * model.hidden * model.vocabulary
        return self.batch * self.sequence * (self.chi_f * (weights / 12 + attention) + vocabulary)

    @property
    def iterations(self) -> float:
        """I = D / (B s), Eq. 6a."""
        return self.tokens / (self.batch * self.sequence)

    @property
    def tranche_iterations(self) -> int:
        """Iterations of the tranche, ceil(r I), Eq. 6b."""
        return math.ceil(self.tranche_ratio * self.iterations)

    @property
    def tranche_flops(self) -> float:
        """C, work of the tranche in FLOPs, Eq. 7."""
        return self.tranche_iterations * self.iteration_flops

    @property
    def flops_per_token(self) -> float:
        """FLOPs for one token of training, to turn a measured tokens/s into FLOP/s."""
        return self.iteration_flops / (self.batch * self.sequence)

    def remaining_flops(self, progress: float) -> float:
        """C_rem = (1 - S) C, Eq. 8, in FLOPs for a progress S in [0, 1]."""
        faults = Faults(f"Job {self.name!r}")
        faults.number("progress", progress, at_least=0, at_most=1)
        faults.raise_any()
        return (1 - progress) * self.tranche_flops

    def segment_flops(self, segments: int) -> float:
        """C_seg = C / K_seg, Eq. 10, in FLOPs for `segments` checkpoint-to-checkpoint segments."""
        faults = Faults(f"Job {self.name!r}")
        faults.number("segments", segments, at_least=1, integer=True)
        faults.raise_any()
        return self.tranche_flops / segments
