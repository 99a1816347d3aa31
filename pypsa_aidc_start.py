"""Start of the command line: Ctrl-C is one line and exit code 130, also before and after the package does its work.

It stands beside `pypsa_aidc`, and not within, because its handler has to be there before that package is imported.
"""

import os
import signal
from typing import NoReturn

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
        signal.signal(signal.SIGINT, interrupt)
        run()
    except Exception:
        # Modules that are interrupted while they are imported say so with errors of their own.
        if interrupted:
            stop()
        raise
    except KeyboardInterrupt:
        stop()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


signal.signal(signal.SIGINT, stop)
