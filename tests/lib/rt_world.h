/*
 * tests/lib/rt_world: a store and some ranks, each a process of its own, for
 * the tests of libddp. Everything dies with the test that started it. To be
 * linked with -luv.
 */
#ifndef RT_WORLD_H
#define RT_WORLD_H

#include <stdint.h>
#include <sys/types.h>

#define RT_RANKS_MAX 16

/* A store on 127.0.0.1 in a child process, and its port in *port. */
pid_t rt_store_start(uint16_t *port);

/* SIGKILL and reap; for any child that was started here. */
void rt_kill(pid_t pid);

/* Sets the variables that ddp_init reads, in this process. */
void rt_place(int rank, int world, uint16_t port, int64_t round);

/* What a rank does; what it returns becomes its exit status, 0 is good. */
typedef int rt_rank_fn(int rank, void *arg);

/* Starts one rank of the world, in the given round. */
pid_t rt_rank_start(int rank,
                    int world,
                    uint16_t port,
                    int64_t round,
                    rt_rank_fn *fn,
                    void *arg);

/* For how long the first thread of a process was ready to run since its start
 * and had no CPU; 0 if the kernel does not count that. */
int64_t rt_cpu_wait_us(pid_t pid);

/* Waits for a child; its exit status, 128 + N for a signal, -1 if it did not
 * end in time, times suite_slow() (it is killed then). */
int rt_wait(pid_t pid, int64_t timeout_ms);

/* A world in round 1 with a store of its own, whose pid is returned; those of
 * the ranks come into `pids` (world). */
pid_t rt_world_start(int world, rt_rank_fn *fn, void *arg, pid_t *pids);

/* A whole world in round 1 with a store of its own; fails the test if a rank
 * does not return 0 in time. */
void rt_world_run(int world, rt_rank_fn *fn, void *arg, int64_t timeout_ms);

/* In a rank: what is wrong, on stderr, and out with status 1. */
#define RT_CHECK(x)                                                            \
    do {                                                                       \
        if (!(x))                                                              \
            rt_wrong(__FILE__, __LINE__, #x, "");                              \
    } while (0)

/* The same for a call that returns 0 or -1 and fills `struct ddp_error e`. */
#define RT_OK(call, e)                                                         \
    do {                                                                       \
        if ((call) != 0)                                                       \
            rt_wrong(__FILE__, __LINE__, #call, (e).text);                     \
    } while (0)

void rt_wrong(const char *file, int line, const char *what, const char *why)
    __attribute__((noreturn));

#endif
