"""accelerate shards on GPUs only: on CPUs its plug-in for FSDP is not looked at."""

from __future__ import annotations

from typing import Any

from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType


def let_accelerate_shard() -> None:
    """Also on CPUs, from the next Accelerator on."""
    make = AcceleratorState.__init__

    def init(self: Any, *args: Any, fsdp_plugin: Any = None, **more: Any) -> None:
        make(self, *args, fsdp_plugin=fsdp_plugin, **more)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin

    AcceleratorState.__init__ = init
