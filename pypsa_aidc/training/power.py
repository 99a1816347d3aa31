"""IT power of a mode, Eq. 17 of [1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.mode_table import Size
from pypsa_aidc.units import W_PER_MW


@dataclass(frozen=True)
class PowerModel:
    """IT power of a mode, Eq. 17 of [1]: P = κ n P_train + n P_comm.

    Parameters
    ----------
    communication_w
        P_comm a GPU, in W: network and host power that grows with the mode.
    coefficients
        κ of single modes (p, q, d) whose GPUs draw less or more than `GPU.train_w`; 1 for all others.
    """

    communication_w: float = 0.0
    coefficients: Mapping[Size, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        faults = Faults("PowerModel")
        faults.number("communication_w", self.communication_w, at_least=0)
        mapping = faults.kind("coefficients", self.coefficients, Mapping, "κ by (pipeline, tensor, data)")
        for size, coefficient in self.coefficients.items() if mapping else ():
            faults.number(f"coefficients[{size}]", coefficient, above=0)
        faults.raise_any()

    def it_power(self, gpu: GPU, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """P in MW for each row (p, q, d) of `sizes`."""
        kappa = np.array([self.coefficients.get((int(p), int(q), int(d)), 1.0) for p, q, d in sizes])
        per_gpu = kappa * gpu.train_w + self.communication_w
        return np.asarray(sizes.prod(axis=1) * per_gpu / W_PER_MW)
