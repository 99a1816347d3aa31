"""Progress of long work: what is counted, what is drawn, and that neither is anything unless asked for."""

from __future__ import annotations

import contextvars
import io
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pypsa
import pytest

import pypsa_aidc as aidc
from pypsa_aidc import progress as _  # noqa: F401 - the function; the module is imported below
from pypsa_aidc.errors import InputError
from pypsa_aidc.network.gap import Gap
from pypsa_aidc.progress import PATIENCE, _shown, _Work, track, waiting
from tests.cli.running import Runner
from tests.network.tiny import job, network

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CLOCK = r"\d:\d\d:\d\d"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """What was drawn, without colours and moves."""
        return ESCAPES.sub("", self.getvalue())

    @property
    def left_over(self) -> str:
        """What is still to be seen: all that came after the last line was erased."""
        return ESCAPES.sub("", self.getvalue().rpartition("\x1b[2K")[2]).strip()
