"""A worker: joins a gloo group as any program does, and checks that collectives
give what they must. With an argument, that rank ends with 3 in the first attempt
once the group has formed; and once a file `fail` is there, if FAIL_LATE is set.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method=os.environ.get("INIT", "env://"),
                        rank=int(os.environ.get("RANK", -1)),
                        world_size=int(os.environ.get("WORLD_SIZE", -1)))
rank, world = dist.get_rank(), dist.get_world_size()

total = torch.tensor([float(rank)])
dist.all_reduce(total)
assert total.item() == world * (world - 1) / 2, total
dist.barrier()
if sys.argv[1:] == [str(rank)] and \
        os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    while "FAIL_LATE" in os.environ and not os.path.exists("fail"):
        time.sleep(0.02)
    sys.exit(3)
dist.barrier()

pairs = [dist.new_group(sorted({r, min(r + 1, world - 1)}))
         for r in range(0, world, 2)]
mine = torch.tensor([rank])
dist.all_reduce(mine, op=dist.ReduceOp.MAX, group=pairs[rank // 2])
assert mine.item() == min(rank | 1, world - 1), mine
names = [None] * world
dist.all_gather_object(names, f"rank {rank}")
assert names == [f"rank {r}" for r in range(world)], names
dist.barrier()
sys.stdout.write(f"rank {rank} of {world} is fine, attempt "
                 f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}\n")
dist.destroy_process_group()
