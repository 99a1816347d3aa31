"""The drawings of a network with AIDCs: `n.aidc.plot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from pypsa_aidc.plots.balance import plot_balances
from pypsa_aidc.plots.bus_map import explore, plot_network
from pypsa_aidc.plots.calls import plot_calls
from pypsa_aidc.plots.money import plot_prices
from pypsa_aidc.plots.schedule import by_scenario, plot_composition, plot_execution, plot_gantt, plot_overview

if TYPE_CHECKING:
    import pydeck
    import pypsa

    from pypsa_aidc.network.results.accessor import Results


class NetworkPlots:
    """What can be drawn of a network with AIDCs; ``n.aidc.plot()`` draws power, GPUs and progress over time.

    Parameters
    ----------
    results
        Results of the network.
    n
        The network.
    """

    def __init__(self, results: Results, n: pypsa.Network) -> None:
        self._results = results
        self._n = n

    def __call__(self) -> Figure:
        """Draw power at the meter of each AIDC, and GPUs and progress of each job, over time."""
        return plot_overview(self._results)

    def balance(self) -> Figure:
        """Draw sources, storage and loads over time, in the colours and with the nice names of the carriers."""
        frame = self._results.balance()
        if "scenario" not in frame.columns.names:
            return plot_balances({"power by source": frame}, self._n.carriers)
        names = dict.fromkeys(frame.columns.get_level_values("scenario"))
        carriers = self._n.carriers
        if isinstance(carriers.index, pd.MultiIndex):
            carriers = pd.DataFrame(carriers.xs(next(iter(names)), level=0))
        return plot_balances({f"power by source, {name}": pd.DataFrame(frame[name]) for name in names}, carriers)

    def gantt(self) -> Figure:
        """Draw the modes, checkpoints and restarts of each job over time."""
        return plot_gantt(by_scenario(self._results.schedule()), self._results.gpus().index)

    def composition(self, site: str) -> Figure:
        """Draw what the load of a site consists of."""
        return plot_composition(self._results, site)

    def execution(self, site: str) -> Figure:
        """Draw GPUs in use and progress of the jobs of a site."""
        return plot_execution(self._results, site)

    def calls(self, fleet: str) -> Figure:
        """Draw power, relief, rebound and calls of a fleet."""
        return plot_calls(self._results, fleet)

    def prices(self) -> Figure:
        """Draw the price at the grid bus of each AIDC, and the power it draws there."""
        results = self._results
        meter = pd.DataFrame(results.expected(results.power()).xs("meter", axis=1, level="part"))
        return plot_prices(results.expected(results.grid_prices()), meter, str(results.status.get("prices", "")))

    def map(self, headroom: pd.Series[float] | None = None) -> Figure:
        """Draw the network on a map with its AIDCs, and if headroom by bus (MW) is given, buses coloured by it."""
        return plot_network(self._n, headroom)

    def explore(self, headroom: pd.DataFrame | None = None, *, background: bool = False) -> pydeck.Deck:
        """Make a map to move about in; parameters as for `pypsa_aidc.plots.bus_map.explore`."""
        return explore(self._n, headroom, background=background)
