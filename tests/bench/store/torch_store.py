"""PyTorch's own TCPStore server, in a process of its own. Prints its port.

usage: torch_store.py uv|classic    (before 2.0 there is only the classic one)
"""

import sys
import threading

from torch.distributed import TCPStore

kind = {}
if hasattr(TCPStore, "libuvBackend"):
    kind["use_libuv"] = sys.argv[1] == "uv"
store = TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False, **kind)
print(store.port, flush=True)
threading.Event().wait()
