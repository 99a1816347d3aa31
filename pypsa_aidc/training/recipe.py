"""How the training code runs a layout: schedule, precision, what is sharded and what is computed again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults

Floats = NDArray[np.float64]

_BUBBLE = {"1f1b": 1.0, "gpipe": 1.0, "zero-bubble": 1 / 3, "dualpipe": 1 / 3}


@dataclass(frozen=True)
class Schedule:
    """Order of micro-batches in a pipeline: what memory and time both follow from.

    Parameters
    ----------
    kind
        ``"1f1b"``, with chunks above 1 its interleaved form (Narayanan et al. 2021); ``"gpipe"``, all micro-batches
        forward before the first backward (Huang et al. 2019); ``"zero-bubble"``, ZB-H1 with a third of the bubble at
        the same memory (Qi et al. 2023); ``"dualpipe"``, from both ends with two copies of the weights (DeepSeek-V3
        report, Table 2).

    Raises
    ------
    InputError
        An unknown kind.

    Examples
    --------
    Four stages and eight micro-batches: three of eleven slots are bubble, and the first stage holds four.

    >>> one, four, eight = (np.array([x]) for x in (1.0, 4.0, 8.0))
    >>> Schedule().bubble(four, one), Schedule().in_flight(four, one, eight)
    (array([3.]), array([4.]))
    """

    kind: Literal["1f1b", "gpipe", "zero-bubble", "dualpipe"] = "1f1b"

    def __post_init__(self) -> None:
        faults = Faults("Schedule")
        faults.require(self.kind in _BUBBLE, "kind", self.kind, f"one of {', '.join(_BUBBLE)}")
        faults.raise_any()

    def bubble(self, pipeline: Floats, chunks: Floats) -> Floats:
        """Idle time of a stage in each iteration, in times of one micro-batch: (p - 1)/v for 1F1B."""
        stages = pipeline - 1 if self.kind != "dualpipe" else np.maximum(pipeline - 2, 0)
        return np.asarray(_BUBBLE[self.kind] * stages / chunks)

    def in_flight(self, pipeline: Floats, chunks: Floats, micro_batches: Floats) -> Floats:
        """Micro-batches whose activations the first stage holds at once, never more than there are."""
        if self.kind == "gpipe":
            return micro_batches
        extra = np.where(chunks > 1, (pipeline - 1) / chunks, 0.0)
        if self.kind == "dualpipe":
            extra = np.where(pipeline > 1, 1.0, 0.0)
        return np.asarray(np.minimum(pipeline + extra, micro_batches))

    @property
    def copies(self) -> int:
        """Copies of the weights that a stage holds."""
        return 2 if self.kind == "dualpipe" else 1


@dataclass(frozen=True)
class Recipe:
    """Settings of the training code that are the same for all layouts of a job.

    Parameters
    ----------
    precision
        Of the matrix products in the layers: a key of `GPU.peak_flops`, ``"bf16"`` or ``"fp8"``.
    schedule
        Order of micro-batches in the pipeline.
    zero_stage
        0 keeps all states on each data-parallel rank; 1 shards the optimizer (Megatron's distributed optimizer), 2
        also the gradients, 3 also the weights (FSDP), which are then gathered for each micro-batch.
    recomputation
        ``"none"``; ``"selective"`` computes again what is cheap for its size: the scores of unfused attention
        (Korthikanti et al. 2022), beside fused attention the norms, activation functions and up-projections of latent
        attention (Megatron Core's `recompute_modules`, DeepSeek-V3 report section 3.2); ``"full"`` keeps only the
        input of each layer.
    fused_attention
        Whether attention is one kernel (FlashAttention), which never stores the s² scores.
    dropout
        Whether dropout keeps masks beside the activations; large runs since 2022 mostly do without.
    sequence_parallel
        Whether norms and residuals are cut over the tensor-parallel GPUs.
    param_bytes, grad_bytes, optimizer_bytes
        Bytes a parameter: 2, 4 and 12 for 16-bit weights, gradients summed in 32 bit, Adam with a 32-bit copy.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.

    Examples
    --------
    >>> Recipe(zero_stage=3, recomputation="full").state_bytes
    18.0
    """

    precision: str = "bf16"
    schedule: Schedule = field(default_factory=Schedule)
    zero_stage: Literal[0, 1, 2, 3] = 1
    recomputation: Literal["none", "selective", "full"] = "none"
    fused_attention: bool = True
    sequence_parallel: bool = True
    dropout: bool = False
    param_bytes: float = 2.0
    grad_bytes: float = 4.0
    optimizer_bytes: float = 12.0

    def __post_init__(self) -> None:
        faults = Faults("Recipe")
        faults.kind("precision", self.precision, str, "a key of GPU.peak_flops, e.g. 'bf16'")
        faults.kind("schedule", self.schedule, Schedule, "a Schedule", "E.g. Schedule('zero-bubble').")
        known = self.zero_stage in (0, 1, 2, 3) and not isinstance(self.zero_stage, bool)
        faults.require(known, "zero_stage", self.zero_stage, "0, 1, 2 or 3")
        kinds = ("none", "selective", "full")
        faults.require(self.recomputation in kinds, "recomputation", self.recomputation, f"one of {', '.join(kinds)}")
        for flag in ("fused_attention", "sequence_parallel", "dropout"):
            faults.flag(flag, getattr(self, flag))
        faults.number("param_bytes", self.param_bytes, above=0, at_most=8)
        faults.number("grad_bytes", self.grad_bytes, above=0, at_most=8)
        faults.number("optimizer_bytes", self.optimizer_bytes, at_least=0, at_most=32)
        faults.raise_any()

    @property
    def state_bytes(self) -> float:
        """ω_s of Eq. 14a of [1], bytes a parameter where nothing is sharded."""
        return float(self.param_bytes + self.grad_bytes + self.optimizer_bytes)
