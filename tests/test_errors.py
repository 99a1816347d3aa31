"""Arguments of another class altogether: refused by name, as the classes that a public call is declared with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pypsa_aidc as aidc
from pypsa_aidc import fleet, headroom
from tests.network.tiny import grid


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: aidc.Envelope.of(5), "Envelope.of:\n  - statistics: given 5, expected Statistics"),
        (lambda: fleet.Statistics.of("folder", gaps=5), r"trace: given 'folder', expected Trace\.\n  - gaps: given 5"),
        (lambda: aidc.Contract.of({}), "envelope: given {}, expected Envelope"),
        (lambda: fleet.Layout("mine", "jobs", "pods", ["start"]), r"pod_columns: given \['start'\]"),
        (lambda: headroom.clean([1.0]), "demand: given"),
        (lambda: headroom.screen_region(None, 3, period="year"), r"demand: .*\n  - profiles: given 3, expected a list"),
        (
            lambda: aidc.generate_modes("A", 3, gpus=8),
            r"job: given 'A', expected Job\.\n  - gpu: given 3, expected GPU",
        ),
        (lambda: aidc.TrainingLoad.of(None, 5), r"job: given None, expected Job\.\n  - modes: given 5, expected Mode"),
        (lambda: grid().aidc.compare(only=None), "only: given None, expected a list"),
    ],
)
def test_another_class_is_refused_by_name(call: Callable[[], object], told: str) -> None:
    with pytest.raises(aidc.InputError, match=told):
        call()


def test_arrays_are_as_good_as_lists() -> None:
    rng = np.random.default_rng(0)
    K = aidc.Surface.of(rng.uniform(1, 2, 500), durations=np.array([1, 4]), reliabilities=(0.9,))
    assert K.data.sizes == {"duration": 2, "reliability": 1}
