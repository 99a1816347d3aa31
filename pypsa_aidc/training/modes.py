"""Generation, screening and pruning of the modes of a job: Algorithm 1 of [1]."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, checked
from pypsa_aidc.training.calibration import Calibration
from pypsa_aidc.training.candidates import Candidates
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import AXES, Layout
from pypsa_aidc.training.mode_table import ModeTable
from pypsa_aidc.training.paper import PaperModel
from pypsa_aidc.training.performance import PerformanceModel
from pypsa_aidc.training.power import ModePower
from pypsa_aidc.training.recipe import Recipe
from pypsa_aidc.units import GB

_NEAR = 0.01
"""Share of the energy for the same work that a mode has to save to be worth keeping beside a faster one."""
_DIGITS = 11
"""Digits to which two throughputs or powers have to agree to count as equal in the dominance rule."""


@checked
def generate_modes(
    job: Job,
    gpu: GPU | str,
    gpus: int,
    *,
    candidates: Candidates | None = None,
    precision: str = "bf16",
    recipe: Recipe | None = None,
    model: PerformanceModel | Calibration | PaperModel | None = None,
    power: ModePower | None = None,
    strict: bool | None = None,
    prune: bool = True,
) -> ModeTable:
    """Generate, screen and prune the modes of a job; Algorithm 1 of [1].

    Parameters
    ----------
    job
        Descriptor.
    gpu
        Type of GPU in the pool, a `GPU` or the name of a preset.
    gpus
        N_GPU, size of the pool.
    candidates
        Sizes to try.
    precision
        Key of `gpu.peak_flops`; where `recipe` is given it says so itself.
    recipe
        How the training code runs a layout; not together with a `PaperModel`.
    model
        What layouts take: a `PerformanceModel` (the default), the result of `calibrate`, or a `PaperModel`, which is
        that of [1].
    power
        Model of P in Eq. 17; the default has neither communication power nor κ.
    strict
        Whether only layouts are kept that divide as Eq. 16 of [1] wants: layers by p, heads, hidden and feed-forward
        width by q, batch by d. Without, stages may be uneven. `None` is strict for a `PaperModel` only, which cannot do
        without.
    prune
        Whether to drop dominated modes. With a `PaperModel` it is Eq. 20: no more GPUs, no more power and not slower.
        Otherwise layouts that wait more draw less power, and energy for the same work takes the place of power: a
        layout is no substitute for a power cap. Pruning is exact while power costs money; where burning a surplus pays
        (negative prices, curtailment that costs) or a limit binds within single slots, ``prune=False`` keeps every
        feasible mode.

    Returns
    -------
    ModeTable
        One row a candidate, sorted by GPUs, then by the sizes.

    Raises
    ------
    InputError
        `gpus` is not a whole positive number, the GPU lacks the precision, or settings contradict each other; all of
        them at once.

    References
    ----------
    [1] Tong et al., arXiv:2610.13047 (2026), Eqs. 12-20 and Algorithm 1.

    Examples
    --------
    >>> from pypsa_aidc.training import Transformer
    >>> job = Job("A", Transformer.preset("LLaMA-13B"), 1e12, batch=1024, sequence=2048, tranche_ratio=0.049)
    >>> table = generate_modes(job, "A100-80GB", gpus=512)
    >>> table.effective[-1].gpus
    512
    """
    gpu = GPU.preset(gpu) if isinstance(gpu, str) else gpu
    model = PerformanceModel() if model is None else model.model if isinstance(model, Calibration) else model
    power, candidates = power or ModePower(), candidates or Candidates()
    faults = Faults(f"modes of job {getattr(job, 'name', job)!r}")
    well_formed = faults.kind("job", job, Job, "a Job") & faults.kind("gpu", gpu, GPU, "a GPU or the name of a preset")
    kinds = "a PerformanceModel, the result of calibrate, or a PaperModel"
    well_formed &= faults.kind("model", model, (PerformanceModel, PaperModel), kinds)
    well_formed &= faults.kind("recipe", recipe, (Recipe, type(None)), "a Recipe, or None")
    if not well_formed:
        faults.raise_any()
    assert isinstance(gpu, GPU)
    assert isinstance(model, PerformanceModel | PaperModel)
    faults.number("gpus", gpus, at_least=1, integer=True)
    if recipe is not None:
        known = precision in ("bf16", recipe.precision)
        faults.require(known, "precision", precision, f"{recipe.precision!r} as the recipe says")
        precision = recipe.precision
    remedy = f"one of {', '.join(gpu.peak_flops)}"
    faults.require(precision in gpu.peak_flops, "precision", precision, remedy, f"{gpu.name} has no other.")
    if isinstance(model, PaperModel):
        model.check(job, faults)
        faults.require(recipe is None, "recipe", recipe, "None with a PaperModel, whose memory says it")
        faults.require(strict is not False, "strict", strict, "None or True with a PaperModel: Eq. 14 has even stages")
        for axis in AXES[3:]:
            given = getattr(candidates, axis)
            faults.require(given in (None, (1,)), f"candidates.{axis}", given, "None with a PaperModel")
    elif job.model.experts is None:
        given = candidates.expert
        faults.require(given in (None, (1,)), "candidates.expert", given, f"None for the dense {job.model.name!r}")
    kind = recipe.schedule.kind if recipe is not None else "1f1b"
    if candidates.chunks is not None and kind != "1f1b":
        given = candidates.chunks
        faults.require(given == (1,), "candidates.chunks", given, f"None or (1,) with schedule {kind!r}")
    faults.raise_any()
    if kind != "1f1b" and candidates.chunks is None:
        candidates = _with_chunks(candidates, (1,))
    paper = isinstance(model, PaperModel)
    sizes = candidates.grid(job, strict=paper)
    frame = pd.DataFrame(sizes, columns=list(AXES)).assign(gpus=sizes[:, :4].prod(axis=1))
    recipe = recipe or Recipe(precision=precision)
    micro_batch, chunks = (model.micro_batch, model.chunks) if isinstance(model, PaperModel) else (1, 1)
    frame["reason"] = _misfit(frame, job, recipe, gpus, bool(paper or strict), micro_batch, chunks)
    if paper:
        assert isinstance(model, PaperModel)
        fitting = np.arange(len(frame))
        found = model.evaluate(job, gpu, precision, sizes)
    else:
        assert isinstance(model, PerformanceModel)
        fitting = np.flatnonzero(frame["reason"] == "")
        found = model.evaluate(job, gpu, recipe, sizes[fitting])
    found = found.set_axis(frame.index[fitting]).reindex(frame.index)
    frame["efficiency"] = found["efficiency"]
    frame["flops_per_s"] = frame["gpus"] * gpu.peak(precision) * found["efficiency"]
    frame["it_power"] = power.it_power(found["watts"].to_numpy(), sizes)
    frame["memory_gb"] = found["memory"] / GB
    frame["busy"] = found["busy"]
    frame["deviation"] = found["deviation"]
    full = (frame["reason"] == "") & (found["least_memory"] > gpu.memory)
    frame["reason"] = frame["reason"].mask(full, f"memory: more than {gpu.memory / GB:g} GB")
    return ModeTable(job.name, mark_dominated(frame, prune, by_work=not paper))


def _with_chunks(candidates: Candidates, chunks: tuple[int, ...]) -> Candidates:
    given: dict[str, Any] = {axis: getattr(candidates, axis) for axis in AXES}
    return Candidates(**given | {"chunks": chunks})


def _misfit(
    frame: pd.DataFrame, job: Job, recipe: Recipe, gpus: int, strict: bool, micro_batch: int, chunks: int
) -> pd.Series[str]:
    """Why each candidate fits neither model nor pool: Eq. 16 and what kinds of parallelism demand; empty if it fits."""
    model, f = job.model, frame
    micro, parts = f["micro_batch"] * micro_batch, f["chunks"] * chunks
    group = f["tensor"] * f["data"] * f["context"]
    experts = 1 if model.experts is None else model.experts.count
    sizes = f"{job.batch} by data x "
    rules: list[tuple[Any, str | pd.Series[str]]] = [
        (strict & (model.layers % f["pipeline"] != 0), f"divisibility: {model.layers} layers by pipeline"),
        (f["pipeline"] * parts > model.layers, f"divisibility: {model.layers} layers by pipeline and chunks"),
        (strict & (model.layers % (f["pipeline"] * parts) != 0), f"divisibility: {model.layers} layers by chunks"),
        ((parts > 1) & (f["pipeline"] == 1) & (chunks == 1), "divisibility: chunks without a pipeline"),
        (model.hidden % f["tensor"] != 0, f"divisibility: hidden {model.hidden} by tensor"),
        (model.ffn % f["tensor"] != 0, f"divisibility: ffn {model.ffn} by tensor"),
        (model.heads % f["tensor"] != 0, f"divisibility: {model.heads} heads by tensor"),
        (job.batch % (f["data"] * micro) != 0, "divisibility: batch " + sizes + micro.astype(str)),
        (job.sequence % f["context"] != 0, f"divisibility: sequence {job.sequence} by context"),
        (experts % f["expert"] != 0, f"divisibility: {experts} experts by expert"),
        (group % f["expert"] != 0, "divisibility: tensor x data x context by expert"),
        (f["gpus"] > gpus, f"pool: more than {gpus} GPUs"),
    ]
    if recipe.schedule.kind == "dualpipe":
        rules.insert(0, ((f["pipeline"] > 1) & (f["pipeline"] % 2 != 0), "divisibility: dualpipe by two ends"))
    reason = pd.Series("", index=f.index)
    for broken, text in rules:
        reason = reason.mask((reason == "") & broken, text)
    return reason


def mark_dominated(frame: pd.DataFrame, prune: bool, by_work: bool = False) -> pd.DataFrame:
    """Sort by GPUs and sizes and mark dominated modes; of equal modes the one with least memory stays.

    By Eq. 20 a mode is beaten by one that needs no more GPUs, draws no more power and is not slower; `by_work` compares
    the energy for the same work in place of power, and leaves out what saves less than a hundredth of it.
    """
    axes = [axis for axis in AXES if axis in frame]
    frame = frame.sort_values(["gpus", *axes], ignore_index=True)
    if not prune:
        return frame
    fit = frame[frame["reason"] == ""]
    n, memory = fit["gpus"].to_numpy(float), fit["memory_gb"].fillna(np.inf).to_numpy(float)
    rate, power = (fit[column].to_numpy(float) for column in ("flops_per_s", "it_power"))
    rate, power = _rounded(rate), _rounded(power / rate if by_work else power)
    # Whatever beats a mode comes before it in this order; kept are the powers and rates that nothing before beats.
    order = np.lexsort((np.arange(len(fit)), memory, power, -rate, n))
    kept: list[tuple[float, float, int]] = []
    beaten: list[tuple[int, int]] = []
    for place in order:
        near = bisect_right(kept, (power[place] * (1 + (_NEAR if by_work else 0)), np.inf, 0))
        if near and kept[near - 1][1] >= rate[place]:
            beaten.append((int(place), kept[near - 1][2]))
            continue
        position = bisect_right(kept, (power[place], np.inf, 0))
        # Rates rise with power along the front, so that the last one at no more power is the fastest of them.
        end = position
        while end < len(kept) and kept[end][1] <= rate[place]:
            end += 1
        kept[position:end] = [(power[place], rate[place], int(place))]
    if beaten:
        losers, winners = np.array(beaten).T
        sizes = fit[axes].to_numpy(int)
        label = {w: Layout(**dict(zip(axes, sizes[w].tolist(), strict=True))).label for w in set(winners.tolist())}
        frame.loc[fit.index[losers], "reason"] = [f"dominated by {label[winner]}" for winner in winners.tolist()]
    return frame


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    scale = 10.0 ** (_DIGITS - np.floor(np.log10(values)))
    return np.asarray(np.round(values * scale) / scale)
