"""Layouts to try."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.errors import Faults
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import AXES

_LONG = 32_768
"""Tokens of a sequence above which context parallelism is tried."""
_CHUNK = 8_192
"""Least tokens of a sequence that one GPU of a context group gets."""


@dataclass(frozen=True)
class Candidates:
    """Sizes to try for each kind of parallelism.

    Parameters
    ----------
    pipeline
        `None` tries every divisor of the layers and, where stages may be uneven, 2^k and 3 · 2^k beside them.
    tensor
        Tensor parallelism stays within a server of eight GPUs by default.
    data
        `None` tries every power of two that divides the batch.
    context
        `None` tries 1 and, for sequences above 32,768 tokens, powers of two that leave 8,192 tokens to each GPU.
    expert
        `None` tries powers of two that divide the number of experts; 1 for dense models.
    micro_batch, chunks
        Sequences a micro-batch, model chunks a GPU; `None` tries 1, 2 and 4 of each.

    Raises
    ------
    InputError
        An empty list, or sizes that are no whole numbers of at least 1; all of them at once.
    """

    pipeline: Sequence[int] | None = None
    tensor: Sequence[int] = (1, 2, 4, 8)
    data: Sequence[int] | None = None
    context: Sequence[int] | None = None
    expert: Sequence[int] | None = None
    micro_batch: Sequence[int] | None = None
    chunks: Sequence[int] | None = None

    def __post_init__(self) -> None:
        faults = Faults("Candidates")
        for name in AXES:
            given = getattr(self, name)
            if given is None and name != "tensor":
                continue
            sizes = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
            faults.require(len(sizes) > 0, name, given, "at least one size, as a list")
            for size in sizes:
                faults.number(name, size, at_least=1, integer=True)
            object.__setattr__(self, name, sizes)
        faults.raise_any()

    def grid(self, job: Job, strict: bool = False) -> NDArray[np.int64]:
        """All combinations, one a row in the order of `Layout`; a pipeline of one stage has one chunk.

        Parameters
        ----------
        job
            Its layers, batch, sequence and experts give the sizes that are left open.
        strict
            Whether stages must be even, and nothing beyond (p, q, d) is tried unless it is given.
        """
        model = job.model
        divisors = {p for p in range(1, model.layers + 1) if model.layers % p == 0}
        uneven = {k * 2**e for k in (1, 3) for e in range(10) if k * 2**e <= model.layers}
        powers = [2**k for k in range(40)]
        open_: dict[str, Collection[int]] = {
            "pipeline": divisors if strict else divisors | uneven,
            "data": [k for k in powers if k <= job.batch and job.batch % k == 0],
            "context": [
                k
                for k in powers
                if k == 1 or (job.sequence > _LONG and k * _CHUNK <= job.sequence and job.sequence % k == 0)
            ],
            "expert": [1] if model.experts is None else [k for k in powers if model.experts.count % k == 0],
            "micro_batch": (1, 2, 4),
            "chunks": (1, 2, 4),
        }
        if strict:
            open_ |= dict.fromkeys(("context", "expert", "micro_batch", "chunks"), (1,))
        sizes = [sorted(set(getattr(self, axis) or open_[axis])) for axis in AXES]
        axes = np.meshgrid(*sizes, indexing="ij")
        rows = np.stack([axis.ravel() for axis in axes], axis=1).astype(np.int64)
        if self.chunks is None:
            rows = rows[(rows[:, 6] == 1) | ((rows[:, 0] > 1) & (rows[:, 0] * rows[:, 6] <= model.layers))]
        return rows
