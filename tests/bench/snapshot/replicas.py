"""Local checkpoints of nvidia-resiliency-ext, each on two ranks, of tensors on the
CPU: what they make their caller wait for, which is the exchange and a copy."""

from __future__ import annotations

import shutil
from typing import Any

import torch
from nvidia_resiliency_ext.checkpointing.local.basic_state_dict import BasicTensorAwareStateDict
from nvidia_resiliency_ext.checkpointing.local.ckpt_managers.local_manager import LocalCheckpointManager
from nvidia_resiliency_ext.checkpointing.local.replication.strategies import CliqueReplicationStrategy

if not torch.cuda.is_available():
    torch.cuda.synchronize = lambda *_: None  # it is called in any case


class OnCpu(BasicTensorAwareStateDict):  # type: ignore[misc]
    """The base class takes tensors on GPUs only, whose move to the CPU is the copy."""

    def __init__(self, tensors: "list[torch.Tensor]") -> None:
        self.state_dict: "dict[str, Any]" = {"tensors": tensors}
        self._is_hollow = False

    def copy_tensors_to_cpu(self, non_blocking: bool = False) -> None:
        self.state_dict["tensors"] = [x.clone() for x in self.state_dict["tensors"]]


class Replicas:
    def __init__(self, folder: str) -> None:
        pairs = CliqueReplicationStrategy.from_replication_params(1, 2)
        self.manager = LocalCheckpointManager(folder, repl_strategy=pairs)
        self.step, self.under_way = 0, []  # type: int, list[Any]

    def save(self, tensors: "list[torch.Tensor]") -> None:
        self.step += 1
        self.under_way.append(self.manager.save(OnCpu(tensors), self.step, is_async=True))

    def wait(self) -> None:
        self.under_way.pop().execute_sync()

    def remove(self) -> None:
        shutil.rmtree(self.manager.local_ckpt_dir)
