"""The hourly envelope: workload power by cluster and layer, what of it can be let go, and the facility around it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
import polars as pl
import xarray as xr

from pypsa_aidc.errors import Faults, UnitWarning, checked
from pypsa_aidc.fleet.cooling import HIGHEST, Curve, pue_by_hour
from pypsa_aidc.fleet.layers import LAYERS, Boundary, Mapping, Response, layer_of
from pypsa_aidc.fleet.power import PowerModel, cell_power
from pypsa_aidc.fleet.trace import telemetry
from pypsa_aidc.fleet.trace.audit import Coverage, coverage_of, warn_of_holes
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.fleet.windows import running_minima
from pypsa_aidc.plain import read_saved
from pypsa_aidc.progress import waiting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Portfolio = str | Sequence[str] | None

SUPPORT = 0.02
"""Mean idle-retained eligible power, MW, below which [2] leaves a cluster out of the portfolio (Sec. 2.4)."""

VARIABLES = {
    "power": (("hour", "cluster", "layer"), "workload power attributed to the layer"),
    "active": (("hour", "cluster", "layer"), "its part above the idle draw of allocated GPUs"),
    "host_active": (("hour", "cluster", "layer"), "CPU power of its pods above the idle draw of the host"),
    "host_idle": (("hour", "cluster"), "idle draw of all CPU cores"),
    "unallocated": (("hour", "cluster"), "idle draw of GPUs that no pod holds"),
}


@dataclass(frozen=True, repr=False)
class Envelope:
    """Hourly power of a fleet by cluster and workload layer (Sec. 2.3 of [2]).

    Attributes
    ----------
    data : xarray.Dataset
        `power`, `active`, `host_active` (hour × cluster × layer), `host_idle`, `unallocated` (hour × cluster), all MW;
        NaN in missing hours. From a job list on demand `lasting_power` and `lasting_active` (notice × call × hour ×
        cluster), see `lasting`; with a PUE that is no constant, `pue` (hour). Attributes `pue` (of all energy),
        `mapping`, `power_model`, `source`, `synthetic` (0 or 1), and `origin` (moment of hour 0) where the trace has
        stamps.

    Raises
    ------
    InputError
        Missing variables, an hour axis with holes, repeated clusters, negative power, active above total, PUE below 1.
    """

    data: xr.Dataset

    def __post_init__(self) -> None:
        faults = Faults("Envelope")
        for name, (dims, _) in VARIABLES.items():
            present = name in self.data and self.data[name].dims == dims
            faults.require(present, "data", sorted(map(str, self.data.data_vars)), f"'{name}' over {' × '.join(dims)}")
        faults.number("attrs['pue']", self.data.attrs.get("pue"), at_least=1)
        faults.require(
            "source" in self.data.attrs, "attrs", list(self.data.attrs), "'source': where the data come from"
        )
        faults.raise_any()
        faults.require(self.data.sizes["hour"] > 0, "hour", 0, "at least one hour")
        faults.require(self.data.sizes["cluster"] > 0, "cluster", 0, "at least one cluster")
        layers = tuple(self.data["layer"].to_numpy())
        faults.require(layers == LAYERS, "layer", layers, f"{LAYERS}")
        steps = np.diff(self.data["hour"].to_numpy())
        faults.require(bool((steps == 1).all()), "hour", "an axis with holes or repetitions", "consecutive hours")
        names = pd.Index(self.data["cluster"].to_numpy())
        faults.require(names.is_unique, "cluster", names[names.duplicated()].tolist(), "each name once")
        valid = ~np.isnan(self.data["power"].to_numpy()).any(axis=(1, 2))
        for name, (_, _meaning) in VARIABLES.items():
            values = self.data[name].to_numpy()
            gaps = np.isnan(values).reshape(len(values), -1)
            one_gap = bool((gaps.all(axis=1) == ~valid).all() and (gaps.any(axis=1) == ~valid).all())
            faults.require(one_gap, name, "NaN in some clusters only", "NaN in all clusters of a missing hour")
            faults.require(not (values < 0).any(), name, float(np.nanmin(values, initial=0)), "MW of at least 0")
            faults.require(not np.isinf(values).any(), name, "inf", "finite MW")
        excess = float(np.nanmax((self.data["active"] - self.data["power"]).to_numpy(), initial=0))
        if "pue" in self.data:
            factors = self.data["pue"].to_numpy()[valid] if self.data["pue"].dims == ("hour",) else np.zeros(1)
            faults.require(bool((factors >= 1).all()), "pue", self.data["pue"].dims, "at least 1 in each valid hour")
        faults.require(excess <= 1e-9, "active", f"{excess:g} MW above power", "at most the power of the layer")
        faults.raise_any()

    def __repr__(self) -> str:
        size = f"{coverage_of(self.valid)}, {self.data.sizes['cluster']} clusters"
        means = {"workload": self.workload, "facility": self.facility, "eligible": self.relief().sum("cluster")}
        power = ", ".join(f"{name} {float(series[self.valid].mean()):.4g} MW" for name, series in means.items())
        word = "synthetic, " if self.synthetic else ""
        return f"Envelope({word}{size}, {power} idle-retained, {self.data.attrs['source']})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: mean power by cluster and layer."""
        from pypsa_aidc.markup import Table, card

        return card(self, lambda: [Table("Mean power", self._means())], self.plot)

    def _means(self) -> pd.DataFrame:
        """Mean power over the hours that are there, MW; one row a cluster, one column a layer."""
        frame = pd.DataFrame(self.data["power"].mean("hour").to_pandas())
        frame.attrs["units"] = "MW"
        return frame

    @property
    def synthetic(self) -> bool:
        """Whether the numbers come from the synthetic fleet."""
        return bool(self.data.attrs.get("synthetic", 0))

    @property
    def origin(self) -> str:
        """Moment of hour 0, UTC, where the trace has stamps; else empty."""
        return str(self.data.attrs.get("origin", ""))

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters."""
        return tuple(map(str, self.data["cluster"].to_numpy()))

    @property
    def pue(self) -> float:
        """Facility over IT energy."""
        return float(self.data.attrs["pue"])

    @property
    def pue_by_hour(self) -> xr.DataArray:
        """Facility over IT power; dimension hour."""
        constant = xr.full_like(self.data["hour"], self.pue, dtype=float)
        return self.data.get("pue", constant)

    @property
    def valid(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether an hour is there; shape (hours,)."""
        return np.asarray(~np.isnan(self.data["power"].to_numpy()[:, 0, 0]))

    @property
    def coverage(self) -> Coverage:
        """How many of the hours are there, and the longest hole."""
        return coverage_of(self.valid)

    @property
    def workload(self) -> xr.DataArray:
        """Power of allocated GPUs, MW; dimension hour."""
        return self.data["power"].sum(("cluster", "layer"), skipna=False).rename("workload")

    @property
    def it(self) -> xr.DataArray:
        """Workload, host and unallocated GPUs, MW; dimension hour."""
        host = self.data["host_idle"] + self.data["host_active"].sum("layer", skipna=False)
        return (self.workload + (host + self.data["unallocated"]).sum("cluster", skipna=False)).rename("it")

    @property
    def facility(self) -> xr.DataArray:
        """IT power times PUE, MW; dimension hour."""
        return (self.pue_by_hour * self.it).rename("facility")

    def layers(self) -> xr.DataArray:
        """Fleet power by layer, MW; dimensions hour × layer."""
        return self.data["power"].sum("cluster", skipna=False)

    def portfolio(self, portfolio: Portfolio = None) -> tuple[str, ...]:
        """Clusters of a portfolio: all (None), those that carry at least 0.02 MW (``"supported"``), or those named.

        Raises
        ------
        InputError
            Unknown or repeated names, or an empty portfolio.
        """
        if portfolio is None:
            return self.clusters
        if isinstance(portfolio, str) and portfolio == "supported":
            means = self.data["active"].sel(layer="eligible").mean("hour")
            chosen: tuple[str, ...] = tuple(map(str, means["cluster"].to_numpy()[means.to_numpy() >= SUPPORT]))
        else:
            chosen = (portfolio,) if isinstance(portfolio, str) else tuple(portfolio)
        faults = Faults("Portfolio")
        unknown = sorted(set(chosen) - set(self.clusters))
        faults.require(not unknown, "portfolio", unknown, f"names among {', '.join(self.clusters)}, or 'supported'")
        faults.require(len(set(chosen)) == len(chosen), "portfolio", list(chosen), "each cluster once")
        if portfolio == "supported":
            remedy = "Use portfolio=None (on the command line: --portfolio all) for all clusters."
            faults.require(bool(chosen), "portfolio", portfolio, f"a cluster of {SUPPORT} MW; none reaches it", remedy)
        else:
            faults.require(len(chosen) > 0, "portfolio", list(chosen), "at least one cluster")
        faults.raise_any()
        return chosen

    def relief(
        self,
        portfolio: Portfolio = None,
        boundary: Boundary = "idle-retained",
        response: Response = "marginal",
    ) -> xr.DataArray:
        """Power that goes away when all eligible work is preempted (Sec. 2.3 of [2]).

        Parameters
        ----------
        portfolio
            See `portfolio`.
        boundary
            ``"idle-retained"``: the GPU stays on and draws its idle power. ``"attributed"`` and ``"node-sleep"``: all
            power of the pod goes, which needs the node to sleep or the GPU to be handed on at once.
        response
            ``"marginal"``: one workload megawatt is one at the meter. ``"average"``: times PUE.

        Returns
        -------
        xarray.DataArray
            hour × cluster, MW; NaN in missing hours.
        """
        faults = Faults("Relief")
        faults.require(boundary in get_args(Boundary), "boundary", boundary, f"one of {', '.join(get_args(Boundary))}")
        faults.require(response in get_args(Response), "response", response, f"one of {', '.join(get_args(Response))}")
        faults.raise_any()
        variable = self.data["active" if boundary == "idle-retained" else "power"]
        chosen = variable.sel(layer="eligible", cluster=list(self.portfolio(portfolio)), drop=True)
        factor = self.pue_by_hour if response == "average" else 1.0
        attrs = {"units": "MW", "boundary": boundary, "response": response}
        return (chosen * factor).rename("relief").assign_attrs(attrs)

    def peak(self, window: int = 168, least: int = 24) -> xr.DataArray:
        """Empirical peak: highest facility power of the trailing `window` hours, MW (App. E of [2]).

        Missing hours count as absent; until `least` hours are there, the first known peak stands in.
        """
        trailing = self.facility.to_series().rolling(window, min_periods=least).max()
        return trailing.bfill().to_xarray().rename("peak").assign_attrs(units="MW", window=window)

    def to_frame(self) -> pd.DataFrame:
        """Long table: `hour`, `cluster`, `layer`, `power`, `active`, `host_active`, MW."""
        return self.data[["power", "active", "host_active"]].to_dataframe().reset_index()

    def plot(self) -> Figure:
        """Draw the layers over time (Fig. 12 of [2])."""
        from pypsa_aidc.plots.envelope import plot_layers

        return plot_layers(self)

    def save(self, path: str | Path) -> None:
        """Write netCDF."""
        self.data.to_netcdf(path)

    @classmethod
    @checked
    @waiting("envelope")
    def of(cls, statistics: Statistics, mapping: Mapping = "central", model: PowerModel | None = None) -> Envelope:
        """Hourly power by cluster and layer from the sufficient statistics of a trace (Eq. 1 and Sec. 2.3 of [2]).

        Parameters
        ----------
        statistics
            From `pypsa_aidc.fleet.trace.statistics` or the synthetic fleet.
        mapping
            Which work counts as eligible: ``"conservative"``, ``"central"`` or ``"liberal"``.
        model
            Power model; the central one of Table 4 of [2] if None.

        Returns
        -------
        Envelope

        Raises
        ------
        InputError
            An unknown mapping, or an accelerator without rating.
        """
        power_model = model or PowerModel()
        hours, valid = statistics.hours, statistics.valid
        clusters = statistics.clusters
        cells = statistics.cells
        standing, active = cell_power(cells, power_model)
        running = (cells["state"].cast(pl.String) == "active").to_numpy()
        host = cells["cpu_used"].to_numpy() * running * (power_model.host_peak - power_model.host_idle) / 1e6
        host += power_model.host_share * (standing + active)
        index = _places(cells, statistics, mapping)
        shape = (hours.size, len(clusters), len(LAYERS))

        def by_layer(values: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
            total = np.bincount(index, values, int(np.prod(shape))).reshape(shape)
            total[~valid] = np.nan
            return ("hour", "cluster", "layer"), total, {"units": "MW"}

        data = {"power": by_layer(standing + active), "active": by_layer(active), "host_active": by_layer(host)}
        for name, values in _capacity(statistics, clusters, power_model).items():
            values[~valid] = np.nan
            data[name] = (("hour", "cluster"), values, {"units": "MW"})
        if statistics.lasting is not None:
            data |= _lasting(statistics, mapping, power_model)
        return Envelope(
            xr.Dataset(
                data,
                coords={"hour": ("hour", hours, {"units": "h"}), "cluster": clusters, "layer": list(LAYERS)},
                attrs={
                    "pue": power_model.pue,
                    "mapping": mapping,
                    "source": statistics.audit.source,
                    "synthetic": int(statistics.synthetic),
                    "power_model": power_model.describe(cells["accelerator"].cast(pl.String).unique()),
                    **({"origin": statistics.audit.origin} if statistics.audit.origin else {}),
                },
            )
        )

    @classmethod
    def read(cls, path: str | Path) -> Envelope:
        """Read what `Envelope.save` wrote.

        Raises
        ------
        InputError
            The file cannot be read or is no envelope.
        """
        return read_saved(cls, path, "Envelope.save")

    @classmethod
    def from_power(
        cls,
        path: str | Path,
        *,
        mapping: Mapping = "central",
        model: PowerModel | None = None,
        **declared: Any,
    ) -> Envelope:
        """Envelope of measured power: exports of DCGM or Prometheus, records of racks or meters.

        Hours in which a sensor was silent that had been there before, or had less than 95 % of its samples, are
        missing. The lowest sample and the steepest ramp of each hour are kept (`lowest`, `ramp`; see `at_lowest`).

        Parameters
        ----------
        path
            Table, folder or archive of tables.
        mapping
            Which labels are eligible, as for `of`.
        model
            Its PUE, and what accelerators draw at rest, which a pause does not take off the load; the central one of
            Table 4 of [2] if None. Of meters that name no accelerator, all power counts as active.
        declared
            `unit` (``"W"``, ``"kW"``, ``"MW"``), `zone`, `columns`, `words`, `constants`, as for
            `pypsa_aidc.fleet.trace.telemetry.read_power`; labels of what is interruptible are needed, e.g.
            ``constants={"layer": "eligible"}``.

        Returns
        -------
        Envelope
            Without host power and unallocated GPUs.

        Warns
        -----
        CoverageWarning
            More than 5 % of the hours are missing.

        Raises
        ------
        InputError
            No table of power, a unit or label that nobody says, stamps without a zone.
        """
        power_model = model or PowerModel()
        power = telemetry.read_power(path, mapping=mapping, rest=power_model.idle_watts, **declared)
        return cls.of_power(power, mapping, power_model)

    @classmethod
    def of_power(cls, power: telemetry.Power, mapping: Mapping, model: PowerModel) -> Envelope:
        """Envelope of power that was read by `pypsa_aidc.fleet.trace.telemetry.read_power`."""
        clusters = sorted(power.observed["cluster"].unique().to_list()) or sorted(power.hours["cluster"].unique())
        first, last = (int(edge) for edge in (power.hours["hour"].min(), power.hours["hour"].max()))  # type: ignore[arg-type]
        shape = (last - first + 1, len(clusters), len(LAYERS))
        at = (power.hours["hour"].to_numpy() - first) * len(clusters)
        at = at + power.hours["cluster"].cast(pl.Enum(clusters)).to_physical().cast(pl.Int64).to_numpy()
        at = at * len(LAYERS) + power.hours["layer"].cast(pl.Enum(LAYERS)).to_physical().cast(pl.Int64).to_numpy()
        seen = power.observed.group_by("hour").len().filter(pl.col("len") == len(clusters))["hour"].to_numpy()
        valid = np.isin(np.arange(first, last + 1), seen)
        faults = Faults(f"Envelope of {power.audit.source}")
        faults.require(bool(valid.any()), "hours", str(power.audit), "one that all sensors were seen in")
        faults.raise_any()
        values = {name: power.hours[name].to_numpy() for name in ("power", "lowest", "ramp")}
        values["active"] = values["power"] - power.hours["rest"].to_numpy()
        data: dict[str, Any] = {}
        for name in ("power", "active", "host_active", "lowest", "ramp"):
            cube = np.bincount(at, values.get(name, np.zeros(at.size)), int(np.prod(shape))).reshape(shape)
            cube[~valid] = np.nan
            units = "MW/min" if name == "ramp" else "MW"
            data[name] = (("hour", "cluster", "layer"), np.maximum(cube, 0.0), {"units": units})
        for name in ("host_idle", "unallocated"):
            data[name] = (
                ("hour", "cluster"),
                np.where(valid[:, np.newaxis], np.zeros(shape[:2]), np.nan),
                {"units": "MW"},
            )
        attrs = {"pue": model.pue, "mapping": mapping, "source": power.audit.source, "synthetic": 0}
        attrs |= {"origin": power.audit.origin, "cadence": f"{power.cadence * 3600:g} s", "power_model": "measured"}
        hours = ("hour", np.arange(first, last + 1), {"units": "h"})
        whole = xr.Dataset(data, coords={"hour": hours, "cluster": clusters, "layer": list(LAYERS)}, attrs=attrs)
        # The first and the last hour of a record are seldom whole ones.
        ends = np.flatnonzero(valid)[[0, -1]]
        result = Envelope(whole.isel(hour=slice(ends[0], ends[1] + 1)))
        warn_of_holes(coverage_of(result.valid), power.audit.source)
        warn_of_size(result)
        return result

    def with_pue(self, pue: float | Curve | pd.Series[float], temperature: pd.Series[float] | None = None) -> Envelope:
        """Put another PUE in the place of this one.

        Parameters
        ----------
        pue
            A number, 1 … 3; pairs of outdoor temperature, °C, and PUE; or PUE by stamps with a zone.
        temperature
            °C by stamps with a zone, for a curve.

        Returns
        -------
        Envelope
            Its `facility` is PUE times `it` in every hour; its `pue` is facility over IT energy.

        Raises
        ------
        InputError
            As `pypsa_aidc.fleet.cooling.pue_by_hour`.

        Examples
        --------
        >>> rows = pd.DataFrame({"hour": [0, 1], "cluster": "c", "layer": "eligible", "power": [10.0, 30.0]})
        >>> metered = Envelope.from_frame(rows, source="a meter")
        >>> metered = Envelope(metered.data.assign_attrs(origin="2026-07-01T00:00Z"))
        >>> outdoors = pd.Series([10.0, 30.0], pd.date_range("2026-07-01", periods=2, freq="h", tz="UTC"))
        >>> metered = metered.with_pue([(0.0, 1.1), (40.0, 1.5)], outdoors)
        >>> metered.facility.to_numpy().round(9).tolist(), round(metered.pue, 9)
        ([12.0, 42.0], 1.35)
        """
        data = self.data.drop_vars("pue", errors="ignore")
        if isinstance(pue, (int, float)):
            faults = Faults("PUE")
            faults.number("pue", pue, at_least=1, at_most=HIGHEST)
            faults.require(temperature is None, "temperature", "given", "none: PUE is a number")
            faults.raise_any()
            return Envelope(data.assign_attrs(pue=float(pue)))
        hourly = pue_by_hour(pue, data["hour"].to_numpy(), self.origin, self.valid, temperature)
        it = self.it.to_numpy()
        energy = float(np.nansum(it))
        mean = float(np.nansum(hourly * it) / energy) if energy else float(np.nanmean(hourly[self.valid]))
        attrs = {"units": "1", "long_name": "facility over IT power"}
        return Envelope(data.assign(pue=("hour", hourly, attrs)).assign_attrs(pue=mean))

    def lasting(self, notice: float, duration: int) -> Envelope:
        """Envelope by the hour in which a call starts, where only what outlasts the call is eligible.

        That is the eligible work that had begun at least `notice` before and goes on to the end of the call: power that
        is known when the call is announced, and does not go away by itself. Its K over one hour is K of the
        call. All other eligible work counts as floor here. It is a lower bound where nothing new is started during a
        call either: then all eligible work that would have run is relief, which is K of the envelope itself.

        Parameters
        ----------
        notice
            h from the announcement to the start of a call; one of those that the trace was read for.
        duration
            h of a call; likewise.

        Returns
        -------
        Envelope
            Hours whose call would touch a missing hour, or go beyond the trace, are missing.

        Raises
        ------
        InputError
            A notice or duration that the trace was not read for.
        """
        faults = Faults("Lasting work")
        remedy = "Of a job list, Statistics.of(trace, notices=…, calls=…) (--notice, --call) says it."
        for name, value, axis in (("notice", notice, "notice"), ("duration", duration, "call")):
            known = self.data[axis].to_numpy().tolist() if "lasting_power" in self.data else []
            faults.require(value in known, name, value, f"one of {known} h, which the trace was read for", remedy)
        faults.raise_any()
        at = {"notice": notice, "call": duration}
        starts = running_minima(np.where(self.valid, 1.0, np.nan), (duration,))[duration]
        whole = xr.DataArray(np.append(starts, np.full(self.valid.size - starts.size, np.nan)) == 1, dims="hour")
        data = self.data.copy(deep=True)
        for name in ("power", "active"):
            before = data[name].sel(layer="eligible", drop=True)
            # Sums of the same jobs differ in the last bits.
            kept = np.minimum(self.data[f"lasting_{name}"].sel(at, drop=True), before)
            data[name].loc[{"layer": "floor"}] += before - kept
            data[name].loc[{"layer": "eligible"}] = kept
        for name in VARIABLES:
            data[name] = data[name].where(whole).transpose(*VARIABLES[name][0])
        return Envelope(data.drop_dims(("notice", "call")))

    def at_lowest(self) -> Envelope:
        """Envelope of the lowest sample of each hour instead of its mean: K of it holds within the hour too.

        Raises
        ------
        InputError
            The power was not measured within the hour.
        """
        faults = Faults("Envelope")
        faults.require("lowest" in self.data, "data", sorted(map(str, self.data.data_vars)), "'lowest', of telemetry")
        faults.raise_any()
        rest = self.data["power"] - self.data["active"]
        lowest = xr.ufuncs.minimum(self.data["lowest"], self.data["power"])
        active = (lowest - rest).clip(min=0)
        data = self.data.assign(power=lowest.assign_attrs(units="MW"), active=active.assign_attrs(units="MW"))
        return Envelope(data)

    def with_measured(self, measured: Envelope, layers: Sequence[str] | None = None) -> Envelope:
        """Put measured power in the place of modelled power, in the hours that both have.

        Parameters
        ----------
        measured
            Of the same clusters; its hours are brought onto these by the moment of hour 0.
        layers
            Layers that were measured; all if None. The others stay modelled.

        Raises
        ------
        InputError
            Other clusters, unknown layers, or no hour in common.
        """
        faults = Faults("Measured power")
        chosen = list(LAYERS if layers is None else layers)
        faults.require(set(chosen) <= set(LAYERS), "layers", chosen, f"among {', '.join(LAYERS)}")
        faults.require(measured.clusters == self.clusters, "clusters", measured.clusters, f"{self.clusters}")
        faults.require(bool(self.origin) == bool(measured.origin), "origin", measured.origin, self.origin or "none")
        faults.raise_any()
        shift = 0
        if self.origin:
            apart = pd.Timestamp(measured.origin) - pd.Timestamp(self.origin)
            faults.require(
                apart % pd.Timedelta(hours=1) == pd.Timedelta(0), "origin", measured.origin, "whole hours apart"
            )
            shift = int(apart / pd.Timedelta(hours=1))
        theirs = measured.data.assign_coords(hour=measured.data["hour"] + shift)
        common = np.intersect1d(theirs["hour"], self.data["hour"])
        faults.require(common.size > 0, "hours", "none in common", "hours that both have")
        faults.raise_any()
        hours = np.arange(common.min(), common.max() + 1)
        data = self.data.sel(hour=hours).drop_dims(("notice", "call"), errors="ignore").copy(deep=True)
        theirs = theirs.reindex(hour=hours)
        shares = [
            one["power"].sel(hour=common, layer=chosen).sum(("cluster", "layer")).mean() for one in (theirs, data)
        ]
        warn_of_ratio(float(shares[0]), float(shares[1]), str(measured.data.attrs["source"]))
        gone = ~(theirs["power"] >= 0).all(("cluster", "layer"))
        for name in ("power", "active", "host_active"):
            data[name].loc[{"layer": chosen}] = theirs[name].sel(layer=chosen)
        for name in VARIABLES:
            data[name] = data[name].where(~gone).assign_attrs(units="MW")
        text = f"{data.attrs.get('power_model', 'modelled')}; {', '.join(chosen)} measured"
        return Envelope(
            data.assign_attrs(
                power_model=text, source=f"{self.data.attrs['source']}, measured: {measured.data.attrs['source']}"
            )
        )

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, source: str, pue: float = 1.2) -> Envelope:
        """Envelope of a fleet whose hourly power is already known.

        Parameters
        ----------
        frame : pandas.DataFrame
            Columns `hour` (whole number), `cluster`, `layer` (one of `LAYERS`), `power` (MW) and optionally `active`
            (MW; taken equal to `power` if absent: no idle draw stays behind). An hour is missing if a cluster that was
            there before has no row in it, so an idle cluster needs a row of 0 MW; a layer without a row in an hour in
            which its cluster has one draws 0.
        source
            Where the numbers come from.
        pue
            Facility over IT power, at least 1.

        Returns
        -------
        Envelope
            Without host power and unallocated GPUs.

        Warns
        -----
        CoverageWarning
            More than 5 % of the hours are missing.

        Raises
        ------
        InputError
            Missing columns, empty table, repeated rows, values that are no power.

        Examples
        --------
        >>> rows = pd.DataFrame({"hour": [0, 1], "cluster": "c1", "layer": "eligible", "power": [2.0, 3.0]})
        >>> Envelope.from_frame(rows, source="a meter").relief().to_numpy().ravel().tolist()
        [2.0, 3.0]
        """
        faults = Faults("Envelope from a table")
        missing = [name for name in ("hour", "cluster", "layer", "power") if name not in frame]
        faults.require(not missing, "columns", list(frame.columns), f"also {', '.join(missing)}")
        faults.require(len(frame) > 0, "rows", 0, "at least one")
        faults.raise_any()
        table = frame.assign(active=frame["active"] if "active" in frame else frame["power"])
        numbers = table[["hour", "power", "active"]].apply(pd.to_numeric, errors="coerce")
        for name in numbers:
            bad = numbers.index[numbers[name].isna() | np.isinf(numbers[name])]
            faults.require(bad.empty, f"row {bad[0] if len(bad) else ''}, '{name}'", "not a number", "finite numbers")
        faults.require(bool((numbers["hour"] % 1 == 0).all()), "hour", "fractions", "whole hours")
        unknown = sorted(set(map(str, table["layer"])) - set(LAYERS))
        faults.require(not unknown, "layer", unknown, f"one of {', '.join(LAYERS)}")
        repeated = table.duplicated(["hour", "cluster", "layer"])
        faults.require(
            not repeated.any(), "rows", f"{int(repeated.sum())} repeated", "one for each hour, cluster, layer"
        )
        faults.raise_any()
        table = table.assign(**{name: numbers[name] for name in numbers}, cluster=table["cluster"].astype(str))
        table["hour"] = table["hour"].astype(int)
        cube = table.set_index(["hour", "cluster", "layer"])[["power", "active"]].to_xarray()
        hours = np.arange(int(cube["hour"].min()), int(cube["hour"].max()) + 1)
        there = (cube["power"] >= -np.inf).any("layer").reindex(hour=hours, fill_value=False)
        silent = (~there & (there.cumsum("hour") > 0)).any("cluster")
        cube = cube.reindex(hour=hours, layer=list(LAYERS)).fillna(0.0).where(~silent)
        cube = cube.transpose("hour", "cluster", "layer")
        nothing = xr.zeros_like(cube["power"]) + 0 * cube["power"]
        cube = cube.assign(host_active=nothing, host_idle=nothing.sum("layer", skipna=False))
        cube = cube.assign(unallocated=cube["host_idle"])
        for name in VARIABLES:
            cube[name].attrs["units"] = "MW"
        result = Envelope(cube.assign_attrs(pue=pue, mapping="given", power_model="given", source=source, synthetic=0))
        warn_of_holes(coverage_of(result.valid), source)
        warn_of_size(result)
        return result


