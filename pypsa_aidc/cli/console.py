"""What the verbs of the command line share in front of a terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pypsa


def quiet_libraries() -> None:
    """Keep libraries from talking between our lines, and choose PyPSA's coming defaults instead of its warnings."""
    for name in ("pypsa", "linopy", "pypsa_aidc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    pypsa.options.params.optimize.include_objective_constant = False


@contextmanager
def silenced_stdout() -> Iterator[None]:
    """Drop what solvers print by themselves: HiGHS announces itself before anyone can tell it not to."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
