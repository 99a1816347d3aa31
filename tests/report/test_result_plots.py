"""Every result object draws itself, with axes that say what they show and in which unit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.network.solve.result import Result
from pypsa_aidc.plots import sites as plot
from pypsa_aidc.plots import solve as solve_plots
from tests.labelled import assert_labelled


def test_no_result_of_the_fleet_lacks_a_plot() -> None:
    # Whatever has a table has a picture; `Trace`, models, layouts and conditions are inputs.
    for name in fleet.__all__:
        kind = getattr(fleet, name)
        assert not hasattr(kind, "to_frame") or hasattr(kind, "plot"), name


def test_results_on_a_network(solved_pair, green_campus) -> None:
    assert_labelled(solved_pair.aidc.plot())
    report = solved_pair.aidc.audit()
    assert f"{len(report.frame)} of {len(report.frame)} checks passed" in report.plot().axes[0].get_title()
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
    figure = solve_plots.outcome(5.0, float("nan"), {"edges": 1}, {"solve": 1.0})
    assert len(figure.axes[0].patches) == 1


def test_failed_checks_stand_out() -> None:
    checks = pd.DataFrame(
        {
            "check": ["GPU pool", "GPU pool", "waiting", "schedule"],
            "where": ["a", "b", "c", "d"],
            "violation": [0.0, 3.0, 0.0, np.inf],
            "unit": ["GPUs", "GPUs", "h", ""],
            "passed": [True, False, True, False],
        }
    )
    (axes,) = assert_labelled(solve_plots.audit(checks)).axes
    assert axes.get_title() == "2 of 4 checks passed"
    hatches = [bar.get_hatch() for bar in axes.patches]
    assert [bool(hatch) for hatch in hatches] == [True, False, True]
    assert axes.patches[0].get_width() == 3.0


def test_values_that_cannot_be_done_without_are_written_out() -> None:
    index = pd.MultiIndex.from_tuples([("dc", "gpus"), ("dc", "waiting")])
    values = pd.DataFrame(
        {"step": [8, 1], "unit": ["GPUs", ""], "value": [2.5, np.inf], "uncertainty": [0.1, 0.0]}, index=index
    )
    (axes,) = assert_labelled(solve_plots.flexibility(values)).axes
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["2.50 USD", "needed"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "dc: more GPUs (+8 GPUs)",
        "dc: permission to wait",
    ]


class TestGantt:
    def test_bars_are_the_edges_of_the_schedule(self, solved_pair) -> None:
        steps, snapshots = solved_pair.aidc.schedule(), solved_pair.snapshots
        (axes,) = assert_labelled(plot.gantt(steps, snapshots)).axes
        bars = [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()) for bar in axes.patches]
        assert len(bars) == len(steps)
        # Hours since the first snapshot; matplotlib counts days.
        first = plot.slot_edges(snapshots)[0]
        starts = (steps["start"] - snapshots[0]) / pd.Timedelta(hours=1)
        ends = (steps["last"] - snapshots[0]) / pd.Timedelta(hours=1) + 1
        assert sorted(round(24 * (left - first), 6) for left, _, _ in bars) == sorted(starts)
        assert sorted(round(24 * (right - first), 6) for _, right, _ in bars) == sorted(ends)
        heights = np.array([height for _, _, height in bars])
        assert sorted(heights / heights.max()) == pytest.approx(sorted(steps["gpus"] / steps["gpus"].max()))
        assert [label.get_text() for label in axes.get_yticklabels()] == ["one A", "one B", "two A"]

    def test_a_stretch_in_one_mode_is_named_once(self) -> None:
        snapshots = pd.RangeIndex(6)
        steps = pd.DataFrame(
            {
                "site": "dc",
                "job": "A",
                "start": [0, 1, 4],
                "last": [0, 2, 5],
                "mode": "2·4·8",
                "pipeline": 2,
                "tensor": 4,
                "data": [8, 8, 8],
                "gpus": 64,
                "restart": [False, False, True],
            }
        )
        (axes,) = plot.gantt(steps, snapshots).axes
        assert [(text.get_text(), text.get_position()[0]) for text in axes.texts] == [("2·4·8", 1.5), ("2·4·8", 5.0)]
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        assert legend == ["checkpoint", "restart"]


def test_a_call_and_its_rebound_have_the_energy_of_the_terms() -> None:
    # App. D of [2]: 2.3199 MW for 4 h give 9.28 MWh of relief and 10.44 MWh of rebound.
    terms = fleet.Contract(power=2.3199, duration=4, reliability=0.95, noneligible=23.264)
    (axes,) = assert_labelled(terms.plot()).axes
    boxes = [collection.get_paths()[0].get_extents() for collection in axes.collections]
    areas = [box.width * box.height for box in boxes]
    assert areas == pytest.approx([9.2796, 10.43955, 9.2796], rel=1e-6)
    assert boxes[0].y1 == 0
    assert boxes[1].y0 == 0
