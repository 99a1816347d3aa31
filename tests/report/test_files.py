from __future__ import annotations

import zipfile
from pathlib import Path

import matplotlib as mpl
import openpyxl
import pandas as pd
import pypdf
import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc import fleet
from tests.network.tiny import QUIET, grid, job, site
from tests.report.composed import composed, front

pytestmark = pytest.mark.smoke


def test_workbook_holds_every_number(solved_pair, tmp_path) -> None:
    path = solved_pair.aidc.report(tmp_path / "report.xlsx")
    accessor = solved_pair.aidc
    sheets = pd.read_excel(path, sheet_name=None, engine="openpyxl")
    assert next(iter(sheets)) == "Overview"
    assert list(sheets)[-1] == "Figures"
    steps = accessor.schedule()
    assert sheets["Schedule"]["IT power (MW)"].to_list() == pytest.approx(steps["it_power"].to_list())
    assert sheets["Schedule"]["start"].to_list() == steps["start"].to_list()
    assert sheets["Schedule"]["restart"].to_list() == steps["restart"].to_list()
    assert sheets["Sites"]["energy (MWh)"].to_list() == pytest.approx(accessor.summary()["energy"].to_list())
    series = sheets["Power by snapshot"]
    assert len(series) == len(solved_pair.snapshots)
    assert series["one meter (MW)"].to_list() == pytest.approx(accessor.power()["one", "meter"].to_list())
    prices = sheets["Prices by snapshot"]
    assert prices["two (USD/MWh)"].to_list() == pytest.approx(solved_pair.buses_t.marginal_price["far"].to_list())
    assert len(openpyxl.load_workbook(path)["Figures"]._images) == 9


def test_text_is_never_a_formula(short, tmp_path) -> None:
    short.name = "=1+1"
    short.aidc.optimize(**QUIET)
    book = openpyxl.load_workbook(short.aidc.report(tmp_path / "report.xlsx", provenance={"=A1": "=2+2"}))
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert not [cell for cell in cells if cell.data_type == "f"]
    assert any(cell.value == "=2+2" for cell in cells)


def test_pdf_holds_text_and_figures(solved_pair, envelope, tmp_path) -> None:
    path = solved_pair.aidc.report(
        tmp_path / "report.pdf", surface=fleet.Surface.of(envelope), title="α ≥ 0.95", synthetic=["prices"]
    )
    book = pypdf.PdfReader(path)
    text = " ".join(" ".join(page.extract_text() for page in book.pages).split())
    assert book.metadata.title == "α ≥ 0.95"
    for words in ("α ≥ 0.95", "Synthetic, not measured: prices.", "Dependable power", "Provenance", "energy (MWh)"):
        assert words in text
    assert sum(len(page.images) for page in book.pages) == 10
    assert "■" not in text


@pytest.mark.parametrize("suffix", [".html", ".xlsx", ".pdf"])
def test_the_same_call_gives_the_same_bytes_whatever_the_users_style(solved, tmp_path, suffix) -> None:
    """And neither the network nor the folder has anything else of it; the second file replaces the first."""
    path, before = tmp_path / f"report{suffix}", solved.aidc.power()
    columns = {name: list(solved.c[name].static.columns) for name in ("Bus", "Link", "Generator")}
    assert solved.aidc.report(path) == path
    first = path.read_bytes()
    path.write_text("old")
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 20, "savefig.dpi": 30}):
        solved.aidc.report(path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]
    pd.testing.assert_frame_equal(solved.aidc.power(), before)
    assert columns == {name: list(solved.c[name].static.columns) for name in columns}
    if suffix == ".xlsx":
        with zipfile.ZipFile(path) as book:
            assert {part.date_time[0] for part in book.infolist()} == {1980}
            assert b"2000-01-01" in book.read("docProps/core.xml")
    assert first.startswith({".html": b"<!DOCTYPE html>", ".xlsx": b"PK", ".pdf": b"%PDF"}[suffix])


