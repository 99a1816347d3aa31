"""What is imported, and when: help and option errors know nothing of PyPSA, and `n.aidc` is there in any order."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pypsa", "polars", "pandas", "linopy", "matplotlib", "xarray", "pyarrow", "highspy", "numpy"}
PACKAGES = (
    "pypsa_aidc",
    *(f"pypsa_aidc.{name}" for name in ("fleet", "headroom", "network", "report", "training")),
)


def alone(code: str) -> str:
    """What some code prints in a process of its own."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("order", ["pypsa_aidc, pypsa", "pypsa, pypsa_aidc"])
def test_every_network_has_the_accessor_in_any_order_of_imports(order: str) -> None:
    later = "{'pypsa', 'pypsa_aidc.network'} <= set(sys.modules)"
    code = f"import sys, {order}; print({later}); print(pypsa.Network().aidc)"
    assert alone(code).splitlines() == ["False", "AIDCs of the network: none (0 jobs)"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--help"], "headroom"),
        (["--version"], "PyPSA 1."),
        (["screen", "--help"], "--offsets"),
        (["screen", "--offsets", "some"], "is not one of"),
        (["report"], "Missing argument"),
    ],
)
def test_help_and_option_errors_import_nothing_heavy(arguments: list[str], told: str) -> None:
    code = f"""
import atexit, sys
atexit.register(lambda: print({HEAVY} & set(sys.modules)))
sys.argv, sys.stderr = ['pypsa-aidc', *{arguments}], sys.stdout
from pypsa_aidc.cli import main
try: main()
except SystemExit: pass
"""
    out = alone(code)
    assert told in out
    assert out.splitlines()[-1] == "set()"


def test_completion_imports_nothing_heavy() -> None:
    words = {"_PYPSA_AIDC_COMPLETE": "complete_bash", "COMP_WORDS": "pypsa-aidc screen --off", "COMP_CWORD": "2"}
    code = f"""
import atexit, os, sys
atexit.register(lambda: print({HEAVY} & set(sys.modules)))
os.environ.update({words})
sys.argv = ['pypsa-aidc']
from pypsa_aidc.cli import main
main()
"""
    assert alone(code).split() == ["--offsets", "set()"]


@pytest.mark.parametrize("module", ["pypsa_aidc", "wrapt", "pypsa_aidc.cli.files", "typer.rich_utils", "pandas._libs"])
def test_ctrl_c_is_one_line_whatever_is_being_imported(module: str, tmp_path: Path) -> None:
    """Some modules make an error of their own of it."""
    code = f"""
import os, signal, sys
class Stop:
    def find_spec(self, name, *_):
        if name == {module!r}:
            try: os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt as error: raise ImportError(name) from error
sys.meta_path.insert(0, Stop())
sys.argv = ['pypsa-aidc', *{["--help"] if module == "typer.rich_utils" else ["modes", "nowhere.yaml", "-o", "out"]}]
from pypsa_aidc_start import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: stopped\n")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_is_ignored_where_the_shell_wants_it() -> None:
    """As of a command that a script runs in the background."""
    code = "import signal; signal.signal(2, signal.SIG_IGN); import pypsa_aidc_start; print(signal.getsignal(2).name)"
    assert alone(code) == "SIG_IGN\n"


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_there_and_none_hides_a_module(name: str) -> None:
    package = importlib.import_module(name)
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    for public in package.__all__:
        found = getattr(package, public)
        assert public in dir(package)
        assert public not in modules or getattr(found, "__name__", "") == f"{name}.{public}", public
        assert found.__doc__ or (not inspect.isroutine(found) and not inspect.isclass(found)), public


@pytest.mark.parametrize("name", PACKAGES)
def test_lists_of_names_are_read_in_any_locale(name: str) -> None:
    """They are opened on import, with the encoding of the user's machine."""
    package = importlib.import_module(name)
    assert Path(str(package.__file__)).with_suffix(".pyi").read_bytes().isascii()
