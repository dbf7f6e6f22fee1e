"""Joins N agents by torch's own rendezvous handler and prints the seconds.

Agents are threads of a few processes, each with a store's connection of its
own, as launchers on N nodes would have; the clock runs from the first one's
start to the last one's rank.
"""

import multiprocessing
import os
import socket
import sys
import threading
import time

PROCS = 8


def join_one(port, n, ends):
    from torch.distributed import TCPStore
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous as dyn
    from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend

    store = TCPStore("127.0.0.1", port, is_master=False)
    backend = c10d_rendezvous_backend.C10dRendezvousBackend(store, "bench")
    handler = dyn.DynamicRendezvousHandler.from_backend(
        "bench", store, backend, min_nodes=n, max_nodes=n
    )
    place = handler.next_rendezvous()
    if not isinstance(place, tuple):  # since 2.5
        place = (place.store, place.rank, place.world_size)
    _, rank, world = place
    assert world == n and 0 <= rank < n
    ends.append(time.monotonic())


def agents(port, n, mine, barrier, queue):
    import torch.distributed.elastic.rendezvous.dynamic_rendezvous  # noqa: F401

    ends = []
    threads = [
        threading.Thread(target=join_one, args=(port, n, ends), daemon=True)
        for _ in range(mine)
    ]
    barrier.wait()
    began = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    queue.put((began, max(ends)) if len(ends) == mine else None)


def main():
    n = int(sys.argv[1])
    from torch.distributed import TCPStore

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(PROCS), context.Queue()
    processes = []
    for i in range(PROCS):
        mine = n * (i + 1) // PROCS - n * i // PROCS
        args = (port, n, mine, barrier, queue)
        p = context.Process(target=agents, args=args, daemon=True)
        p.start()
        processes.append(p)
    times = [queue.get() for _ in processes]
    if None in times:
        print("an agent got no rank", file=sys.stderr, flush=True)
        for p in processes:
            p.kill()
        os._exit(1)
    print(max(t[1] for t in times) - min(t[0] for t in times), flush=True)
    for p in processes:
        p.kill()
    del store
    os._exit(0)


if __name__ == "__main__":
    main()
