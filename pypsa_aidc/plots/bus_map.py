"""Maps: headroom at buses, a network with its AIDCs, and both as a page to move about in.

Buses without a place of their own, such as those behind the meter of an AIDC, lie where the bus lies that feeds them.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from pypsa_aidc.errors import Faults
from pypsa_aidc.plots.style import BLACK, BLUE, BROWN, CYCLE, GREY, MAP, ORANGE, canvas, legend, place_labels, styled

if TYPE_CHECKING:
    import pydeck
    import pypsa

    from pypsa_aidc.headroom import BusHeadroom, ServiceStudy

_FEW = 24
"""Buses up to which each is named with its value; of more, only the ends of the range and what limits."""
_KM_PER_DEGREE = 111.0


@styled
def plot_headroom(result: BusHeadroom, names: int = 5) -> Figure:
    """Draw buses coloured by headroom, all branches thin and grey, and the limiting ones thick.

    Parameters
    ----------
    result
        Headroom at buses.
    names
        How many of the limiting branches get their name, those first that limit the most buses.

    Raises
    ------
    InputError
        Fewer than two buses have a place of their own.
    """
    data = result.data
    labels = np.asarray(data["branch"]).astype(str)
    branches = pd.DataFrame({end: data[end].to_numpy().astype(str) for end in ("bus0", "bus1")}, index=labels)
    known = [("bus", "x", "y"), ("bus0", "bus0_x", "bus0_y"), ("bus1", "bus1_x", "bus1_y")]
    parts = [
        pd.DataFrame({"x": data[x].to_numpy(), "y": data[y].to_numpy()}, data[bus].to_numpy().astype(str))
        for bus, x, y in known
    ]
    every = pd.concat(parts)
    places = _places(every[~every.index.duplicated()], branches)
    headroom = pd.Series(data["headroom"].to_numpy().astype(float), np.asarray(data["bus"]).astype(str))
    _require_places(places, headroom.index)
    attrs = data.attrs
    figure, axis = _map(places, bool(attrs.get("synthetic")))
    ends = _segments(places, branches)
    axis.add_collection(LineCollection(ends, colors=GREY, linewidths=0.6, zorder=1))
    counts = pd.Series(data["element"].to_numpy().astype(str)).value_counts()
    limiting = counts[counts.index.isin(branches.index)]
    tags: list[tuple[float, float, str]] = []
    for name, count in limiting.items():
        (segment,) = _segments(places, branches.loc[[str(name)]]) or [np.full((2, 2), np.nan)]
        width = 1.6 + 3.4 * count / limiting.max()
        axis.plot(*segment.T, color=BROWN, linewidth=width, solid_capstyle="round", zorder=2)
        tags.append((*segment.mean(axis=0), str(name)))
    if len(limiting):
        axis.plot([], [], color=BROWN, linewidth=3, label="limits headroom; the wider, the more buses")
    tags = [*tags[:names], *_headroom_points(axis, places, headroom)]
    told = ", ".join(str(attrs[name]) for name in ("method", "response") if attrs.get(name))
    mark = " (synthetic fleet)" if attrs.get("synthetic") else ""
    axis.set_title(f"headroom at each bus{mark}\n{told}, contingencies: {attrs['contingencies']}")
    legend(axis)
    place_labels(axis, tags)
    return figure


@styled
def plot_network(n: pypsa.Network, headroom: pd.Series[float] | None = None) -> Figure:
    """Draw a network on a map, its branches by PyPSA, its AIDCs as squares as large as their connection.

    Parameters
    ----------
    n
        Network whose buses have places.
    headroom
        MW by bus, to colour the buses with; infinite where nothing limits it.

    Raises
    ------
    InputError
        Fewer than two buses have a place of their own.
    """
    placed = _placed(n)
    places = placed.buses[["x", "y"]].astype(float)
    _require_places(places, places.index)
    figure, axis = _map(places, synthetic=False)
    bounds = (*axis.get_xlim(), *axis.get_ylim())
    aspect = axis.get_aspect()
    colours = {f"{kind}_color": GREY for kind in ("line", "link", "transformer")}
    widths = {f"{kind}_width": 0.8 for kind in ("line", "link", "transformer")}
    placed.plot(ax=axis, geomap=False, boundaries=bounds, bus_size=0.0, title="", **colours, **widths)
    # PyPSA's map hides the axes and takes a degree of longitude for one of latitude.
    axis.axis("on")
    axis.set_aspect(aspect)
    tags: list[tuple[float, float, str]] = []
    own = _aidcs(n)
    if headroom is None:
        grid = places.drop(index=[bus for bus in _behind(n) if bus in places.index])
        axis.scatter(grid["x"], grid["y"], 16, color=GREY, zorder=3, label="bus")
    else:
        tags += _headroom_points(axis, places, headroom)
    if len(own):
        x, y = places.loc[own["bus"]].to_numpy().T
        sizes = 40 + 120 * own["p_nom"] / own["p_nom"].max()
        axis.scatter(
            x, y, sizes, marker="s", facecolors="none", edgecolors=ORANGE, linewidths=2, zorder=5, label="AIDC"
        )
        tags = [*zip(x, y, [f"{name}: {mw:,.3g} MW" for name, mw in own["p_nom"].items()], strict=True), *tags]
    axis.set_title("headroom at each bus" if headroom is not None else "buses and AIDCs with their connection")
    legend(axis)
    if headroom is None and len(places) <= _FEW:
        named = places.drop(index=[*own["bus"], *(bus for bus in _behind(n) if bus in places.index)])
        tags += [(x, y, str(bus)) for bus, x, y in zip(named.index, named["x"], named["y"], strict=True)]
    place_labels(axis, tags, gap=8.0)
    return figure


@styled
def plot_sizes(study: ServiceStudy, year: int | None = None, dispatch: str | None = None) -> Figure:
    """Draw the requests of a study on a map: discs of their firm megawatts in circles of the conditional ones.

    Elements that limit a request are thick and named.

    Parameters
    ----------
    study
        The study.
    year
        One of its years; the last one if left out.
    dispatch
        ``"fixed"`` or ``"redispatch"``; the first way that was studied if left out.

    Raises
    ------
    InputError
        No such year or way, or fewer than two buses have a place of their own.
    """
    years, ways = list(study.basis.networks), list(study.allocation.index.unique("dispatch"))
    year, dispatch = years[-1] if year is None else year, ways[0] if dispatch is None else dispatch
    faults = Faults("map of a study")
    faults.require(year in years, "year", year, f"one of {years}")
    faults.require(dispatch in ways, "dispatch", dispatch, f"one of {ways}")
    faults.raise_any()
    placed = _placed(study.basis.networks[year])
    places = placed.buses[["x", "y"]].astype(float)
    _require_places(places, places.index)
    sizes = study.allocation.xs(("" if year is None else year, dispatch), level=["year", "dispatch"])
    figure, axis = _map(places, synthetic=False)
    ends = [placed.c[name].static[["bus0", "bus1"]].assign(component=name) for name in ("Line", "Transformer", "Link")]
    branches = pd.concat(ends)
    axis.add_collection(LineCollection(_segments(places, branches), colors=GREY, linewidths=0.8, zorder=1))
    tags: list[tuple[float, float, str]] = []
    named = (branches["component"] + " " + branches.index).to_numpy()
    for element in dict.fromkeys(sizes["limiter"]):
        for segment in _segments(places, branches[named == element]):
            axis.plot(*segment.T, color=BROWN, linewidth=3, solid_capstyle="round", zorder=2)
            tags.append((*segment.mean(axis=0), str(element)))
    if tags:
        axis.plot([], [], color=BROWN, linewidth=3, label="limits a request")
    axis.scatter(places["x"], places["y"], 8, color=GREY, zorder=3)
    x, y = places.loc[sizes["bus"]].to_numpy().T
    firm, conditional = (900 * sizes[name] / max(sizes["conditional"].max(), 1e-9) for name in ("firm", "conditional"))
    ring = {"facecolors": "none", "edgecolors": CYCLE[0], "linewidths": 1.6}
    axis.scatter(x, y, firm, color=CYCLE[0], alpha=0.75, zorder=4)
    axis.scatter(x, y, conditional, **ring, zorder=5)
    # Circles of the map are too large for a key.
    axis.scatter([], [], 60, color=CYCLE[0], alpha=0.75, label="firm")
    axis.scatter([], [], 60, **ring, label="conditional, the firm ones in it")
    told = zip(sizes.index, sizes["firm"], sizes["conditional"] - sizes["firm"], strict=True)
    texts = [f"{name}: {held:,.4g}" + (f" + {more:,.4g} MW" if more > 0 else " MW") for name, held, more in told]
    tags = [*zip(x, y, texts, strict=True), *tags]
    way = "fixed dispatch" if dispatch == "fixed" else dispatch
    axis.set_title(f"firm and conditional megawatts, {way}{'' if year is None else f', {year}'}")
    legend(axis)
    place_labels(axis, tags, gap=12.0)
    return figure


def explore(
    n: pypsa.Network, headroom: pd.DataFrame | None = None, *, background: bool = False, quantity: str = "headroom"
) -> pydeck.Deck:
    """Make a map to move about in, by ``n.plot.explore``: what is under the pointer says its name and numbers.

    Parameters
    ----------
    n
        Network whose buses have places in degrees.
    headroom
        As ``to_frame()`` of headroom at buses gives it: index `bus`, `headroom` in MW, and optionally `element`, what
        limits it. Buses are coloured by it.
    background
        Whether to draw streets and places behind it. They come from the internet whenever the map is looked at.
    quantity
        What the megawatts in `headroom` are, in words.

    Returns
    -------
    pydeck.Deck
        Shown by notebooks as it is; `save` writes it as a page.

    Raises
    ------
    InputError
        Fewer than two buses have a place of their own.
    """
    placed = _placed(n)
    places = placed.buses[["x", "y"]].astype(float)
    _require_places(places, places.index)
    own, columns = _aidcs(n), []
    colours = pd.Series(GREY, places.index)
    if headroom is not None:
        known = headroom["headroom"].reindex(places.index)
        placed.buses[f"{quantity} (MW)"] = [
            f"{mw:,.1f}" if np.isfinite(mw) else "–" if np.isnan(mw) else "not limited" for mw in known
        ]
        columns.append(f"{quantity} (MW)")
        colours = pd.Series([_colour(mw, _norm(known)) for mw in known], places.index)
        if "element" in headroom:
            placed.buses["limited by"] = headroom["element"].reindex(places.index).fillna("").map(str).map(html.escape)
            columns.append("limited by")
    if len(own):
        named = own.reset_index(names="aidc").groupby("bus").agg({"aidc": ", ".join, "p_nom": "sum"})
        texts = named["aidc"] + ": " + named["p_nom"].map("{:,.4g} MW".format)
        placed.buses["AIDC"] = texts.reindex(places.index).fillna("")
        columns.append("AIDC")
    low, high = places.min(), places.max()
    middle = (low + high) / 2
    # A page shows as many degrees in width as it would at the equator, and fewer in height.
    degrees = max(high["x"] - low["x"], (high["y"] - low["y"]) / max(np.cos(np.radians(middle["y"])), 0.1), 0.01)
    spread = _KM_PER_DEGREE * degrees
    sizes = pd.Series(np.pi * (spread / 120) ** 2, places.index)
    sizes[own["bus"].unique()] *= 2.5
    sizes[[bus for bus in _behind(n) if bus in sizes.index]] = 0.0
    deck: pydeck.Deck = placed.plot.explore(
        map_style="light" if background else "none",
        view_state={"longitude": middle["x"], "latitude": middle["y"], "zoom": float(np.log2(360 / degrees)) - 0.2},
        bus_size=sizes,
        bus_color=colours,
        bus_columns=columns,
        **{f"{kind}_width": spread / 500 for kind in ("line", "link", "transformer")},
        **{f"{kind}_color": "#a9adb1" for kind in ("line", "link", "transformer")},
    )
    # Random names would make each page another one.
    for number, layer in enumerate(deck.layers):
        layer.id = f"layer-{number}"
    return deck


def save(
    deck: pydeck.Deck,
    path: str | Path,
    title: str = "Network",
    headroom: pd.DataFrame | None = None,
    quantity: str = "headroom",
) -> Path:
    """Write a map of `explore` as one page that needs nothing else, with a key to its colours.

    Parameters
    ----------
    deck
        From `explore`.
    path
        File to write.
    title
        What is shown.
    headroom
        The table given to `explore`, for the key.
    quantity
        What its megawatts are, in words.
    """
    from pydeck.io.html import cdn_picker

    content = json.loads(deck.to_json())
    if content.get("mapStyle") == "none":
        # Else the page asks for a file of this name.
        content = {name: value for name, value in content.items() if name not in ("mapStyle", "mapProvider")}
    key = "" if headroom is None else _key(headroom["headroom"], quantity)
    # "<" in a name must not end the script.
    data, tip = (json.dumps(each).replace("<", "\\u003c") for each in (content, _TOOLTIP))
    page = _PAGE.format(title=html.escape(title), script=cdn_picker(offline=True), key=key, data=data, tooltip=tip)
    path = Path(path)
    path.write_text(page, encoding="utf-8")
    return path


_TOOLTIP = {"html": "{tooltip_html}", "style": {"background": "white", "color": BLACK, "border": f"1px solid {GREY}"}}
"""What is under the pointer, in the table that PyPSA has made of it."""

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>{script}
<style>
body {{ margin: 0; font: 14px sans-serif; color: #1a1a1a; }}
#map {{ position: absolute; inset: 0; }}
aside {{ position: absolute; z-index: 2; left: 0; top: 0; margin: .6rem; padding: .5rem .8rem; background: #fffffff0;
  border: 1px solid #d5dae0; border-radius: .3rem; max-width: 18rem; }}
h1 {{ font-size: 1rem; margin: 0 0 .3rem; }}
.scale {{ height: .8rem; }}
.ends {{ display: flex; justify-content: space-between; }}
i {{ display: inline-block; width: .8rem; height: .8rem; border-radius: 50%; margin-right: .3rem; }}
</style></head>
<body><div id="map"></div><aside><h1>{title}</h1>{key}</aside>
<script>createDeck({{container: document.getElementById("map"), jsonInput: {data}, tooltip: {tooltip}}});</script>
</body></html>
"""


