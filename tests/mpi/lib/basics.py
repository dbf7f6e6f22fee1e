"""The three programs of a first MPI lesson, with mpi4py: objects around a ring, a
broadcast, a gathering and its average. usage: basics.py [abort]: the last rank calls
MPI_Abort with 42 in the first round, in which the others wait for it."""
import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
round_ = int(os.environ["DDP_ROUND"])
if sys.argv[1:] == ["abort"] and round_ == 1 and rank == size - 1:
    world.Abort(42)

ring = {"sum": 0}
if rank > 0:
    ring = world.recv(source=rank - 1, tag=7)
ring["sum"] += rank
world.send(ring, dest=(rank + 1) % size, tag=7) if size > 1 else None
if rank == 0 and size > 1:
    ring = world.recv(source=size - 1, tag=7)
sent = world.reduce(world.bcast([4711] if rank == 0 else None)[0])
numbers = world.gather(rank * 1.5)
node = world.Split_type(MPI.COMM_TYPE_SHARED)
place = [rank, size, node.rank, node.size]
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]
wrong = world.reduce(int(place != [int(os.environ[name]) for name in names]))
if rank == 0:
    print(f"round {round_}: sum {ring['sum']}, broadcast {sent},"
          f" average {sum(numbers) / size:g}, of {size}, {wrong} in the wrong place")
