"""Time, memory and power of an iteration: counted amounts times few bounded coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults, near
from pypsa_aidc.training import presets
from pypsa_aidc.training.amounts import Amounts
from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import Layout
from pypsa_aidc.training.recipe import Recipe
from pypsa_aidc.training.run import faults_of_layout
from pypsa_aidc.units import GB

Floats = NDArray[np.float64]

NAMES = presets.names("coefficients")
_STEP = 1e-4
"""Relative step of a coefficient for its derivative."""
_CALL = 5e-5
"""Seconds that a collective over several servers takes however small it is."""
_LEAST, _CONTEXT = 0.9, 1 * GB
"""Share of the counted bytes, and bytes beside them, without which no code runs: what a layout is refused for.

Allocators give back what they hold in reserve before they fail, and codes free or compute again some of what is counted
here: the published runs of tests/training/data need up to 1.06 of what their GPUs have.
"""


def number(name: str, column: str) -> float:
    """Return a number of the table of coefficients."""
    return float(presets.preset("coefficients", name)[column])


@dataclass(frozen=True)
class PerformanceModel:
    """What an iteration takes in time, memory and power, for any layout: equations T4, T6 and T7 of the documentation.

    Parameters
    ----------
    coefficients
        Those that differ from the table; see `table` for unit, range and source of each.
    covariance
        Covariance of the logarithms of the coefficients in the order of the table; `None` takes the spreads of the
        table, independent of each other. `calibrate` narrows it.
    scatter
        Standard deviation of the logarithm of measured over modelled time that the coefficients do not explain.

    Raises
    ------
    InputError
        An unknown coefficient or one out of its range; all of them at once.

    Examples
    --------
    >>> PerformanceModel({"speed": 0.9})["speed"]
    0.9
    >>> PerformanceModel({"speeed": 0.9})
    Traceback (most recent call last):
    pypsa_aidc.errors.InputError: PerformanceModel:
      - speeed: given 0.9, expected a coefficient of PerformanceModel.table(). Did you mean 'speed'?
    """

    coefficients: Mapping[str, float] = field(default_factory=dict, hash=False)
    covariance: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    scatter: float = 0.05

    def __post_init__(self) -> None:
        faults = Faults("PerformanceModel")
        mapping = faults.kind("coefficients", self.coefficients, Mapping, "values by name")
        for name, value in self.coefficients.items() if mapping else ():
            if name in NAMES:
                faults.number(name, value, at_least=number(name, "low"), at_most=number(name, "high"))
            else:
                faults.add(str(name), value, "a coefficient of PerformanceModel.table()", near(name, NAMES))
        faults.number("scatter", self.scatter, above=0, at_most=1)
        faults.raise_any()
        object.__setattr__(self, "coefficients", MappingProxyType({n: float(v) for n, v in self.coefficients.items()}))

    def __getitem__(self, name: str) -> float:
        return self.coefficients.get(name, number(name, "value"))

    @staticmethod
    def table() -> pd.DataFrame:
        """Return all coefficients: unit, value, range, spread (of the logarithm), meaning and source.

        Examples
        --------
        >>> PerformanceModel.table().loc["fp8_gain", ["value", "low", "high"]].tolist()
        [1.75, 1.0, 2.0]
        """
        rows = [presets.preset("coefficients", name) for name in NAMES]
        table = pd.DataFrame(rows).set_index("name")
        return table.astype(dict.fromkeys(("value", "low", "high", "spread"), float))

    def seconds(self, amounts: Amounts) -> Floats:
        """Time of an iteration in seconds, for each layout."""
        return self.iteration(amounts, self._values())[0]

    def busy(self, amounts: Amounts) -> Floats:
        """Share of an iteration in which the busiest stage computes, in (0, 1]; the rest is bubble and messages."""
        return self.iteration(amounts, self._values())[1]

    def memory(self, amounts: Amounts, capacity: float) -> Floats:
        """Bytes allocated on the fullest GPU, for each layout; never more than `capacity` where it fits at all."""
        counted = amounts.states + amounts.activations
        usual = self["memory"] * counted + self["memory_fixed"] * GB
        return np.asarray(np.minimum(usual, np.maximum(capacity, self.least_memory(amounts))))

    @staticmethod
    def least_memory(amounts: Amounts) -> Floats:
        """Bytes without which a layout does not run."""
        return np.asarray(_LEAST * (amounts.states + amounts.activations) + _CONTEXT)

    def watts(self, amounts: Amounts, gpu: GPU) -> Floats:
        """Mean power of one GPU in W: full while it computes, less while it waits."""
        busy = self.busy(amounts)
        return np.asarray(self["power"] * gpu.train_w * (busy + self["waiting"] * (1 - busy)))

    def deviation(self, amounts: Amounts) -> Floats:
        """Standard deviation of the logarithm of the time, for each layout: coefficients and scatter."""
        values = self._values()
        middle = np.log(self.iteration(amounts, values)[0])
        slopes = np.empty((len(NAMES), len(amounts)))
        for row, name in enumerate(NAMES):
            moved = np.log(self.iteration(amounts, values | {name: values[name] * (1 + _STEP)})[0])
            slopes[row] = (moved - middle) / _STEP
        covariance = prior_covariance() if self.covariance is None else self.covariance
        return np.asarray(np.sqrt(np.einsum("il,ij,jl->l", slopes, covariance, slopes) + self.scatter**2))

    def _values(self) -> dict[str, float]:
        return {name: self[name] for name in NAMES}

    @staticmethod
    def iteration(a: Amounts, k: Mapping[str, float]) -> tuple[Floats, Floats]:
        """Return the seconds of an iteration, and the share of them that is computing, by given coefficients.

        Parameters
        ----------
        a
            What an iteration asks of the busiest GPU of each layout.
        k
            Every coefficient by name.
        """
        gain = np.where(a.eight_bit > 0, 1 / k["fp8_gain"], 1.0)
        products = k["matmul"] * (a.matmul + k["waste"] * a.waste) * gain + k["traffic"] * a.traffic
        attention = k["attention"] * a.attention + k["misaligned"] * a.misaligned
        forward = (products + k["plain"] * a.plain + attention) / 3
        some = (a.attention_again * attention + a.plain_again * k["plain"] * a.plain) / 3
        computing = 3 * forward + k["again"] * (a.again * forward + some)
        expert = k["expert"] * a.expert
        # DeepSeek-V3 gives 20 of 132 multiprocessors to messages that run behind computing (report, section 3.2.2).
        expert = np.where(a.hidden > 0, np.maximum(expert - computing, 20 / 112 * computing), expert)
        waiting = k["tensor"] * a.tensor + k["context"] * a.context + expert + _CALL * a.tensor_calls
        waiting = waiting + (k["latency"] + k["routing"] * a.routing) * (1 + a.again / 3)
        layer, head = computing + waiting, k["matmul"] * a.head + k["plain"] * a.logits
        stage = np.maximum(a.layers * layer, a.last_layers * layer + head)
        # Every micro-batch takes the time of the slowest stage; filling and draining passes the others once.
        mean = (a.total_layers * layer + head) / np.maximum(np.round(a.total_layers / a.layers), 1.0)
        bubble = k["bubble"] * a.bubble * np.minimum(stage, mean)
        behind = k["overlap"] * stage
        gathered = k["data"] * a.gathered
        gathered = np.maximum(gathered - behind, 0.2 * (1 - k["overlap"]) * gathered)
        gradients = k["data"] * a.gradients
        gradients = np.maximum(gradients - behind * 2 / 3, (1 - k["overlap"]) * gradients)
        each = stage + k["hop"] * a.hop + gathered
        total = a.micro_batches * each + bubble + gradients + k["update"] * a.update
        busy = a.micro_batches * np.maximum(a.layers * computing, a.last_layers * computing + head)
        return np.asarray(k["speed"] * total), np.asarray(busy / total)

    def evaluate(
        self, job: Job, gpu: GPU, recipe: Recipe, layouts: NDArray[np.int64] | Layout | Sequence[Layout]
    ) -> pd.DataFrame:
        """Evaluate layouts of one job.

        Parameters
        ----------
        job, gpu, recipe
            What is trained, on what, and how.
        layouts
            One or several; or their sizes, one layout a row in the order of `Layout`, which are not checked.

        Raises
        ------
        InputError
            A `Layout` that contradicts the job or the recipe, or a precision that the GPU does not have.

        Returns
        -------
        pandas.DataFrame
            One row a layout: `seconds` of an iteration, `efficiency` (share of the peak of all GPUs that the FLOPs of
            the job make), `busy`, `watts` of a GPU, `memory` and `least_memory` in bytes, `deviation` (of the
            logarithm of the time).

        Examples
        --------
        BLOOM-176B on 384 A100: 105 s an iteration (Le Scao et al. 2022); the default model is within 10 %.

        >>> from pypsa_aidc.training import Transformer
        >>> job = Job("BLOOM", Transformer.preset("BLOOM-176B"), 366e9, batch=2048, sequence=2048, tranche_ratio=1)
        >>> recipe = Recipe(recomputation="full", fused_attention=False, sequence_parallel=False)
        >>> gpu = GPU.preset("A100-80GB", network=6.25e9)  # four adapters of 100 Gbit/s for eight GPUs
        >>> table = PerformanceModel().evaluate(job, gpu, recipe, Layout(12, 4, 8, micro_batch=2))
        >>> bool(0.9 < table["seconds"][0] / 105 < 1.1)
        True
        """
        if not isinstance(layouts, np.ndarray):
            listed = [layouts] if isinstance(layouts, Layout) else list(layouts)
            faults = Faults(f"layouts of job {job.name!r}")
            for layout in listed:
                faults_of_layout(job, layout, recipe, faults)
            faults.raise_any()
            layouts = np.array([astuple(layout) for layout in listed], dtype=np.int64)
        amounts = Amounts.of(job, gpu, recipe, layouts)
        seconds, busy = self.iteration(amounts, self._values())
        return pd.DataFrame(
            {
                "seconds": seconds,
                "efficiency": amounts.iteration_flops / (amounts.gpus * amounts.peak * seconds),
                "busy": busy,
                "watts": self.watts(amounts, gpu),
                "memory": self.memory(amounts, gpu.memory),
                "least_memory": self.least_memory(amounts),
                "deviation": self.deviation(amounts),
            }
        )


def prior_covariance() -> Floats:
    """Covariance of the logarithms of the coefficients before anything is measured."""
    return np.diag([number(name, "spread") ** 2 for name in NAMES])