def _key(headroom: pd.Series[float], quantity: str) -> str:
    norm = _norm(headroom)
    stops = ", ".join(to_hex(mpl.colormaps[MAP](share)) for share in np.linspace(0, 1, 8))
    rows = [f'<div class="scale" style="background: linear-gradient(to right, {stops})"></div>']
    rows.append(f'<div class="ends"><span>0 MW</span><span>{norm.vmax:,.0f} MW</span></div>')
    for text, value in ((f"no {quantity}", 0.0), ("not limited", np.inf), ("not asked", np.nan)):
        rows.append(f'<div><i style="background: {_colour(value, norm)}"></i>{text}</div>')
    rows.append("<div>larger circles: with an AIDC</div>")
    return "".join(rows)


def _norm(headroom: pd.Series[float]) -> Normalize:
    known = headroom[np.isfinite(headroom)]
    return Normalize(0.0, max(float(known.max()), 1e-9) if len(known) else 1.0)


def _colour(headroom: float, norm: Normalize) -> str:
    if np.isnan(headroom):
        return GREY
    if np.isinf(headroom):
        return ORANGE
    return BLACK if headroom <= 0 else to_hex(mpl.colormaps[MAP](float(norm(headroom))))


def _headroom_points(axis: Axes, places: pd.DataFrame, headroom: pd.Series[float]) -> list[tuple[float, float, str]]:
    """Draw buses by headroom with their colour bar; returns what to write beside which, the most telling first."""
    found = places.reindex(headroom.index)
    values, x, y = headroom.to_numpy(float), found["x"].to_numpy(float), found["y"].to_numpy(float)
    limited, unlimited, none = np.isfinite(values) & (values > 0), np.isinf(values), values <= 0
    edge: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.6}
    points = axis.scatter(
        x[limited], y[limited], 42, c=values[limited], cmap=MAP, norm=_norm(headroom), zorder=4, **edge
    )
    if none.any():
        axis.scatter(x[none], y[none], 26, color=BLACK, marker="x", linewidths=1.3, zorder=4, label="no headroom")
    if unlimited.any():
        ring: dict[str, Any] = {"facecolors": "none", "edgecolors": BLUE, "linewidths": 1.3}
        axis.scatter(x[unlimited], y[unlimited], 42, zorder=4, label="not limited", **ring)
    if limited.any():
        axis.figure.colorbar(points, ax=axis, label="headroom (MW)", shrink=0.85, pad=0.02)
    missing = int((~np.isfinite(x)).sum())
    if missing:
        axis.plot([], [], linestyle="none", label=f"{missing} more without a place")
    order = headroom.where(limited).sort_values(ascending=False, kind="stable").index
    chosen = list(order) if len(order) <= _FEW else [*order[:3], *order[limited.sum() - 3 : limited.sum()]]
    shown = dict(zip(headroom.index, zip(x, y, values, strict=True), strict=True))
    return [
        (shown[bus][0], shown[bus][1], f"{bus}: {shown[bus][2]:,.4g} MW" if np.isfinite(shown[bus][2]) else str(bus))
        for bus in chosen
    ]


