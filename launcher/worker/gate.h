/*
 * launcher/worker/gate: where fresh children wait until the last one of a round
 * is forked. With many more workers than CPUs the first ones take the CPUs
 * from the agent that still has to fork the others: a library that turns while
 * it waits (MPI's do) holds up the very ranks that it waits for.
 *
 * A word in memory that the agent shares with its children, and futex(2). A
 * child that is stopped or killed there holds up nobody.
 */
#ifndef LAUNCHER_WORKER_GATE_H
#define LAUNCHER_WORKER_GATE_H

struct gate;

/* Open; lives as long as the process. NULL: no memory. All functions below take
 * NULL, which is a gate that is always open. */
struct gate *gate_new(void);

/* In the agent: opening it wakes all that wait. */
void gate_close(struct gate *gate);
void gate_open(struct gate *gate);

/* In a child: returns when the gate is open, or cannot be waited for.
 * Async-signal-safe. */
void gate_pass(struct gate *gate);

#endif
