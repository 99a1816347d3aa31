"""Many clusters offered together: K of every subset, firmness by size, and what each cluster adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, factorial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.fleet.envelope import Envelope, Portfolio
from pypsa_aidc.fleet.layers import Boundary
from pypsa_aidc.fleet.studies.counterfactual import independent
from pypsa_aidc.fleet.windows import Floats, Method, check_grid, dependable, running_minima
from pypsa_aidc.progress import track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENUMERABLE = 13
"""Most clusters whose subsets are all computed; beyond it, subsets are drawn."""


@dataclass(frozen=True, repr=False)
class Portfolios:
    """Dependable power of many portfolios of the same clusters (Sec. 3.4 of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        `member` (subset × cluster), `size` (subset), `mean` (subset, MW), `K` (subset × duration × reliability, MW).
        Attribute `complete`: 1 if every subset is there.
    """

    data: xr.Dataset

    def __repr__(self) -> str:
        word = "synthetic, " if self.data.attrs["synthetic"] else ""
        kind = "all" if self.data.attrs["complete"] else "drawn"
        return (
            f"Portfolios({word}{self.data.sizes['subset']:,} subsets ({kind}) of {self.data.sizes['cluster']} clusters)"
        )

    def curve(self, duration: int = 4, reliability: float = 0.95) -> pd.DataFrame:
        """Firmness by portfolio size: mean K over mean power of the subsets of that size (Fig. 4b of [2]).

        Returns
        -------
        pandas.DataFrame
            Index `size`; columns `subsets`, `K` (MW), `mean` (MW), `firmness`, and `lowest`, `highest` firmness of one.
        """
        table = pd.DataFrame(
            {
                "K": self.data["K"].sel(duration=duration, reliability=reliability).to_numpy(),
                "mean": self.data["mean"].to_numpy(),
            }
        )
        table["own"] = table["K"] / table["mean"]
        groups = table.groupby(self.data["size"].to_numpy())
        result = groups[["K", "mean"]].mean()
        result.insert(0, "subsets", groups.size())
        result["firmness"] = result["K"] / result["mean"]
        result["lowest"], result["highest"] = groups["own"].min(), groups["own"].max()
        return result.rename_axis("size")

    def contribution(self, duration: int = 4, reliability: float = 0.95) -> pd.DataFrame:
        """Split the dependable power of the whole among the clusters.

        Returns
        -------
        pandas.DataFrame
            Index cluster; columns `alone` (its own K), `last` (what is lost if it leaves the full portfolio) and
            `shapley` (its addition averaged over all orders of joining; sums to K of the whole), MW.

        Raises
        ------
        InputError
            Not all subsets are there.
        """
        faults = Faults("Contribution of a cluster")
        complete = bool(self.data.attrs["complete"])
        faults.require(complete, "portfolios", repr(self), "all subsets", f"Use at most {ENUMERABLE} clusters.")
        faults.raise_any()
        member = self.data["member"].to_numpy()
        count = member.shape[1]
        # Bit i of a subset's code says whether cluster i belongs to it; the empty portfolio offers nothing.
        code = member @ (1 << np.arange(count))
        value = np.zeros(1 << count)
        value[code] = self.data["K"].sel(duration=duration, reliability=reliability).to_numpy()
        sizes = np.array([bin(subset).count("1") for subset in range(1 << count)])
        full = (1 << count) - 1
        rows = {}
        for i, name in enumerate(map(str, self.data["cluster"].to_numpy())):
            without = np.flatnonzero(~np.arange(1 << count) >> i & 1)
            weight = np.array([factorial(s) * factorial(count - s - 1) / factorial(count) for s in range(count)])
            gain = value[without | 1 << i] - value[without]
            rows[name] = (value[1 << i], value[full] - value[full ^ 1 << i], float(weight[sizes[without]] @ gain))
        return pd.DataFrame.from_dict(rows, orient="index", columns=["alone", "last", "shapley"]).rename_axis("cluster")

    def to_frame(self) -> pd.DataFrame:
        """Long table: `subset`, `duration`, `reliability`, `K`, `mean` (MW), `size`."""
        return self.data[["K", "mean", "size"]].to_dataframe().reset_index()

    def plot(self) -> Figure:
        """Draw firmness over portfolio size (Fig. 4b of [2])."""
        from pypsa_aidc.plots.dependable import plot_portfolios

        return plot_portfolios(self)


@checked
def portfolios(
    envelope: Envelope,
    durations: Sequence[int] = (4,),
    reliabilities: Sequence[float] = (0.95,),
    *,
    portfolio: Portfolio = None,
    boundary: Boundary = "idle-retained",
    method: Method = "sup",
    samples: int | None = None,
    seed: int | np.random.Generator = 0,
) -> Portfolios:
    """K of all subsets of a portfolio, or of seeded samples of each size.

    Parameters
    ----------
    envelope
        The fleet.
    durations, reliabilities, method
        As for `pypsa_aidc.fleet.surface`.
    portfolio, boundary
        As for `Envelope.relief`.
    samples
        Subsets to draw of each size; None computes all subsets, of at most 13 clusters.
    seed
        Number or generator for the samples.

    Returns
    -------
    Portfolios

    Raises
    ------
    InputError
        More than 13 clusters without `samples`, or a grid or portfolio that cannot be.
    """
    faults = Faults("Portfolios")
    check_grid(faults, durations, reliabilities, method)
    faults.raise_any()
    relief = envelope.relief(portfolio, boundary)
    series = np.ascontiguousarray(relief.to_numpy().T)
    count = len(series)
    if samples is None:
        remedy = "Give samples: how many subsets of each size to draw; or a portfolio, e.g. 'supported'."
        faults.require(count <= ENUMERABLE, "portfolio", f"{count} clusters", f"at most {ENUMERABLE}", remedy)
        faults.raise_any()
        member = (np.arange(1, 1 << count)[:, np.newaxis] >> np.arange(count) & 1).astype(bool)
    else:
        faults.number("samples", samples, at_least=1, integer=True)
        faults.raise_any()
        member = _drawn(count, samples, np.random.default_rng(seed))
    K, mean = _evaluated(series, member, durations, reliabilities, method)
    data = xr.Dataset(
        {
            "K": (("subset", "duration", "reliability"), K, {"units": "MW"}),
            "mean": ("subset", mean, {"units": "MW"}),
            "size": ("subset", member.sum(axis=1)),
            "member": (("subset", "cluster"), member),
        },
        coords={
            "cluster": relief["cluster"].to_numpy(),
            "duration": list(durations),
            "reliability": list(reliabilities),
        },
        attrs={
            "method": method,
            "complete": int(samples is None),
            "synthetic": int(envelope.synthetic),
            **relief.attrs,
        },
    )
    return Portfolios(data)


def independent_curve(
    portfolios: Portfolios,
    envelope: Envelope,
    duration: int = 4,
    reliability: float = 0.95,
    *,
    subsets: int = 20,
    replicates: int = 8,
    detrended: bool = True,
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """Firmness by size had the clusters moved independently, on some of the same subsets (Fig. 4b of [2]).

    Parameters
    ----------
    portfolios, envelope
        The portfolios, and the fleet they were made of.
    duration, reliability
        The product, h and share; on the grid of `portfolios`.
    subsets
        Most subsets to take of each size, at random.
    replicates, detrended, seed
        As for `pypsa_aidc.fleet.independent`.

    Returns
    -------
    pandas.DataFrame
        Index `size`; columns `independent` and `observed` (mean K of the same subsets, MW), `ratio`, and `firmness`
        (that of all portfolios of the size, times the ratio).
    """
    faults = Faults("Independent portfolios")
    faults.number("subsets", subsets, at_least=1, integer=True)
    faults.raise_any()
    data = portfolios.data
    names = [str(name) for name in data["cluster"].to_numpy()]
    series = np.ascontiguousarray(envelope.relief(names, data.attrs["boundary"]).to_numpy().T)
    member, sizes = data["member"].to_numpy(), data["size"].to_numpy()
    rng = np.random.default_rng(seed)
    method: Method = data.attrs["method"]
    rows = {}
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        chosen = rng.choice(chosen, min(subsets, chosen.size), replace=False)
        K, _ = _evaluated(series, member[chosen], (duration,), (reliability,), method)
        moved = [
            independent(
                series[member[subset]],
                (duration,),
                (reliability,),
                detrended=detrended,
                replicates=replicates,
                seed=rng,
                method=method,
            )[0, 0]
            for subset in chosen
        ]
        rows[int(size)] = {"independent": np.mean(moved), "observed": K.mean(), "ratio": np.mean(moved) / K.mean()}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("size")
    return table.assign(firmness=table["ratio"] * portfolios.curve(duration, reliability)["firmness"])


def _drawn(count: int, samples: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Distinct subsets of every size, at most `samples` of each; shape (subsets, clusters)."""
    rows: list[npt.NDArray[np.bool_]] = []
    for size in range(1, count + 1):
        wanted = min(samples, comb(count, size))
        seen: set[tuple[int, ...]] = set()
        while len(seen) < wanted:
            seen.add(tuple(sorted(map(int, rng.choice(count, size, replace=False)))))
        rows.extend(np.isin(np.arange(count), chosen) for chosen in sorted(seen))
    return np.array(rows)


def _evaluated(
    series: Floats,
    member: npt.NDArray[np.bool_],
    durations: Sequence[int],
    reliabilities: Sequence[float],
    method: Method,
) -> tuple[Floats, Floats]:
    """K (subsets × durations × reliabilities) and mean power (subsets), MW.

    Sums of the two halves of the clusters are shared: a subset is one addition, and no rounding builds up.
    """
    half = len(series) // 2
    halves = [(series[:half], member[:, :half]), (series[half:], member[:, half:])]
    sums, codes = [], []
    for part, chosen in halves:
        patterns, code = np.unique(chosen, axis=0, return_inverse=True)
        total = np.zeros((len(patterns), part.shape[1]))
        for pattern, row in zip(patterns, total, strict=True):
            for i in np.flatnonzero(pattern):
                row += part[i]
        sums.append(total)
        codes.append(code.ravel())
    K = np.empty((len(member), len(durations), len(reliabilities)))
    mean = np.empty(len(member))
    # A gap touches all clusters at once, also those that are not in the subset.
    gap = np.where(np.isnan(series[0]), np.nan, 0.0)
    for right in track(range(len(sums[1])), "portfolios, by half"):
        rows = np.flatnonzero(codes[1] == right)
        power = sums[0][codes[0][rows]] + sums[1][right] + gap
        minima = running_minima(power, durations)
        K[rows] = np.stack([dependable(minima[h], reliabilities, method) for h in durations], axis=1)
        mean[rows] = np.nanmean(power, axis=1)
    return K, mean