def _places(cells: pl.DataFrame, statistics: Statistics, mapping: Mapping) -> Any:
    """Position of each cell in an array of hours × clusters × layers."""
    clusters = statistics.clusters
    codes = cells.select(
        layer=layer_of(mapping).to_physical().cast(pl.Int64),
        cluster=pl.col("cluster").cast(pl.String).cast(pl.Enum(clusters)).to_physical().cast(pl.Int64),
    )
    place = (cells["hour"].to_numpy() - statistics.hours[0]) * len(clusters) + codes["cluster"].to_numpy()
    return place * len(LAYERS) + codes["layer"].to_numpy()


def _lasting(statistics: Statistics, mapping: Mapping, model: PowerModel) -> dict[str, Any]:
    """Power of eligible work that outlasts a call, by notice, duration of the call, hour of its start, and cluster."""
    assert statistics.lasting is not None
    cells = statistics.lasting
    notices, calls = (cells[name].unique().sort() for name in ("notice", "call"))
    shape = (notices.len(), calls.len(), statistics.hours.size, len(statistics.clusters), len(LAYERS))
    block = cells["notice"].rank("dense").cast(pl.Int64).to_numpy() - 1
    block = block * calls.len() + cells["call"].rank("dense").cast(pl.Int64).to_numpy() - 1
    index = block * int(np.prod(shape[2:])) + _places(cells, statistics, mapping)
    standing, active = cell_power(cells, model)
    made: dict[str, Any] = {"notice": ("notice", notices.to_numpy()), "call": ("call", calls.to_numpy())}
    for name, watts in (("lasting_power", standing + active), ("lasting_active", active)):
        cube = np.bincount(index, watts, int(np.prod(shape))).reshape(shape)[..., LAYERS.index("eligible")]
        made[name] = (("notice", "call", "hour", "cluster"), cube, {"units": "MW"})
    return made


