"""Generation, screening and pruning of 3D-parallel modes: Algorithm 1 of [1]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import CHI_FULL_RECOMPUTATION, Job
from pypsa_aidc.training.memory import MemoryModel
from pypsa_aidc.training.mode_table import ModeTable
from pypsa_aidc.training.power import PowerModel
from pypsa_aidc.training.throughput import NARAYANAN_EFFICIENCY, EfficiencyModel
from pypsa_aidc.units import GB

_TIE = 1e-12
"""Relative difference below which two throughputs or powers count as equal in the dominance rule."""


@dataclass(frozen=True)
class Candidates:
    """Sizes to try for p, q and d.

    Parameters
    ----------
    pipeline, tensor, data
        Whole numbers of at least 1. `pipeline` `None` tries every divisor of the layers, `data` `None` every power
        of two that divides the batch; tensor parallelism stays within a server of eight GPUs by default.
    """

    pipeline: Sequence[int] | None = None
    tensor: Sequence[int] = (1, 2, 4, 8)
    data: Sequence[int] | None = None

    def __post_init__(self) -> None:
        faults = Faults("Candidates")
        for name in ("pipeline", "tensor", "data"):
            given = getattr(self, name)
            if given is None and name != "tensor":
                continue
            sizes = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
            faults.require(len(sizes) > 0, name, given, "at least one size, as a list")
            for size in sizes:
                faults.number(name, size, at_least=1, integer=True)
            object.__setattr__(self, name, sizes)
        faults.raise_any()

    def grid(self, job: Job) -> NDArray[np.int64]:
        """All combinations, one a row: (p, q, d)."""
        layers, batch = job.model.layers, job.batch
        pipeline = self.pipeline or [p for p in range(1, layers + 1) if layers % p == 0]
        data = self.data or [2**k for k in range(batch.bit_length()) if batch % 2**k == 0]
        axes = np.meshgrid(sorted(set(pipeline)), sorted(set(self.tensor)), sorted(set(data)), indexing="ij")
        return np.stack([axis.ravel() for axis in axes], axis=1).astype(np.int64)


def generate_modes(
    job: Job,
    gpu: GPU | str,
    gpus: int,
    *,
    candidates: Candidates | None = None,
    precision: str = "bf16",
    memory: MemoryModel | None = None,
    efficiency: EfficiencyModel = NARAYANAN_EFFICIENCY,
    power: PowerModel | None = None,
    prune: bool = True,
) -> ModeTable:
    """Generate, screen and prune the 3D-parallel modes of a job; Algorithm 1 of [1].

    Parameters
    ----------
    job
        Descriptor.
    gpu
        Type of GPU in the pool, a `GPU` or the name of a preset.
    gpus
        N_GPU, size of the pool.
    candidates
        Sizes to try.
    precision
        Key of `gpu.peak_flops`.
    memory
        Coefficients of Eq. 14; the default keeps 16 bytes a parameter, selective recomputation and sequence
        parallelism under a 1F1B schedule.
    efficiency
        Model of η in Eq. 13; the default is fitted to published A100 measurements.
    power
        Model of P in Eq. 17; the default is `gpu.train_w` for each GPU.
    prune
        Whether to drop dominated modes (Eq. 20). Pruning is exact while power costs money; where burning a surplus
        pays (negative prices, curtailment that costs), ``prune=False`` keeps every feasible mode.

    Returns
    -------
    ModeTable
        One row a candidate, sorted by GPUs, then pipeline, tensor and data size.

    Raises
    ------
    InputError
        `gpus` is not a whole positive number, the GPU lacks the precision, or `memory` recomputes everything while
        ``job.chi_f`` counts no recomputation.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eqs. 12-20 and Algorithm 1.

    Examples
    --------
    >>> from pypsa_aidc.training import Transformer
    >>> job = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.049)
    >>> table = generate_modes(job, GPU.preset("A100-80GB"), gpus=512)
    >>> table.effective[-1].gpus
    512
    """
    memory = MemoryModel() if memory is None else memory
    power = PowerModel() if power is None else power
    gpu = GPU.preset(gpu) if isinstance(gpu, str) else gpu
    faults = Faults(f"modes of job {getattr(job, 'name', job)!r}")
    well_formed = faults.kind("job", job, Job, "a Job") & faults.kind("gpu", gpu, GPU, "a GPU or the name of a preset")
    if not well_formed:
        faults.raise_any()
    faults.number("gpus", gpus, at_least=1, integer=True)
    faults.require(
        memory.recomputation != "full" or job.chi_f >= CHI_FULL_RECOMPUTATION,
        "chi_f",
        job.chi_f,
        f"at least {CHI_FULL_RECOMPUTATION:g} with memory.recomputation='full'",
        "Full recomputation runs the forward pass twice.",
    )
    faults.raise_any()
    sizes = (candidates or Candidates()).grid(job)
    p, q, d = sizes.T.astype(float)
    eta = efficiency.efficiency(job, p, q, d)
    frame = pd.DataFrame(sizes, columns=["pipeline", "tensor", "data"]).assign(
        gpus=sizes.prod(axis=1),
        efficiency=eta,
        flops_per_s=sizes.prod(axis=1) * gpu.peak(precision) * eta,
        it_power=power.it_power(gpu, sizes),
        memory_gb=memory.total(job, p, q, d) / GB,
    )
    micro_batch = max(efficiency.micro_batch, memory.micro_batch if memory.schedule != "global" else 1)
    frame["reason"] = _infeasibility(frame, job, gpu, gpus, micro_batch)
    return ModeTable(job.name, mark_dominated(frame, prune))


def _infeasibility(frame: pd.DataFrame, job: Job, gpu: GPU, gpus: int, micro_batch: int) -> pd.Series[str]:
    """Why each candidate is infeasible: Eqs. 15, 16 and the pool; empty where it is feasible."""
    model = job.model
    reason = pd.Series("", index=frame.index)
    rules = [
        (model.layers % frame["pipeline"] != 0, f"divisibility: {model.layers} layers by pipeline"),
        (model.hidden % frame["tensor"] != 0, f"divisibility: hidden {model.hidden} by tensor"),
        (model.ffn % frame["tensor"] != 0, f"divisibility: ffn {model.ffn} by tensor"),
        (model.heads % frame["tensor"] != 0, f"divisibility: {model.heads} heads by tensor"),
        (job.batch % (frame["data"] * micro_batch) != 0, f"divisibility: batch {job.batch} by data x {micro_batch}"),
        (frame["gpus"] > gpus, f"pool: more than {gpus} GPUs"),
        (frame["memory_gb"] * GB > gpu.memory, f"memory: more than {gpu.memory / GB:g} GB"),
    ]
    for broken, text in rules:
        reason = reason.where((reason != "") | ~broken, text)
    return reason


def mark_dominated(frame: pd.DataFrame, prune: bool) -> pd.DataFrame:
    """Sort by GPUs and mark dominated modes (Eq. 20); of equal modes the one with least memory stays."""
    frame = frame.sort_values(["gpus", "pipeline", "tensor", "data"], ignore_index=True)
    if prune:
        feasible = frame[frame["reason"] == ""].sort_values("memory_gb", kind="stable")
        n, power, rate = (feasible[c].to_numpy(float) for c in ("gpus", "it_power", "flops_per_s"))
        no_worse = (n[:, None] <= n) & (power[:, None] <= power * (1 + _TIE)) & (rate[:, None] >= rate * (1 - _TIE))
        earlier = np.arange(len(n))[:, None] < np.arange(len(n))
        beats = no_worse & (~no_worse.T | earlier)
        for position in np.flatnonzero(beats.any(axis=0)):
            winner = feasible.iloc[int(np.argmax(beats[:, position]))]
            label = "·".join(str(int(winner[c])) for c in ("pipeline", "tensor", "data"))
            frame.loc[feasible.index[int(position)], "reason"] = f"dominated by {label}"
    return frame
