"""`python -m ddprun`: the program ddprun that was installed with this module,
with this Python for scripts."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Iterator, Optional


def _candidates() -> Iterator[Path]:
    try:
        for file in metadata.files("ddprun") or []:
            if file.name == "ddprun" and file.parent.name == "bin":
                yield Path(file.locate()).resolve()
    except metadata.PackageNotFoundError:
        pass  # run from the source tree
    yield Path(sysconfig.get_path("scripts"), "ddprun")
    # pip install --target puts it into bin/ beside the packages.
    yield Path(__file__).resolve().parent.parent / "bin" / "ddprun"
    on_path = shutil.which("ddprun")
    if on_path:
        yield Path(on_path)


def find_program() -> Optional[Path]:
    return next((program for program in _candidates() if os.access(program, os.X_OK)), None)


def main() -> int:
    program = find_program()
    if program is not None:
        os.environ.setdefault("PYTHON_EXEC", sys.executable)
        os.execv(program, ["ddprun", *sys.argv[1:]])
    print("python -m ddprun: the program ddprun is not installed; pip install --force-reinstall ddprun", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main())
