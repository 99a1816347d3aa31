"""Write the tables of docs/netcdf.md from the schema file: run ``python docs/tables.py`` after changing it."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "netcdf.md"


def table(part: dict) -> str:
    """One row a key: its type with bounds, and its description."""
    rows = ["| key | type | what |", "|---|---|---|"]
    for key, entry in part["properties"].items():
        rows.append(f"| `{key}` | {words(entry)} | {describe(entry)} |")
    return "\n".join(rows)


def words(entry: dict) -> str:
    """Type and bounds of an entry."""
    if "const" in entry:
        return f"`{entry['const']}`"
    if "enum" in entry:
        return " or ".join(f"`{value}`" for value in entry["enum"])
    if "$ref" in entry:
        return f"object, see {entry['$ref'].rsplit('/')[-1]}"
    if "anyOf" in entry:
        return " or ".join(words(each) for each in entry["anyOf"])
    kinds = entry["type"] if isinstance(entry["type"], list) else [entry["type"]]
    bounds = [
        f"{word} {entry[key]:g}"
        for key, word in (("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most"))
        if key in entry and entry[key] < 1e300
    ]
    bounds += [f"at most {entry['maxItems']} entries"] if "maxItems" in entry else []
    bounds += [f"at most {entry['maxLength']} characters"] if "maxLength" in entry else []
    return " or ".join(kinds) + (f", {', '.join(bounds)}" if bounds else "")


def describe(entry: dict) -> str:
    """Description of an entry."""
    return entry.get("description", "See below.")


def rendered(text: str) -> str:
    """The page with its tables as the schema file has them."""
    whole = json.loads((ROOT / "pypsa_aidc" / "network" / "spec" / "aidc.schema.json").read_text())
    for name, part in {**whole["kinds"], **whole["$defs"]}.items():
        text = re.sub(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", rf"\g<1>{table(part)}\g<2>", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
