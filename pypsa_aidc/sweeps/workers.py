"""Who evaluates the points of a sweep: this process, others, or a cluster."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pypsa_aidc.errors import AIDCError, Faults
from pypsa_aidc.sweeps.function import Function
from pypsa_aidc.sweeps.point import BYTES_PER_GB, Outcome, Point, Setup, evaluate, failure

if TYPE_CHECKING:
    from distributed import Client, Future

Outcomes = Iterator[tuple[Point, Outcome]]


@contextmanager
def evaluated(
    function: Function,
    points: Sequence[Point],
    setup: Setup | None,
    workers: int | None,
    memory: float | None,
    scheduler: str | None,
) -> Iterator[Outcomes]:
    """Give each point with its outcome, in whichever order they end."""
    if workers == 1 and scheduler is None:
        yield ((point, evaluate(function, point, setup)) for point in points)
        return
    from distributed import Client, LocalCluster

    if scheduler is not None:
        with Client(scheduler) as client:
            yield _spread(client, function, points, setup)
        return
    count = _processes(workers, memory)
    limit = "auto" if memory is None else int(memory * BYTES_PER_GB)
    quiet = {"dashboard_address": ":0", "silence_logs": logging.ERROR}
    with (
        LocalCluster(count, threads_per_worker=1, memory_limit=limit, **quiet) as cluster,
        Client(cluster) as client,
    ):
        yield _spread(client, function, points, setup)


def _processes(workers: int | None, memory: float | None) -> int:
    """Number of processes that this machine has processors and memory for."""
    from dask.system import CPU_COUNT
    from distributed.system import MEMORY_LIMIT

    there = MEMORY_LIMIT / BYTES_PER_GB
    fit = CPU_COUNT if memory is None else int(there // memory)
    wanted = min(CPU_COUNT, fit) if workers is None else workers
    faults = Faults("sweep")
    expected = f"at most {there / max(wanted, 1):.3g} for {max(wanted, 1)} workers on this machine"
    faults.require(memory is None or max(wanted, 1) <= fit, "memory", memory, expected)
    faults.raise_any()
    return wanted


def _spread(client: Client, function: Function, points: Sequence[Point], setup: Setup | None) -> Outcomes:
    """Keep every worker at one point: so a worker that dies loses that one only, and no other bears the blame."""
    from distributed import as_completed

    running: dict[Hashable, Point] = {}
    waiting = iter(points)
    done = as_completed()

    def fill() -> None:
        room = max(1, sum(client.ncores().values())) - len(running)
        for _, point in zip(range(room), waiting, strict=False):
            future = client.submit(evaluate, function, point, setup, pure=False)
            running[future.key] = point
            done.add(future)

    fill()
    for future in done:
        point = running.pop(future.key)
        yield point, _result(future, point)
        future.release()
        fill()


def _result(future: Future, point: Point) -> Outcome:
    if future.status == "cancelled":
        raise AIDCError("sweep: the cluster is gone; what was done is kept, and the same call goes on from there")
    error = future.exception()
    if error is not None:
        return failure(point, error)
    outcome: Outcome = future.result()
    return outcome
