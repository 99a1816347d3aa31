"""IT power of a mode, Eq. 17 of [1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.layout import Layout, Size
from pypsa_aidc.units import W_PER_MW


@dataclass(frozen=True)
class ModePower:
    """IT power of a mode, Eq. 17 of [1]: P = κ n P_train + n P_comm.

    P_train is the mean power of a GPU over an iteration as the performance model has it: the rated power where the
    model knows no waiting, less where bubble and messages make GPUs wait.

    Parameters
    ----------
    communication_w
        P_comm a GPU, in W: network and host power that grows with the mode.
    coefficients
        κ of single modes, by size (p, q, d), that draw less or more than that; 1 for all others.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.
    """

    communication_w: float = 0.0
    coefficients: Mapping[Size, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        faults = Faults("ModePower")
        faults.number("communication_w", self.communication_w, at_least=0)
        mapping = faults.kind("coefficients", self.coefficients, Mapping, "κ by (pipeline, tensor, data)")
        for size, coefficient in self.coefficients.items() if mapping else ():
            faults.number(f"coefficients[{size}]", coefficient, above=0)
        faults.raise_any()

    def it_power(self, watts: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """P in MW for each row of `sizes`, in the order of `Layout`; `watts` is P_train of each."""
        gpus = sizes[:, :4].prod(axis=1)
        kappa = np.ones(len(sizes))
        for size, coefficient in self.coefficients.items():
            whole = np.array([getattr(Layout.of(size), axis) for axis in Layout.__dataclass_fields__])
            kappa[(sizes == whole).all(axis=1)] = coefficient
        return np.asarray(gpus * (kappa * watts + self.communication_w) / W_PER_MW)
