"""Tests of the package; imported before any of them, so that the numerical libraries see what is set here."""

import os

# One worker a core: threads of their own would only wait for each other.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "NUMEXPR_MAX_THREADS"):
    os.environ.setdefault(_threads, "1")
