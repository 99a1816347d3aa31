"""The mode model of [1] as it is printed: Eq. 14 for memory, a fitted η, whole layers on every stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import CHI_FULL_RECOMPUTATION, Job
from pypsa_aidc.training.memory import MemoryModel
from pypsa_aidc.training.throughput import NARAYANAN_EFFICIENCY, EfficiencyModel


@dataclass(frozen=True)
class PaperModel:
    """The model of [1] in the place of `PerformanceModel`: dense decoders, (p, q, d) only, the paper's divisibility.

    Parameters
    ----------
    memory
        Coefficients of Eq. 14.
    efficiency
        Model of η in Eq. 13.

    Raises
    ------
    InputError
        Memory and efficiency contradict each other in micro-batch or chunks; both at once.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eqs. 12-18.

    Examples
    --------
    >>> PaperModel(MemoryModel(micro_batch=1), EfficiencyModel(0.6, micro_batch=4))
    Traceback (most recent call last):
    pypsa_aidc.errors.InputError: PaperModel:
      - efficiency.micro_batch: given 4, expected 1 as memory.micro_batch.
    """

    memory: MemoryModel = field(default_factory=MemoryModel)
    efficiency: EfficiencyModel = NARAYANAN_EFFICIENCY

    strict: ClassVar[bool] = True

    def __post_init__(self) -> None:
        faults = Faults("PaperModel")
        known = faults.kind("memory", self.memory, MemoryModel, "a MemoryModel")
        known &= faults.kind("efficiency", self.efficiency, EfficiencyModel, "an EfficiencyModel")
        # The paper's B/d speaks of no schedule that could be contradicted.
        if known and self.memory.schedule != "global":
            for ours, theirs in (("micro_batch", "micro_batch"), ("chunks", "interleave")):
                held, used = getattr(self.memory, ours), getattr(self.efficiency, theirs)
                held = 1 if ours == "chunks" and self.memory.schedule == "1f1b" else held
                where = f"{held} as memory.{ours}" if ours != "chunks" or held > 1 else "1 as memory.schedule='1f1b'"
                faults.require(held == used, f"efficiency.{theirs}", used, where)
        faults.raise_any()

    @property
    def micro_batch(self) -> int:
        """b, sequences a micro-batch."""
        return self.efficiency.micro_batch

    @property
    def chunks(self) -> int:
        """v, model chunks a GPU that layers have to divide into."""
        return self.memory.chunks if self.memory.schedule == "interleaved" else 1

    def check(self, job: Job, faults: Faults) -> None:
        """Note why a job does not fit the model."""
        known = job.model.experts is None and job.model.latent is None
        remedy = "Use a PerformanceModel, the default."
        faults.require(known, "model", job.model.name, "a dense decoder for PaperModel", remedy)
        faults.require(
            self.memory.recomputation != "full" or job.chi_f >= CHI_FULL_RECOMPUTATION,
            "chi_f",
            job.chi_f,
            f"at least {CHI_FULL_RECOMPUTATION:g} with memory.recomputation='full'",
            "Full recomputation runs the forward pass twice.",
        )

    def evaluate(self, job: Job, gpu: GPU, precision: str, layouts: NDArray[np.int64]) -> pd.DataFrame:
        """Evaluate layouts as `PerformanceModel.evaluate` does; power is the rated one, the deviation unknown."""
        p, q, d = layouts[:, :3].T.astype(float)
        eta = self.efficiency.efficiency(job, p, q, d)
        memory = self.memory.total(job, p, q, d)
        return pd.DataFrame(
            {
                "seconds": job.iteration_flops / (layouts[:, :3].prod(axis=1) * gpu.peak(precision) * eta),
                "efficiency": eta,
                "busy": 1.0,
                "watts": gpu.train_w,
                "memory": memory,
                "least_memory": memory,
                "deviation": np.nan,
            }
        )
