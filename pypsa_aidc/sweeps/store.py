"""Where the points of a sweep are kept."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from pypsa_aidc.sweeps.point import Outcome, Point, Status, read, recipe_in

TIMES = "times.csv"
"""Table beside the points: what each cost when it was made."""


class Store:
    """The files of points in a folder; without a folder, in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.kept: dict[str, Outcome] = {}

    def path(self, point: Point, status: Status) -> Path:
        """File of a point."""
        assert self.folder is not None
        return self.folder / status / f"{point.key}.parquet"

    def has(self, point: Point, retry: bool) -> bool:
        """Whether a point is there as its function and inputs are now."""
        statuses: tuple[Status, ...] = ("done",) if retry else ("done", "failed")
        return self.folder is not None and any(
            recipe_in(self.path(point, status)) == point.recipe for status in statuses
        )

    def put(self, point: Point, outcome: Outcome) -> None:
        """Keep a point, in place of what was known of it."""
        if self.folder is None:
            self.kept[point.key] = outcome
            return
        path = self.path(point, outcome.status)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(outcome.content)
        part.replace(path)
        self.path(point, "failed" if outcome.status == "done" else "done").unlink(missing_ok=True)
        row = pd.DataFrame([{"point": point.key, "status": outcome.status, **outcome.cost}])
        times = self.folder / TIMES
        row.to_csv(times, mode="a", header=not times.exists(), index=False, lineterminator="\n")

    def get(self, point: Point) -> pd.DataFrame:
        """Rows of a point."""
        if self.folder is None:
            return self.kept[point.key].frame
        done = self.path(point, "done")
        return read(done, "done") if done.exists() else read(self.path(point, "failed"), "failed")
