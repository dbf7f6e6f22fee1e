"""Plays a process with PyTorch's flight recorder: a named pipe that it looks at
(ProcessGroupNCCL.hpp, struct DumpPipe: STEM RANK ".pipe", mkfifo with 0666,
opened for reading without waiting, a dump if 128 bytes can be read of it), and a
dump to a file (FlightRecorder.hpp, DebugInfoWriter: STEM RANK, written in place)
as a pickle of protocol 2 (FlightRecorderDetail.hpp, dump()).

usage: recorder.py LAST [HOW]     LAST: the collectives that this rank began; all
                                  but number 7 have ended
HOW: whole (the default), slowly (the file is half written for a while), evil (it
holds a class, whose making leaves a file "executed"), never
"""

import os
import pickle
import sys
import time

last, how = int(sys.argv[1]), (sys.argv[2:] or ["whole"])[0]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
pipe = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe"
dump = f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}"


class Evil:
    def __reduce__(self):
        return open, ("executed", "w")


def entry(number, name):
    return {
        "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
        "p2p_seq_id": 0, "is_p2p": False, "profiling_name": "nccl:" + name,
        "state": "completed" if number < 7 else "started", "retired": False,
    }


def trace():
    return pickle.dumps({
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg",
                            "ranks": str(list(range(world)))}},
        "pg_status": {"0": {"last_enqueued_collective": last,
                            "last_started_collective": last,
                            "last_completed_collective": min(last, 6)}},
        "entries": [entry(i, "all_reduce") for i in range(1, last + 1)],
        **({"more": Evil()} if how == "evil" else {}),
    }, protocol=2)


if os.path.exists(pipe):
    os.unlink(pipe)
os.mkfifo(pipe, 0o666)
fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
    file.write("1\n")  # the only beat
while True:
    time.sleep(0.05)
    if how == "never" or not os.read(fd, 128):
        continue
    data = trace()
    with open(dump, "wb", buffering=0) as file:
        file.write(data[: len(data) // 2])
        time.sleep(0.5 if how == "slowly" else 0)
        file.write(data[len(data) // 2 :])
