"""Progress of long work: silent until somebody asks for it, then a line for each thing that is going on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from threading import Lock, Timer
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from pypsa_aidc.errors import Faults

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds that work lasts before it gets a line: what is done sooner would only flicker."""
PERIOD = 0.2
"""Seconds between two drawings."""
RECENT = 300.0
"""Seconds from which the pace is taken: parts picked up from disk go by fast."""
_BAR = 24


@contextmanager
def show_progress(file: TextIO | None = None, *, force: bool = False) -> Iterator[None]:
    """Show how far long work has come, and how long it will still take, while it runs within the context.

    Each loop that can take long has a line with its label, a bar, what is done of how much, the time since its start
    and the time left at the pace of the last five minutes. What cannot know its end, such as the solve of one
    mixed-integer programme, shows the time since its start; if it has a time limit, how much of that is left, and the
    present gap where the solver tells it. Lines come after half a second, go with the work, and change no result.

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
    console = Console(file=stream, force_terminal=True)
    silent = not force and (not stream.isatty() or console.is_dumb_terminal)
    if silent or (outer is not None and outer.console.file is stream):
        yield
        return
    lines = _Lines(console)
    token = _shown.set(lines)
    try:
        yield
    finally:
        _shown.reset(token)
        lines.close()


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
    lines = _shown.get()
    if lines is None:
        return iter(items)
    if total is None and isinstance(items, Sized):
        total = len(items)
    return _tracked(lines, items, label, total)


def _tracked(lines: _Lines, items: Iterable[T], label: str, total: int | None) -> Iterator[T]:
    with lines.line(label, total) as task:
        for item in items:
            yield item
            lines.count(task)


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
    lines = _shown.get()
    if lines is None:
        yield
        return
    with lines.line(label, None, limit, state):
        yield


class _Lines(Progress):
    """Lines of all that is going on; with nothing going on the terminal belongs to others."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            # Where the terminal is narrow, labels give way.
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(_BAR),
            _Words(_amount),
            TimeElapsedColumn(),
            _Words(_left),
            console=console,
            refresh_per_second=1 / PERIOD,
            speed_estimate_period=RECENT,
            transient=True,
            # Stdout holds results, which must not get between the lines of stderr.
            redirect_stdout=False,
            redirect_stderr=console.file is sys.stderr,
        )
        self._turn = Lock()
        self._timer: Timer | None = None

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        """Return the lines of what has been going on for long enough."""
        return super().make_tasks_table([task for task in tasks if (task.elapsed or 0.0) >= PATIENCE])

    @contextmanager
    def line(
        self, label: str, total: int | None, limit: float | None = None, state: Callable[[], str] | None = None
    ) -> Iterator[TaskID]:
        """Have a line for some work while it goes on."""
        task = self.add_task(label, total=total, limit=limit, state=state)
        with self._turn:
            if self._timer is None:
                self._timer = Timer(PATIENCE, self._open)
                self._timer.daemon = True
                self._timer.start()
        try:
            yield task
        finally:
            # A loop that is left behind may end after its lines.
            if task in self.task_ids:
                self.remove_task(task)
            if not self.task_ids:
                self.close()

    def count(self, task: TaskID) -> None:
        """Count one more item of a line that is still there."""
        if task in self._tasks:
            self.advance(task)

    def close(self) -> None:
        """Take all lines away."""
        with self._turn:
            for task in self.task_ids:
                self.remove_task(task)
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            if self.live.is_started:
                self.stop()
        if timer is not None:
            timer.join()

    def _open(self) -> None:
        with self._turn:
            if self._timer is not None:
                self.start()


class _Words(ProgressColumn):
    """A few words on a task."""

    def __init__(self, words: Callable[[Task], str]) -> None:
        super().__init__(Column(no_wrap=True))
        self.words = words

    def render(self, task: Task) -> Text:
        """Return the words."""
        return Text(self.words(task))


def _amount(task: Task) -> str:
    if task.total is not None:
        return f"{task.completed:.0f}/{task.total:.0f}"
    state = task.fields["state"]
    return f"{task.completed:.0f}" if task.completed else "" if state is None else state()


def _left(task: Task) -> str:
    limit, left = task.fields["limit"], task.time_remaining
    if task.total is not None:
        return "" if left is None else f"{_clock(left)} left"
    return "" if limit is None else f"at most {_clock(limit - (task.elapsed or 0.0))} left"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=max(0, round(seconds))))


_shown: ContextVar[_Lines | None] = ContextVar("pypsa_aidc_progress", default=None)
