/*
 * tests/lib/fault: system calls that fail. Its object has a function of the
 * name of each call of the table, so that a program which links it calls that
 * one, libuv too; it counts the call, and either makes it or fails with an
 * errno. A program that does not link it gets it by LD_PRELOAD: see
 * tests/lib/fault_preload.c.
 *
 * A plan is "ROLE:CALL:N:ERRNO": in processes of that role the N-th call fails,
 * once ("3") or from then on ("3+"). A call that fails is not made. The role is
 * what a process is to the one that was planned in, found by what it does:
 *
 *   test, guard    the planned one itself: a unit test's, a launcher's
 *   janitor        a child of a guard
 *   split          a child of a janitor; agent once it has called setsid
 *   child          a child of a test or an agent; worker after setsid;
 *                  helper1, helper2 ... once it has said that it is no child
 *                  subreaper, in the order of their forks
 *
 * Calls are counted over all processes of a role together. What is executed
 * (execve) is free of all this.
 */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>
#include <sys/types.h>

#define FAULT_PLAN_MAX 64 /* with NUL */

/* From now on, in this process (which becomes "test") and in what it forks.
 * Counting starts anew. Aborts if it is no plan. */
void fault_plan(const char *plan);

/* The same, as this role; "count" is no plan, but logs each call to `log` (an
 * absolute path; NULL: nothing is logged): ROLE CALL N ERRNO,... with what may
 * be planned. A failure is logged as "failed ROLE:CALL:N:ERRNO PID". */
void fault_plan_as(const char *role, const char *plan, const char *log);

/* No call fails any more, in any of these processes. */
void fault_end(void);

/* While it is held, calls of this process are not counted and do not fail, nor
 * do those of what it forks meanwhile: for what a test does itself. */
void fault_hold(bool held);

/* How many calls have failed as planned. */
int fault_struck(void);

/* How many descriptors this process has. Not counted as a call. */
int fault_descriptors(void);

/* -- every call ------------------------------------------------------------ */

struct fault_run {
    char plan[FAULT_PLAN_MAX];
    bool struck;
    int error;      /* the errno that was planned; 0: none */
    bool late;      /* it did not end in time, and was killed */
    int status;     /* as waitpid gives it */
    int left;       /* processes that it left behind; they are dead now */
    char err[4096]; /* what it wrote to stderr */
};

/*
 * Calls `run` in a process of its own (a child of this one, a session leader)
 * with each call of that role failing: each kind of call, each errno of the
 * table, the N-th call for N = 1, 2 ... n_max or until there is none. What
 * `run` returns is its exit status. `judge` looks at each that was struck. The
 * first run has no plan, is not struck, and is judged too. Returns how many
 * were struck. This process becomes a child subreaper, and should have no other
 * children.
 */
int fault_each(const char *role,
               int n_max,
               int (*run)(void *ctx),
               void (*judge)(const struct fault_run *r, void *ctx),
               void *ctx);

/* One such run, with this plan; "": no call fails. */
void fault_one(const char *role,
               const char *plan,
               int (*run)(void *ctx),
               void (*judge)(const struct fault_run *r, void *ctx),
               void *ctx);

#endif
