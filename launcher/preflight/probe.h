/*
 * launcher/preflight/probe: what the files of launcher/preflight/preflight
 * share, and what a probe does whatever its rank is; nobody else includes it.
 */
#ifndef LAUNCHER_PREFLIGHT_PROBE_H
#define LAUNCHER_PREFLIGHT_PROBE_H

#include <sys/types.h>

#include "launcher/preflight/data.h"
#include "rendezvous/client/store.h"
#include "rendezvous/base/mono.h"

#define REACH_US   (6 * MONO_S)    /* for the others to reach the store */
#define GATHER_US  (8 * MONO_S)    /* for rank 0 to hear from them */
#define TALK_US    (10 * MONO_S)   /* one word with the store */
#define LINGER_US  (20 * MONO_S)   /* for rank 0 to judge and print */
#define WORD_US    (3 * MONO_S)    /* in the second round, to reach it */
#define SIT_OUT_US (3600 * MONO_S) /* more than a measurement takes */
#define AGAIN_MAX  16              /* links that are measured a second time */

#define PROBE_ENV_ADDR    "DDPRUN_PREFLIGHT_ADDR"
#define PROBE_ENV_PROBLEM "DDPRUN_PREFLIGHT_PROBLEM"

#define PROBE_KEY_MAX 80

struct probe {
    int rank, world;
    bool again;         /* the second round */
    const char *secret; /* the instance of the run */
    struct store_client store;
    struct preflight_node self;
    pid_t responder;
    int64_t began_us;
    int64_t end_us; /* when nobody can be measuring any more */
    int *ranks;     /* of the nodes that came, in order */
    int n;
    struct preflight_link *links; /* that this node has measured */
    int links_len;
};

/* The variable's value, "" where there is none. */
const char *probe_env(const char *name);

/* A key of the store; what is formatted are numbers. Returns `key`. */
const char *probe_key(char key[PROBE_KEY_MAX], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts a text under a key; the second frees it, and says NOMEM where it is
 * NULL. Errors: those of client/store. */
int probe_tell(struct probe *p,
               const char *key,
               const char *text,
               struct ddp_err *err);
int probe_tell_own(struct probe *p,
                   const char *key,
                   char *text,
                   struct ddp_err *err);

/* In the worker's error file, as @record writes it: what the launchers of all
 * nodes print at the end, if this probe fails first. */
void probe_write_error(const char *text);

/* The first steps: who we are, by the environment (USAGE: it is not a probe's);
 * what this node is, for the store. */
int probe_begin(struct probe *p, struct ddp_err *err);
int probe_introduce(struct probe *p, struct ddp_err *err);

/* What a node has told of itself; -1: nothing by then, or nonsense. */
int probe_read_node(struct probe *p,
                    int rank,
                    struct preflight_node *n,
                    int64_t until_us);

/* Waits for the list of those that came. */
int probe_agree(struct probe *p, struct ddp_err *err);

/* All rounds of the tournament; tells the links. */
int probe_play(struct probe *p, struct ddp_err *err);

/* The links that are measured again: their list, AGAIN_MAX at most (returns
 * how many, -1 on an error); and measuring those of this node. */
int probe_read_again(struct probe *p,
                     struct preflight_link *again,
                     struct ddp_err *err);
int probe_look_again(struct probe *p, struct ddp_err *err);

/* All that only rank 0 does: gathers, judges, prints. */
int probe_lead(struct probe *p, struct ddp_err *err);

#endif
