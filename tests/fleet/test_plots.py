from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from pypsa_aidc import fleet
from pypsa_aidc.plots import dependable, power_model
from tests.labelled import assert_labelled

from .test_portfolio import small_fleet


def texts(figure) -> str:
    parts = [figure.get_suptitle()]
    for axes in figure.axes:
        parts += [axes.get_title("left"), axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
        parts += [text.get_text() for text in axes.texts]
        legend = axes.get_legend()
        parts += [text.get_text() for text in legend.get_texts()] if legend else []
    return "\n".join(parts)


def test_results_plot_themselves(envelope):
    K = fleet.Surface.of(envelope)
    figures = [
        envelope.plot(),
        K.plot(),
        fleet.counterfactuals(envelope, replicates=1).plot(),
        fleet.portfolios(envelope, samples=2).plot(),
        fleet.Backtest.of(envelope).plot(),
    ]
    for figure in figures:
        assert "synthetic fleet" in texts(figure)
        assert "MW" in texts(figure) or "firmness" in texts(figure) or "coverage" in texts(figure)


def test_a_figure_of_other_data_does_not_say_synthetic():
    assert "synthetic" not in texts(small_fleet(3).plot())


def test_the_style_of_the_user_is_left_alone(envelope):
    before = dict(mpl.rcParams)
    fleet.Surface.of(envelope).plot()
    assert dict(mpl.rcParams) == before


def test_the_line_of_k_is_k(envelope):
    K = fleet.Surface.of(envelope)
    lines = K.plot().axes[0].get_lines()
    assert len(lines) == 4
    for line, alpha in zip(lines, K.data["reliability"].to_numpy(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), K.K.sel(reliability=alpha))


def test_realised_fraction_names_the_q_of_an_offer(envelope):
    K = fleet.Surface.of(envelope, portfolio="supported", method="linear")
    # 1 MW needs q of at least 0.432 (Sec. 3.6 of [2]).
    assert "1 MW needs q ≥ 0.432" in texts(dependable.plot_realised(K))


def test_figures_of_outside_measurements():
    measured = pd.DataFrame({"category": ["idle", "training", "training"], "share": [0.19, 0.7, 0.8]})
    assert "power / rating" in texts(power_model.plot_anchors(measured))
    points = pd.DataFrame({"utilisation": [0.06, 0.5], "share": [0.43, 0.6]})
    assert "measured" in texts(power_model.plot_online_curve(measured=points))
    log = pd.DataFrame({"seconds": range(0, 7200, 10), "power": np.linspace(1, 2, 720)})
    assert "lowest mean / hourly mean" in texts(power_model.plot_subhour(fleet.subhour_minima(log)))
    curves = power_model.plot_duty_cycle().axes[0].get_lines()
    np.testing.assert_allclose(curves[3].get_ydata(), 0.0, atol=1e-12)


@pytest.mark.parametrize("rebound", [0.5, 1.0])
def test_net_energy_is_drawn_as_its_formula(rebound):
    figure = dependable.plot_net_energy((1, 4), (rebound,), (1.0,))
    expected = [1 - rebound * (1 + 1 / 2), 1 - rebound * (1 + 1 / 8)]
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_ydata(), expected)


@pytest.mark.slow
def test_every_result_draws_itself_with_units_at_the_axes(synthetic, envelope) -> None:
    statistics, few = synthetic.statistics, {"replicates": 5}
    ensemble = fleet.ensemble(statistics, fleet.power_draws(3, 0))
    spans = synthetic.execution.matched
    hours, power = (2640, 3000), fleet.span_power(spans, statistics)
    results = [
        envelope,
        fleet.Surface.of(envelope),
        fleet.counterfactuals(envelope, replicates=1),
        fleet.portfolios(envelope, samples=2),
        fleet.Backtest.of(envelope),
        fleet.Contract.of(envelope),
        fleet.bootstrap(envelope, **few),
        fleet.fluctuation_scaling(statistics, **few),
        fleet.variability_by_training(statistics, **few),
        fleet.attribution(statistics, **few),
        fleet.displacement(spans, power, hours),
        fleet.backlog(spans, power, hours),
        ensemble,
        fleet.load_shape(ensemble.band().sel(quantile=0.5)),
        statistics,
        synthetic.execution,
        statistics.audit,
        *fleet.measure_synchrony(statistics).values(),
    ]
    for result in results:
        assert_labelled(result.plot())
