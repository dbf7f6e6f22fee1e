#!/bin/sh
# A worker takes so much of its cgroup's memory that less is left than the process
# that imports ahead takes: is that one ended, with its standbys, before the kernel
# has to, and does the next round run from fresh starts? In a group whose memory is
# taken by the page cache they stay.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

memory_group 320

echo 'value = b"x" * 80_000_000' >site-packages/large.py
cat >program.py <<'END'
import os, signal, sys, time
import standbys
attempt, rank = (int(os.environ[n]) for n in ("TORCHELASTIC_RESTART_COUNT", "RANK"))
if attempt == 0:
    if rank == 0:
        import large
        del large.value
        standbys.wait(2)
        with open("file", "wb", 0) as file:
            for _ in range(300):
                file.write(bytes(1_000_000))
                os.fsync(file.fileno())
        time.sleep(2.2)  # the launcher looks each second
        assert len(standbys.waiting(os.getppid())) == 2
        held = b"x" * 170_000_000
        until = time.monotonic() + 60
        while standbys.waiting(os.getppid()) and time.monotonic() < until:
            time.sleep(0.02)
        print(len(standbys.waiting(os.getppid())), "standbys", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
END
background it ./in_group "$DDPRUN" --nproc_per_node=2 \
    --max_restarts=2 --standby=large program.py
ends_with 0 it 60
has '0 standbys' it.out
has 'takes [0-9]* MiB of memory, and only [0-9]* MiB are free: it is ended' it.err
has '0 of 2 workers started from a standby' it.err
has_not 'out of memory' it.err
nothing_left
