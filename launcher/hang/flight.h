/*
 * launcher/hang/flight: asks PyTorch's flight recorder, which keeps the last
 * collectives of each rank, to dump them, and has the dumps of all nodes read:
 * which collective does not end, and which ranks did not come to it.
 *
 * A process with ProcessGroupNCCL makes a named pipe and looks once a second
 * whether something was written to it (PyTorch: ProcessGroupNCCL.hpp, struct
 * DumpPipe); then it writes a file (FlightRecorder.hpp, DebugInfoWriter). Where
 * both lie is told by the environment (worker/env.h), with the global rank
 * and, for the pipe, ".pipe" behind them.
 */
#ifndef LAUNCHER_HANG_FLIGHT_H
#define LAUNCHER_HANG_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct workers;

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
 * Starts a process that asks every worker of this node that has such a pipe,
 * reads their dumps (flight.py, by the workers' own Python), exchanges
 * what is in them with the other nodes through the workers' store, and writes a
 * sentence to `fd`, in 13 s at most. Returns its pid; 0 if it cannot be
 * started. Runs in the helper process that takes the stacks.
 */
pid_t flight_ask(int fd, const struct flight_of *of);

/* Waits for that process, which was started then (mono_now_us), and has 20 s;
 * 0: there is none. */
void flight_wait(pid_t asker, int64_t started_us);

/* Reads the sentence from `fd`, printable ASCII; "" if there is none (yet). */
void flight_text(int fd, char text[FLIGHT_TEXT_MAX + 1]);

/* Whether the reader found that this rank did not come to a collective. */
bool flight_is_away(int fd, int64_t rank);

#endif
