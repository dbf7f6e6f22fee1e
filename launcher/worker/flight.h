/*
 * launcher/worker/flight: asks PyTorch's flight recorder, which keeps the last
 * collectives of each rank, to dump them, and has the dumps of all nodes read:
 * which collective does not end, and which ranks did not come to it.
 *
 * A process with ProcessGroupNCCL makes a named pipe and looks once a second
 * whether something was written to it (PyTorch: ProcessGroupNCCL.hpp, struct
 * DumpPipe); then it writes a file (FlightRecorder.hpp, DebugInfoWriter). Where
 * both lie is told by the environment: the values below, with the global rank
 * and, for the pipe, ".pipe" behind them.
 */
#ifndef LAUNCHER_WORKER_FLIGHT_H
#define LAUNCHER_WORKER_FLIGHT_H

#include <stdint.h>
#include <sys/types.h>

struct workers;

/* How the two paths begin, beside the worker's error file. */
#define FLIGHT_NAME "nccl_trace_rank_"

#define FLIGHT_PIPE_VAR     "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
#define FLIGHT_DUMP_VAR     "TORCH_FR_DUMP_TEMP_FILE"
#define FLIGHT_DUMP_OLD_VAR "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"

#define FLIGHT_TEXT_MAX 180 /* of the sentence */

/* What is asked. */
struct flight_of {
    const struct workers *workers;
    int n; /* workers of this node */
    int64_t base_rank;
    int64_t world_size;
    int64_t round;
    char master_addr[256]; /* the workers' store */
    int64_t master_port;
};

/*
 * Asks every worker of this node that has such a pipe, and starts a process
 * that reads their dumps (flight.py, by the workers' own Python), exchanges
 * what is in them with the other nodes through the workers' store, and writes a
 * sentence to `fd`, in 13 s at most. Returns its pid; 0 if no worker can be
 * asked, or the process cannot be started. Runs in the helper process that
 * takes the stacks.
 */
pid_t flight_ask(int fd, const struct flight_of *of);

/* Waits for the reader; 0: there is none. */
void flight_wait(pid_t reader);

/* Reads the sentence from `fd`, printable ASCII; "" if there is none (yet). */
void flight_text(int fd, char text[FLIGHT_TEXT_MAX + 1]);

#endif
