"""What stands at the top of a report: that a solve is not optimal, a number made up, a price absent, a check failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pypsa_aidc.network import AuditReport
from pypsa_aidc.network.results.accessor import Results
from pypsa_aidc.report.document import Notice, shown
from pypsa_aidc.report.sections import NO_PRICES

if TYPE_CHECKING:
    import pypsa

TIGHT = 1e-4
"""Relative gap up to which an objective counts as optimal without a further word; the default of HiGHS."""


def notices(n: pypsa.Network, audit: AuditReport, synthetic: Sequence[str]) -> tuple[Notice, ...]:
    """Everything a reader must know before the numbers, worst first.

    Parameters
    ----------
    n
        Solved network.
    audit
        Of this network, made now.
    synthetic
        What of the report is made up, by name.
    """
    status = Results(n).status
    found = [*_on_status(status), *_on_prices(n, status)]
    if not audit.passed:
        worst = audit.violations.iloc[0]
        text = (
            f"{len(audit.violations)} of {len(audit.frame)} checks of the audit failed, worst {worst['check']} at "
            f"{worst['where']}: off by {shown(worst['violation'])} {worst['unit']}.".rstrip()
        )
        found.append(Notice("danger", text))
    if synthetic:
        found.append(Notice("warning", f"Synthetic, not measured: {'; '.join(synthetic)}."))
    if n.has_scenarios:
        first = n.scenarios[0]
        found.append(Notice("warning", f"The network has scenarios: power and GPUs are those of {first!r}."))
    return tuple(sorted(found, key=lambda notice: ("danger", "warning", "note").index(notice.level)))


def _on_status(status: Mapping[str, object]) -> list[Notice]:
    if not status:
        text = (
            "The network does not say how its solve ended: it was not solved by n.aidc.optimize. It may be far from "
            "the optimum."
        )
        return [Notice("danger", text)]
    objective, bound, gap = (float(str(status[key])) for key in ("objective", "bound", "gap"))
    known = np.isfinite(bound)
    above = (
        f"The objective of {shown(objective)} USD is at most {shown(abs(objective - bound))} USD ({100 * gap:.3g} %) "
        "above the optimum."
        if known
        else f"How far its {shown(objective)} USD are from the optimum is not known: the solver gave no bound."
    )
    found = []
    if status["status"] != "optimal":
        found.append(
            Notice(
                "danger", f"Not optimal: the solver stopped at its {str(status['status']).replace('_', ' ')}. {above}"
            )
        )
    elif not known or gap > TIGHT:
        found.append(Notice("warning", f"Optimal only within the tolerance that was asked for. {above}"))
    skipped = status.get("skipped_outages")
    if isinstance(skipped, list) and skipped:
        names = ", ".join(map(str, skipped[:5])) + (f" and {len(skipped) - 5} more" if len(skipped) > 5 else "")
        found.append(Notice("warning", f"Not secured, because they split the network: outages of {names}."))
    return found


def _on_prices(n: pypsa.Network, status: Mapping[str, object]) -> list[Notice]:
    if n.has_scenarios:
        return [Notice("note", "No prices are shown: with scenarios, PyPSA scales them by probability.")]
    if str(status.get("prices", NO_PRICES)) != NO_PRICES:
        return []
    why = "the solve was told to do without" if status else "it is not known where those in the file come from"
    remedy = "Solve with n.aidc.optimize(), which prices with all schedules fixed."
    return [Notice("warning", f"No prices: {why}. {remedy}")]