HUGE = 5000.0
"""MW; no data center draws more, so that power above it was probably given in kW or W."""


UNLIKE = 20.0
"""Times above or below GPUs times rating, beyond which measured power was probably given in another unit."""


def warn_of_ratio(measured: float, modelled: float, source: str) -> None:
    """Warn the caller's caller of measured power that GPUs times rating could not draw, or only in another unit."""
    if measured > 0 and modelled > 0 and not 1 / UNLIKE <= measured / modelled <= UNLIKE:
        text = (
            f"{measured:.4g} MW measured, {modelled:.4g} MW by GPUs and ratings: is the unit W, kW or MW as declared?"
        )
        warnings.warn(f"{source}: {text}", UnitWarning, stacklevel=3)


def warn_of_size(envelope: Envelope) -> None:
    """Warn the caller's caller of power that looks as if it were given in another unit."""
    mean = float(envelope.workload.mean())
    if mean > HUGE:
        text = f"{envelope.data.attrs['source']}: {mean:,.0f} MW in the mean: were W or kW given as MW?"
        warnings.warn(text, UnitWarning, stacklevel=3)


def _capacity(
    statistics: Statistics, clusters: list[str], model: PowerModel
) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Idle draw of hosts and of unallocated GPUs by hour and cluster, MW; GPUs beyond the capacity count as none."""
    shape = (statistics.hours.size, len(clusters))
    table = statistics.stock
    code = table["cluster"].cast(pl.Enum(clusters)).to_physical().cast(pl.Int64).to_numpy()
    index = (table["hour"].to_numpy() - statistics.hours[0]) * len(clusters) + code
    names = table["accelerator"]
    idle = {name: model.idle_watts(name) for name in names.unique().sort()}
    rest = names.replace_strict(idle, return_dtype=pl.Float64).cast(pl.Float64)  # An empty mapping changes no type.
    draws = {"unallocated": table["free"] * rest, "host_idle": table["cores"] * model.host_idle}
    return {
        name: np.bincount(index, watts.to_numpy() / 1e6, shape[0] * shape[1]).astype(float).reshape(shape)
        for name, watts in draws.items()
    }
