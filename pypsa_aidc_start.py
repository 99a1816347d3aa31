"""Start of the command line: Ctrl-C is one line and exit code 130, also before and after the package does its work.

It stands beside `pypsa_aidc`, and not within, because its handler has to be there before that package is imported.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

EXIT_STOPPED = 130


def stop(*_: object) -> NoReturn:
    """Leave at once: nothing has been written."""
    os.write(2, b"error: stopped\n")
    os._exit(EXIT_STOPPED)


def main() -> None:
    """Run `pypsa-aidc`."""
    from pypsa_aidc.cli import main as run

    interrupted = False

    def interrupt(*_: object) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    try:
        _handle(interrupt)
        run()
    except Exception:
        # Modules that are interrupted while they are imported say so with errors of their own.
        if interrupted:
            stop()
        raise
    except KeyboardInterrupt:
        stop()
    finally:
        _handle(signal.SIG_IGN)


def _handle(handler: Any) -> None:
    """Answer Ctrl-C so, unless whoever started the process wants it to be ignored, as shells do in the background."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


_handle(stop)
