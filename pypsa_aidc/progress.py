"""Progress of long work: silent until somebody asks for it, then a line for each thing that is going on."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TextIO, TypeVar

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pypsa_aidc.errors import Faults

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds that work lasts before it gets a line: what is done sooner would only flicker."""
PERIOD = 0.2
"""Seconds between two drawings."""
MOMENTS = 10
"""Moments, at least a second apart, from which the pace is taken: parts picked up from disk go by fast."""
_BAR = 24


@contextmanager
def show_progress(file: TextIO | None = None, *, force: bool = False) -> Iterator[None]:
    """Show how far long work has come, and how long it will still take, while it runs within the context.

    Each loop that can take long has a line with its label, a bar, what is done of how much, the time since its start
    and the time left at the pace of late. What cannot know its end, such as the solve of one mixed-integer programme,
    shows the time since its start; if it has a time limit, how much of that is left, and the present gap where the
    solver tells it. Lines come after half a second, go with the work, and change no result.

    Parameters
    ----------
    file
        Where lines are drawn; stderr by default, so that stdout holds results only.
    force
        Draw even where the file is no terminal.

    Notes
    -----
    Give `n.aidc.optimize` the option ``output_flag=False``, or the log of HiGHS on the same terminal gets between the
    lines. They belong to the context in which they are asked for (a `contextvars.ContextVar`): threads started within
    stay silent unless they run in a copy of it. Within another `progress` for the same file nothing changes.

    Examples
    --------
    >>> from pypsa_aidc import fleet
    >>> with show_progress():  # a document is no terminal: nothing is drawn
    ...     draws = fleet.power_draws(3)
    >>> len(draws)
    3
    """
    stream = sys.stderr if file is None else file
    # While lines are drawn, stderr is a proxy that writes above them.
    stream = getattr(stream, "rich_proxied_file", stream)
    outer = _shown.get()
    if outer is not None and outer.stream is stream:
        yield
        return
    console = Console(file=stream, force_terminal=True)
    if not force and (not stream.isatty() or console.is_dumb_terminal):
        yield
        return
    display = _Display(stream, console)
    token = _shown.set(display)
    try:
        with display:
            yield
    finally:
        _shown.reset(token)


def track(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Go through items, and show how many are done wherever `progress` is on; elsewhere it costs nothing.

    Parameters
    ----------
    items
        Whatever a loop goes through, in its order.
    label
        What is going on, in a few words.
    total
        Number of items, at least 0; their length by default. Without either there is no bar and no time left.

    Raises
    ------
    InputError
        A total that is no number of items.

    Examples
    --------
    >>> [hour**2 for hour in track(range(3), "squares")]
    [0, 1, 4]
    """
    if total is not None:
        faults = Faults("track")
        faults.number("total", total, at_least=0, integer=True)
        faults.raise_any()
    display = _shown.get()
    if display is None:
        return iter(items)
    if total is None and isinstance(items, Sized):
        total = len(items)
    return _tracked(display, items, _Work(label, total))


def _tracked(display: _Display, items: Iterable[T], work: _Work) -> Iterator[T]:
    with display.showing(work):
        for item in items:
            yield item
            work.advance(time.monotonic())


@contextmanager
def waiting(label: str, limit: float | None = None, state: Callable[[], str] | None = None) -> Iterator[None]:
    """Show that something without a known end is going on, wherever `progress` is on.

    Parameters
    ----------
    label
        What is going on, in a few words.
    limit
        Seconds after which it ends at the latest, if there is such a limit.
    state
        Gives a few words on how it stands each time the line is drawn, from another thread.
    """
    display = _shown.get()
    if display is None:
        yield
        return
    with display.showing(_Work(label, None, limit, state)):
        yield


@dataclass(eq=False)
class _Work:
    """One thing that is going on."""

    label: str
    total: int | None = None
    limit: float | None = None
    state: Callable[[], str] | None = None
    done: int = 0
    started: float = field(default_factory=time.monotonic)
    moments: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=MOMENTS))

    def __post_init__(self) -> None:
        self.moments.append((self.started, 0))
        self.latest = self.started

    def advance(self, now: float) -> None:
        """Count one more item."""
        self.done += 1
        self.latest = now
        if now - self.moments[-1][0] >= 1.0:
            self.moments.append((now, self.done))

    def left(self, now: float) -> float | None:
        """Seconds left at the pace of late; `None` where nothing is known of it, as of a last item that is overdue."""
        if self.total is None or not self.done:
            return None
        since, before = self.moments[0]
        pace = (self.latest - since) / (self.done - before)
        present, others = pace - (now - self.latest), self.total - self.done - 1
        if others < 0:
            return 0.0
        return None if present < 0 and not others else max(0.0, present) + pace * others

    def cells(self, now: float) -> tuple[Text | ProgressBar, ...]:
        """Label, bar, amount, time since the start, time left."""
        left = self.left(now)
        if self.total is not None:
            bar = ProgressBar(max(self.total, 1), self.done, width=_BAR)
            amount, rest = f"{self.done}/{self.total}", "" if left is None else f"{_clock(left)} left"
        else:
            bar = ProgressBar(None, width=_BAR, pulse=True)
            amount = str(self.done) if self.done else "" if self.state is None else self.state()
            rest = "" if self.limit is None else f"at most {_clock(self.limit - (now - self.started))} left"
        label = Text(self.label, no_wrap=True, overflow="ellipsis")
        return label, bar, Text(amount), Text(_clock(now - self.started)), Text(rest)


class _Display:
    """The lines of all that is going on, drawn by a thread of its own while there are any."""

    def __init__(self, stream: TextIO, console: Console) -> None:
        self.stream = stream
        self._console = console
        self._works: list[_Work] = []
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_on, name="pypsa-aidc-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with self._lock:
            self._works.clear()
            self._clear()

    @contextmanager
    def showing(self, work: _Work) -> Iterator[None]:
        """Have a line for some work while it goes on."""
        with self._lock:
            self._works.append(work)
        try:
            yield
        finally:
            with self._lock:
                # A loop that is left behind may end after the display itself.
                if work in self._works:
                    self._works.remove(work)
                # With nothing going on the terminal belongs to others again, at once.
                if not self._works:
                    self._clear()

    def _draw_on(self) -> None:
        while not self._ended.wait(PERIOD):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        old = [work for work in self._works if now - work.started >= PATIENCE]
        if not old and self._live is None:
            return
        table = Table.grid(padding=(0, 1))
        # Where the terminal is narrow, labels give way.
        table.add_column()
        for _ in range(4):
            table.add_column(no_wrap=True)
        for work in old:
            table.add_row(*work.cells(now))
        if self._live is None:
            # Stdout holds results, which must not get between the lines of stderr.
            redirect = self.stream is sys.stderr
            self._live = Live(
                table,
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=redirect,
            )
            self._live.start(refresh=True)
        else:
            self._live.update(table, refresh=True)

    def _clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=max(0, round(seconds))))


_shown: ContextVar[_Display | None] = ContextVar("pypsa_aidc_progress", default=None)
