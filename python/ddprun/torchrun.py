"""`python -m ddprun.torchrun COMMAND ...`: a command of another package, such as
`accelerate launch` or `fabric run`, with ddprun in the place of torchrun.

Such commands do not run torchrun's program: they call torch.distributed.run in
their own process. That function is replaced by one that runs ddprun, in this
process's place, with the options that it was given.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Iterable, NoReturn, Optional

from .__main__ import find_program


def command_line(args: argparse.Namespace, parser: argparse.ArgumentParser) -> "list[str]":
    """What one would type for these arguments of torchrun. A value that is None
    or "" counts as not given: some callers say it so."""
    words: list[str] = []
    for action in parser._actions:
        value: Any = getattr(args, action.dest, None)
        if not action.option_strings or value in (None, "", False) or value == action.default:
            continue
        option = max(action.option_strings, key=len)
        words.append(option if value is True else f"{option}={value}")
    return [*words, args.training_script, *args.training_script_args]


def run(args: argparse.Namespace) -> NoReturn:
    """In place of torch.distributed.run.run; does not return."""
    from torch.distributed.run import get_args_parser

    program = find_program()
    if program is None:
        sys.exit("ddprun.torchrun: the program ddprun is not installed; pip install --force-reinstall ddprun")
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, ["ddprun", *command_line(args, get_args_parser())])


def _is_of_this_python(script: Path) -> bool:
    """Whether it is among the scripts of this environment: another one's would run
    with other packages."""
    folders = (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent)
    return script.exists() and any(folder.exists() and script.parent.samefile(folder) for folder in folders)


def _find_command(name: str) -> "Optional[Callable[[], Any]]":
    """A command by its name, or by the path of this environment's script."""
    if "/" in name:
        if not _is_of_this_python(Path(name)):
            return None
        name = Path(name).name
    found: Any = metadata.entry_points()
    # A dict before Python 3.12.
    scripts: Iterable[Any] = (
        found.select(group="console_scripts") if hasattr(found, "select") else found["console_scripts"]
    )
    for script in scripts:
        if script.name == name:
            command: Callable[[], Any] = script.load()
            return command
    return None


def main() -> Any:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m ddprun.torchrun COMMAND ...   (accelerate launch ..., fabric run ...)")
    import torch.distributed.run

    torch.distributed.run.run = run
    del sys.argv[0]
    command = _find_command(sys.argv[0])
    if command is None:
        sys.exit(f"ddprun.torchrun: no package of this Python has a command {sys.argv[0]} ({sys.executable})")
    return command()


if __name__ == "__main__":
    sys.exit(main())
