#!/bin/sh
# A launch in a cgroup that has less memory than the machine: can its workers fill
# what --snapshot_memory offers, and have as much as that leaves for themselves?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
memory_group 320

cat >fill.py <<'END'
import os
fd = os.open(os.environ["DDP_SNAPSHOT_MEMORY"], os.O_RDWR)
size = os.fstat(fd).st_size * 3 // 20  # the rest is address space for more images
print("offered", size // 2**20, "MiB", flush=True)
for at in range(0, size - 2**20, 2**20):
    os.pwrite(fd, b"x" * 2**20, at)
own = b"x" * (180 * 2**20)
END
background it ./in_group "$DDPRUN" python3 fill.py
ends_with 0 it
has '^offered 63 MiB$' it.out
background it ./in_group "$DDPRUN" --snapshot_memory=10% python3 fill.py
ends_with 0 it
has '^offered 31 MiB$' it.out
