/*
 * launcher/preflight/probe: the probe of one node, and the steps that all
 * probes take. For preflight.c, probe.c and lead.c only.
 */
#ifndef LAUNCHER_PREFLIGHT_PROBE_H
#define LAUNCHER_PREFLIGHT_PROBE_H

#include <sys/types.h>

#include "launcher/preflight/facts.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/client/store.h"

#define REACH_US   (6 * MONO_S)    /* to reach the store */
#define GATHER_US  (8 * MONO_S)    /* for rank 0 to hear from all nodes */
#define TALK_US    (10 * MONO_S)   /* one request to the store */
#define LINGER_US  (20 * MONO_S)   /* for rank 0 to judge and print */
#define WORD_US    (3 * MONO_S)    /* to reach the store in the second round */
#define SIT_OUT_US (3600 * MONO_S) /* more than a measurement takes */

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
    int64_t end_us; /* when all links must have been tried */
    int *ranks;     /* of the nodes that came, in order */
    int n;
    struct preflight_link *links; /* tried by this node, owned */
    int links_len;
};

/* The variable's value, "" if it is not set. */
const char *probe_env(const char *name);

/* A key of the store; what is formatted are numbers. Returns `key`. */
const char *probe_key(char key[PROBE_KEY_MAX], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts a text under a key. The second frees the text; NULL is NOMEM. Errors:
 * those of client/store. */
int probe_tell(struct probe *p,
               const char *key,
               const char *text,
               struct ddp_err *err);
int probe_tell_own(struct probe *p,
                   const char *key,
                   char *text,
                   struct ddp_err *err);

/* Writes {"message": text} to the worker's error file, as @record does. If this
 * probe fails first, the launchers of all nodes print the text at the end. */
void probe_write_error(const char *text);

/* The first steps. probe_begin reads rank and store from the environment
 * (USAGE: it is not that of a probe); probe_introduce starts the responder and
 * puts the data of this node into the store. */
int probe_begin(struct probe *p, struct ddp_err *err);
int probe_introduce(struct probe *p, struct ddp_err *err);

/* Reads the data of a node; -1: none by then, or it is damaged. */
int probe_read_node(struct probe *p,
                    int rank,
                    struct preflight_node *n,
                    int64_t until_us);

/* Waits for rank 0's list of the nodes that came. */
int probe_agree(struct probe *p, struct ddp_err *err);

/* Tries to reach the nodes that are this one's part (launcher/preflight/reach),
 * and puts the links into the store. */
int probe_try(struct probe *p, struct ddp_err *err);

/* The steps of rank 0 alone: gathers, judges, prints. */
int probe_lead(struct probe *p, struct ddp_err *err);

#endif
