"""`n.aidc`: the front door of a network for everything that changes or asks its AIDCs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

import pypsa

from pypsa_aidc import network
from pypsa_aidc.headroom import ac_check, bus_headroom, service_study, training_headroom
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.report import report

P = ParamSpec("P")
R = TypeVar("R")


def _asks(function: Callable[Concatenate[pypsa.Network, P], R]) -> Callable[Concatenate[AIDC, P], R]:
    """Make a method of a function of a network."""

    @wraps(function)
    def method(self: AIDC, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(self._n, *args, **kwargs)

    return cast("Callable[Concatenate[AIDC, P], R]", method)


class AIDC(Results):
    """The AI data centers of a network: added, solved, checked, priced and written to files.

    Parameters
    ----------
    n
        Network; use it as ``n.aidc``.

    Examples
    --------
    >>> import pypsa, pypsa_aidc
    >>> pypsa.Network().aidc
    AIDCs of the network: none (0 jobs)
    """

    add = _asks(network.add)
    add_fleet = _asks(network.add_fleet)
    add_behind_the_meter = _asks(network.add_behind_the_meter)
    update = _asks(network.update)
    remove = _asks(network.remove)
    refresh = _asks(network.refresh)
    check = _asks(network.check)
    optimize = _asks(network.optimize)
    optimize_with_rolling_horizon = _asks(network.optimize_with_rolling_horizon)
    place = _asks(network.place)
    record = _asks(network.record)
    price = _asks(network.price)
    audit = _asks(network.audit)
    explain = _asks(network.explain)
    compare = _asks(network.compare)
    break_even = _asks(network.break_even)
    values = _asks(network.values)
    value_of_information = _asks(network.value_of_information)
    freeze = _asks(network.freeze)
    thaw = _asks(network.thaw)
    export = _asks(network.export)
    headroom = _asks(bus_headroom)
    ac_check = _asks(ac_check)
    training_headroom = _asks(training_headroom)
    study = _asks(service_study)
    report = _asks(report)
