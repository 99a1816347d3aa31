"""How much of the peak FLOP rate a 3D-parallel mode keeps: η of Eq. 13 of [1], as a calibrated model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.job import Job

Floats = NDArray[np.float64]

_REFERENCE_HIDDEN = 5120.0


@dataclass(frozen=True)
class EfficiencyModel:
    """Efficiency η of a mode: what pipeline bubble, tensor- and data-parallel communication leave of the peak.

    With the inverse x = d b / B of the micro-batches that a pipeline works through,

        η = peak · h/(h + h_half) / [(1 + (p-1) x/v) · (1 + tensor (q-1) 5120/h) · (1 + data x)],

    the last factor for d above 1 only.

    Parameters
    ----------
    peak
        η of a single GPU with matrices of any size, in (0, 1]; where `hidden_half` extrapolates from a small model to
        them, at most 4.
    hidden_half
        h_half, hidden size at which matrix products reach half of that; 0 switches the effect off.
    tensor
        Loss per further tensor-parallel GPU at h = 5120 (the message grows with h, the work with h²).
    data
        Loss of gradient exchange when each replica works through one micro-batch only.
    interleave
        v, model chunks a GPU of an interleaved pipeline schedule; it divides the bubble.
    micro_batch
        b, sequences a micro-batch.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eq. 13. [2] Narayanan et al., "Efficient Large-Scale Language Model
    Training on GPU Clusters Using Megatron-LM", SC 2021: bubble (p-1)/(v m) in section 2.2, measurements in Table 1.
    """

    peak: float
    hidden_half: float = 0.0
    tensor: float = 0.0
    data: float = 0.0
    interleave: float = 1.0
    micro_batch: int = 1

    def __post_init__(self) -> None:
        faults = Faults("EfficiencyModel")
        faults.number("peak", self.peak, above=0, at_most=4.0 if self.hidden_half else 1.0)
        for field in ("hidden_half", "tensor", "data"):
            faults.number(field, getattr(self, field), at_least=0)
        faults.number("interleave", self.interleave, at_least=1)
        faults.number("micro_batch", self.micro_batch, at_least=1, integer=True)
        faults.raise_any()

    def efficiency(self, job: Job, pipeline: Floats, tensor: Floats, data: Floats) -> Floats:
        """η for arrays of p, q and d of one shape."""
        hidden = float(job.model.hidden)
        inverse_chunks = data * self.micro_batch / (self.interleave * job.batch)
        bubble = 1 + (pipeline - 1) * inverse_chunks
        tensor_loss = 1 + self.tensor * (tensor - 1) * _REFERENCE_HIDDEN / hidden
        data_loss = np.where(data > 1, 1 + self.data * self.interleave * inverse_chunks, 1.0)
        return np.asarray(self.peak * hidden / (hidden + self.hidden_half) / (bubble * tensor_loss * data_loss))

    def calibrated(self, job: Job, mode: tuple[int, int, int], efficiency: float) -> EfficiencyModel:
        """Return this model with `peak` moved so that `mode` (p, q, d) has the given measured `efficiency`.

        Examples
        --------
        >>> from pypsa_aidc.training import Transformer
        >>> job = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.049)
        >>> model = EfficiencyModel(0.5, tensor=0.02).calibrated(job, (4, 4, 32), 0.38)
        >>> one = np.ones(1)
        >>> float(model.efficiency(job, 4 * one, 4 * one, 32 * one)[0].round(12))
        0.38
        """
        faults = Faults("EfficiencyModel.calibrated")
        faults.number("efficiency", efficiency, above=0, at_most=1)
        faults.raise_any()
        # Only what is measured has to be a share: the peak of the model is an extrapolation from it.
        p, q, d = (np.array([float(size)]) for size in mode)
        return replace(self, peak=self.peak * efficiency / float(self.efficiency(job, p, q, d)[0]))


CAMPUS_EFFICIENCY = EfficiencyModel(peak=0.45, tensor=0.02, data=1.2 / 1.5, interleave=1.5)
"""The calibrated campus case; `peak` is a placeholder there, moved by `calibrated` to each job's baseline."""

NARAYANAN_EFFICIENCY = EfficiencyModel(peak=0.6463, hidden_half=882.0, tensor=0.0457, data=0.05)
"""Least squares on the ten rows of Narayanan et al. 2021, Table 1 (A100): within 5 %.

`data` cannot be told from that table (left free it goes to 0, with 3.3 %); 0.05 keeps wide data parallelism from
being free. It is the default of `PaperModel`.
"""
