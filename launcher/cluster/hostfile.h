/*
 * launcher/cluster/hostfile: hosts that a user lists, in a file (--hostfile) or
 * on the command line (--hosts). Pure: no I/O.
 *
 * A line of a file is a host, in the formats of Open MPI and DeepSpeed
 * (`node1 slots=4`, perhaps with max_slots), MPICH (`node1:4`), PBS (`node1` on
 * a line for each slot) and Grid Engine (`node1 4 queue@node1 UNDEFINED`). A
 * host is a name or an address; an IPv6 address may stand in brackets, and must
 * in front of a number (`[fd00::1]:4`). What follows a # is a comment.
 */
#ifndef LAUNCHER_CLUSTER_HOSTFILE_H
#define LAUNCHER_CLUSTER_HOSTFILE_H

#include "rendezvous/base/err.h"

#define HOSTFILE_HOSTS_MAX 512 /* a process is started for each */
#define HOSTFILE_LINES_MAX 100000
#define HOSTFILE_LINE_MAX  1000 /* bytes */
#define HOSTFILE_SLOTS_MAX 4096 /* of a host, as CONF_NPROC_MAX */

struct listed_host {
    char *target;     /* owned: "user@node1", as ssh takes it */
    const char *name; /* in it: "node1", or an address without brackets */
    int slots;        /* 0: not told */
    int line;         /* where it is first; of a list its number, from 1 */
    bool counted;     /* with a number of slots, and so there once only */
};

/* To be zeroed before the first use. */
struct listed_hosts {
    struct listed_host *host; /* n of them, owned; all names differ */
    int n;
    int cap;
};

/*
 * Reads the text of a file, which errors name as `path`, or a list with commas,
 * "a:4,b:4". Errors: DDP_E_USAGE with the line (or the entry) that is wrong and
 * what was wanted: no host, more than HOSTFILE_HOSTS_MAX, no name of a host,
 * a number of slots that is none, a host that is there twice; DDP_E_NOMEM. The
 * caller frees with hostfile_free in either case.
 */
int hostfile_read(struct listed_hosts *l,
                  const char *text,
                  const char *path,
                  struct ddp_err *err);
int hostfile_read_list(struct listed_hosts *l,
                       const char *text,
                       struct ddp_err *err);
void hostfile_free(struct listed_hosts *l);

#endif
