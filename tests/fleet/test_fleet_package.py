from __future__ import annotations

import pkgutil

from pypsa_aidc import fleet


def test_every_public_name_is_there_and_documented():
    for name in fleet.__all__:
        thing = getattr(fleet, name)
        if callable(thing):
            assert thing.__doc__, name


def test_no_public_name_hides_a_module_of_the_package():
    modules = {module.name for module in pkgutil.iter_modules(fleet.__path__)}
    assert not modules & set(fleet.__all__)
