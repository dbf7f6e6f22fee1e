/*
 * tests/bench/rdzv/speak: what an agent of the load generator says, encoded;
 * and the vote that it has.
 *
 * A function that encodes returns the length of what it wrote to `out`. What
 * does not fit, or what comes and makes no sense, ends the process (die).
 */
#ifndef SPEAK_H
#define SPEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/proto/msg.h"

#define SPEAK_MAX      256  /* most messages */
#define SPEAK_JOIN_MAX 1200 /* with the hello */
#define SPEAK_VOTE_MAX 2048 /* voted */

/* All zero at first. */
struct ballot {
    struct msg_voters *voters; /* its newest round's; NULL: it has no vote */
    struct term term;          /* the one that it promised */
};

struct speak_conf {
    int agents;
    int heartbeat_ms;
};

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

int speak_join(const struct speak_conf *conf, int id, char *out);

/* To the next server: the agent runs the round of `world`. */
int speak_join_again(const struct speak_conf *conf,
                     int id,
                     const struct ballot *b,
                     const struct msg_world *world,
                     char *out);

int speak_beat(int64_t seq, int64_t heard, int64_t round, char *out);
int speak_ready(int64_t round, char *out);

/* Takes `prepare` and promises. Of a server's many equal ones only the first is
 * decoded. */
int speak_promise(struct ballot *b, const char *json, int len, char *out);

/* Takes `voters`: 0, or the length of the `accept` that is the answer. */
int speak_accept(struct ballot *b, const char *json, int len, char *out);

/* For the next server, behind the join; 0: it has no vote. */
int speak_voted(const struct ballot *b,
                const struct msg_world *world,
                char *out);

#endif
