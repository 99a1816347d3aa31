"""Set equations as MathML while the site is built: browsers draw it themselves, without network or scripts."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

_MARKED = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)
_TAG = re.compile(r"\\tag\{(\w+)\}")


def mathml(tex: str, display: str) -> str:
    """Return the MathML of an equation in TeX; `display` is ``"block"`` or ``"inline"``."""
    # The library knows `align*`, not `aligned`, and leaves the backslash of a brace whose size is given.
    math = convert(tex.strip().replace("{aligned}", "{align*}"), display=display)
    math = math.replace(">\\{<", ">{<").replace(">\\}<", ">}<")
    ElementTree.fromstring(math)
    if "\\" in math:
        raise ValueError(f"no MathML for a command in {tex}")
    return math


def _set(marked: re.Match[str]) -> str:
    tex = html.unescape(marked[2])
    if marked[1] == "span":
        return mathml(tex, "inline")
    (number,) = _TAG.findall(tex) or ("",)
    told = f'<a class="number" href="#{number}">({number})</a>' if number else ""
    return f'<div class="equation" id="{number}">{mathml(_TAG.sub("", tex), "block")}{told}</div>'


def on_page_content(content: str, **_: object) -> str:
    """Put MathML in the place of all TeX of a page; called by MkDocs."""
    return _MARKED.sub(_set, content)