def _map(places: pd.DataFrame, synthetic: bool) -> tuple[Figure, Axes]:
    """Axes for a map: as long and wide as on the ground, with degrees where the places are in degrees."""
    figure, axes = canvas(height=5.4, synthetic=synthetic)
    axis: Axes = axes[0, 0]
    known = places.dropna()
    low, high = known.min(), known.max()
    room = 0.07 * max(float((high - low).max()), 1e-6)
    axis.set_xlim(low["x"] - room, high["x"] + room)
    axis.set_ylim(low["y"] - room, high["y"] + room)
    degrees = known["x"].abs().max() <= 180 and known["y"].abs().max() <= 90
    middle = float(np.radians((low["y"] + high["y"]) / 2))
    axis.set_aspect(1 / max(np.cos(middle), 0.1) if degrees else 1.0)
    for name, compass, of_axis in (("longitude", "EW", axis.xaxis), ("latitude", "NS", axis.yaxis)):
        of_axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        if degrees:
            of_axis.set_major_formatter(FuncFormatter(_Degrees(compass)))
        of_axis.set_label_text(name if degrees else f"{'x' if name == 'longitude' else 'y'} of the buses")
    return figure, axis


class _Degrees:
    """Writes -1.5 as 1.5°W."""

    def __init__(self, compass: str) -> None:
        self.compass = compass

    def __call__(self, value: float, _place: object = None) -> str:
        return f"{abs(value):,.4g}°{self.compass[int(value < 0)] if value else ''}"


