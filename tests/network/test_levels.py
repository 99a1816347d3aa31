"""Sums over time written as changes from one snapshot to the next: the same numbers, two entries a stretch."""

from __future__ import annotations

import linopy
import numpy as np
import pandas as pd
import pytest

from pypsa_aidc.network.model import levels
from pypsa_aidc.training import Mode, Rules, Slots, TrainingLoad, checkpoint_graph


@pytest.mark.parametrize("every", [3, 1000])
def test_levels_are_the_sums_of_what_covers_a_snapshot(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random stretches in two scenarios and three columns, each fixed at random, against a loop over slots."""
    monkeypatch.setattr(levels, "EVERY", every)
    draw = np.random.default_rng(5)
    count, columns, entries, stretches = 20, 3, 12, 60
    entry, column, block = (draw.integers(most, size=stretches) for most in (entries, columns, 2))
    start = draw.integers(count, size=stretches)
    stop = start + 1 + draw.integers(count - start)
    level, chosen = draw.uniform(0, 5, stretches), draw.integers(2, size=entries).astype(float)
    m = linopy.Model()
    x = m.add_variables(lower=chosen, upper=chosen, coords=[pd.RangeIndex(entries, name="edge")], name="x")
    coords = {
        "scenario": pd.Index(["dry", "wet"], name="scenario"),
        "snapshot": pd.date_range("2030", periods=count, freq="h", name="snapshot"),
        "name": pd.Index(list("abc"), name="name"),
    }
    base = block * count * columns + column
    total = levels.add_levels(x, entry, start, stop, base, level, coords, "power")
    m.add_objective(total.sum())
    m.solve("highs", io_api="direct", output_flag=False, progress=False)
    due = np.zeros((2, count, columns))
    for each in range(stretches):
        due[block[each], start[each] : stop[each], column[each]] += level[each] * chosen[entry[each]]
    np.testing.assert_allclose(m.solution["power"].transpose(*coords).values, due, atol=1e-9)


def test_an_edge_is_one_run_but_where_it_pays_for_its_start() -> None:
    """2 MW over three hours, of which the first takes the 0.5 MWh of a restart, too; 8 GPUs throughout."""
    mode = Mode((1, 1, 8), gpus=8, flops_per_s=1e15, it_power=2.0)
    rules = Rules(segments=2, restart_energy=0.5)
    graph = checkpoint_graph(TrainingLoad("A", 1e15 * 3600 * 6, (mode,), rules), Slots.uniform(12))
    runs, gpus = graph.power_runs(), graph.gpu_runs(held=False)
    lengths = (graph.edges.stop - graph.edges.start)[graph.edges.mode >= 0]
    assert set(lengths) == {3}
    assert gpus.level.tolist() == [8] * len(lengths)
    restarts = np.flatnonzero(graph.edges.energy > 0)
    assert len(restarts)
    assert len(runs.edge) == len(lengths) + len(restarts)
    of_one = runs.edge == restarts[0]
    assert runs.level[of_one].tolist() == [2.5, 2.0]
    assert (runs.stop - runs.start)[of_one].tolist() == [1, 2]
