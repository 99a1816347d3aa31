"""GPUs: peak FLOP rates per precision, memory, and the power they draw in training and at rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pypsa_aidc.errors import Faults
from pypsa_aidc.training import presets
from pypsa_aidc.units import GB, TFLOP

_PRECISIONS = ("tf32", "bf16", "fp8")


@dataclass(frozen=True)
class GPU:
    """One type of GPU.

    Parameters
    ----------
    name
        For messages and tables.
    peak_flops
        R_g, dense peak rate in FLOP/s for each precision, e.g. ``{"bf16": 312e12}``.
    memory
        M_cap in bytes (80e9 for 80 GB).
    train_w
        P_train, power per GPU in training, in W; the presets take the rated board power.
    idle_w
        Power per GPU that holds no job, in W; only used by sites that are added with ``draw_idle=True``.

    Raises
    ------
    InputError
        Any field out of range; all of them at once.

    Examples
    --------
    >>> GPU.preset("A100-80GB").peak("bf16") / 1e12
    312.0
    """

    name: str
    peak_flops: Mapping[str, float] = field(hash=False)
    memory: float
    train_w: float
    idle_w: float = 0.0

    def __post_init__(self) -> None:
        faults = Faults(f"GPU {self.name!r}")
        rates = self.peak_flops if isinstance(self.peak_flops, Mapping) else {}
        faults.require(bool(rates), "peak_flops", self.peak_flops, "FLOP/s by precision, e.g. {'bf16': 312e12}")
        for precision, rate in rates.items():
            faults.number(f"peak_flops[{precision!r}]", rate, at_least=1e9, remedy="Give FLOP/s: 312e12, not 312.")
        faults.number("memory", self.memory, at_least=1e8, remedy="Give bytes: 80e9, not 80.")
        faults.number("train_w", self.train_w, at_least=10, remedy="Give W: 700, not 0.7.")
        faults.number("idle_w", self.idle_w, at_least=0)
        if not len(faults):
            faults.require(self.idle_w <= self.train_w, "idle_w", self.idle_w, f"at most train_w = {self.train_w:g} W")
        faults.raise_any()
        object.__setattr__(self, "peak_flops", MappingProxyType(dict(self.peak_flops)))

    @classmethod
    def preset(cls, name: str) -> GPU:
        """Return a data-center GPU by name: A100-40GB, A100-80GB, H100, H200, B200.

        Raises
        ------
        InputError
            Unknown name; the error lists the known ones.
        """
        row = presets.preset("gpus", name)
        return cls(
            name=row["name"],
            peak_flops={p: float(row[f"{p}_tflops"]) * TFLOP for p in _PRECISIONS if row[f"{p}_tflops"]},
            memory=float(row["memory_gb"]) * GB,
            train_w=float(row["train_w"]),
            idle_w=float(row["idle_w"]),
        )

    def peak(self, precision: str) -> float:
        """Return the dense peak rate in FLOP/s, or raise `InputError` if this GPU has no such precision."""
        faults = Faults(f"GPU {self.name!r}")
        faults.require(precision in self.peak_flops, "precision", precision, f"one of {', '.join(self.peak_flops)}")
        faults.raise_any()
        return self.peak_flops[precision]
