"""The term sheet of a load with conditional service: one JSON file, in which what is not known is empty and listed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
from jsonschema import Draft202012Validator

from pypsa_aidc.errors import Faults, near
from pypsa_aidc.fleet.contract import Contract
from pypsa_aidc.fleet.product_profiles import product
from pypsa_aidc.fleet.surface import Surface
from pypsa_aidc.plain import counted

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from matplotlib.figure import Figure

_HEAD = {"schema": "pypsa_aidc/term_sheet", "version": 1}
_NEAR = 1e-6
_MEGAWATTS = (
    *("nameplate_mw", "ramp", "firm", "conditional", "floor"),
    *("ramp_mw_per_min", "rebound_mw", "sources", "replay"),
)
"""Fields that belong to one load of one size."""


@dataclass(frozen=True)
class Megawatts:
    """MW in a year and a season; `None` for all of them."""

    mw: float
    year: int | None = None
    season: str | None = None


@dataclass(frozen=True)
class ReliefSource:
    """One source of relief: K, jobs, cap, battery, genset, ups, cooling, windows or contract.

    Attributes
    ----------
    source
        One of these words.
    mw, hours, permit_hours
        MW, hours at that depth, and hours a year that a permit allows; `None` if not known.
    """

    source: str
    mw: float | None = None
    hours: float | None = None
    permit_hours: float | None = None


@dataclass(frozen=True)
class Replayed:
    """Cuts of a year that a study replayed: hours, events, longest (h), energy and what is not delivered (MWh)."""

    year: int | None
    hours: float
    events: int
    longest_h: float
    energy_mwh: float
    undelivered_mwh: float


_ROWS: dict[str, type] = {
    **dict.fromkeys(("ramp", "firm", "conditional", "floor"), Megawatts),
    "sources": ReliefSource,
    "replay": Replayed,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class TermSheet:
    """What a utility and a load agree on. Whatever is `None` is missing, and no default stands for it.

    The fields are those of `term_sheet.schema.json` in the package, with their units in their names; `ramp`, `firm`,
    `conditional` and `floor` are MW by year and season, and conditional MW have the firm ones in them.

    Raises
    ------
    InputError
        A field out of its range, or megawatts that exclude each other, all at once.

    Examples
    --------
    >>> sheet = TermSheet(id="east", conditional=(Megawatts(100.0),), floor=(Megawatts(60.0),), longest_event_h=4)
    >>> sheet.relief_mw, len(sheet.missing)
    (40.0, 29)
    >>> TermSheet(id="east", reliability=95)
    Traceback (most recent call last):
    pypsa_aidc.errors.InputError: term sheet 'east':
      - reliability: given 95, expected Share of events with all of the relief: 95 is greater than the maximum of 1.
    """

    id: str
    point_of_interconnection: str | None = None
    voltage_kv: float | None = None
    nameplate_mw: float | None = None
    ramp: tuple[Megawatts, ...] | None = None
    firm: tuple[Megawatts, ...] | None = None
    conditional: tuple[Megawatts, ...] | None = None
    floor: tuple[Megawatts, ...] | None = None
    trigger: str | None = None
    notice_minutes: float | None = None
    response_minutes: float | None = None
    ramp_mw_per_min: float | None = None
    longest_event_h: float | None = None
    events_per_day: int | None = None
    events_per_year: int | None = None
    hours_per_year: float | None = None
    spacing_h: float | None = None
    recovery_h: float | None = None
    rebound_mw: float | None = None
    reliability: float | None = None
    confidence: float | None = None
    data: str | None = None
    delivered_share: float | None = None
    delivered_share_measured: bool | None = None
    sources: tuple[ReliefSource, ...] | None = None
    price_usd_per_mwh: float | None = None
    penalty_usd_per_mwh: float | None = None
    baseline_method: str | None = None
    telemetry_interval_s: float | None = None
    exit_upgrade: str | None = None
    exit_date: str | None = None
    replay: tuple[Replayed, ...] | None = None
    study: str | None = None

    def __post_init__(self) -> None:
        faults = Faults(f"term sheet {self.id!r}")
        _check_schema(self.to_dict(), faults)
        faults.raise_any()
        for smaller, larger in (("floor", "conditional"), ("firm", "conditional"), ("conditional", "ramp")):
            most = {(each.year, each.season): each.mw for each in getattr(self, larger) or ()}
            for each in getattr(self, smaller) or ():
                allowed = most.get((each.year, each.season), most.get((each.year, None)))
                if allowed is not None and each.mw > allowed * (1 + _NEAR):
                    when = " ".join(str(part) for part in (each.year, each.season) if part is not None)
                    faults.add(f"{smaller} {when}".strip(), each.mw, f"at most the {allowed:g} MW of {larger}")
        for name in ("ramp", "firm", "conditional", "floor"):
            periods = [(each.year, each.season) for each in getattr(self, name) or ()]
            faults.require(len(set(periods)) == len(periods), name, periods, "each year and season once")
        faults.raise_any()

    @property
    def missing(self) -> tuple[str, ...]:
        """Fields that are not known."""
        return tuple(each.name for each in fields(self) if getattr(self, each.name) is None)

    @property
    def relief_mw(self) -> float:
        """MW by which the load can be cut: conditional less floor.

        Raises
        ------
        InputError
            One of them is missing, or given for several years or seasons.
        """
        faults = Faults(f"term sheet {self.id!r}")
        both = [self._single(name, faults) for name in ("conditional", "floor")]
        faults.raise_any()
        return both[0] - both[1]

    def _single(self, name: str, faults: Faults) -> float:
        """MW of a field with one entry; a fault is noted for another number of them."""
        rows = getattr(self, name)
        one = rows is not None and len(rows) == 1
        periods = None if rows is None else [(each.year, each.season) for each in rows]
        faults.require(one, name, periods, "MW of one year and season", "sheet.at(year, season) chooses one.")
        return float(rows[0].mw) if one else 0.0

    def at(self, year: int | None = None, season: str | None = None) -> TermSheet:
        """Return the sheet of one year and season: what is given for all seasons counts in each.

        Raises
        ------
        InputError
            Nothing is given for them.
        """
        faults = Faults(f"term sheet {self.id!r}")
        chosen: dict[str, Any] = {}
        for name in ("ramp", "firm", "conditional", "floor"):
            rows = getattr(self, name)
            found = [each for each in rows or () if each.year in (year, None) and each.season in (season, None)]
            # The entry that says most of the period.
            found.sort(key=lambda each: (each.year is None, each.season is None))
            periods = [(each.year, each.season) for each in rows or ()]
            faults.require(rows is None or bool(found), name, (year, season), f"a period that is given: {periods}")
            chosen[name] = tuple(found[:1]) or None
        faults.raise_any()
        replayed = tuple(each for each in self.replay or () if each.year in (year, None))
        return replace(self, **chosen, replay=replayed or None)

    def without(self, *names: str) -> TermSheet:
        """Return the sheet with some fields empty, e.g. terms that a model is knowingly not told of.

        Raises
        ------
        InputError
            No such field.
        """
        faults = Faults(f"term sheet {self.id!r}")
        known = [each.name for each in fields(self) if each.name != "id"]
        for name in names:
            faults.require(name in known, "without", name, "a field of the sheet", near(name, known))
        faults.raise_any()
        return replace(self, **dict.fromkeys(names))  # type: ignore[arg-type]

    def filled(self, other: TermSheet) -> TermSheet:
        """Return the sheet with its empty fields as in another one; what is given here stays.

        Megawatts of a load of another id are not taken: `of` scales those of a fleet with ``size=``.
        """
        taken = [name for name in self.missing if other.id == self.id or name not in _MEGAWATTS]
        return replace(self, **{name: getattr(other, name) for name in taken})

    def to_dict(self) -> dict[str, Any]:
        """Content of the file, ready for JSON."""
        content = asdict(self)
        for name in _ROWS:
            content[name] = None if content[name] is None else list(content[name])
        return {**_HEAD, **content, "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Make a sheet of the content of a file.

        Raises
        ------
        InputError
            It does not fit the schema, or `missing` lists what is there or not what is missing.
        """
        faults = Faults(f"term sheet {content.get('id', '')!r}")
        _check_schema(content, faults)
        faults.raise_any()
        known = [each.name for each in fields(cls)]
        given = {name: content[name] for name in known if content.get(name) is not None}
        for name, kind in _ROWS.items():
            if name in given:
                given[name] = tuple(kind(**row) for row in given[name])
        sheet = cls(**given)
        told = sorted(content["missing"])
        faults.require(told == sorted(sheet.missing), "missing", told, f"what is empty: {sorted(sheet.missing)}")
        faults.raise_any()
        return sheet

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a sheet from its JSON file.

        Raises
        ------
        InputError
            No such file, no JSON, or as `from_dict`.
        """
        faults = Faults("term sheet")
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            faults.add("path", str(path), f"a JSON file of a term sheet ({error})")
            content = None
        faults.require(content is None or isinstance(content, dict), "path", str(path), "one JSON object")
        faults.raise_any()
        return cls.from_dict(content)

    def write(self, path: str | Path) -> Path:
        """Write the JSON file, and return its path."""
        target = Path(path)
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        target.write_text(text + "\n", encoding="utf-8")
        return target

    @classmethod
    def of(
        cls,
        source: Contract | Surface,
        id: str,
        *,
        peak: float | None = None,
        size: float | None = None,
        duration: int = 4,
        reliability: float = 0.95,
    ) -> Self:
        """Make a sheet of what the history of a fleet says; what it cannot know, such as a price, is missing.

        Parameters
        ----------
        source
            A `Contract`, or a `Surface` with the call of `duration` hours at `reliability`.
        id
            Name of the load.
        peak
            MW at the meter of the fleet that K was measured on: then its size, and the floor below it, are known.
        size
            MW at the meter of the load, to which all megawatts are scaled; needs `peak`, and is that if None.
        duration, reliability
            Of a `Surface`; a `Contract` has its own.

        Raises
        ------
        InputError
            A duration or reliability that the surface does not hold, or a peak below the relief.

        Examples
        --------
        >>> terms = Contract(power=2.3, duration=4, reliability=0.95, noneligible=23.0)
        >>> sheet = TermSheet.of(terms, "site", peak=54.3)
        >>> sheet.floor[0].mw, sheet.reliability, sheet.sources[0].mw
        (52.0, 0.95, 2.3)
        """
        if isinstance(source, Contract):
            relief, duration = source.offer, source.duration
            known: dict[str, Any] = {}
        else:
            attrs = source.data.attrs
            relief = source.at(duration, reliability)
            known = {
                "reliability": reliability,
                "data": f"{attrs.get('source', '')}, {attrs.get('coverage', 'hours not recorded')}, "
                f"{source.windows[duration]:,} windows",
            }
        faults = Faults(f"term sheet {id!r}")
        if peak is not None:
            faults.number("peak", peak, above=0, at_least=relief)
        faults.require(size is None or peak is not None, "size", size, "nothing without peak")
        if size is not None:
            faults.number("size", size, above=0)
        faults.raise_any()
        scale = 1.0 if peak is None or size is None else size / peak
        if isinstance(source, Contract):
            known = _of_contract(source, scale)
        relief *= scale
        if peak is not None:
            own = float(peak * scale)
            # Firm megawatts are for a grid to say.
            known |= {"nameplate_mw": own, "conditional": (Megawatts(own),), "floor": (Megawatts(own - float(relief)),)}
        return cls(id=id, longest_event_h=duration, sources=(ReliefSource("K", float(relief), duration),), **known)

    def to_frame(self) -> pd.DataFrame:
        """One row a field: `field`, `value` in words, `meaning`; a missing one is empty."""
        told = _schema()["properties"]
        rows = [(each.name, _words(getattr(self, each.name)), told[each.name]["description"]) for each in fields(self)]
        return pd.DataFrame(rows, columns=["field", "value", "meaning"])

    def under(self, profile: str) -> pd.DataFrame:
        """Hold the sheet against what a product asks for.

        Parameters
        ----------
        profile
            One of `profiles()`.

        Returns
        -------
        pandas.DataFrame
            One row a question of the product and field: `asked`, `field`, `value`, and `state`: ``"given"``,
            ``"missing"``, or by how much it is out of what the product takes.

        Raises
        ------
        InputError
            No such profile.
        """
        rows = []
        for asked in product(profile)["asks"]:
            for name in asked["fields"]:
                value = getattr(self, name)
                rows.append(
                    {
                        "asked": asked["what"],
                        "field": name,
                        "value": _words(value),
                        "state": "missing" if value is None else _state(value, asked),
                    }
                )
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        where = "" if self.point_of_interconnection is None else f" at {self.point_of_interconnection}"
        sizes = ", ".join(f"{name} {_words(getattr(self, name))}" for name in ("firm", "conditional", "floor"))
        return f"TermSheet {self.id!r}{where}: {sizes}; {counted(len(self.missing), 'field')} missing"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: all fields, missing ones too."""
        from pypsa_aidc.markup import Table, card

        frame = self.to_frame()
        title = f"Term sheet: {self.id}, {counted(len(self.missing), 'field')} missing"
        return card(self, lambda: [Table("", frame)], title=title, rows=len(frame))

    def plot(self) -> Figure:
        """Draw the megawatts, by year and season where given, and the sources of relief."""
        from pypsa_aidc.plots.dependable import plot_term_sheet

        return plot_term_sheet(self)


