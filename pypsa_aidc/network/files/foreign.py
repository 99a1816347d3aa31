"""Cases of PSS/E, PowerWorld and PSLF, read by powerio and brought to the tables of a MATPOWER case."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from pypsa_aidc.errors import Faults
from pypsa_aidc.network.files.matpower import Case, case_tables
from pypsa_aidc.plain import counted

FORMATS = {".raw": "PSS/E", ".rawx": "PSS/E", ".aux": "PowerWorld", ".pwb": "PowerWorld", ".epc": "PSLF"}
"""Files that powerio reads, by suffix, with the program that writes them."""

_UNNAMED_END = re.compile(r"^\s*0\s*(?:/(?![^\n]*BEGIN)[^\n]*)?$", re.MULTILINE | re.IGNORECASE)
_HARMLESS = re.compile(
    r"out of service|3-winding|state field\(s\)|area record|detailed_connectivity|base frequency|voltage band|"
    r"shunt control|terminal admittance|(?:OWNER|ZONE) section"
)
"""What is left out on purpose, put in by other means, or of no weight for flows and voltages."""

_NOTICEABLE = 1e-6
"""MW or MVAr of admittance at nominal voltage."""

_LEAST_IMPEDANCE = 1e-4
"""Of a leg of a star, per unit: where the three impedances leave it nothing, it could carry no linear flow."""


def read_foreign(path: Path, faults: Faults) -> tuple[Case, dict[int, str], list[str], list[str]]:
    """Read a case of another program.

    Parameters
    ----------
    path
        File with one of the suffixes of `FORMATS`.
    faults
        Raised, with all that is wrong.

    Returns
    -------
    tables, stars, lost, notes
        Tables of a MATPOWER case; names of the buses in the middle of three-winding transformers, by number; what
        powerio tells to be left out that bears on flows and voltages; what else there is to say.
    """
    try:
        import powerio
    except ImportError:
        remedy = "pip install 'pypsa-aidc[cases]'"
        faults.add("path", str(path), f"powerio, which reads files of {FORMATS[path.suffix.lower()]}", remedy)
        faults.raise_any()
    if path.suffix.lower() == ".raw":
        unnamed = _UNNAMED_END.findall(path.read_text(encoding="utf-8", errors="replace"))
        # powerio 0.11.6 finds sections by these titles, and without them returns none of their records, silently.
        remedy = "Save the case again with PSS/E 32 or later."
        told = f"{counted(len(unnamed), 'section')} that end in '0' without the name of the next"
        named = "titles, as in '0 / END OF BUS DATA, BEGIN LOAD DATA'"
        faults.require(len(unnamed) <= 1, str(path), told, named, remedy)
        faults.raise_any()
    try:
        module = powerio.parse(str(path))
        network = module.value
        if not isinstance(network, powerio.BalancedNetwork):
            raise powerio.PowerIODataError(f"it holds a {type(network).__name__}")
        found = list(module.diagnostics)
        if network.switches:
            merged = network.merge_buses(closed_switches=True)
            found += merged.diagnostics
            network = merged.network
            module = powerio.PioModule.from_value(network)
        written = powerio.emit(module, "matpower")
    except powerio.PowerIOError as error:
        faults.add("path", str(path), f"a complete case of {FORMATS[path.suffix.lower()]} ({error})")
        faults.raise_any()
    found += written.diagnostics
    case = case_tables(written.text or "", str(path), faults)
    texts = [each.message for each in found]
    lost = [text for text in texts if _HARMLESS.search(text) is None]
    notes = [text for text in texts if _HARMLESS.search(text) is not None and "3-winding" not in text]
    transformers = [each for each in network.transformers_3w if each["in_service"]]
    left_out = len(network.transformers_3w) - len(transformers)
    if left_out:
        notes.append(f"{counted(left_out, 'three-winding transformer')} out of service left out")
    if "dcline" in case:
        # Other programs state what arrives, and no coefficients of losses.
        sent, arrives = case["dcline"][:, 3:5].T
        stated = (arrives > 0) & (sent > arrives) & ~case["dcline"][:, 15:17].any(axis=1)
        case["dcline"][stated, 16] = 1 - arrives[stated] / sent[stated]
    shunted = sum(_add_shunts(case, branch) for branch in network.branches if branch["in_service"])
    if shunted:
        notes.append(f"admittances at the ends of {counted(shunted, 'branch')} as shunts of their buses")
    stars: dict[int, str] = {}
    for each in transformers:
        stars.update(_add_star(case, each))
    if stars:
        notes.append(f"{counted(len(stars), 'three-winding transformer')} as stars: {', '.join(stars.values())}")
    return case, stars, lost, notes


def _add_shunts(case: Case, branch: powerio.Branch) -> bool:  # type: ignore[name-defined]  # noqa: F821
    """Add to the buses what the ends of a branch have beyond its charging, which the tables share evenly."""
    half, base, found = (branch["b_fr"] + branch["b_to"]) / 2, case["baseMVA"], False
    for bus, g, b in ((branch["from_id"], "g_fr", "b_fr"), (branch["to_id"], "g_to", "b_to")):
        extra = np.array([branch[g], branch[b] - half]) * base
        if np.abs(extra).max() > _NOTICEABLE:
            case["bus"][case["bus"][:, 0] == bus, 4:6] += extra
            found = True
    return found


def _add_star(case: Case, transformer: powerio.ThreeWindingTransformer) -> dict[int, str]:  # type: ignore[name-defined]  # noqa: F821
    """Add a three-winding transformer as a bus in its middle with three transformers; its number and name."""
    windings, base = transformer["windings"], case["baseMVA"]
    number = int(case["bus"][:, 0].max()) + 1
    first = case["bus"][case["bus"][:, 0] == windings[0]["bus"]][0]
    star = np.array([number, 1, 0, 0, 0, 0, *first[6:]])
    star[7], star[8] = transformer["star_vm"], transformer["star_va"]
    case["bus"] = np.vstack([case["bus"], star])
    # Losses of the core are at the first winding.
    row = np.flatnonzero(case["bus"][:, 0] == windings[0]["bus"])[0]
    case["bus"][row, 4:6] += np.array([transformer["mag_g"], transformer["mag_b"]]) * base
    pairs = [complex(z["r"], z["x"]) * base / z["base_mva"] for z in transformer["z"]]
    legs = [(pairs[0] + pairs[2] - pairs[1]) / 2, (pairs[0] + pairs[1] - pairs[2]) / 2]
    legs.append((pairs[1] + pairs[2] - pairs[0]) / 2)
    legs = [leg if abs(leg) > _LEAST_IMPEDANCE else complex(0, _LEAST_IMPEDANCE) for leg in legs]
    added = np.zeros((3, case["branch"].shape[1]))
    for place, (winding, leg) in enumerate(zip(windings, legs, strict=True)):
        rates = [winding[rate] for rate in ("rate_a", "rate_b", "rate_c")]
        limits = [winding["tap"] or 1.0, winding["shift"], 1, -360, 360]
        added[place, :13] = [winding["bus"], number, leg.real, leg.imag, 0, *rates, *limits]
    case["branch"] = np.vstack([case["branch"], added])
    return {number: f"star {'-'.join(str(winding['bus']) for winding in windings)}"}
