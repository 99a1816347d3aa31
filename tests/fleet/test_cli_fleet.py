from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from pypsa_aidc import fleet
from pypsa_aidc.cli import app
from pypsa_aidc.errors import InputError

from . import made
from .test_trace import generic_rows

RUN = CliRunner()


def run(*words: str) -> str:
    result = RUN.invoke(app, list(words))
    if result.exception:
        raise result.exception
    return result.output


@pytest.mark.slow
def test_both_verbs_run_on_the_synthetic_fleet(tmp_path, synthetic, monkeypatch):
    monkeypatch.setattr(fleet.SyntheticFleet, "generate", lambda: synthetic)
    printed = run("fleet", "--out", str(tmp_path), "--draws", "20")
    assert "Boundaries, mean MW (cf. Table 1 of arXiv 2609.05406) (synthetic fleet)" in " ".join(printed.split())
    printed = run(
        "surface", str(tmp_path / "synthetic_envelope.nc"), "--portfolio", "supported", "--out", str(tmp_path)
    )
    assert "method sup" in printed
    assert "method linear" in printed
    figures = {path.name for path in tmp_path.glob("*.png")}
    numbers = {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
    assert {int(name.split("_")[2]) for name in figures} == numbers
    assert all(path.name.startswith("synthetic_") for path in tmp_path.iterdir())
    for path in tmp_path.glob("*.csv"):
        assert set(pd.read_csv(path)["data"]) == {"synthetic fleet"}, path
    K = fleet.Surface.read(tmp_path / "synthetic_surface.nc")
    assert K.data.attrs["synthetic"] == 1
    again = fleet.Surface.of(fleet.Envelope.read(tmp_path / "synthetic_envelope.nc"), portfolio="supported")
    assert again.K.equals(K.K)


def test_a_small_trace_gives_what_it_can(tmp_path):
    hours = [generic_rows().with_columns(hour=pl.col("hour") + 2 * i) for i in range(30)]
    made.write(pl.concat(hours), tmp_path / "trace" / "pods.csv")
    words = ["--layout", "generic", "--utilisation", "fraction", "--draws", "5", "--out", str(tmp_path / "out")]
    printed = run("fleet", str(tmp_path / "trace"), *words)
    assert "no aggregation diagnostics" in printed
    assert "synthetic" not in printed
    printed = run(
        "surface", str(tmp_path / "out" / "envelope.nc"), "--portfolio", "all", "--out", str(tmp_path / "out")
    )
    assert "Terms of a four-hour product" in printed
    assert set(pd.read_csv(tmp_path / "out" / "surface_sup.csv")["data"]) == {"trace"}


def test_one_hour_says_that_there_are_no_windows(tmp_path):
    made.write(generic_rows().filter(pl.col("hour") == 0), tmp_path / "trace" / "pods.csv")
    words = ["--layout", "generic", "--utilisation", "fraction", "--no-figures", "--out", str(tmp_path / "out")]
    run("fleet", str(tmp_path / "trace"), "--draws", "2", *words)
    printed = run(
        "surface", str(tmp_path / "out" / "envelope.nc"), "--portfolio", "all", "--out", str(tmp_path / "out")
    )
    assert "no window of 4 h" in printed


def test_a_scale_that_is_not_declared_is_our_error(tmp_path):
    made.write(generic_rows(), tmp_path / "pods.csv")
    with pytest.raises(InputError, match="not guessed"):
        run("fleet", str(tmp_path), "--layout", "generic", "--out", str(tmp_path / "out"))


def idle_nights(folder, accelerator="H100"):
    """A small fleet that works by day only, for three weeks: rows of zero at night."""
    hours = np.arange(504)
    used = np.where(hours % 24 < 12, 8.0, 0.0)
    words = {"cluster": "c", "accelerator": accelerator, "workload": "training", "priority": "low"}
    table = pl.DataFrame({"hour": hours, "gpu_hours": used}).with_columns(pl.lit(w).alias(k) for k, w in words.items())
    made.write(table, folder / "pods.csv")
    stock = table.select("hour", "cluster", "accelerator").with_columns(gpus=4000.0, cores=64000.0)
    made.write(stock, folder / "servers.csv")
    return ["fleet", str(folder), "--layout", "generic", "--utilisation", "absent", "--draws", "3", "--no-figures"]


def test_idle_nights_run_through_both_verbs(tmp_path):
    words = idle_nights(tmp_path / "trace")
    printed = run(*words, "--out", str(tmp_path))
    assert "hours used: 504 of 504 h" in printed
    assert "GPUs of the inventory that no job holds draw 0.5594 MW" in " ".join(printed.split())
    data = json.loads(run("surface", str(tmp_path / "envelope.nc"), "--no-figures", "--out", str(tmp_path), "--json"))
    assert data["coverage"] == "504 of 504 h"
    table = pd.DataFrame(data["tables"]["surface_sup"])
    assert table.loc[table["duration"] == 4, "0.95"].item() == 0.0
    assert not any(name.startswith("independent") for name in data["tables"]["scalar_errors"][0])
    with pytest.raises(InputError, match="--portfolio all"):
        run("surface", str(tmp_path / "envelope.nc"), "--portfolio", "supported", "--out", str(tmp_path))


def test_a_grid_of_ones_own(tmp_path):
    run(*idle_nights(tmp_path / "trace"), "--out", str(tmp_path))
    words = ["--duration", "3", "--duration", "1", "--reliability", "0.4", "--no-figures", "--out", str(tmp_path)]
    printed = run("surface", str(tmp_path / "envelope.nc"), *words)
    assert "Table 3 of arXiv 2609.05406" in printed
    assert "method linear, and ratios" in printed
    K = fleet.Surface.read(tmp_path / "surface.nc").K
    assert (K["duration"].to_numpy().tolist(), K["reliability"].to_numpy().tolist()) == ([1, 3], [0.4])
    with pytest.raises(InputError, match="durations"):
        run("surface", str(tmp_path / "envelope.nc"), "--duration", "0", "--dry-run", "--out", str(tmp_path))


def test_ratings_of_the_command_line_reach_everything(tmp_path):
    words = [*idle_nights(tmp_path / "trace", "Z9"), "--out", str(tmp_path)]
    with pytest.raises(InputError, match="Z9"):
        run(*words)
    printed = run(*words, "--rating", "Z9=500", "--rating", "100")
    # Whatever is said about diagnostics, it is about the size of the fleet.
    assert "Z9" not in printed
    means = [fleet.Envelope.read(tmp_path / "envelope.nc").workload.mean().item()]
    run(*words, "--rating", "250")
    means.append(fleet.Envelope.read(tmp_path / "envelope.nc").workload.mean().item())
    assert means[0] == pytest.approx(2 * means[1])
    for bad in ("Z9=much", "-3", "Z9="):
        with pytest.raises(InputError, match="--rating"):
            run(*words, f"--rating={bad}")
    with pytest.raises(InputError, match="one rating for all"):
        run(*words, "--rating", "1", "--rating", "2")


def test_gaps_of_the_command_line(tmp_path):
    words = [*idle_nights(tmp_path / "trace"), "--out", str(tmp_path), "--json"]
    data = json.loads(run(*words, "--gap", "100:110.5", "--gap", "200:201"))
    assert data["coverage"] == {"hours": 504, "valid": 492, "longest_hole": 11}
    with pytest.raises(InputError, match="--gap"):
        run(*words, "--gap", "100")


def sacct(folder):
    """Sixteen weeks of a small cluster: of 64 preemptible GPUs, 16 run through the day."""
    rows = []
    for day in pd.date_range("2026-01-05", periods=112, freq="D"):
        rows.append(f"{day:%j}1|{day:%Y-%m-%dT00:00:00}|{day:%Y-%m-%dT16:00:00}|preempt|cpu=8,gres/gpu:a100=48")
        whole = f"{day:%Y-%m-%dT00:00:00}|{day + pd.Timedelta(days=1):%Y-%m-%dT00:00:00}"
        rows.append(f"{day:%j}3|{whole}|preempt|gres/gpu:a100=16")
        rows.append(f"{day:%j}2|{whole}|normal|gres/gpu:a100=640")
    folder.mkdir()
    (folder / "sacct.txt").write_text("\n".join(["JobID|Start|End|QOS|AllocTRES", *rows]))
    return str(folder / "sacct.txt")


def test_from_a_slurm_dump_to_terms(tmp_path):
    dump, out = sacct(tmp_path / "slurm"), ["--out", str(tmp_path / "out")]
    with pytest.raises(InputError, match="stamps with a zone.*--zone"):
        run("fleet", dump, *out)
    told = run("fleet", dump, "--zone", "UTC", "--inspect", *out)
    assert "priority 'preempt' means low" in told
    assert fleet.Layout.read(tmp_path / "out" / "trace.yaml").zone == "UTC"
    # PUE 1.1 at 0 °C to 1.5 at 40 °C; 30 °C in the mornings, else 10 °C: 1.4 and 1.2 times IT power, hour by hour.
    at = pd.date_range("2025-12-31", "2026-12-31", freq="h")
    outdoors = pd.Series(np.where(at.hour < 12, 30.0, 10.0), at)
    outdoors.to_csv(tmp_path / "outdoors.csv")
    (tmp_path / "curve.csv").write_text("C,PUE\n0,1.1\n40,1.5\n", encoding="utf-8")
    own = ["--layout", str(tmp_path / "out" / "trace.yaml"), "--draws", "2", "--no-figures", "--notice", 1]
    curve = ["--pue", f"curve:{tmp_path / 'curve.csv'}", "--temperature", str(tmp_path / "outdoors.csv")]
    run("fleet", dump, "--zone", "UTC", *own, *curve, *out)
    made = fleet.Envelope.read(tmp_path / "out" / "envelope.nc")
    factor = np.where(made.data["hour"] % 24 < 12, 1.4, 1.2)
    assert made.facility.to_numpy() == pytest.approx(factor * made.it.to_numpy())
    assert made.pue == pytest.approx(float(made.facility.sum() / made.it.sum()))
    with pytest.raises(InputError, match="temperature.*within 20 … 40.*not extrapolated"):
        made.with_pue([(20.0, 1.1), (40.0, 1.5)], outdoors.tz_localize("UTC"))
    with pytest.raises(InputError, match="Fahrenheit"):
        made.with_pue([(-10.0, 1.1), (80.0, 1.5)], outdoors.tz_localize("UTC") + 60)
    with pytest.raises(InputError, match="none in [0-9,]+ of [0-9,]+ hours"):
        made.with_pue(pd.Series(1.3, at[:100].tz_localize("UTC")))
    with pytest.raises(InputError, match="--pue: given 120.*at most 3"):
        run("fleet", dump, "--pue", "120", *out)
    envelope = str(tmp_path / "out" / "envelope.nc")
    run("surface", envelope, "--derating", "measured", "--no-figures", *out)
    terms = json.loads((tmp_path / "out" / "terms.json").read_text())
    assert "derating 1;" in terms["data"]
    # Above rest, 16 GPUs of 96 W are always there; 64 are in calls that begin in the evening of Tokyo.
    assert terms["sources"][0]["mw"] == pytest.approx(16 * 96 / 1e6)
    run("surface", envelope, "--when", "weekday-evenings", "--zone", "Asia/Tokyo", "--notice", 1, "--no-figures", *out)
    terms = json.loads((tmp_path / "out" / "terms.json").read_text())
    assert terms["sources"][0]["mw"] == pytest.approx(64 * 96 / 1e6)
    with pytest.raises(InputError, match="--when"):
        run("surface", envelope, "--when", "sundays", *out)
    peaks = tmp_path / "heat.csv"
    peaks.write_text("at,C\n2026-01-05 10:00,30\n", encoding="utf-8")
    with pytest.raises(InputError, match="stamps with a zone.*--zone"):
        run("surface", envelope, "--when", f"peaks:{peaks}", *out)
    with pytest.raises(InputError, match=r"notice: given 2.0.*one of \[1.0\] h"):
        run("surface", envelope, "--notice", 2.0, *out)


def test_from_meters_to_terms(tmp_path):
    at = pd.date_range("2026-01-05", periods=12 * 168 * 2, freq="30min")
    pd.DataFrame({"time": at, "rack": "r1", "power": np.where(np.arange(at.size) % 2, 90.0, 110.0)}).to_csv(
        tmp_path / "racks.csv", index=False
    )
    declared = ["--zone", "UTC", "--constant", "layer=eligible", "--unit", "power=kW", "--pue", "1.3"]
    with pytest.raises(InputError, match="--unit power=kW"):
        run("fleet", str(tmp_path / "racks.csv"), *declared[:4], "--out", str(tmp_path / "out"))
    run("fleet", str(tmp_path / "racks.csv"), *declared, "--no-figures", "--out", str(tmp_path / "out"))
    envelope = fleet.Envelope.read(tmp_path / "out" / "envelope.nc")
    assert (envelope.pue, envelope.data.attrs["cadence"]) == (1.3, "1800 s")
    words = ["--duration", "4", "--reliability", "1", "--no-figures", "--out", str(tmp_path / "out"), "--json"]
    found = [
        json.loads(run("surface", str(tmp_path / "out" / "envelope.nc"), *words, *more))["tables"]["surface_sup"][0][
            "1.0"
        ]
        for more in ([], ["--lowest"])
    ]
    assert found == pytest.approx([0.1, 0.09])
    # Half of it as what stays on takes the rebound: then there are terms, with the interval of the meter.
    half = envelope.data.copy(deep=True)
    half["power"].loc[{"layer": "floor"}] = 0.05
    terms = fleet.TermSheet.of(fleet.Contract.of(fleet.Envelope(half)), "racks")
    assert (terms.telemetry_interval_s, terms.ramp_mw_per_min) == (1800.0, pytest.approx(0.02 / 30, rel=1e-3))
