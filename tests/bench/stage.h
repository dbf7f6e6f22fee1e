/*
 * tests/bench/stage: what one trial plays on: launchers started and timed, the
 * workers' own reports (event.h), the processes below a launcher, and an end
 * that leaves nothing behind.
 *
 * The driver is a child subreaper: whatever a launcher leaves behind becomes
 * its child, so "nothing is left" is waitpid's ECHILD, told by the kernel, and
 * only its own descendants are ever signalled.
 *
 * Whatever goes wrong ends the driver with a sentence on stderr and status 1,
 * after all that it started was killed; so no function here returns an error.
 * All times are CLOCK_BOOTTIME in ns, all limits are in ns too.
 */
#ifndef STAGE_H
#define STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STAGE_LAUNCHERS 5
#define STAGE_EVENTS    4096 /* more of them are a fault of the launcher */
#define STAGE_TREE      1024 /* processes */

#define STAGE_MS 1000000LL
#define STAGE_S  (1000 * STAGE_MS)

struct launcher {
    pid_t pid;
    int64_t exec_ns; /* just before its execve */
    int64_t gone_ns; /* when it was reaped, 0: it lives */
    int status;      /* as waitpid gave it */
};

struct stage {
    const char *dir;   /* borrowed */
    int64_t settle_ns; /* after the last worker's start */
    int64_t limit_ns;  /* for each wait */
    bool may_end;      /* a launcher's end is late, and no fault of the trial */
    int gate_fd;
    int events_fd;
    struct launcher *launchers; /* in memory that children write to */
    int n_launchers;
    char **late;      /* what the trial launches itself; borrowed, or NULL */
    int64_t empty_ns; /* when no descendant was left, 0: there are some */
};

/* `dir` exists and is borrowed until the end. */
void stage_open(struct stage *s,
                const char *dir,
                int64_t settle_ns,
                int64_t limit_ns);

/* Starts argv[0] found by PATH, with stdin from /dev/null. */
void stage_launch(struct stage *s, char **argv);

/* Lets time pass, and ends the driver where it is told to end. */
void stage_pause(struct stage *s, int64_t ns);

/*
 * Waits until `n` workers have started after `since_ns`; *last_ns is the last
 * one's start. false: not within the limit. A launcher's end before that ends
 * the driver, except for the launcher numbered `victim` (-1: none); where
 * may_end is set it is false.
 */
bool stage_wait_starts(
    struct stage *s, int n, int64_t since_ns, int victim, int64_t *last_ns);

/* Opens the gate. */
void stage_open_gate(struct stage *s);

/* The earliest START; 0: there is none. */
int64_t stage_first_start(struct stage *s);

/* The latest END, when there are `n`; else ends the driver. */
int64_t stage_last_end(struct stage *s, int n);

/* false: it lives still when the limit is over. */
bool stage_wait_launcher(struct stage *s, int launcher);

/* false: some descendants live still when the limit is over. */
bool stage_wait_empty(struct stage *s);

/* Pids that reported a START, in that order. Returns how many. */
int stage_workers(struct stage *s, pid_t pids[STAGE_EVENTS]);

/* The launcher and all below it but workers. Returns how many. */
int stage_tree(struct stage *s, int launcher, pid_t pids[STAGE_TREE]);

/* Kills and reaps all descendants; may be called again. */
void stage_close(struct stage *s);

/* Says it, closes the stage, exits with 1. */
__attribute__((noreturn, format(printf, 2, 3))) void
stage_die(struct stage *s, const char *fmt, ...);

#endif
