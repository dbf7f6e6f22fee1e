/*
 * tests/lib/agent_hand: one agent, with its server and its workers played by
 * hand: each call is one event, and what the agent does about it is written
 * down as words, one for each action, in `did`. There is one agent per process,
 * so that names here are short.
 */
#ifndef AGENT_HAND_H
#define AGENT_HAND_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "launcher/agent/agent.h"
#include "tests/lib/suite.h"

extern struct agent agent;
extern int64_t now_us;
extern char did[4000];    /* by the last step: "connect ", "send:join ", ... */
extern struct msg last;   /* the last one sent */
extern struct msg joined; /* the last join */
extern struct msg voted;  /* the last voted */
extern struct agent_verdict verdict; /* once it has exited */
extern char fenced[512];             /* the last NOTE_fenced, "": none */
extern char noted[512];              /* the last NOTE_killing, "": none */
extern char told[512];    /* the last NOTE_wait or NOTE_link_back, "": none */
extern int64_t detect_us; /* of the last NOTE_stopping */
extern char looked[200];  /* the places of the last look around, in order */
extern bool exited;

/* The agent's vote: the first 16 digits of its id. */
#define AGENT_HAND_VOTE "00000000000000aa"

/* -- one event each, at now_us --------------------------------------------- */

void step(struct agent_event ev);
void tick(void);
/* Runs the clock to `us` from now, with the ticks that are due; all that was
 * done meanwhile stands in `did`. */
void pass(int64_t us);
void hear(const struct msg *m);
void connected(void);
void disconnected(void);
void signal_comes(int signo);

/* What the server says. A world is the second of two nodes, with two workers
 * each. */
void lease(int64_t seq, int64_t grant_ms);
void world(const char *instance, int64_t round);
void stop(int64_t round);
void end(int status);

/* What becomes of workers; the first one's pid is 100. */
void worker_exits(int local, int code, int signo);
void both_die(int signo);
void worker_hangs(int local, int64_t silent_us);
void worker_aborts(int local, int code);
void worker_dies(int local, int signo); /* it begins to end */

/* -- worlds ---------------------------------------------------------------- */

/* Joined, with a lease of 800 ms; its round runs. */
void start(void);
void run(void);

/* A program of tests, each with a fresh agent of two workers, a heartbeat of
 * 1 s, a grace of 500 ms, and one of 200 ms after a failure. */
#define AGENT_SUITE(name)                                                      \
    SUITE(name, name, .tags = "fast", FIXTURE(agent_hand_setup, NULL))
void agent_hand_setup(void);

#endif