def _of_contract(terms: Contract, scale: float) -> dict[str, Any]:
    """Fields that a contract from a trace knows."""
    events = int(terms.calls_per_week * 52)
    ramp, interval = (terms.basis.get(name) for name in ("steepest ramp seen", "telemetry interval"))
    return {
        "notice_minutes": None if terms.notice is None else 60 * terms.notice,
        "response_minutes": None if terms.response is None else 60 * terms.response,
        "events_per_year": events,
        "hours_per_year": float(events * terms.duration),
        "spacing_h": terms.spacing,
        "recovery_h": terms.recovery_time,
        "rebound_mw": scale * terms.recovery_share * terms.noneligible if terms.rebound_energy else 0.0,
        "reliability": terms.reliability,
        "data": "; ".join(
            [
                (terms.source or "source not recorded") + (" (synthetic fleet)" if terms.synthetic else ""),
                f"K before q and derating {terms.power:.5g} MW",
                f"derating {terms.derating:.4g}",
                *(f"{name}: {text}" for name, text in terms.basis.items()),
            ]
        ),
        "delivered_share": terms.q,
        "ramp_mw_per_min": None if ramp is None else scale * float(ramp.split()[0]),
        "telemetry_interval_s": float(interval.split()[0]) if interval else None,
    }


def _state(value: Any, asked: Mapping[str, Any]) -> str:
    """Whether a number is within what a product takes."""
    if "at_least" in asked and value < asked["at_least"]:
        return f"below {asked['at_least']:g}"
    if "at_most" in asked and value > asked["at_most"]:
        return f"above {asked['at_most']:g}"
    return "given"


