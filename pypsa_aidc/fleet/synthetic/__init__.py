"""A synthetic GPU fleet, calibrated to published figures: the whole pipeline runs without the trace it stands in for.

It is calibration, not validation: what comes from it carries the word `synthetic`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pypsa_aidc.errors import Faults
from pypsa_aidc.fleet.synthetic import cells, jobs, rows, series
from pypsa_aidc.fleet.trace.audit import Audit
from pypsa_aidc.fleet.trace.execution import Execution
from pypsa_aidc.fleet.trace.statistics import Statistics
from pypsa_aidc.fleet.windows import Floats
from pypsa_aidc.progress import waiting

SOURCE = "synthetic fleet, calibrated to arXiv 2609.05406"


@dataclass(frozen=True, repr=False)
class SyntheticFleet:
    """Statistics and executions of a made-up fleet whose published figures are those of [2].

    Attributes
    ----------
    statistics
        Sufficient statistics, in the schema of every trace.
    execution
        Spans and delays of days 110–184.
    seed
        0 for the calibrated fleet.
    """

    statistics: Statistics
    execution: Execution
    seed: int

    def __repr__(self) -> str:
        return f"SyntheticFleet(seed {self.seed}, {self.statistics})"

    @classmethod
    def generate(cls, seed: int = 0) -> SyntheticFleet:
        """Make the synthetic fleet.

        Parameters
        ----------
        seed
            0 gives the calibrated fleet; another seed another fleet with the same K surfaces, but other fluctuations.

        Returns
        -------
        SyntheticFleet

        Raises
        ------
        InputError
            A seed that is no whole number of at least 0.

        References
        ----------
        [2] M. Li, "Beyond Scalar Flexibility", arXiv 2609.05406. The raw trace cannot be redistributed.
        """
        faults = Faults("Synthetic fleet")
        faults.number("seed", seed, at_least=0, integer=True)
        faults.raise_any()
        return built(parameters(), seed)


def parameters() -> dict[str, Any]:
    """Calibrated parameters of the synthetic fleet, with what each was fitted to."""
    text = resources.files(__package__).joinpath("parameters.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@waiting("synthetic fleet")
def built(own: dict[str, Any], seed: int) -> SyntheticFleet:
    """Make a fleet from any parameters of this form."""
    pods, hours, around = _made(own, seed)
    table, capacity = cells.tables(own, pods, hours, around)
    audit = Audit(SOURCE, scale="fraction", partitions=1, rows=int(table["pods"].sum()))
    return SyntheticFleet(Statistics(table, capacity, audit, synthetic=True), Execution(jobs.spans(own, seed)), seed)


def write_trace(folder: str | Path, hours: int, seed: int = 0) -> Path:
    """Write the first hours of the synthetic fleet as pods and servers in the layout ``"alibaba-2026"``.

    Read with utilisation in percent, they give the cells of `synthetic` back, apart from the CPU.

    Parameters
    ----------
    folder
        Where to; made if it is not there.
    hours
        How many of the hours that are there, at least 1.
    seed
        As for `synthetic`.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        More hours than the fleet has.
    """
    own = parameters()
    pods, there, around = _made(own, seed)
    faults = Faults("Synthetic trace")
    faults.number("hours", hours, at_least=1, at_most=there.size, integer=True)
    faults.raise_any()
    _, capacity = cells.tables(own, pods, there, around)
    target = Path(folder)
    rows.write_pods(target, pods, there[:hours], own["families"])
    rows.write_servers(target, capacity.filter(pl.col("hour") <= there[hours - 1]))
    return target


def _made(
    own: dict[str, Any], seed: int
) -> tuple[list[cells.Family], np.ndarray[Any, np.dtype[np.int64]], dict[str, Floats]]:
    """Pods, the hours that are there, and host and idle power in them."""
    active = series.eligible(own, seed)
    whole = series.attributed(own, active, seed)
    large = np.array([not cluster.get("small") for cluster in own["clusters"]])
    load = series.workload(own, active[large].sum(axis=0), seed)
    around = series.facility_parts(own, load, seed)
    hours = cells.workload_hours(active)
    parts = cells.split(own, active, whole, load, seed)
    pods = cells.families(own, active, whole, parts, seed)
    return pods, hours, {name: values[hours] for name, values in around.items()}
