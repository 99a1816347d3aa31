"""How a job is laid out over GPUs: the sizes of each kind of parallelism, Eq. 12 of [1] and what came after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import pandas as pd

from pypsa_aidc.errors import Faults
from pypsa_aidc.plain import settle

Size = tuple[int, ...]
"""(p, q, d) or, where more than that differs from 1, (p, q, d, context, expert, micro-batch, chunks)."""

AXES = ("pipeline", "tensor", "data", "context", "expert", "micro_batch", "chunks")
_SHORT = {"context": "c", "expert": "e", "micro_batch": "b", "chunks": "v"}


@dataclass(frozen=True)
class Layout:
    """Sizes of one layout.

    Parameters
    ----------
    pipeline, tensor, data
        p, q and d.
    context
        GPUs over which each sequence is cut; the GPUs of a layout are p q d times this.
    expert
        GPUs over which the experts of a layer are spread. They are among the q d context GPUs of a pipeline stage and
        need no further ones.
    micro_batch
        b, sequences a micro-batch.
    chunks
        v, model chunks a GPU of an interleaved schedule; 1 for none.

    Raises
    ------
    InputError
        Any size out of range; all of them at once.

    Examples
    --------
    >>> layout = Layout(16, 8, 128, micro_batch=2)
    >>> layout.gpus, layout.label
    (16384, '16·8·128·b2')
    >>> Layout.of((4, 4, 32)).size
    (4, 4, 32)
    """

    pipeline: int = 1
    tensor: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    micro_batch: int = 1
    chunks: int = 1

    def __post_init__(self) -> None:
        faults = Faults("Layout")
        for axis in AXES:
            faults.number(axis, getattr(self, axis), at_least=1, integer=True)
        faults.raise_any()
        settle(self, whole=AXES)

    @classmethod
    def of(cls, size: Sequence[int]) -> Layout:
        """Return the layout of a size of three to seven whole numbers.

        Raises
        ------
        InputError
            Not three to seven whole numbers of at least 1.
        """
        faults = Faults("Layout")
        sizes = tuple(size) if isinstance(size, tuple | list) else ()
        expected = "(pipeline, tensor, data), maybe with context, expert, micro_batch and chunks"
        faults.require(3 <= len(sizes) <= len(AXES), "size", size, expected)
        faults.raise_any()
        return cls(*sizes)

    @property
    def gpus(self) -> int:
        """n, GPUs occupied."""
        return math.prod((self.pipeline, self.tensor, self.data, self.context))

    @property
    def size(self) -> Size:
        """The sizes as a tuple: three, or all seven if any beyond the third differs from 1."""
        sizes: Size = astuple(self)
        return sizes if max(sizes[3:]) > 1 else sizes[:3]

    @property
    def label(self) -> str:
        """Sizes as ``p·q·d``, with what differs from 1 beyond them: ``16·8·128·c16·b2``."""
        more = [f"{letter}{getattr(self, axis)}" for axis, letter in _SHORT.items() if getattr(self, axis) > 1]
        return "·".join([str(self.pipeline), str(self.tensor), str(self.data), *more])


def labels(frame: pd.DataFrame) -> list[str]:
    """Return the label of each row of a table with the sizes of layouts."""
    return [Layout(*sizes).label for sizes in frame[list(AXES)].to_numpy(int).tolist()]
