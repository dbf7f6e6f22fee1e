/*
 * tests/bench/rdzv/generator: one process of the load generator with its
 * agents. The coordinator (load.c) says by a byte on a socket pair which phase
 * is to be played, and the generator answers by a byte when it is over.
 */
#ifndef GENERATOR_H
#define GENERATOR_H

#include <stdatomic.h>
#include <stdint.h>

#include "rendezvous/net/tls.h"
#include "tests/bench/rdzv/speak.h"

#define AGENTS_MAX 65536
#define PROCS_MAX  16

enum phase {
    PHASE_JOIN = 1,
    PHASE_LOSE,
    PHASE_READY,
    PHASE_IDLE,
    PHASE_ARM, /* what is said to the next server is encoded */
    PHASE_MOVE,
    PHASE_QUIT
};

/* What all processes see. */
struct scores {
    int64_t first_us[PROCS_MAX]; /* of a phase */
    int64_t last_us[PROCS_MAX];
    int64_t told_us[AGENTS_MAX];
    int64_t lost_at_us;
    int64_t leased_us[AGENTS_MAX]; /* at the next server */
    atomic_llong beats, false_losses, fenced, slowest_us, late_us;
    atomic_int seen[AGENTS_MAX]; /* group ranks */
};

/* What is played. */
struct workload {
    struct speak_conf speak;
    int port, next_port; /* of the server, and of the one that comes after it */
    int seconds;         /* of PHASE_IDLE */
    struct tls_key *token; /* NULL: without one */
    struct scores *shared;
};

/* Speaks for `n` agents from `first` on, and listens to `pipe`. */
__attribute__((noreturn)) void
generate(const struct workload *play, int index, int pipe, int first, int n);

#endif