def _words(value: Any) -> str:
    """A field for a person; nothing where it is missing."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "; ".join(_words_of(each) for each in value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _words_of(row: Megawatts | ReliefSource | Replayed) -> str:
    if isinstance(row, Megawatts):
        when = " ".join(str(part) for part in (row.year, row.season) if part is not None)
        return f"{row.mw:,.5g} MW{f' in {when}' if when else ''}"
    if isinstance(row, ReliefSource):
        parts = (row.mw, "MW"), (row.hours, "h"), (row.permit_hours, "h permitted")
        return " ".join([row.source, *(f"{number:,.5g} {unit}" for number, unit in parts if number is not None)])
    when = "" if row.year is None else f"{row.year}: "
    return (
        f"{when}{row.hours:g} h in {row.events} events, longest {row.longest_h:g} h, {row.energy_mwh:,.5g} MWh, "
        f"{row.undelivered_mwh:,.5g} MWh undelivered"
    )


@cache
def _schema() -> dict[str, Any]:
    text = (files("pypsa_aidc.fleet") / "term_sheet.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def _check_schema(content: Mapping[str, Any], faults: Faults) -> None:
    """Note everything in which a content differs from the schema."""
    errors: Iterable[ValidationError] = Draft202012Validator(_schema()).iter_errors(content)
    for error in sorted(errors, key=lambda each: [str(part) for part in each.absolute_path]):
        path = ".".join(str(part) for part in error.absolute_path)
        told = _schema()["properties"].get(str(next(iter(error.absolute_path), "")), {}).get("description", "")
        expected = f"{told.rstrip('.')}: {error.message}" if told else error.message
        faults.add(path or "sheet", error.instance if path else "", expected.rstrip("."))
