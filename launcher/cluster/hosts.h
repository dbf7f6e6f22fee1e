/*
 * launcher/cluster/hosts: the hosts of a job, as its scheduler lists them, in
 * the scheduler's order. A host has a name and a number of slots.
 */
#ifndef LAUNCHER_CLUSTER_HOSTS_H
#define LAUNCHER_CLUSTER_HOSTS_H

#include "launcher/cluster/hostlist.h"
#include "rendezvous/base/err.h"

#define HOSTS_ENTRIES_MAX 1000000 /* of a list that repeats hosts */

/* How a list is written. */
enum hosts_form {
    HOSTS_NO_LIST,
    HOSTS_SLURM,  /* n[1-3],m1: see hostlist.h */
    HOSTS_COMMAS, /* a,b,c: each once */
    HOSTS_JSON,   /* ["a","b"]: each once */
    HOSTS_LINES,  /* a line for each slot, the first word is the host: PBS */
    HOSTS_PAIRS,  /* a 4 b 4: host and slots, LSF */
    HOSTS_SLOTS,  /* lines of host, slots and more words: SGE */
};

struct host {
    char *name; /* owned */
    int slots;  /* 1 or more */
    int entry;  /* its place in the list as it was written */
};

/* To be zeroed before the first use. */
struct hosts {
    struct host *host; /* n of them, owned; all names differ, but for case */
    int n;
    int cap;
};

/*
 * Reads a list. Errors: DDP_E_USAGE, with the line, word or host that is wrong
 * (no host, more than HOSTLIST_HOSTS_MAX, no name of a host, one that is there
 * twice where each may be there once) and what was wanted; DDP_E_NOMEM. The
 * caller frees with hosts_free in either case.
 */
int hosts_read(struct hosts *h,
               enum hosts_form form,
               const char *text,
               struct ddp_err *err);
void hosts_free(struct hosts *h);

/*
 * The place of the host that calls itself `name`: that name, or else the only
 * one that is the same up to the first '.' of either. -1: none, or several.
 */
int hosts_find(const struct hosts *h, const char *name);

#endif