def _segments(places: pd.DataFrame, branches: pd.DataFrame) -> list[Any]:
    ends = np.stack([places.reindex(branches[end]).to_numpy(float) for end in ("bus0", "bus1")], axis=1)
    return list(ends[np.isfinite(ends).all(axis=(1, 2))])


def _places(given: pd.DataFrame, branches: pd.DataFrame) -> pd.DataFrame:
    """Places by bus: one without takes that of a bus it is connected to, NaN where there is none.

    PyPSA puts a bus without a place at 0, 0; where another bus has a place, nobody is there.
    """
    places = given.astype(float).copy()
    empty = places.isna().any(axis=1) | (places == 0).all(axis=1)
    if empty.all():
        return places
    places[empty] = np.nan
    for _ in range(2):
        for this, other in (("bus1", "bus0"), ("bus0", "bus1")):
            lacking = branches[branches[this].isin(places.index[places["x"].isna()])]
            for bus, neighbour in zip(lacking[this], lacking[other], strict=True):
                if neighbour in places.index and places["x"].isna()[bus]:
                    places.loc[bus] = places.loc[neighbour]
    return places


def _require_places(places: pd.DataFrame, buses: pd.Index) -> None:
    faults = Faults("map")
    own = places.reindex(buses).dropna().drop_duplicates()
    enough = len(own) > 1 or (len(buses) == 1 and len(own) == 1)
    faults.require(enough, "x, y of the buses", f"{len(own)} places", "a place for each bus")
    faults.raise_any()


def _placed(n: pypsa.Network) -> pypsa.Network:
    """A copy of a network, or of the first of its scenarios, in which all buses that can be placed are."""
    from pypsa_aidc.network.pypsa_api import copy_network

    placed = copy_network(n.get_scenario(n.scenarios[0]) if n.has_scenarios else n)
    branches = pd.concat([placed.c[kind].static[["bus0", "bus1"]] for kind in ("Line", "Transformer", "Link")])
    placed.buses[["x", "y"]] = _places(placed.buses[["x", "y"]], branches)
    return placed


def _behind(n: pypsa.Network) -> list[str]:
    return [site.bus for site in n.aidc.sites.values()]


def _aidcs(n: pypsa.Network) -> pd.DataFrame:
    """Grid bus and MW of the connection of each site, and of each fleet its size; index name."""
    jobs = n.aidc.jobs
    own: pd.DataFrame = jobs[["bus", "p_nom"]].groupby(level="site", sort=False).first()
    return own
