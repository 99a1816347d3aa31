"""Modes measured on a cluster, read from a table instead of modelled."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from pypsa_aidc.errors import Faults, InputError, UnitWarning
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.mode_table import ModeTable
from pypsa_aidc.training.modes import mark_dominated
from pypsa_aidc.units import W_PER_MW

_SIZES = ("pipeline", "tensor", "data")
_RATES = ("flops_per_s", "tokens_per_s")
_PLAUSIBLE_W = (20.0, 10_000.0)
"""Power for each GPU of a mode, hosts and network included, beyond which another unit is more likely."""
_PLAUSIBLE_FLOPS = (1e11, 1e17)
"""The same for the FLOP/s of a GPU in training."""


def read_profile(
    source: str | Path | pd.DataFrame, job: Job, *, gpus: int | None = None, prune: bool = True
) -> ModeTable:
    """Read a profiled table of 3D-parallel modes.

    Parameters
    ----------
    source
        CSV file or frame, one row a mode, in any order. Columns: `pipeline`, `tensor`, `data`; `flops_per_s` (of the
        whole mode, FLOP/s) or `tokens_per_s`; `power_w` (IT power of the whole mode, W); optionally `memory_gb`.
        Other columns are refused, so that a misspelt one is not ignored.
    job
        Job that was profiled; its FLOPs a token turn tokens/s into FLOP/s.
    gpus
        N_GPU; larger modes are kept as infeasible. `None` for no limit.
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
    if gpus is not None:
        faults.number("gpus", gpus, at_least=1, integer=True)
    faults.raise_any()
    table = source if isinstance(source, pd.DataFrame) else _read(Path(source), faults)
    _check_columns(table, faults)
    faults.raise_any()
    rate = next(column for column in _RATES if column in table)
    numbers = table.apply(pd.to_numeric, errors="coerce")
    for column in (*_SIZES, rate, "power_w", *(c for c in ("memory_gb",) if c in table)):
        good = np.isfinite(numbers[column]) & (numbers[column] > 0)
        expected = "a finite number above 0"
        if column in _SIZES:
            good &= numbers[column] % 1 == 0
            expected = "a whole number of at least 1"
        for row in np.flatnonzero(~good):
            faults.add(f"row {row + 1}, {column}", table[column].iloc[row], expected)
    for row in np.flatnonzero(numbers.duplicated(list(_SIZES))):
        faults.add(f"row {row + 1}", tuple(table[list(_SIZES)].iloc[row]), "each (pipeline, tensor, data) once")
    faults.raise_any()
    frame = _frame(numbers, rate, job, gpus)
    _warn_about_units(frame, name)
    return ModeTable(job.name, mark_dominated(frame, prune))


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


def _read(path: Path, faults: Faults) -> pd.DataFrame:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line] or [[]]
    except (OSError, ValueError, csv.Error) as error:
        faults.add("file", str(path), f"a readable CSV file ({error})")
        raise InputError(faults.subject, tuple(faults)) from error
    for row, line in enumerate(lines, start=1):
        # pandas would take the first cells of a longer row for an index, and shift the rest.
        faults.require(len(line) == len(header), f"row {row}", f"{len(line)} cells", f"{len(header)}, as the header")
    faults.raise_any()
    return pd.DataFrame(lines, columns=header)


def _check_columns(table: pd.DataFrame, faults: Faults) -> None:
    repeated = table.columns[table.columns.duplicated()]
    faults.require(not len(repeated), "columns", list(table), "each column once")
    for column in (*_SIZES, "power_w"):
        faults.require(
            column in table, column, "no such column", "a column", f"There are: {', '.join(map(str, table))}."
        )
    given = [column for column in _RATES if column in table]
    faults.require(len(given) == 1, " or ".join(_RATES), given, "exactly one of them")
    for column in table.columns.difference([*_SIZES, *_RATES, "power_w", "memory_gb"]):
        faults.add(str(column), "unknown column", "pipeline, tensor, data, a rate, power_w and memory_gb only")
    faults.require(len(table) > 0, "rows", 0, "at least one mode")


def _frame(numbers: pd.DataFrame, rate: str, job: Job, gpus: int | None) -> pd.DataFrame:
    sizes = numbers[list(_SIZES)].astype(int)
    count = sizes.prod(axis=1)
    return sizes.assign(
        gpus=count,
        efficiency=np.nan,
        flops_per_s=numbers[rate] * (job.flops_per_token if rate == "tokens_per_s" else 1.0),
        it_power=numbers["power_w"] / W_PER_MW,
        memory_gb=numbers.get("memory_gb", np.nan),
        reason=np.where(count > (count if gpus is None else gpus), f"pool: more than {gpus} GPUs", ""),
    )
