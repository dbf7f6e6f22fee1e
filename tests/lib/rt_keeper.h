/*
 * tests/lib/rt_keeper: a worker whose state after a step is a function of the
 * step, and the keeper that saves and loads it. Its memory and its folder "s"
 * are the test's own. Failures in a worker end it with status 1 (rt_world).
 */
#ifndef RT_KEEPER_H
#define RT_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "rendezvous/base/stop_page.h"
#include "worker_rt/ddp.h"

#define ELEMS    3000
#define SMALL    64
#define MEMORY   (SNAPSHOT_SLOTS << 18)
#define INSTANCE "0123456789abcdef0123456789abcdef"
#define ANOTHER  "fedcba9876543210fedcba9876543210"

/* -- a place --------------------------------------------------------------- */

/* Fixtures: a scratch folder, a world of one in round 1 of INSTANCE, and
 * MEMORY bytes as a launcher would give them, in memory_fd. */
extern int memory_fd;
void keeper_place(void);
void keeper_leave(void);

/* Whether workers started from now on find that memory; their place. */
void with_memory(bool with);
void in_round(const char *instance, int round);

/* -- a worker -------------------------------------------------------------- */

struct worker {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    float big[ELEMS];
    int64_t small[SMALL];
    struct ddp_tensor t[2];
    struct ddp_kv kv;
    struct ddp_error e;
    struct ddp_kept info;
    bool later;
};

extern const struct ddp_keeper_conf on_disk;
extern const struct ddp_keeper_conf in_memory;

struct worker *worker_start(const struct ddp_keeper_conf *conf);
void worker_stop(struct worker *w);

/* The state after that step. */
void worker_fill(struct worker *w, int64_t step);

/* Takes the step and saves it; the state is another one then. As
 * ddp_keeper_save, with w->e. */
int worker_save(struct worker *w, int64_t step, bool disk);

/* The step that is loaded, all of it right; -1: there is none. The second one
 * starts a worker for that. */
int64_t worker_load(struct worker *w);
int64_t worker_load_once(const struct ddp_keeper_conf *conf);

/* -- files ----------------------------------------------------------------- */

/* Snapshots in a folder, and what else is on its way to be one. */
int count_snapshots(const char *folder);

/* The file of that snapshot, of a world of one; whether it is there. */
void name_of(char out[96], long long step, int round, const char *who);
bool is_there(long long step, int round, const char *who);

/* Another byte at that place. */
void damage_file(const char *path, off_t at);

#endif
