"""Every result object draws itself, with axes that say what they show and in which unit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.network.checks.after import AuditReport
from pypsa_aidc.network.solve.result import Result
from pypsa_aidc.plots import money, schedule, solve, style
from tests.labelled import assert_labelled


def test_no_result_of_the_fleet_lacks_a_plot() -> None:
    # Whatever has a table has a picture; `Trace`, models, layouts and conditions are inputs.
    for name in fleet.__all__:
        kind = getattr(fleet, name)
        assert not hasattr(kind, "to_frame") or hasattr(kind, "plot"), name


def test_results_on_a_network(solved_pair, green_campus) -> None:
    assert_labelled(solved_pair.aidc.plot())
    for drawn in ("gantt", "balance", "prices"):
        assert_labelled(getattr(solved_pair.aidc.plot, drawn)())
    for drawn in ("composition", "execution"):
        assert_labelled(getattr(solved_pair.aidc.plot, drawn)("one"))
    report = solved_pair.aidc.audit()
    assert f"{len(report.frame)} of {len(report.frame)} checks passed" in report.plot().axes[0].get_title(loc="left")
    assert_labelled(report.plot())
    result = Result("time_limit", 35.2, 35.0, 0.0057, "highs", "time", 1337, 3230, 0.5, 2.1, "none")
    first, second, third = assert_labelled(result.plot()).axes
    assert [bar.get_width() for axes in (first, second, third) for bar in axes.patches] == [
        35.2,
        35,
        1337,
        3230,
        0.5,
        2.1,
    ]
    frame = result.to_frame().set_index("quantity")
    assert frame.loc["objective"].to_list() == [35.2, "USD"]
    assert frame.loc["audit", "value"] == "none"
    assert_labelled(green_campus.modes(green_campus.jobs()[0]).plot())


def test_a_bound_that_is_not_known_is_not_drawn() -> None:
    result = Result("time_limit", 5.0, float("nan"), float("nan"), "highs", "time", 1, 1, 1.0, 1.0, "none")
    axes = result.plot().axes[0]
    assert len(axes.patches) == 1
    assert "no bound yet" in axes.get_title(loc="left")


def test_failed_checks_stand_out_and_zeros_have_no_bar() -> None:
    checks = pd.DataFrame(
        {
            "check": ["GPU pool", "GPU pool", "waiting", "schedule"],
            "where": ["a", "b", "c", "d"],
            "violation": [0.0, 3.0, 0.0, np.inf],
            "unit": ["GPUs", "GPUs", "h", ""],
            "passed": [True, False, True, False],
        }
    )
    (axes,) = assert_labelled(solve.plot_audit(AuditReport(checks))).axes
    assert axes.get_title(loc="left") == "2 of 4 checks passed"
    hatches = [bar.get_hatch() for bar in axes.patches]
    assert [bool(hatch) for hatch in hatches] == [True, False, True]
    assert axes.patches[0].get_x() + axes.patches[0].get_width() == pytest.approx(3.0)
    assert axes.patches[1].get_width() == 0
    assert [text.get_text() for text in axes.texts] == ["3.0e+00", "0", "without bound"]


def test_values_that_cannot_be_done_without_are_written_out() -> None:
    index = pd.MultiIndex.from_tuples([("dc", "gpus"), ("dc", "waiting")])
    values = pd.DataFrame(
        {"step": [8, 1], "unit": ["GPUs", ""], "value": [2.5, np.inf], "uncertainty": [0.1, 0.0]}, index=index
    )
    (axes,) = assert_labelled(money.plot_values(values)).axes
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["2.50 USD", "needed"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "dc: more GPUs (+8 GPUs)",
        "dc: permission to wait",
    ]


class TestGantt:
    def test_bars_are_the_edges_of_the_schedule(self, solved_pair) -> None:
        steps, snapshots = solved_pair.aidc.schedule(), solved_pair.snapshots
        (axes,) = assert_labelled(schedule.plot_gantt(steps, snapshots)).axes
        bars = [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()) for bar in axes.patches]
        assert len(bars) == len(steps)
        # Hours since the first snapshot; matplotlib counts days.
        first = style.slot_edges(snapshots)[0]
        starts = (steps["start"] - snapshots[0]) / pd.Timedelta(hours=1)
        ends = (steps["last"] - snapshots[0]) / pd.Timedelta(hours=1) + 1
        assert sorted(round(24 * (left - first), 6) for left, _, _ in bars) == sorted(starts)
        assert sorted(round(24 * (right - first), 6) for _, right, _ in bars) == sorted(ends)
        heights = np.array([height for _, _, height in bars])
        assert sorted(heights / heights.max()) == pytest.approx(sorted(steps["gpus"] / steps["gpus"].max()))
        assert [label.get_text() for label in axes.get_yticklabels()] == ["one\nA", "one\nB", "two\nA"]

    def test_a_stretch_in_one_mode_is_named_once(self) -> None:
        snapshots = pd.RangeIndex(6)
        steps = pd.DataFrame(
            {
                "site": "dc",
                "job": "A",
                "start": [0, 1, 4],
                "last": [0, 2, 5],
                "mode": "2·4·8",
                "gpus": 64,
                "restart": [False, False, True],
            }
        )
        (axes,) = schedule.plot_gantt(steps, snapshots).axes
        assert sorted((text.get_text(), text.get_position()[0]) for text in axes.texts) == [
            ("2·4·8", 1.5),
            ("2·4·8", 5.0),
        ]
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        assert legend == ["checkpoint", "restart after waiting"]

    def test_labels_stand_above_the_bars_and_name_peaks_of_one_hour(self) -> None:
        # A day with a peak of an hour between two low stretches: no label may cross a bar.
        steps = pd.DataFrame(
            {
                "site": "dc",
                "job": "A",
                "start": [0, 10, 11],
                "last": [9, 10, 23],
                "mode": ["1·1·128", "1·1·2048", "1·1·256"],
                "gpus": [128, 2048, 256],
                "restart": False,
            }
        )
        figure = schedule.plot_gantt(steps, pd.RangeIndex(24))
        figure.draw_without_rendering()
        (axes,) = figure.axes
        assert {text.get_text() for text in axes.texts} == {"1·1·128", "1·1·2048", "1·1·256"}
        bars = [bar.get_window_extent() for bar in axes.patches]
        labels = [text.get_window_extent() for text in axes.texts]
        assert not any(label.overlaps(bar) for label in labels for bar in bars)
        assert not any(one.overlaps(other) for one in labels for other in labels if one is not other)

    def test_restarts_are_marked_within_their_bar(self) -> None:
        steps = pd.DataFrame({"site": "dc", "job": "A", "start": [3], "last": [5], "mode": "1·1·4", "gpus": 4}).assign(
            restart=True
        )
        figure = schedule.plot_gantt(steps, pd.RangeIndex(8))
        figure.draw_without_rendering()
        (axes,) = figure.axes
        (mark,) = [drawn for drawn in axes.collections if drawn.get_offsets()[:, 0].tolist() == [3.0]]
        start = axes.transData.transform((3.0, 0.0))[0]
        corners = mark.get_transforms()[0][0, 0] * mark.get_paths()[0].vertices[:, 0] + start
        assert corners.min() >= start - 1e-6


def test_progress_rises_within_an_edge(solved_pair) -> None:
    # One edge of site two runs five hours without a rest at an even pace: half-way it has done half, not nothing.
    results = solved_pair.aidc
    steps, done = results.schedule(), results.progress()
    edges = style.slot_edges(done.index)
    times, shares = schedule._progress_line(results, steps, ("two", "A"), edges)
    row = steps[steps["site"] == "two"].iloc[0]
    start, stop = done.index.get_loc(row["start"]), done.index.get_loc(row["last"]) + 1
    middle = (edges[start] + edges[stop]) / 2
    gained = 100 * done["two", "A"].iloc[stop - 1]
    worked = (row["hours"] - row["boundary_idle"] / row["gpus"]) / row["hours"]
    assert np.interp(middle, times, shares) == pytest.approx(gained * 0.5 / worked)
    assert np.interp(edges[1:], times, shares)[stop - 1] == pytest.approx(gained)


def test_a_call_and_its_rebound_have_the_energy_of_the_terms() -> None:
    # App. D of [2]: 2.3199 MW for 4 h give 9.28 MWh of relief and 10.44 MWh of rebound.
    terms = fleet.Contract(power=2.3199, duration=4, reliability=0.95, noneligible=23.264)
    (axes,) = assert_labelled(terms.plot()).axes
    boxes = [collection.get_paths()[0].get_extents() for collection in axes.collections]
    areas = [box.width * box.height for box in boxes]
    assert areas == pytest.approx([9.2796, 10.43955, 9.2796], rel=1e-6)
    assert boxes[0].y1 == 0
    assert boxes[1].y0 == 0


def test_the_bars_of_a_term_sheet_are_its_megawatts() -> None:
    years = fleet.Megawatts(40.0, 2028), fleet.Megawatts(100.0, 2030, "summer")
    sources = fleet.ReliefSource("battery", 25.0, 2.0), fleet.ReliefSource("genset")
    sheet = fleet.TermSheet(id="east", ramp=years, conditional=(years[1],), sources=sources)
    (axes,) = assert_labelled(sheet.plot()).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["ramp 2028", "ramp 2030 summer", "conditional 2030 summer", "relief: battery"]
    assert [bar.get_width() for bar in axes.patches] == [40, 100, 100, 25]
    assert axes.texts[-1].get_text() == "25 MW for 2 h"
    (empty,) = assert_labelled(fleet.TermSheet(id="west").plot()).axes
    assert empty.get_title(loc="left") == "west: no megawatts, 32 fields missing"
