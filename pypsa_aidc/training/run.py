"""Measured training runs, one by one or from a table: what a calibration is fed with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from pypsa_aidc.errors import Faults, InputError, near
from pypsa_aidc.training.csv_table import read_cells
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import AXES, Layout
from pypsa_aidc.training.recipe import Recipe, Schedule
from pypsa_aidc.training.transformer import Transformer
from pypsa_aidc.units import TFLOP, W_PER_MW

_SHAPE = ("layers", "hidden", "ffn", "heads", "vocabulary", "kv_heads", "head_dim", "gated", "tied")
_RATES = ("seconds", "tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu")
_RECIPE = tuple(each.name for each in fields(Recipe) if each.name != "schedule")
_COLUMNS = (*AXES, "gpus", "batch", "sequence", "chi_f", "model", *_SHAPE, "gpu", *_RECIPE, "schedule", *_RATES)
_COLUMNS += ("memory_gb", "power_w", "name", "source")
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


@dataclass(frozen=True)
class Run:
    """One measured run.

    Parameters
    ----------
    job
        What was trained; its model, batch and sequence count.
    layout
        How it was laid out.
    gpu
        On what.
    seconds
        Measured time of an iteration in seconds.
    recipe
        How the training code ran it.
    memory
        Measured bytes on the fullest GPU; `None` if not measured.
    it_power
        Measured IT power of the whole run in MW; `None` if not measured.
    name
        For messages and tables.

    Raises
    ------
    InputError
        Any field out of range or of the wrong kind; a run faster than the peak of its GPUs; all of them at once.
    """

    job: Job
    layout: Layout
    gpu: GPU
    seconds: float
    recipe: Recipe = Recipe()  # noqa: RUF009 - frozen
    memory: float | None = None
    it_power: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        faults = Faults(f"Run {self.name!r}")
        known = True
        for field, kind in (("job", Job), ("layout", Layout), ("gpu", GPU), ("recipe", Recipe)):
            known &= faults.kind(field, getattr(self, field), kind, f"a {kind.__name__}")
        faults.number("seconds", self.seconds, above=0)
        for field in ("memory", "it_power"):
            if getattr(self, field) is not None:
                faults.number(field, getattr(self, field), above=0)
        if known and not len(faults):
            faults_of_layout(self.job, self.layout, self.recipe, faults)
            precision = self.recipe.precision
            if precision not in self.gpu.peak_flops:
                faults.add("recipe.precision", precision, f"one of {', '.join(self.gpu.peak_flops)} of {self.gpu.name}")
            else:
                work = replace(self.job, chi_f=72.0).iteration_flops
                share = work / (self.seconds * self.layout.gpus * self.gpu.peak(precision))
                remedy = "Look at units, batch and number of GPUs."
                faults.require(share <= 1, "seconds", self.seconds, f"{share * self.seconds:.3g} at the peak", remedy)
        faults.raise_any()

    @classmethod
    def read(
        cls,
        source: str | Path | pd.DataFrame,
        job: Job | None = None,
        *,
        gpu: GPU | str | None = None,
        recipe: Recipe | None = None,
    ) -> tuple[Run, ...]:
        """Read a table of runs.

        Parameters
        ----------
        source
            CSV file or frame, one row a run. Columns: `pipeline`, `tensor`, `data`, `context`, `expert`, `micro_batch`,
            `chunks` (1 where a column or cell is missing; `data` follows from `gpus` where that is given); `batch`
            and `sequence`; `model`, the name of a preset, or `layers`, `hidden`, `ffn` (4 `hidden`), `heads`,
            `vocabulary`, `kv_heads`, `head_dim`, `gated`, `tied`; `gpu`, the name of a preset; the fields of `Recipe`,
            `schedule` by its kind. Measured is one of `seconds` (an iteration), `tokens_per_s` (of the run),
            `tokens_per_s_per_gpu`, `tflops_per_gpu` (counted with the column `chi_f`, 72 if there is none); maybe
            `memory_gb` (1e9 bytes, fullest GPU) and `power_w` (IT power of the run). `name` and `source` are kept.
        job, gpu, recipe
            What the table does not say.

        Raises
        ------
        InputError
            Unknown or missing columns, and every cell that is wrong, by row.

        Examples
        --------
        >>> job = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.049)
        >>> table = pd.DataFrame({"pipeline": [4], "tensor": [4], "data": [32], "tokens_per_s": [9.0e5]})
        >>> Run.read(table, job, gpu="A100-80GB")[0].layout.label
        '4·4·32'
        """
        name = "runs" if isinstance(source, pd.DataFrame) else str(source)
        faults = Faults(name)
        faults.kind("source", source, (str, Path, pd.DataFrame), "a CSV file or a frame")
        faults.raise_any()
        table = source if isinstance(source, pd.DataFrame) else read_cells(Path(source), faults)
        for column in table.columns:
            faults.require(
                column in _COLUMNS, str(column), "unknown column", f"of {', '.join(_COLUMNS)}", near(column, _COLUMNS)
            )
        rates = [rate for rate in _RATES if rate in table]
        faults.require(len(rates) == 1, " or ".join(_RATES), rates, "exactly one of them")
        faults.require(len(table) > 0, "rows", 0, "at least one run")
        faults.raise_any()
        runs = []
        for row, cells in enumerate(table.to_dict("records"), start=1):
            known = {str(key): value for key, value in cells.items() if not _empty(value)}
            try:
                runs.append(_run(known, rates[0], job, gpu, recipe, f"row {row}"))
            except InputError as error:
                for fault in error.faults:
                    faults.add(f"row {row}, {fault.where}", fault.given, fault.expected, fault.remedy)
        faults.raise_any()
        return tuple(runs)

    @property
    def settings(self) -> tuple[object, ...]:
        """All that is not measured."""
        job = self.job
        return (job.model, job.batch, job.sequence, self.layout, self.gpu, self.recipe)


def faults_of_layout(job: Job, layout: Layout, recipe: Recipe, faults: Faults) -> None:
    """Note settings of a layout that contradict each other or the model."""
    model, kind = job.model, recipe.schedule.kind
    pieces, sequences = layout.pipeline * layout.chunks, layout.data * layout.micro_batch
    faults.require(pieces <= model.layers, "pipeline x chunks", pieces, f"at most layers = {model.layers}")
    faults.require(layout.chunks == 1 or layout.pipeline > 1, "chunks", layout.chunks, "1 without a pipeline")
    faults.require(layout.chunks == 1 or kind == "1f1b", "chunks", layout.chunks, f"1 with schedule {kind!r}")
    faults.require(kind != "dualpipe" or layout.pipeline % 2 == 0, "pipeline", layout.pipeline, "even with dualpipe")
    faults.require(sequences <= job.batch, "data x micro_batch", sequences, f"at most batch = {job.batch}")
    faults.require(job.sequence % layout.context == 0, "context", layout.context, f"a divisor of {job.sequence} tokens")
    if layout.expert > 1:
        experts = 1 if model.experts is None else model.experts.count
        group = layout.tensor * layout.data * layout.context
        faults.require(experts % layout.expert == 0, "expert", layout.expert, f"a divisor of {experts} experts")
        expected = f"a divisor of tensor x data x context = {group}"
        faults.require(group % layout.expert == 0, "expert", layout.expert, expected)


def _empty(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _run(
    cells: Mapping[str, Any], rate: str, job: Job | None, gpu: GPU | str | None, recipe: Recipe | None, name: str
) -> Run:
    faults = Faults(name)
    texts = ("model", "gpu", "precision", "recomputation", "schedule", "name", "source")
    flags = ("gated", "tied", "fused_attention", "sequence_parallel", "dropout")
    numbers: dict[str, float] = {}
    for key, value in cells.items():
        if key in texts:
            continue
        if key in flags:
            flag = _FLAGS.get(str(value).lower())
            faults.require(flag is not None, key, value, "true or false")
            numbers[key] = bool(flag)
            continue
        try:
            numbers[key] = float(value)
        except (TypeError, ValueError):
            faults.add(key, value, "a number")
    faults.raise_any()
    job = _job(cells, numbers, job, faults)
    gpu = cells.get("gpu", gpu)
    if gpu is None:
        faults.add("gpu", None, "the name of a preset", "A column of the table, or gpu=.")
    sizes = {axis: int(numbers.get(axis, 1)) for axis in AXES}
    if "gpus" in numbers:
        rest = math.prod(sizes[axis] for axis in ("pipeline", "tensor", "context"))
        if "data" not in numbers:
            faults.require(numbers["gpus"] % rest == 0, "gpus", numbers["gpus"], f"a multiple of {rest}")
            sizes["data"] = max(int(numbers["gpus"] // rest), 1)
        else:
            product = rest * sizes["data"]
            faults.require(numbers["gpus"] == product, "gpus", numbers["gpus"], f"{product}, the product of the sizes")
    value = numbers.get(rate)
    if value is None:
        faults.add(rate, None, "a number above 0")
    else:
        faults.number(rate, value, above=0)
    faults.raise_any()
    assert job is not None
    assert gpu is not None
    assert value is not None
    settings: dict[str, Any] = {key: numbers[key] for key in _RECIPE if key in numbers}
    settings |= {key: cells[key] for key in ("precision", "recomputation") if key in cells}
    if "zero_stage" in settings:
        settings["zero_stage"] = int(settings["zero_stage"])
    if "schedule" in cells:
        settings["schedule"] = Schedule(cells["schedule"])
    layout = Layout(**sizes)
    seconds = {
        "seconds": value,
        "tokens_per_s": job.batch * job.sequence / value,
        "tokens_per_s_per_gpu": job.batch * job.sequence / (value * layout.gpus),
        "tflops_per_gpu": job.iteration_flops / (value * TFLOP * layout.gpus),
    }[rate]
    return Run(
        job,
        layout,
        GPU.preset(gpu) if isinstance(gpu, str) else gpu,
        seconds,
        replace(recipe or Recipe(), **settings),
        numbers["memory_gb"] * 1e9 if "memory_gb" in numbers else None,
        numbers["power_w"] / W_PER_MW if "power_w" in numbers else None,
        str(cells.get("name", name)),
    )


def _job(cells: Mapping[str, Any], numbers: Mapping[str, float], job: Job | None, faults: Faults) -> Job | None:
    """The job of a row: that of the table where it says one, else the given one."""
    model: Transformer | None = None if job is None else job.model
    if "model" in cells and "layers" not in cells:
        model = Transformer.preset(str(cells["model"]))
    elif "layers" in cells:
        shape: dict[str, Any] = {key: numbers[key] for key in _SHAPE if key in numbers}
        for key in ("hidden", "heads", "vocabulary"):
            faults.require(key in shape, key, None, "a whole number of at least 1")
        if len(faults):
            return None
        shape.setdefault("ffn", 4 * shape["hidden"])
        model = Transformer(str(cells.get("model", "model")), **shape)
    if model is None:
        faults.add("model", None, "the name of a preset, or layers and hidden", "Columns of the table, or job=.")
    batch = numbers.get("batch", None if job is None else job.batch)
    sequence = numbers.get("sequence", None if job is None else job.sequence)
    for key, value in (("batch", batch), ("sequence", sequence)):
        if value is None:
            faults.add(key, None, "a whole number of at least 1", "A column of the table, or job=.")
        else:
            faults.number(key, value, at_least=1, integer=True)
    if len(faults) or model is None or batch is None or sequence is None:
        return None
    chi_f = numbers.get("chi_f", 72.0 if job is None else job.chi_f)
    if job is not None:
        return replace(job, model=model, batch=int(batch), sequence=int(sequence), chi_f=chi_f)
    return Job("measured", model, float(batch) * sequence, int(batch), int(sequence), 1.0, chi_f=chi_f)


def listed(runs: Iterable[Run]) -> Sequence[Run]:
    """Return the runs as a tuple, or raise `InputError` if there is none or one is no `Run`."""
    several = tuple(runs) if isinstance(runs, Iterable) else ()
    faults = Faults("runs")
    faults.require(len(several) > 0, "runs", runs, "at least one Run")
    for place, run in enumerate(several, start=1):
        faults.kind(f"run {place}", run, Run, "a Run")
    faults.raise_any()
    return several
