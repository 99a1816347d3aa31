"""Modes measured on a cluster, read from a table instead of modelled."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults, InputError, UnitWarning
from pypsa_aidc.training.calibration import calibrate
from pypsa_aidc.training.csv_table import read_cells
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import AXES, Layout
from pypsa_aidc.training.mode_table import ModeTable
from pypsa_aidc.training.modes import mark_dominated
from pypsa_aidc.training.performance import PerformanceModel
from pypsa_aidc.training.recipe import Recipe
from pypsa_aidc.training.run import Run
from pypsa_aidc.units import GB, W_PER_MW

_SIZES = ("pipeline", "tensor", "data")
_RATES = ("flops_per_s", "tokens_per_s")
_PLAUSIBLE_W = (20.0, 10_000.0)
"""Power for each GPU of a mode, hosts and network included, beyond which another unit is more likely."""
_PLAUSIBLE_FLOPS = (1e11, 1e17)
"""The same for the FLOP/s of a GPU in training."""


def read_profile(
    source: str | Path | pd.DataFrame,
    job: Job,
    *,
    gpus: int | None = None,
    gpu: GPU | str | None = None,
    recipe: Recipe | None = None,
    model: PerformanceModel | None = None,
    prune: bool = True,
) -> ModeTable:
    """Read a profiled table of modes; with a `gpu`, holes in it are completed by a model calibrated on its rows.

    Parameters
    ----------
    source
        CSV file or frame, one row a mode, in any order. Columns: `pipeline`, `tensor`, `data`, maybe `context`,
        `expert`, `micro_batch` and `chunks` (else 1); `flops_per_s` (of the whole mode, FLOP/s) or `tokens_per_s`;
        `power_w` (IT power of the whole mode, W); optionally `memory_gb`. Other columns are refused, so that a
        misspelt one is not ignored.
    job
        Job that was profiled; its FLOPs a token turn tokens/s into FLOP/s.
    gpus
        N_GPU; larger modes are kept as infeasible. `None` for no limit.
    gpu
        Type of GPU, or the name of a preset. With it, cells of rate, power and memory may be empty: the rows with a
        rate calibrate the performance model, which fills the holes. What was measured stays as measured.
    recipe, model
        How the modes were run, and the model to start from; only with `gpu`.
    prune
        Whether to drop dominated modes (Eq. 20 of [1]).

    Returns
    -------
    ModeTable
        `efficiency` is NaN: a profile does not know the peak.

    Raises
    ------
    InputError
        Missing or unknown columns, rows with a size that is not whole and positive, with a rate or power that is
        not, or the same sizes twice; all of them at once, by row.

    Warns
    -----
    UnitWarning
        Power or rate for each GPU is far from what any GPU does.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eqs. 13, 17 and 20: "obtained from cluster profiling records".

    Examples
    --------
    >>> from pypsa_aidc.training import Transformer
    >>> job = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.049)
    >>> measured = pd.DataFrame({"pipeline": [2, 4], "tensor": [8, 8], "data": [8, 8],
    ...                          "tokens_per_s": [2.0e5, 3.7e5], "power_w": [5.4e4, 1.05e5]})
    >>> [mode.gpus for mode in read_profile(measured, job)]
    [128, 256]
    """
    name = "profile" if isinstance(source, pd.DataFrame) else str(source)
    faults = Faults(f"{name} of job {getattr(job, 'name', job)!r}")
    faults.kind("source", source, (str, Path, pd.DataFrame), "a CSV file or a frame")
    faults.kind("job", job, Job, "a Job")
    for option, value in (("recipe", recipe), ("model", model)):
        faults.require(
            value is None or gpu is not None, option, value, "None without gpu", "Nothing would be modelled."
        )
    if gpus is not None:
        faults.number("gpus", gpus, at_least=1, integer=True)
    faults.raise_any()
    table = source if isinstance(source, pd.DataFrame) else read_cells(Path(source), faults)
    _check_columns(table, faults)
    faults.raise_any()
    table = table.assign(**{axis: table.get(axis, 1) for axis in AXES if axis not in table})
    rate = next(column for column in _RATES if column in table)
    numbers = table.apply(pd.to_numeric, errors="coerce")
    for column in (*AXES, rate, "power_w", *(c for c in ("memory_gb",) if c in table)):
        good = np.isfinite(numbers[column]) & (numbers[column] > 0)
        expected = "a finite number above 0"
        if column in AXES:
            good &= numbers[column] % 1 == 0
            expected = "a whole number of at least 1"
        elif gpu is not None:
            good |= table[column].isna() | (table[column].astype(str).str.strip() == "")
            expected += ", or nothing"
        for row in np.flatnonzero(~good):
            faults.add(f"row {row + 1}, {column}", table[column].iloc[row], expected)
    for row in np.flatnonzero(numbers.duplicated(list(AXES))):
        sizes = tuple(int(table[axis].iloc[row]) for axis in _SIZES) if not len(faults) else "sizes"
        faults.add(f"row {row + 1}", sizes, "each (pipeline, tensor, data) once")
    faults.raise_any()
    frame = _frame(numbers, rate, job, gpus)
    _warn_about_units(frame, name)
    if gpu is not None:
        chips = GPU.preset(gpu) if isinstance(gpu, str) else gpu
        frame = _completed(frame, job, chips, recipe or Recipe(), model or PerformanceModel(), faults)
    return ModeTable(job.name, mark_dominated(frame, prune))


def _completed(
    frame: pd.DataFrame, job: Job, gpu: GPU, recipe: Recipe, model: PerformanceModel, faults: Faults
) -> pd.DataFrame:
    """Fill what was not measured by the model, calibrated on the rows whose rate was."""
    runs = []
    for row in np.flatnonzero(frame["flops_per_s"].notna()):
        cells: dict[str, Any] = {str(key): value for key, value in frame.iloc[row].items()}
        layout = Layout(**{axis: int(cells[axis]) for axis in AXES})
        memory, power = (None if math.isnan(cells[key]) else cells[key] for key in ("memory_gb", "it_power"))
        memory = None if memory is None else memory * GB
        seconds = job.iteration_flops / cells["flops_per_s"]
        try:
            runs.append(Run(job, layout, gpu, seconds, recipe, memory, power, f"row {row + 1}"))
        except InputError as error:
            for fault in error.faults:
                faults.add(f"row {row + 1}, {fault.where}", fault.given, fault.expected, fault.remedy)
    faults.require(len(runs) > 0 or len(faults) > 0, "rate", "no measured row", "at least one to calibrate with")
    faults.raise_any()
    fitted = calibrate(runs, model=model).model
    modelled = fitted.evaluate(job, gpu, recipe, frame[list(AXES)].to_numpy(np.int64)).set_index(frame.index)
    measured = frame["flops_per_s"].notna()
    return frame.assign(
        flops_per_s=frame["flops_per_s"].fillna(job.iteration_flops / modelled["seconds"]),
        it_power=frame["it_power"].fillna(modelled["watts"] * frame["gpus"] / W_PER_MW),
        memory_gb=frame["memory_gb"].fillna(modelled["memory"] / GB),
        efficiency=modelled["efficiency"].mask(measured),
        busy=modelled["busy"],
        deviation=modelled["deviation"].mask(measured),
    )


def _warn_about_units(frame: pd.DataFrame, name: str) -> None:
    for column, unit, per_unit, (low, high) in (
        ("it_power", "W", W_PER_MW, _PLAUSIBLE_W),
        ("flops_per_s", "FLOP/s", 1.0, _PLAUSIBLE_FLOPS),
    ):
        each = frame[column] * per_unit / frame["gpus"]
        odd = each[(each < low) | (each > high)]
        if len(odd):
            text = f"row {odd.index[0] + 1} and {len(odd) - 1} more give {odd.iloc[0]:.3g} {unit} for each GPU"
            warnings.warn(f"{name}: {text}. Is it in another unit? Give {unit}.", UnitWarning, stacklevel=3)


def _check_columns(table: pd.DataFrame, faults: Faults) -> None:
    repeated = table.columns[table.columns.duplicated()]
    faults.require(not len(repeated), "columns", list(table), "each column once")
    for column in (*_SIZES, "power_w"):
        faults.require(
            column in table, column, "no such column", "a column", f"There are: {', '.join(map(str, table))}."
        )
    given = [column for column in _RATES if column in table]
    faults.require(len(given) == 1, " or ".join(_RATES), given, "exactly one of them")
    for column in table.columns.difference([*AXES, *_RATES, "power_w", "memory_gb"]):
        faults.add(str(column), "unknown column", "sizes of a layout, a rate, power_w and memory_gb only")
    faults.require(len(table) > 0, "rows", 0, "at least one mode")


def _frame(numbers: pd.DataFrame, rate: str, job: Job, gpus: int | None) -> pd.DataFrame:
    sizes = numbers[list(AXES)].astype(int)
    count = sizes[list(AXES[:4])].prod(axis=1)
    memory = numbers["memory_gb"] if "memory_gb" in numbers else pd.Series(np.nan, index=numbers.index)
    return sizes.assign(
        gpus=count,
        efficiency=np.nan,
        flops_per_s=numbers[rate] * (job.flops_per_token if rate == "tokens_per_s" else 1.0),
        it_power=numbers["power_w"] / W_PER_MW,
        memory_gb=memory,
        busy=np.nan,
        deviation=np.nan,
        reason=np.where(count > (count if gpus is None else gpus), f"pool: more than {gpus} GPUs", ""),
    )