def test_a_file_of_ours_gives_the_same_report(solved, tmp_path) -> None:
    solved.export_to_netcdf(tmp_path / "solved.nc")
    read = pypsa.Network(tmp_path / "solved.nc")
    first, second = composed(solved), composed(read)
    # What is checked in the model itself is gone with it: integrality is one check more before.
    assert {row[0] for row in first.tables["Audit"]} - {row[0] for row in second.tables["Audit"]} == {"integrality"}
    left_out = ("Audit", "Data")
    assert [first.tables[name] for name in first.tables if name not in left_out] == [
        second.tables[name] for name in second.tables if name not in left_out
    ]


class TestNothingHalfWritten:
    def test_a_failing_writer_leaves_the_old_file(self, solved, tmp_path, monkeypatch) -> None:
        path = tmp_path / "report.html"
        path.write_text("old")

        def fail(document):
            raise RuntimeError("out of ink")

        monkeypatch.setitem(front.WRITERS, ".html", fail)
        with pytest.raises(RuntimeError, match="out of ink"):
            solved.aidc.report(path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_full_disk_leaves_the_old_file_and_no_part(self, solved, tmp_path, monkeypatch) -> None:
        path = tmp_path / "report.html"
        path.write_text("old")
        write = Path.write_bytes
        monkeypatch.setitem(front.WRITERS, ".html", lambda document: b"new")

        def fill(self, content):
            write(self, content[: len(content) // 2])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", fill)
        with pytest.raises(OSError, match="No space left"):
            solved.aidc.report(path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"path": "report.docx"}, ".html, .xlsx, .pdf"),
        ({"path": "report"}, ".html, .xlsx, .pdf"),
        ({"path": "nowhere/report.html"}, "existing folder"),
        ({"path": "folder.html"}, "not a folder"),
        ({"exclusive": ["ghost"]}, "ghost"),
        ({"values": pd.DataFrame({"value": [1.0]})}, "the table of n.aidc.values"),
    ],
)
def test_bad_input_is_named(solved, tmp_path, options, named) -> None:
    (tmp_path / "folder.html").mkdir()
    path = tmp_path / options.pop("path", "report.html")
    with pytest.raises(aidc.InputError, match=named):
        solved.aidc.report(path, **options)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.html"]


def test_all_faults_are_told_together(solved, tmp_path) -> None:
    with pytest.raises(aidc.InputError) as caught:
        solved.aidc.report(tmp_path / "nowhere" / "report.doc", exclusive=["ghost"])
    assert len(caught.value.faults) == 3


def test_a_network_without_sites(tmp_path) -> None:
    with pytest.raises(aidc.InputError, match="at least one AIDC"):
        grid().aidc.report(tmp_path / "report.html")


def test_a_network_that_is_not_solved(short, tmp_path) -> None:
    with pytest.raises(aidc.NotSolvedError, match=r"aidc\.optimize"):
        short.aidc.report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_network_solved_again_without_its_jobs(tmp_path) -> None:
    n = site(grid(), jobs=[job("A", 2.0, 2)])
    n.aidc.optimize(**QUIET)
    n.generators.loc["market", "p_nom"] = 99.0
    n.c.generators.dynamic["p"]["dc A"] = 0.0
    with pytest.raises(aidc.StaleError, match="solved again"):
        n.aidc.report(tmp_path / "report.html")


def test_a_library_that_is_not_there_is_named(solved, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(front, "find_spec", lambda name: None)
    for suffix, library in ((".xlsx", "xlsxwriter"), (".pdf", "reportlab")):
        with pytest.raises(aidc.UnsupportedError, match=library):
            solved.aidc.report(tmp_path / f"report{suffix}")
    monkeypatch.setitem(front.WRITERS, ".html", lambda document: b"needs none")
    assert solved.aidc.report(tmp_path / "report.html").is_file()
