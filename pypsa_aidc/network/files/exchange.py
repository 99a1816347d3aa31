"""Files for others: written whole or not at all, read with every fault named; the convention is docs/netcdf.md."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import netCDF4
import pypsa
import xarray as xr

from pypsa_aidc.errors import AIDCError, Faults, InputError
from pypsa_aidc.network.files.case_out import WRITTEN, case_text
from pypsa_aidc.network.files.cases import FORMATS as CASES
from pypsa_aidc.network.files.cases import from_case
from pypsa_aidc.network.files.freeze import freeze, refuse_exclusive, thaw
from pypsa_aidc.network.loads.decisions import keep
from pypsa_aidc.network.loads.registry import loads
from pypsa_aidc.network.pypsa_api import copy_network, quiet_pypsa

_FORMATS = {".nc": "netCDF", ".h5": "HDF5", ".hdf5": "HDF5", ".xlsx": "Excel"}


def export(
    n: pypsa.Network,
    path: str | Path,
    *,
    frozen: bool = True,
    snapshot: object | None = None,
    power_factor: float = 0.95,
) -> Path:
    """Write a network with its AIDCs as netCDF that plain PyPSA can open, or one snapshot as a case with them as loads.

    Parameters
    ----------
    n
        Network with sites; not changed.
    path
        File ending in ``.nc``; or in ``.m`` (MATPOWER) or ``.raw`` (PSS/E 33), which powerio writes: one snapshot, with
        storage and AIDCs as loads, and buses numbered in order. It is written beside its place and moved there when
        complete: an interrupted write leaves an older file as it was.
    frozen
        Whether jobs carry their decided power as `p_set`. Then ``pypsa.Network(path).optimize()`` gives the same
        objective and prices without this package, while `n.aidc.optimize` frees the jobs again. With ``False`` the
        jobs are free, and plain PyPSA would run each at its least energy at any time. Schedules, results and
        specifications are in the file either way. Not of a case.
    snapshot
        Of a case; the only one by default.
    power_factor
        Of AIDCs in a case, lagging, above 0 and at most 1.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        A path that cannot be written to, or a network that netCDF cannot hold (mixed columns, lists).
    NotSolvedError, StaleError, UnsupportedError
        With `frozen`: no schedule, one that is not of this solution, or one that plain PyPSA cannot keep.

    Examples
    --------
    >>> import pypsa_aidc as aidc
    >>> n = pypsa.Network(snapshots=range(4))
    >>> _ = n.add("Bus", "grid")
    >>> n.aidc.export("plain.nc")
    Traceback (most recent call last):
    pypsa_aidc.errors.InputError: n.aidc.freeze:
      - network: given 'no AIDC', expected at least one site with a schedule. Add one with n.aidc.add.
    """
    target = Path(path)
    faults = Faults("n.aidc.export")
    known = f"a name ending in .nc, {' or '.join(WRITTEN)}"
    case = target.suffix in WRITTEN
    faults.require(target.suffix == ".nc" or case, "path", str(path), known, "PyPSA itself writes the rest.")
    faults.require(case or snapshot is None, "snapshot", snapshot, "nothing for a netCDF file")
    faults.number("power_factor", power_factor, above=0, at_most=1)
    if case:
        snapshot = n.snapshots[0] if snapshot is None and len(n.snapshots) == 1 else snapshot
        faults.require(snapshot in n.snapshots, "snapshot", snapshot, "a snapshot of the network")
    faults.require(not target.is_dir(), "path", str(path), "a file, not a folder")
    faults.require(target.parent.is_dir(), "path", str(path), "a file in an existing folder")
    faults.raise_any()
    if case:
        text = case_text(n, target.suffix, snapshot, power_factor, faults)
        _put(target, lambda part: part.write_text(text, encoding="utf-8"))
        return target
    if frozen or loads(n):
        if frozen:
            refuse_exclusive(n)
        # Copies have no model: a solution that is only there has to be in the series before.
        with suppress(AIDCError):
            keep(n)
        n = copy_network(n)
        (freeze if frozen else thaw)(n)
    write(n, target)
    return target


def write(n: pypsa.Network, target: Path) -> None:
    """Write a network as it is, whole or not at all; see `export`.

    Raises
    ------
    InputError
        The folder cannot be written to, or netCDF cannot hold the network; an older file is left as it was.
    """
    _put(target, n.export_to_netcdf)


def _put(target: Path, put: Callable[[Path], object]) -> None:
    """Write a temporary file in the same folder that takes the target's place when it is complete."""
    faults = Faults(f"writing {target}")
    try:
        # Made with the rights that any new file has, where temporary files are private.
        part = target.with_name(f".{target.stem}-{token_hex(8)}{target.suffix}")
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        faults.add("folder", str(target.parent), f"a folder that can be written to ({error.strerror})")
        raise InputError(faults.subject, tuple(faults)) from error
    try:
        put(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    except Exception as error:
        faults.add("network", type(error).__name__, f"columns of plain numbers, booleans and text ({error})")
        raise InputError(faults.subject, tuple(faults)) from error
    finally:
        part.unlink(missing_ok=True)


def is_network(path: Path) -> bool:
    """Whether a path looks like a network by its name: a folder, or a file of PyPSA or of a case."""
    return path.is_dir() or path.suffix.lower() in (*_FORMATS, *CASES)


def load(path: str | Path | xr.Dataset, *, check_sites: bool = True) -> pypsa.Network:
    """Read a network and check the AIDCs in it.

    ``pypsa.Network(path)`` reads the same; this says what is wrong with a file, once, instead of at first use.

    Parameters
    ----------
    path
        netCDF, HDF5 or xlsx file, or a CSV folder, as PyPSA writes them, a case of another program as `from_case`
        reads it with what it does by default, or the `xarray.Dataset` of a netCDF file
        (``n.export_to_netcdf()``). Specifications are data only, from any of them; HDF5 itself may hold pickled
        objects, so read one only from somebody you trust.
    check_sites
        Whether to look for buses and read the specifications; without, `check` tells what is wrong with them.

    Returns
    -------
    pypsa.Network
        With schedules under ``n.aidc`` where the file has them. A frozen file stays frozen until `n.aidc.optimize` or
        `n.aidc.thaw`.

    Raises
    ------
    InputError
        No such file, not one of these formats, truncated or damaged; data of another kind, or no bus.
    SpecError
        A specification cannot be read: damaged, of a newer version, or of a component that is missing.
    """
    given = "an xarray.Dataset" if isinstance(path, xr.Dataset) else str(path)
    faults = Faults(f"aidc.load {given!r}")
    faults.kind("path", path, (str, Path, xr.Dataset), "a path, or an xarray.Dataset")
    faults.raise_any()
    if not isinstance(path, xr.Dataset) and Path(path).suffix.lower() in CASES and not Path(path).is_dir():
        return from_case(path)
    kind = "dataset" if isinstance(path, xr.Dataset) else _kind(Path(path), faults)
    try:
        with quiet_pypsa(level=logging.CRITICAL):
            if isinstance(path, xr.Dataset):
                n = pypsa.Network()
                n.import_from_netcdf(path)
            else:
                if Path(path).suffix == ".nc":
                    # A file that was cut off is told before a network is made for it.
                    netCDF4.Dataset(path).close()
                n = pypsa.Network(Path(path))
    except Exception as error:
        faults.add("path", given, f"a complete {kind} of a PyPSA network ({type(error).__name__}: {error})")
        raise InputError(faults.subject, tuple(faults)) from error
    if check_sites:
        faults.require(
            len(n.buses) > 0,
            "path",
            given,
            "a PyPSA network: there is no bus in it",
            "Data of another kind, such as weather, are no network.",
        )
        faults.raise_any()
        try:
            loads(n)
        except InputError as error:
            raise type(error)(faults.subject, error.faults) from error
    return n


def _kind(source: Path, faults: Faults) -> str:
    """Kind of file, in words; refused where there is none of a kind that can be read."""
    faults.require(source.exists(), "path", str(source), "an existing file or CSV folder")
    known = f"a CSV folder, or a file ending in {', '.join((*_FORMATS, *CASES))}"
    faults.require(is_network(source), "path", str(source), known)
    faults.raise_any()
    # PyPSA takes a folder of anything for a network without components.
    listed = not source.is_dir() or (source / "network.csv").is_file() or (source / "snapshots.csv").is_file()
    faults.require(listed, "path", str(source), "a folder with network.csv or snapshots.csv in it")
    faults.raise_any()
    return "CSV folder" if source.is_dir() else f"{_FORMATS[source.suffix.lower()]} file"
