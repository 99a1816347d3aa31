"""Every table and text number of "Beyond Scalar Flexibility" beside what the synthetic fleet gives.

`python study.py` writes `results/`; `python study.py --figures` also draws figures 1–4 and 6b–16.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import xarray as xr

from pypsa_aidc import fleet
from pypsa_aidc.fleet.studies.scaling import UNITS
from pypsa_aidc.plots import aggregation as aggregation_plots
from pypsa_aidc.plots import dependable, power_model
from pypsa_aidc.plots import envelope as envelope_plots

HERE = Path(__file__).parent
JOINED_FROM = 110 * 24
Numbers = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Case:
    """The fleet and what several tables need of it."""

    settings: dict[str, object]
    made: fleet.SyntheticFleet

    @property
    def statistics(self) -> fleet.Statistics:
        return self.made.statistics

    @property
    def method(self) -> str:
        return str(self.settings["method"])

    @cached_property
    def envelope(self) -> fleet.Envelope:
        return fleet.Envelope.of(self.statistics)

    @cached_property
    def ensemble(self) -> fleet.Ensemble:
        return fleet.ensemble(self.statistics, fleet.power_draws(self.settings["draws"], self.settings["seed"]))

    @cached_property
    def relief(self) -> xr.DataArray:
        """All 15 clusters."""
        return self.envelope.relief().sum("cluster", skipna=False)

    def surface(self, **options: object) -> fleet.Surface:
        return fleet.Surface.of(self.envelope, **{"portfolio": "supported", "method": self.method, **options})

    def share(self, envelope: fleet.Envelope) -> float:
        return float(envelope.relief().sum("cluster", skipna=False).mean() / envelope.workload.mean())


def boundaries(case: Case) -> Numbers:
    table = fleet.accounting(case.envelope, case.ensemble)
    numbers = {("Table 1", name): float(value) for name, value in table["central"].items()}
    medians = table["median"].dropna()
    return numbers | {("Table 1", f"{name}, median"): float(value) for name, value in medians.items()}


def scalars(case: Case) -> Numbers:
    options = {"method": case.method, "replicates": case.settings["shifts"], "seed": case.settings["seed"]}
    all_clusters = fleet.counterfactuals(case.envelope, portfolio=None, **options).required_share
    numbers: Numbers = {}
    for h in all_clusters["duration"].to_numpy():
        for alpha in all_clusters["reliability"].to_numpy():
            value = all_clusters.sel(duration=h, reliability=alpha).item()
            numbers["Table 2", f"required share, {h} h, {alpha:g}"] = value
    table = fleet.counterfactuals(case.envelope, portfolio="supported", **options).table()
    names = {
        "K": "K",
        "firmness": "firmness",
        "mean share": "mean-share scalar",
        "tail-calibrated share": "tail-calibrated scalar",
        "independent, detrended": "independent clusters",
    }
    for h in (1, 4, 24):
        numbers |= {("Table 3", f"{name}, {h} h"): table.loc[h, column] for column, name in names.items()}
    numbers["Sec. 3.4", "time-shuffled, 4 h"] = table.loc[4, "time-shuffled"]
    numbers["Sec. 3.4", "firmness of thirteen, independent"] = (
        table.loc[4, "firmness"] * table.loc[4, "independent, detrended"]
    )
    return numbers


def model() -> Numbers:
    central = fleet.PowerModel()
    values = {f"rating {name}": rating for name, rating in central.ratings.items()}
    values |= {
        "idle fraction": central.idle_fraction,
        "online floor": central.online_floor,
        "null value": central.null_value,
        "host idle": central.host_idle,
        "host peak": central.host_peak,
        "PUE": central.pue,
    }
    errors = fleet.duty_cycle_error(central, "training", [0.3, 0.6])
    numbers = {("Table 4", name): value for name, value in values.items()}
    return numbers | {
        ("App. A", f"duty-cycle error of training, mean {mean}"): 100 * float(error)
        for mean, error in zip((0.3, 0.6), errors, strict=True)
    }


def anchors(case: Case) -> Numbers:
    numbers: Numbers = {}
    models = {
        "base": fleet.PowerModel(),
        "mid": fleet.PowerModel(curves=fleet.MEASURED_MID, idle_fraction=0.18),
        "low": fleet.PowerModel(curves=fleet.MEASURED_LOW, idle_fraction=0.18),
    }
    for name, central in models.items():
        envelope = fleet.Envelope.of(case.statistics, model=central)
        draws = fleet.power_draws(case.settings["draws"], case.settings["seed"], central, fleet.PowerRanges())
        median = fleet.ensemble(case.statistics, draws).band().sel(quantile=0.5)
        eligible = envelope.relief().sum("cluster", skipna=False)
        numbers |= {
            ("Table 5", f"facility power, {name}"): float(median.mean()),
            ("Table 5", f"workload power, {name}"): float(envelope.workload.mean()),
            ("Table 5", f"eligible power, {name}"): float(eligible.mean()),
            ("Table 5", f"eligible share, {name}"): 100 * case.share(envelope),
        }
    return numbers


def representations(case: Case) -> Numbers:
    numbers: Numbers = {}
    for name, row in fleet.representations(case.envelope, method=case.method).iterrows():
        plain = str(name).split(" (")[0]
        numbers["Table 6", f"{plain}, K 4 h"] = row["K_4h"]
        numbers |= {("Table 6", f"{plain}, ratio {h} h"): row[f"ratio_{h}h"] for h in (1, 4, 24)}
    return numbers


def load(case: Case) -> Numbers:
    band = case.ensemble.band()
    shape = fleet.load_shape(band.sel(quantile=0.5))
    low, middle, high = band.mean("hour").to_numpy()
    parts = fleet.composition(case.envelope)
    online = case.statistics.cells.filter(
        (pl.col("workload").cast(pl.String) == "online_inference") & (pl.col("state").cast(pl.String) == "active")
    )
    central = fleet.PowerModel()
    rating = online["accelerator"].cast(pl.String).replace_strict(dict(central.ratings), return_dtype=pl.Float64)
    floor = float((rating * online["gpu_hours"]).sum()) * (1 - central.idle_fraction) * central.floor_value / 1e6
    values = {
        "facility, mean of medians": middle,
        "facility, mean of P5": low,
        "facility, mean of P95": high,
        "first week": shape.first_week,
        "last week": shape.last_week,
        "growth": 100 * shape.growth,
        "load factor": shape.load_factor,
        "daily swing": shape.daily_swing,
        "clock swing": 100 * shape.clock_swing,
        "peak hour": shape.peak_hour,
        "trough hour": shape.trough_hour,
        "autocorrelation 24 h": shape.autocorrelation[24],
        "autocorrelation 168 h": shape.autocorrelation[168],
        "IT share of workload": 100 * parts["workload"],
        "IT share of hosts": 100 * parts["host"],
        "IT share of unallocated GPUs": 100 * parts["unallocated"],
        "IT share of online floor": 100 * floor / float(case.envelope.it.sum()),
    }
    return {("Sec. 3.1", name): float(value) for name, value in values.items()} | {
        ("Sec. 2.1", "valid hours"): int(case.envelope.valid.sum())
    }


def aggregation(case: Case) -> Numbers:
    seed = case.settings["seed"]
    numbers: Numbers = {}
    linear = fleet.PowerModel(curves=fleet.LINEAR)
    for kind in UNITS:
        for own, word in ((None, ""), (linear, ", linear curve")):
            fit = fleet.fluctuation_scaling(case.statistics, kind, model=own, seed=seed)
            numbers["Sec. 3.2", f"exponent, {kind}{word}"] = fit.exponent
    for name, level in fleet.measure_synchrony(case.statistics).items():
        numbers["Sec. 3.2", f"synchrony, {name}"] = level.median
    attribution = fleet.attribution(case.statistics, seed=seed)
    numbers |= {
        ("Sec. 3.2", "synchrony of steady clusters"): attribution.ratios["raw"],
        ("Sec. 3.2", "excess removed by calendar"): 100 * attribution.removed["calendar removed"],
        ("Sec. 3.2", "excess removed by calendar and capacity"): 100 * attribution.removed["capacity normalised"],
        ("Sec. 3.2", "mean synchrony within plateaus"): float(attribution.plateaus["raw"].mean()),
    }
    curvature = fleet.variability_by_training(case.statistics, seed=seed).quadratic[0]
    return numbers | {("App. B", "curvature over training share"): curvature}


def scheduler(case: Case) -> Numbers:
    spans = case.made.execution.matched
    power = fleet.span_power(spans, case.statistics)
    hours = (JOINED_FROM, int(case.statistics.hours[-1]) + 1)
    figures = fleet.displacement(spans, power, hours, synthetic=True).figures()
    backlog = fleet.backlog(spans, power, hours, synthetic=True)
    arrivals = backlog.figures()
    values = {
        "matched GPU power": figures["mean"],
        "displacement P99 up": figures["p99_up"],
        "displacement P99 down": figures["p99_down"],
        "median daily swing": figures["daily_swing"],
        "arrivals delayed 1 h": arrivals.loc[1, "mean"],
        "arrivals delayed 4 h": arrivals.loc[4, "mean"],
        "their P10": arrivals["p10"].max(),
        "their K at 95 %, 1 h": arrivals.loc[1, "K"],
        "shift layer after day 110": float(backlog.data["shift"].mean()),
    }
    return {("Sec. 3.3", name): float(value) for name, value in values.items()}


def layers(case: Case) -> Numbers:
    envelope = case.envelope
    shares = 100 * envelope.layers().mean("hour") / envelope.workload.mean()
    values = {f"layer {name}": float(shares.sel(layer=name)) for name in shares["layer"].to_numpy()}
    draws = fleet.relief_draws(
        case.statistics, fleet.power_draws(case.settings["draws"], case.settings["seed"]), envelope.clusters
    )
    by_draw = draws["relief"].sum("cluster", skipna=False).mean("hour") / draws["workload"].mean("hour")
    low, high = np.quantile(by_draw, [0.05, 0.95])
    relief = envelope.relief().to_pandas().dropna()
    pairs = np.triu_indices(relief.shape[1], 1)
    values |= {
        "P10 of eligible": float(case.relief.quantile(0.1)),
        "eligible share of workload": 100 * case.share(envelope),
        "of central facility": 100 * float(case.relief.mean() / envelope.facility.mean()),
        "of median facility": 100 * float(case.relief.mean() / case.ensemble.band().sel(quantile=0.5).mean()),
        "eligible share, conservative": 100 * case.share(fleet.Envelope.of(case.statistics, "conservative")),
        "eligible share, liberal": 100 * case.share(fleet.Envelope.of(case.statistics, "liberal")),
        "eligible share, P5": 100 * low,
        "eligible share, P95": 100 * high,
        "median pairwise correlation": float(np.median(relief.corr().to_numpy()[pairs])),
    }
    return {("Sec. 3.5", name): float(value) for name, value in values.items()}


def availability(case: Case) -> Numbers:
    seed, replicates = case.settings["seed"], case.settings["replicates"]
    K = case.surface()
    curve = fleet.portfolios(case.envelope, portfolio="supported", method=case.method).curve()
    models = fleet.power_draws(replicates, seed)
    sample = fleet.bootstrap(
        case.envelope,
        portfolio="supported",
        block=case.settings["block"],
        replicates=replicates,
        seed=seed,
        method=case.method,
        statistics=case.statistics,
        models=models,
    )
    cell = {"duration": 4, "reliability": 0.95}
    low, high = sample.band().sel(cell).to_numpy()
    ratio_low, ratio_high = sample.ratio_band("mean share").sel(cell).to_numpy()
    four = K.at(4, 0.95)
    eras = fleet.compare_eras(case.envelope, portfolio="supported", method=case.method, changes=case.statistics.eras())
    windows = eras[eras.index.str.startswith("days")]
    return {
        ("Sec. 3.4", "K 4 h, P5"): low,
        ("Sec. 3.4", "K 4 h, P95"): high,
        ("Sec. 3.4", "mean-share ratio 4 h, P5"): ratio_low,
        ("Sec. 3.4", "mean-share ratio 4 h, P95"): ratio_high,
        ("Sec. 3.4", "tail windows, 4 h, 0.99"): K.data["tail_windows"].sel(duration=4, reliability=0.99).item(),
        ("Sec. 3.4", "firmness of one cluster"): curve.loc[1, "firmness"],
        ("Sec. 3.4", "firmness of thirteen"): curve.loc[13, "firmness"],
        ("Sec. 3.6", "q for 1 MW"): 1 / four,
        ("Sec. 3.6", "q for 1.8 MW"): 1.8 / four,
        ("Sec. 3.6", "offer at q 0.5"): case.surface(q=0.5).at(4, 0.95),
        ("Sec. 3.6", "30-day K 4 h, lowest"): windows["K"].min(),
        ("Sec. 3.6", "30-day K 4 h, highest"): windows["K"].max(),
        ("Fig. 13", "lowest four-hour firmness of an era"): eras["firmness"].min(),
        ("Fig. 13", "highest four-hour firmness of an era"): eras["firmness"].max(),
        ("App. D", "fleet K 4 h, 15 clusters"): case.surface(portfolio=None).at(4, 0.95),
    }


def conditions(case: Case) -> Numbers:
    def lowest(**which: list[int]) -> float:
        options = {"durations": (4,), "reliabilities": (0.95,), "condition": fleet.Condition(**which)}
        return case.surface(**options).K.item()

    hours = pd.Series([lowest(start_hours=[hour]) for hour in range(24)])
    phases = pd.Series([lowest(weekdays=[day]) for day in range(7)])
    return {
        ("Sec. 3.6", "start hour K 4 h, lowest"): hours.min(),
        ("Sec. 3.6", "start hour K 4 h, highest"): hours.max(),
        ("Sec. 3.6", "start hour K 4 h, median"): hours.median(),
        ("Sec. 3.6", "start hour of the lowest"): int(hours.idxmin()),
        ("Sec. 3.6", "week phase K 4 h, lowest"): phases.min(),
        ("Sec. 3.6", "week phase K 4 h, highest"): phases.max(),
    }


def prospects(case: Case) -> Numbers:
    absolute, normalised = (
        fleet.Backtest.of(case.envelope, method=case.method, normalised=kind).summary for kind in (False, True)
    )
    full = fleet.Surface.of(case.envelope, method=case.method)
    numbers: Numbers = {("App. D", "origins"): absolute["origins"].iloc[0]}
    for h in (1, 4, 24):
        row = absolute.loc[h]
        numbers |= {
            ("Sec. 3.6", f"coverage {h} h"): row["coverage"],
            ("App. D", f"worst coverage {h} h"): row["worst"],
            ("App. D", f"origins meeting target {h} h"): row["met"],
            ("App. D", f"derating {h} h"): row["factor"],
            ("App. D", f"normalised derating {h} h"): normalised.loc[h, "factor"],
            ("App. D", f"derated K {h} h"): row["factor"] * full.at(h, 0.95),
        }
    terms = fleet.Contract.of(case.envelope, method=case.method)
    return numbers | {
        ("Sec. 3.6", "net over gross, 4 h"): terms.net_energy,
        ("Sec. 3.6", "rebound"): terms.rebound_energy,
        ("Sec. 3.6", "floor and shift"): terms.noneligible,
        ("Sec. 3.6", "recovery"): terms.recovery_time,
        ("Sec. 3.6", "spacing"): terms.spacing,
        ("Sec. 3.6", "calls a week"): terms.calls_per_week,
    }


def compared(numbers: Numbers) -> pd.DataFrame:
    """Published numbers beside ours; every published one must have been computed."""
    table = pd.read_csv(HERE / "published.csv")
    keys = list(zip(table["where"], table["quantity"], strict=True))
    missing = [key for key in keys if key not in numbers]
    if missing:
        raise SystemExit(f"not computed: {missing}")
    ours = np.array([float(numbers[key]) for key in keys])
    paper = table["paper"].to_numpy()
    # Relative where there is something to relate to, absolute at zero; the last printed digit is always allowed.
    digit = np.array([0.5 * 10.0 ** -len(f"{value:g}".partition(".")[2]) for value in paper])
    deviation = ours - paper
    allowed = table["tolerance"].to_numpy() * np.abs(paper) + digit
    return table.assign(
        synthetic_fleet=ours,
        deviation=np.where(paper != 0, deviation / np.where(paper != 0, np.abs(paper), 1), deviation),
        within=np.abs(deviation) <= allowed + 1e-12,
    )[["where", "quantity", "unit", "paper", "synthetic_fleet", "deviation", "tolerance", "within", "why"]]


def draw(case: Case, folder: Path) -> None:
    """Figures of the paper that need no outside measurement."""
    folder.mkdir(exist_ok=True)
    seed = case.settings["seed"]
    envelope, statistics = case.envelope, case.statistics
    attribution = fleet.attribution(statistics, seed=seed)
    scalings = {kind: fleet.fluctuation_scaling(statistics, kind, seed=seed) for kind in UNITS}
    portfolios = fleet.portfolios(envelope, portfolio="supported", method=case.method)
    rest = fleet.independent_curve(portfolios, envelope, seed=seed)["firmness"]
    counterfactuals = fleet.counterfactuals(envelope, portfolio="supported", method=case.method, seed=seed)
    spans = case.made.execution.matched
    power = fleet.span_power(spans, statistics)
    hours = (JOINED_FROM, int(statistics.hours[-1]) + 1)
    tests = [fleet.Backtest.of(envelope, method=case.method, normalised=kind) for kind in (False, True)]
    figures = {
        "01_load": envelope_plots.plot_load(case.ensemble),
        "02_aggregation": aggregation_plots.plot_attribution(scalings, attribution, synthetic=True),
        "03_boundary": envelope_plots.plot_boundary(envelope),
        "04_availability": dependable.plot_counterfactuals(counterfactuals, portfolios, rest),
        "06b_duty_cycle": power_model.plot_duty_cycle(),
        "07_components": envelope_plots.plot_components(envelope),
        "08_composition": aggregation_plots.plot_composition(
            fleet.variability_by_training(statistics, seed=seed), True
        ),
        "09_plateaus": aggregation_plots.plot_plateaus(attribution, synthetic=True),
        "10_displacement": aggregation_plots.plot_displacement(
            fleet.displacement(spans, power, hours, synthetic=True), fleet.delay_distribution(spans)
        ),
        "11_backlog": aggregation_plots.plot_backlog(fleet.backlog(spans, power, hours, synthetic=True)),
        "12_layers": envelope_plots.plot_layers(envelope),
        "13_firmness": dependable.plot_eras(
            case.surface(), fleet.compare_eras(envelope, portfolio="supported", method=case.method)
        ),
        "14_realised": dependable.plot_realised(case.surface(portfolio=None)),
        "15_backtest": dependable.plot_backtest(*tests),
        "16_net_energy": dependable.plot_net_energy(synthetic=True),
    }
    for name, figure in figures.items():
        figure.savefig(folder / f"synthetic_figure_{name}.png", dpi=150)


def main() -> None:
    settings = tomllib.loads((HERE / "study.toml").read_text(encoding="utf-8"))
    case = Case(settings, fleet.SyntheticFleet.generate(int(settings["fleet_seed"])))
    numbers = model()
    for part in (
        boundaries,
        scalars,
        anchors,
        representations,
        load,
        aggregation,
        scheduler,
        layers,
        availability,
        conditions,
        prospects,
    ):
        numbers |= part(case)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    table = compared(numbers)
    table.to_csv(results / "synthetic_comparison.csv", index=False, float_format="%.5g")
    surfaces = {
        method: case.surface(method=method).to_frame().set_index(["duration", "reliability"])
        for method in ("sup", "linear")
    }
    both = surfaces["sup"][["windows", "tail_windows"]].assign(
        **{f"K_{method}": frame["K"] for method, frame in surfaces.items()}, data="synthetic fleet"
    )
    both.to_csv(results / "synthetic_surface.csv", float_format="%.5g")
    print(both.to_string(float_format="%.4f"))
    outside = table[~table["within"]]
    print(f"{int(table['within'].sum())} of {len(table)} numbers within their tolerance")
    if len(outside):
        print(outside.to_string(index=False))
    if "--figures" in sys.argv[1:]:
        draw(case, HERE / str(settings["figures"]))


if __name__ == "__main__":
    main()
