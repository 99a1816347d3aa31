"""GPUs: peak FLOP rates, memory, links and network, and the power they draw in training and at rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

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
    bandwidth
        Memory bandwidth in B/s.
    link
        Bandwidth to the other GPUs of a server, in B/s each way (NVLink).
    network
        Bandwidth to other servers for each GPU, in B/s each way: 50e9 for a 400 Gbit/s adapter a GPU.
    server
        GPUs that `link` joins: 8 in most servers, 72 in an NVL72 rack.
    processors
        Multiprocessors that share the tiles of a matrix product.
    matmul
        Share of the peak that the best large matrix products reach, in (0, 1]. Measured, but for H20 and TPU: the table
        of maximum achievable matmul FLOPS (MAMF) in Bekman, "Machine Learning Engineering", chapter on accelerators,
        bf16 without sparsity. `gpus.csv` has the figures, and a range where there are two or none.
    attention
        Share of the peak that fused attention reaches if all s² scores are counted, in (0, 2]; kernels that skip the
        causal half may pass 1. In the presets fitted to long sequences (A100, H100), else taken over.

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
    bandwidth: float = 3.35e12
    link: float = 450e9
    network: float = 50e9
    server: int = 8
    processors: int = 132
    matmul: float = 0.80
    attention: float = 0.40

    def __post_init__(self) -> None:
        faults = Faults(f"GPU {self.name!r}")
        rates = self.peak_flops if isinstance(self.peak_flops, Mapping) else {}
        faults.require(bool(rates), "peak_flops", self.peak_flops, "FLOP/s by precision, e.g. {'bf16': 312e12}")
        for precision, rate in rates.items():
            faults.number(f"peak_flops[{precision!r}]", rate, at_least=1e9, remedy="Give FLOP/s: 312e12, not 312.")
        faults.number("memory", self.memory, at_least=1e8, remedy="Give bytes: 80e9, not 80.")
        faults.number("train_w", self.train_w, at_least=10, remedy="Give W: 700, not 0.7.")
        faults.number("idle_w", self.idle_w, at_least=0)
        faults.number("bandwidth", self.bandwidth, at_least=1e10, remedy="Give B/s: 2e12, not 2.")
        for name in ("link", "network"):
            faults.number(name, getattr(self, name), at_least=1e8, remedy="Give B/s: 50e9, not 50.")
        for name in ("server", "processors"):
            faults.number(name, getattr(self, name), at_least=1, integer=True)
        faults.number("matmul", self.matmul, above=0, at_most=1)
        faults.number("attention", self.attention, above=0, at_most=2)
        if not len(faults):
            faults.require(self.idle_w <= self.train_w, "idle_w", self.idle_w, f"at most train_w = {self.train_w:g} W")
        faults.raise_any()
        object.__setattr__(self, "peak_flops", MappingProxyType(dict(self.peak_flops)))

    @classmethod
    def preset(cls, name: str, **changes: Any) -> GPU:
        """Return a data-center GPU by name: A100-40GB, A100-80GB, H100, H800, H20, H200, B200, GB200, B300, MI300X, ...

        Parameters
        ----------
        name
            First column of the table of GPUs.
        changes
            Fields that differ from it, e.g. ``network=6.25e9`` for a slower network.

        Raises
        ------
        InputError
            Unknown name, where the error lists the known ones; or a field that no data sheet gives, and `changes`
            neither.

        Examples
        --------
        >>> GPU.preset("A100-80GB", network=6.25e9).network
        6250000000.0
        """
        row = presets.preset("gpus", name)
        faults = Faults(f"GPU {name!r}")
        known = {f for f in cls.__dataclass_fields__ if f != "name"}
        for change in changes:
            faults.require(change in known, change, changes[change], f"one of {', '.join(sorted(known))}")
        if "train_w" not in changes:
            remedy = f"GPU.preset({name!r}, train_w=...): no data sheet gives it."
            faults.require(bool(row["train_w"]), "train_w", None, "power in W", remedy)
        faults.raise_any()
        return replace(
            cls(
                name=row["name"],
                peak_flops={p: float(row[f"{p}_tflops"]) * TFLOP for p in _PRECISIONS if row[f"{p}_tflops"]},
                memory=float(row["memory_gb"]) * GB,
                train_w=float(row["train_w"] or changes["train_w"]),
                idle_w=float(row["idle_w"] or 0),
                bandwidth=float(row["hbm_tb_s"]) * 1e12,
                link=float(row["link_gb_s"]) * GB,
                network=float(row["network_gb_s"]) * GB,
                server=int(row["server"]),
                processors=int(row["processors"]),
                matmul=float(row["matmul"]),
                attention=float(row["attention"]),
            ),
            **changes,
        )

    def peak(self, precision: str) -> float:
        """Return the dense peak rate in FLOP/s, or raise `InputError` if this GPU has no such precision."""
        faults = Faults(f"GPU {self.name!r}")
        faults.require(precision in self.peak_flops, "precision", precision, f"one of {', '.join(self.peak_flops)}")
        faults.raise_any()
        return self.peak_flops[precision]
