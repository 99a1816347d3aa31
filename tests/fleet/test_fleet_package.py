from __future__ import annotations

from pypsa_aidc import fleet


def test_every_public_name_is_there_and_documented():
    for name in fleet.__all__:
        thing = getattr(fleet, name)
        if callable(thing):
            assert thing.__doc__, name


def test_functions_keep_their_names_beside_modules_of_the_same_name():
    for name in ("trace", "statistics", "envelope", "surface", "portfolios", "contract", "synthetic", "backtest"):
        assert callable(getattr(fleet, name)), name
