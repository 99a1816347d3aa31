"""Memory on one GPU as [1] has it: model states and activations of a 3D-parallel mode, Eq. 14."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.job import Job
from pypsa_aidc.units import GB

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MemoryModel:
    """Coefficients of Eq. 14 of [1]; every parameter set is data for one and the same code.

    Parameters
    ----------
    param_bytes, grad_bytes, optimizer_bytes
        Bytes a parameter for weights, gradients and optimizer; their sum is ω_s.
    zero_stage
        0 keeps all states on each data-parallel rank (ζ = 1); 1 divides the optimizer, 2 also the gradients,
        3 also the weights by d.
    embeddings_in_states
        Whether embeddings count into the states. Korthikanti et al. leave them out.
    hidden_bytes, ffn_bytes, attention_bytes, output_bytes, vocabulary_bytes
        λ_h, λ_f, λ_a, λ_o, λ_v: bytes an element of activations. `ffn_bytes` `None` means 24 h/h_f, the value
        for which the feed-forward part is 24 s b h as in Korthikanti et al.
    recomputation
        ``"none"``; ``"selective"`` does not keep attention scores; ``"full"`` keeps only the input of each layer
        (2 bytes an element) and one layer in full.
    recomputation_ratio
        ρ_rec, share of the layers' activations that is kept; a calibrated coefficient beside `recomputation`.
    sequence_parallel
        Whether the part that tensor parallelism leaves whole (λ_h) is divided by q as well.
    schedule
        What is live at once: ``"global"`` the whole B/d of the paper; ``"1f1b"`` p micro-batches;
        ``"interleaved"`` p (1 + (p-1)/(p v)) micro-batches for v > 1 model chunks a GPU; never more than there are.
    micro_batch
        b, sequences a micro-batch; not used by ``"global"``.
    chunks
        v, model chunks a GPU of the interleaved schedule.
    fixed
        M_0 in bytes: context, buffers.
    overhead
        δ, share of states and activations lost to fragmentation.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eq. 14. [2] Korthikanti et al., "Reducing Activation Recomputation
    in Large Transformer Models", MLSys 2023.
    """

    param_bytes: float = 2.0
    grad_bytes: float = 2.0
    optimizer_bytes: float = 12.0
    zero_stage: Literal[0, 1, 2, 3] = 0
    embeddings_in_states: bool = True
    hidden_bytes: float = 10.0
    ffn_bytes: float | None = None
    attention_bytes: float = 5.0
    output_bytes: float = 4.0
    vocabulary_bytes: float = 4.0
    recomputation: Literal["none", "selective", "full"] = "selective"
    recomputation_ratio: float = 1.0
    sequence_parallel: bool = True
    schedule: Literal["global", "1f1b", "interleaved"] = "1f1b"
    micro_batch: int = 1
    chunks: int = 1
    fixed: float = 2 * GB
    overhead: float = 0.04

    def __post_init__(self) -> None:
        faults = Faults("MemoryModel")
        for field in ("param_bytes", "grad_bytes", "optimizer_bytes"):
            faults.number(field, getattr(self, field), at_least=0)
        for field in ("hidden_bytes", "attention_bytes", "output_bytes", "vocabulary_bytes", "fixed", "overhead"):
            faults.number(field, getattr(self, field), at_least=0)
        if self.ffn_bytes is not None:
            faults.number("ffn_bytes", self.ffn_bytes, at_least=0)
        faults.number("recomputation_ratio", self.recomputation_ratio, at_least=0, at_most=1)
        faults.number("micro_batch", self.micro_batch, at_least=1, integer=True)
        faults.number("chunks", self.chunks, at_least=1, integer=True)
        for field in ("embeddings_in_states", "sequence_parallel"):
            faults.flag(field, getattr(self, field))
        known = self.zero_stage in (0, 1, 2, 3) and not isinstance(self.zero_stage, bool)
        faults.require(known, "zero_stage", self.zero_stage, "0, 1, 2 or 3")
        faults.require(
            self.recomputation in ("none", "selective", "full"),
            "recomputation",
            self.recomputation,
            "'none', 'selective' or 'full'",
        )
        faults.require(
            self.schedule in tuple(_LIVE_SEQUENCES), "schedule", self.schedule, f"one of {', '.join(_LIVE_SEQUENCES)}"
        )
        faults.raise_any()

    def states(self, job: Job, pipeline: Floats, tensor: Floats, data: Floats) -> Floats:
        """M_state, Eq. 14a, in bytes; arguments and result are arrays of one shape."""
        parameters = job.model.parameters
        if not self.embeddings_in_states:
            parameters = float(job.model.layers * job.model.layer_weights)
        per_parameter = (
            self.param_bytes / (data if self.zero_stage >= 3 else 1.0)
            + self.grad_bytes / (data if self.zero_stage >= 2 else 1.0)
            + self.optimizer_bytes / (data if self.zero_stage >= 1 else 1.0)
        )
        return np.asarray(parameters / (pipeline * tensor) * per_parameter)

    def activations(self, job: Job, pipeline: Floats, tensor: Floats, data: Floats) -> Floats:
        """M_act, Eq. 14b, in bytes; arguments and result are arrays of one shape."""
        model, tokens = job.model, float(job.sequence)
        live = _LIVE_SEQUENCES[self.schedule](self, job, pipeline, data)
        ffn_bytes = 24 * model.hidden / model.ffn if self.ffn_bytes is None else self.ffn_bytes
        hidden = self.hidden_bytes * model.hidden / (tensor if self.sequence_parallel else 1.0)
        ffn = ffn_bytes * model.ffn / tensor
        scores = self.attention_bytes * tokens * model.heads / tensor
        layer = hidden + ffn + (scores if self.recomputation == "none" else 0.0)
        layers = model.layers / pipeline
        if self.recomputation == "full":
            inputs = 2.0 * model.hidden / (tensor if self.sequence_parallel else 1.0)
            kept = layers * live * inputs + self._live_outputs(job, data) * (layer + scores)
        else:
            kept = layers * live * layer
        outputs = (self.output_bytes * model.hidden + self.vocabulary_bytes * model.vocabulary) / tensor
        return np.asarray(tokens * (self.recomputation_ratio * kept + self._live_outputs(job, data) * outputs))

    def total(self, job: Job, pipeline: Floats, tensor: Floats, data: Floats) -> Floats:
        """M, Eq. 14c, in bytes; arguments and result are arrays of one shape."""
        arguments = (job, pipeline, tensor, data)
        return (1 + self.overhead) * (self.states(*arguments) + self.activations(*arguments)) + self.fixed

    def _live_outputs(self, job: Job, data: Floats) -> Floats | float:
        # Logits live for one micro-batch only: backward starts right after them.
        return job.batch / data if self.schedule == "global" else float(self.micro_batch)


def _global(_: MemoryModel, job: Job, __: Floats, data: Floats) -> Floats:
    return job.batch / data


def _one_forward_one_backward(model: MemoryModel, job: Job, pipeline: Floats, data: Floats) -> Floats:
    micro_batches = job.batch / (data * model.micro_batch)
    return np.minimum(pipeline, micro_batches) * model.micro_batch


def _interleaved(model: MemoryModel, job: Job, pipeline: Floats, data: Floats) -> Floats:
    # One chunk is plain 1F1B; and no schedule holds more micro-batches than there are.
    extra = (pipeline - 1) / model.chunks if model.chunks > 1 else 0.0
    micro_batches = job.batch / (data * model.micro_batch)
    return np.minimum(pipeline + extra, micro_batches) * model.micro_batch


_LIVE_SEQUENCES: dict[str, Callable[[MemoryModel, Job, Floats, Floats], Floats]] = {
    "global": _global,
    "1f1b": _one_forward_one_backward,
    "interleaved": _interleaved,
}

CAMPUS_MEMORY = MemoryModel(
    hidden_bytes=2.5,
    ffn_bytes=2.225,
    attention_bytes=1.25,
    output_bytes=1.0,
    vocabulary_bytes=1.0,
    recomputation="none",
    recomputation_ratio=0.125,
    sequence_parallel=False,
    schedule="global",
)
"""The calibrated campus case: a quarter of the global batch in flight, an eighth of the layers' activations kept."""

KORTHIKANTI_MEMORY = MemoryModel(
    grad_bytes=4.0,
    embeddings_in_states=False,
    output_bytes=0.0,
    vocabulary_bytes=0.0,
    recomputation="none",
    sequence_parallel=False,
    fixed=0.0,
    overhead=0.0,
)
"""Korthikanti et al. 2022: 18 bytes a parameter of the layers, gradients in 32 bit, no embeddings and no logits."""
