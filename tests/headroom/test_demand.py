"""Readers of demand: layouts, columns, hours and their faults (rows 19 to 21, 29 and 30 of the reported ones)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pypsa_aidc.errors import InputError, UnitWarning
from pypsa_aidc.headroom import Demand, DemandWarning, read_demand

BALANCE = (
    '"Balancing Authority","Data Date","Hour Number","Local Time at End of Hour","UTC Time at End of Hour",'
    '"Demand Forecast (MW)","Demand (MW)","Net Generation (MW)","Demand (MW) (Imputed)","Demand (MW) (Adjusted)"'
)
SUBREGION = (
    '"Balancing Authority","Data Date","Hour Number","Sub-Region","Demand (MW)","Local Time at End of Hour",'
    '"UTC Time at End of Hour"'
)


def balance(path: Path, rows: list[tuple[str, str, str, str, str]]) -> Path:
    """Rows of balancing authority, UTC end of hour, raw, imputed and adjusted demand."""
    lines = [
        f'{ba},01/01/2024,1,x,{end},"1,000","{raw}",0,"{imputed}","{adjusted}"'
        for ba, end, raw, imputed, adjusted in rows
    ]
    path.write_text("\n".join([BALANCE, *lines]) + "\n")
    return path


def page(path: Path, records: list[tuple[str, object]], total: int | None = None, **more: object) -> Path:
    data = [
        {"period": when, "subba": "8910", "parent": "MISO", "value": value, "value-units": "megawatthours"}
        for when, value in records
    ]
    response: dict[str, object] = {"frequency": "hourly", "data": data, **more}
    if total is not None:
        response["total"] = str(total)
    path.write_text(json.dumps({"response": response, "apiVersion": "2.1.7"}))
    return path


def two_columns(path: Path, text: str, header: str = "stamp,demand_mw") -> Path:
    path.write_text(f"{header}\n{text}")
    return path


def test_six_month_balance_with_thousands_separators_and_us_dates(tmp_path: Path) -> None:
    path = balance(
        tmp_path / "b.csv",
        [
            ("MISO", "01/01/2024 6:00:00 AM", "17,701", "", "17,701"),
            ("MISO", "01/01/2024 7:00:00 AM", "170,550", "17,551", "17,552"),
            ("MISO", "01/01/2024 12:00:00 PM", "", "18,000", "18,001"),
            ("AEC", "01/01/2024 6:00:00 AM", "497", "", "497"),
        ],
    )
    adjusted = read_demand(path, region="MISO")
    # Row 20: the hour that ends at 06:00 starts at 05:00.
    assert adjusted.hours[0] == pd.Timestamp("2024-01-01 05:00")
    assert adjusted.series.dropna().tolist() == [17701, 17552, 18001]
    assert len(adjusted.missing) == 4
    # Row 19: the choice is echoed, and what it changes is listed.
    assert (adjusted.column, adjusted.region) == ("adjusted", "MISO")
    changed = adjusted.audit[adjusted.audit["rule"] == "changed"]
    assert changed[["old", "new"]].to_numpy()[0].tolist() == [170550, 17552]
    assert np.isnan(changed["old"].iloc[1])
    assert changed["snapshot"].tolist() == [pd.Timestamp("2024-01-01 06:00"), pd.Timestamp("2024-01-01 11:00")]
    raw, imputed = (read_demand(path, region="MISO", column=kind) for kind in ("raw", "imputed"))
    assert raw.series.dropna().tolist() == [17701, 170550]
    assert raw.audit.empty
    assert imputed.series.dropna().tolist() == [17701, 17551, 18000]
    assert (raw.column, imputed.column) == ("raw", "imputed")


def test_exact_layout_of_the_published_file(shared_data: Path) -> None:
    demand = read_demand(shared_data / "eia930" / "sample_sixmonth_balance.csv")
    assert (demand.region, demand.column) == ("AEC", "adjusted")
    assert demand.hours[0] == pd.Timestamp("2020-07-01 05:00")
    assert demand.series.iloc[:3].tolist() == [497, 488, 466]


def test_subregions(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    rows = [
        f"MISO,01/01/2024,{n},{sub},{mw},x,01/01/2024 {n}:00:00 AM"
        for n in (6, 7)
        for sub, mw in (("0004", 9), ("8910", 17701 + n))
    ]
    path.write_text("\n".join([SUBREGION, *rows]))
    demand = read_demand(path, region="8910")
    assert demand.series.tolist() == [17707, 17708]
    assert demand.column == "raw"
    with pytest.raises(InputError, match="one of 0004, 8910"):
        read_demand(path)
    with pytest.raises(InputError, match="'column'|column: given 'adjusted'"):
        read_demand(path, region="8910", column="adjusted")


def test_pages_of_the_interface_with_duplicates(tmp_path: Path) -> None:
    first = page(tmp_path / "1.json", [("2024-01-01T06", "17701"), ("2024-01-01T07", 17550)], total=3)
    second = page(tmp_path / "2.json", [("2024-01-01T07", "17550"), ("2024-01-01T08", None)], total=3)
    demand = read_demand([first, second])
    assert demand.hours.tolist() == list(pd.date_range("2024-01-01 05:00", periods=3, freq="h"))
    assert demand.series.tolist()[:2] == [17701, 17550]
    assert demand.region == "8910"
    assert demand.audit[["rule", "action"]].to_numpy().tolist() == [["duplicate", "dropped"]]
    # A repetition is no doubt about the value.
    assert not len(demand.touched)
    with pytest.raises(InputError, match="the 3 of 'total'"):
        read_demand(first)
    other = page(tmp_path / "3.json", [("2024-01-01T07", "17551")])
    with pytest.raises(InputError, match=r"(?s)3.json.*hour 2024-01-01 06:00:00 UTC.*17550.*17551"):
        read_demand([first, second, other])
    local = page(tmp_path / "4.json", [("2024-01-01T01-05", 1000)], frequency="local-hourly")
    assert read_demand(local).hours[0] == pd.Timestamp("2024-01-01 05:00")
    with pytest.raises(InputError, match="daily"):
        read_demand(page(tmp_path / "5.json", [("2024-01-01", 1)], frequency="daily"))


def test_two_columns_with_gaps_written_out(tmp_path: Path, shared_data: Path) -> None:
    path = two_columns(
        tmp_path / "t.csv", "2024-01-01 06:00:00,100\n2024-01-01 07:00:00,MISSING\n2024-01-01 09:00:00,\n"
    )
    demand = read_demand(path, region="R")
    assert demand.hours[0] == pd.Timestamp("2024-01-01 05:00")
    assert len(demand.missing) == 3
    beginning = read_demand(path, stamps="beginning")
    assert beginning.hours[0] == pd.Timestamp("2024-01-01 06:00")
    long = read_demand(shared_data / "eia930" / "miso_south_8910_2020_2024_with_gaps.csv")
    assert (len(long.series), len(long.missing)) == (43848, 53)
    assert long.hours[0] == pd.Timestamp("2019-12-31 23:00")


def test_repeated_and_skipped_hours_of_daylight_saving(tmp_path: Path) -> None:
    """Row 21: two 01:00 on 2024-11-03, none at 02:00 on 2024-03-10."""
    autumn = "\n".join(f"2024-11-03 {hour:02d}:00:00,{mw}" for hour, mw in ((0, 10), (1, 11), (1, 12), (2, 13)))
    spring = "\n".join(f"2024-03-10 {hour:02d}:00:00,{mw}" for hour, mw in ((0, 10), (1, 11), (3, 12)))
    zone = "America/Chicago"
    demand = read_demand(two_columns(tmp_path / "a.csv", autumn), timezone=zone, stamps="beginning")
    assert demand.series.tolist() == [10, 11, 12, 13]
    assert demand.hours[0] == pd.Timestamp("2024-11-03 05:00")
    demand = read_demand(two_columns(tmp_path / "s.csv", spring), timezone=zone, stamps="beginning")
    assert demand.series.tolist() == [10, 11, 12]
    # Without a zone the two values collide, and the message says why.
    with pytest.raises(InputError, match=r"(?s)row 4.*daylight saving, give timezone="):
        read_demand(tmp_path / "a.csv")
    skipped = two_columns(tmp_path / "k.csv", spring.replace("03:00:00", "02:00:00"))
    with pytest.raises(InputError, match="row 4.*02:00:00.*an hour that exists in America/Chicago"):
        read_demand(skipped, timezone=zone)
    once = two_columns(tmp_path / "o.csv", autumn.replace("2024-11-03 01:00:00,12\n", ""))
    with pytest.raises(InputError, match="row 3.*the repeated hour of America/Chicago twice"):
        read_demand(once, timezone=zone)


@pytest.mark.parametrize(
    ("header", "text", "options", "named"),
    [
        ("stamp,demand_mw", "2024-01-01 00:00:00,12x\n", {}, "row 2.*12x.*MW, or nothing"),
        ("stamp,demand_mw", "yesterday,12\n", {}, "row 2, 'stamp'.*yesterday"),
        ("stamp,demand_kw", "2024-01-01 00:00:00,12\n", {}, "header.*demand_kw.*MW"),
        ("hour_beginning,demand_mw", "2024-01-01 00:00:00,12\n", {}, "stamps.*hour_beginning"),
        ("stamp,demand_mw", "2024-01-01 00:30:00,12\n", {}, "full hours"),
        ("stamp,demand_mw", "", {}, "at least one hour"),
        ("stamp,demand_mw", "2024-01-01 00:00:00,\n", {}, "at least one known hour"),
        ("a,b,c", "1,2,3\n", {}, "six-month file of EIA-930, or two columns"),
        ("stamp,demand_mw", "2024-01-01T00:00:00Z,12\n", {"timezone": "UTC"}, "the stamps state their own"),
        ("stamp,demand_mw", "2024-01-01T00:00:00Z,12\n2024-01-01T01:00:00,12\n", {}, "with and without a time zone"),
        ("stamp,demand_mw", "2024-01-01 00:00:00,12\n", {"timezone": "Mars"}, "timezone.*Mars"),
        ("stamp,demand_mw", "2024-01-01 00:00:00,12\n", {"layout": "balance"}, "Balancing Authority"),
    ],
)
def test_faults_are_named(tmp_path: Path, header: str, text: str, options: dict[str, str], named: str) -> None:
    with pytest.raises(InputError, match=f"(?s){named}"):
        read_demand(two_columns(tmp_path / "d.csv", text, header), **options)


def test_several_faults_come_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"(?s)nowhere.csv.*layout.*calendar"):
        read_demand(tmp_path / "nowhere.csv", layout="xls", calendar="Moon")


def test_kilowatts_taken_for_megawatts_are_warned_of() -> None:
    """Row 30: 32 GW in kW are 32 million."""
    hours = pd.date_range("2024-01-01", periods=3, freq="h")
    with pytest.warns(UnitWarning, match="3.2e.07 MW"):
        Demand(pd.Series([3.2e7] * 3, hours))


def test_hours_with_a_zone_and_the_clock_of_the_calendar() -> None:
    hours = pd.date_range("2024-01-01 01:00", periods=3, freq="h", tz="America/New_York")
    demand = Demand(pd.Series([1.0, 2.0, 3.0], hours), calendar="Etc/GMT+5")
    assert demand.hours[0] == pd.Timestamp("2024-01-01 06:00")
    assert demand.clock.tolist() == [1, 2, 3]
    assert demand.between("2024-01-01 02:00", "2024-01-02").series.tolist() == [2.0, 3.0]
    with pytest.raises(InputError, match="a part of"):
        demand.between("2025-01-01", "2026-01-01")
    with pytest.raises(InputError, match="steps of one hour, apart from gaps"):
        Demand(pd.Series(1.0, pd.date_range("2024-01-01", periods=9, freq="2h")))
    with pytest.raises(InputError, match="each hour once"):
        Demand(pd.Series([1.0, 2.0], [hours[0], hours[0]]))


def month(path: Path, header: str, stamp: Callable[[pd.Timestamp], str], separator: str = ",") -> Path:
    """A July of hourly demand, 1000 MW and one more each hour; stamps at the end of each hour, as `stamp` writes."""
    ends = pd.date_range("2024-07-01 01:00", periods=31 * 24, freq="h")
    lines = [f"{stamp(end)}{separator}{1000 + number}" for number, end in enumerate(ends)]
    path.write_text(header + "\n" + "\n".join(lines) + "\n")
    return path


def late(end: pd.Timestamp, date: str = "%Y-%m-%d") -> str:
    """The end of a day as 24:00 of it."""
    return f"{end - pd.Timedelta('1h'):{date}} 24:00" if end.hour == 0 else f"{end:{date} %H:%M}"


@pytest.mark.parametrize(
    ("header", "stamp", "separator"),
    [
        ("time,MW", lambda end: f"{end:%m/%d/%Y %H:%M}", ","),
        ("time,MW", lambda end: f"{end:%d.%m.%Y %H:%M}", ","),
        ("time,MW", lambda end: f"{end:%m/%d/%y %H:%M}", ","),
        ("time,MW", lambda end: f"{end:%m/%d/%Y %I:%M %p}", ","),
        ("time,MW", lambda end: f"{end:%d-%b-%Y %H:%M:%S}", ","),
        ("time,MW", late, ","),
        ("time;MW", lambda end: late(end, "%d/%m/%Y"), ";"),
        ("Date,HE,MW", lambda end: f"{end - pd.Timedelta('1h'):%Y-%m-%d},{(end.hour or 24)}", ","),
        ("Date\tHour Ending\tMW", lambda end: f"{end - pd.Timedelta('1h'):%m/%d/%Y}\tHE{end.hour or 24:02d}", "\t"),
        ("Date,Hour Beginning,MW", lambda end: f"{end - pd.Timedelta('1h'):%Y-%m-%d,%H}", ","),
    ],
)
def test_stamps_as_utilities_write_them(
    tmp_path: Path, header: str, stamp: Callable[[pd.Timestamp], str], separator: str
) -> None:
    demand = read_demand(month(tmp_path / "d.csv", header, stamp, separator))
    assert demand.hours[0] == pd.Timestamp("2024-07-01")
    assert demand.series.tolist() == [1000.0 + number for number in range(31 * 24)]


@pytest.mark.parametrize("name", ["us.csv", "two_digit.csv"])
def test_dates_of_the_cases(shared_data: Path, name: str) -> None:
    demand = read_demand(shared_data.parent / "cases" / "headroom" / name)
    assert (demand.hours[0], demand.peak) == (pd.Timestamp("2024-06-30 23:00"), 1340.0)


@pytest.mark.parametrize("name", ["h24.csv", "he.csv"])
def test_hours_ending_of_the_cases(shared_data: Path, name: str) -> None:
    demand = read_demand(shared_data.parent / "cases" / "headroom" / name)
    assert (demand.hours[0], len(demand.series), len(demand.missing)) == (pd.Timestamp("2024-07-01"), 720, 0)
    assert demand.peak_hour == pd.Timestamp("2024-07-15 17:00") if name == "he.csv" else demand.peak == 1340.0


def test_one_row_a_day(tmp_path: Path) -> None:
    header = "Date," + ",".join(f"HE{hour}" for hour in range(1, 25))
    rows = [f"07/{day:02d}/2024," + ",".join(str(100 * day + hour) for hour in range(1, 25)) for day in (13, 14)]
    demand = read_demand(two_columns(tmp_path / "d.csv", "\n".join(rows), header))
    assert demand.hours[0] == pd.Timestamp("2024-07-13")
    assert demand.series.tolist() == [100.0 * day + hour for day in (13, 14) for hour in range(1, 25)]


@pytest.mark.parametrize(
    ("header", "text", "named"),
    [
        ("time,MW", "01/02/2024 01:00,9\n01/02/2024 02:00,9\n", "can be 2024-01-02 or 2024-02-01.*2024-07-01 13:00"),
        ("Date,HE,MW", "2024-07-01,0,9\n", "row 2, 'HE'.*stamps='beginning'"),
        ("Date,HE,MW", "2024-11-03,25,9\n", "row 2, 'HE'.*repeated one of daylight saving"),
        ("time,MW", "2024-07-01T01:00Z,9\n2024-07-01T01:00Z,8\n", "row 3.*take the zone out of the stamps"),
        ("time,MW", "2024-07-01 01:00,9\n2024-07-01 01:15,8\n", "row 3.*a part of an hour"),
        ("time,MW", '2024-07-01 01:00,"1,5"\n2024-07-01 02:00,"1.5,7.2"\n', "row 3.*1.5,7.2.*MW"),
        ("time,MW", "2024-07-01 00:30,9\n2024-07-01 01:30,9\n", "calendar="),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(tmp_path: Path, header: str, text: str, named: str) -> None:
    with pytest.raises(InputError, match=f"(?s){named}"):
        read_demand(two_columns(tmp_path / "d.csv", text, header))


def test_decimal_commas(tmp_path: Path) -> None:
    """Ten times the megawatts if the comma is taken for a thousands separator."""
    lines = "".join(f'2024-01-01 {hour:02d}:00,"{1000 + hour},5"\n' for hour in range(24))
    assert read_demand(two_columns(tmp_path / "a.csv", lines, "time,mw")).peak == 1023.5
    lines = "".join(f"2024-01-01 {hour:02d}:00;1.{hour:03d},5\n" for hour in range(24))
    assert read_demand(two_columns(tmp_path / "b.csv", lines, "time;mw")).peak == 1023.5


def test_half_hour_zones(tmp_path: Path) -> None:
    lines = "".join(f"2024-01-01 {hour:02d}:00,{hour}\n" for hour in range(1, 24))
    path = two_columns(tmp_path / "d.csv", lines, "time,mw")
    demand = read_demand(path, timezone="Asia/Kolkata", calendar="Asia/Kolkata")
    assert demand.hours[0] == pd.Timestamp("2023-12-31 18:30")
    assert demand.clock.tolist() == list(range(23))


def test_regions_in_one_file(tmp_path: Path) -> None:
    path = two_columns(tmp_path / "d.csv", "2024-01-01 01:00,N,5\n2024-01-01 01:00,S,7\n", "time,zone,mw")
    assert read_demand(path, region="S").peak == 7.0
    with pytest.raises(InputError, match="region.*one of N, S"):
        read_demand(path)


def test_a_worksheet(tmp_path: Path) -> None:
    hours = pd.date_range("2024-01-01 01:00", periods=3, freq="h")
    pd.DataFrame({"time": hours.astype(str), "MW": [1, 2, 3]}).to_excel(tmp_path / "d.xlsx", index=False)
    assert read_demand(tmp_path / "d.xlsx").series.tolist() == [1.0, 2.0, 3.0]


def page_of(count: int, **more: object) -> str:
    hours = pd.date_range("2024-01-01", periods=count, freq="h").strftime("%Y-%m-%dT%H")
    data = [{"period": hour, "respondent": "CISO", "type": "D", "value": "9", **more} for hour in hours]
    return json.dumps({"response": {"total": "100", "frequency": "hourly", "data": data}})


def test_pages_that_are_missing_and_what_the_interface_says(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(page_of(48))
    with pytest.raises(InputError, match="48 hours.*the 100 of 'total'"):
        read_demand(path)
    path.write_text(json.dumps({"error": "API_KEY_MISSING", "code": 403}))
    with pytest.raises(InputError, match=r"API_KEY_MISSING.*answer of the API"):
        read_demand(path)
    limited = json.loads(page_of(100))
    limited["response"]["warnings"] = [{"warning": "incomplete return", "description": "at most 5000 rows"}]
    path.write_text(json.dumps(limited))
    with pytest.warns(DemandWarning, match="incomplete return at most 5000 rows"):
        assert len(read_demand(path).series) == 100


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes("time;Höchstlast\n2024-01-01 01:00;5\n".encode(encoding))
    assert read_demand(path).peak == 5.0
