"""ddprun.torchrun: commands of other packages that call torchrun's function."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

torch_run = pytest.importorskip("torch.distributed.run")

from ddprun.torchrun import command_line  # noqa: E402

LINES = [
    ["train.py"],
    ["--nnodes=2", "--nproc-per-node=4", "--rdzv-endpoint=h:1", "train.py", "--lr", "0.1", "a b"],
    ["--standalone", "--max-restarts=3", "--no-python", "sh", "-c", "true"],
    ["--module", "package.train", "--flag"],
    ["--node-rank=0", "--master-addr=h", "--master-port=7", "--tee=3", "--log-dir=/tmp/x", "train.py"],
]


@pytest.mark.parametrize("line", LINES)
def test_what_was_parsed_is_typed_again(line: "list[str]") -> None:
    parser = torch_run.get_args_parser()
    args = parser.parse_args(line)
    assert parser.parse_args(command_line(args, parser)) == args


def test_what_is_empty_was_not_given() -> None:
    parser = torch_run.get_args_parser()
    args = parser.parse_args(["train.py"])
    args.log_dir, args.master_addr = "", None
    assert command_line(args, parser) == ["train.py"]


def test_ddprun_knows_every_option(tmp_path: Path) -> None:
    help_text = subprocess.run(["ddprun", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    options = {max(a.option_strings, key=len) for a in torch_run.get_args_parser()._actions if a.option_strings}
    assert {o for o in options if o.replace("-", "_").replace("__", "--", 1) not in help_text} <= {"--help"}


# By its name, and as a job script names it.
@pytest.mark.parametrize("command", ["accelerate", str(Path(sys.executable).parent / "accelerate")])
def test_accelerate_launch_starts_ddprun(tmp_path: Path, command: str) -> None:
    pytest.importorskip("accelerate")
    (tmp_path / "job.py").write_text(
        "import os, sys\n"
        "os.write(1, f\"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}, \"\n"
        "            f\"round {os.environ['DDP_ROUND']}, {sys.argv[1:]}\\n\".encode())\n"
        "sys.exit(os.environ['DDP_ROUND'] == '1' and 7 or 0)\n"
    )
    words = [command, "launch", "--multi_gpu", "--num_processes=2", "--max_restarts=1", "--mixed_precision=no"]
    done = subprocess.run(
        [sys.executable, "-m", "ddprun.torchrun", *words, "job.py", "--lr", "0.1"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    )
    assert done.returncode == 0, done.stdout
    for rank in 0, 1:
        assert f"rank {rank} of 2, round 2, ['--lr', '0.1']" in done.stdout
    assert len(re.findall("^.*round 2, ", done.stdout, re.M)) == 2


@pytest.mark.parametrize("command", ["no-such-command", "other/env/bin/accelerate"])
def test_an_unknown_command_is_named(tmp_path: Path, command: str) -> None:
    """An environment's script that is not this one's is none."""
    script = tmp_path / "other/env/bin/accelerate"
    script.parent.mkdir(parents=True)
    script.touch()
    done = subprocess.run(
        [sys.executable, "-m", "ddprun.torchrun", command],
        cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    assert done.returncode == 1 and f"no package of this Python has a command {command}" in done.stdout
