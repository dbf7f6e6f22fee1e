/*
 * tests/lib/job: a front end with proxies and launchers, all on this machine:
 * --launch_with is a script that executes what it is given. The test program is
 * all three: its main() becomes a proxy or a launcher by its arguments, as
 * ddprun does. Hosts are names; what a host does stands in its name. One job
 * at a time. Tests with it link -lcjson and -ldl.
 */
#ifndef TESTS_LIB_JOB_H
#define TESTS_LIB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "rendezvous/base/mono.h"

#define JOB_LIMIT_US (20 * MONO_S)

/*
 * To be called first in main. -1: this process is the test; else the exit
 * status of a proxy, or of a launcher: "ddprun ... VERB [NUMBER]", where VERB
 * is
 *   exit N      ends with N
 *   await N     ends with N once there is a file "go"
 *   exit0 N     the first host ends with 0, the others with N
 *   hold        says that it is there, waits for a signal, and ends with 128+N
 *   part N      the second host ends with N, the others hold
 *   deaf        the same, but signals do not end it
 *   lines N     N lines on both streams
 *   where       the folder, the variables A and B, and what stdin has
 */
int job_role(int argc, char *argv[]);

/* A folder with "./stand-in", which executes what stands behind the host. What
 * a host does first is in its name: "slow" never does (its process is in
 * slow.pid), "none" fails, "flood" says much, "chatty" says something of its
 * own, "gone" has not this folder, "cut" is lost after a second. To be left
 * with scratch_leave. */
void job_setup(void);

/* Starts a front end with these variables and this command line. */
void job_start(const char *env, const char *line);

extern int job_out_fd; /* both streams of it */
extern pid_t job_pid;
extern char job_shown[1 << 20]; /* what was read of them */
extern size_t job_shown_len;

/* Reads until the text is there (true), or no writer is left (false). */
bool job_reads(const char *text);
void job_comes(const char *text);
int job_count(const char *text);

/* Each of the first `n` lines of "lines" of each of these ranks was shown, on
 * both streams, once and whole. */
void job_has_lines(int ranks, int n);

/* The exit status, once all of its output has come: nobody holds the pipe any
 * more, so all launchers and proxies are dead. */
int job_end(void);

#endif
