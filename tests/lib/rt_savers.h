/*
 * tests/lib/rt_savers: ranks that save pieces of their own, of a state that is
 * a function of the step, and die where a test wants it; and what lies in the
 * memory of their nodes then, told by labels and headers alone. A test that
 * links it needs the libs
 *
 *     -Wl,--wrap=commit_say,--wrap=commit_hear,--wrap=image_hash_begin
 *     -Wl,--wrap=mem_slots_label,--wrap=pieces_survey
 */
#ifndef RT_SAVERS_H
#define RT_SAVERS_H

#include <stdbool.h>

#include "tests/lib/rt_world.h"
#include "worker_rt/ddp.h"

#define RANKS 4
#define ROWS  500 /* of a rank's shard */
#define COLS  4
#define COPY  2000 /* elements that all ranks have */

enum point {
    NOWHERE,
    BEFORE_WORDS,
    AFTER_WORDS,
    IN_COPY,
    BEFORE_LABEL,
    AFTER_LABEL
};

struct story {
    enum point point; /* where `dies` does, .. */
    int dies;
    int at;          /* .. in this step */
    int first, last; /* the steps that are saved */
    int disk_every;  /* so many steps, to the disk; 0: never */
    int keep;
    bool later;
    bool states; /* of the ranks */
    bool nodes;  /* two of them, with two ranks each */
    bool apart;  /* each node has its own folder, in "node0" and "node1" */
    bool swaps;  /* from step 3 on the ranks have each other's shards */
    const char *folder;
};

struct rank {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    float shard[ROWS * COLS];
    float ends[2][COLS]; /* two pieces of one tensor */
    float copy[COPY];
    struct ddp_piece pieces[4];
    struct ddp_error e;
};

/* Fixtures: keeper_place with a second node's memory. */
void pieces_place(void);
void pieces_leave(void);
extern int other_memory;

/* How often ranks compared what they have, since pieces_place. */
int pieces_surveys(void);

/* -- in a rank ------------------------------------------------------------- */

struct rank *rank_start(const struct story *s, int rank);
void rank_stop(struct rank *r);

/* The state after that step, as the rank `which` has it. */
void rank_fill(struct rank *r, int step, int which);
int rank_save(struct rank *r, int step, bool disk);

/* The call failed with that code and these words; else it ends the rank. */
void rank_refused(struct rank *r, int rc, int code, const char *text);

/* An rt_rank_fn, `arg` is a story: saves steps until the end, or until a rank
 * dies. Each step is waited for, if some go to the disk and some do not. */
int rank_train(int rank, void *arg);

/* -- of all ---------------------------------------------------------------- */

/* A world of RANKS in that round; the one that dies, dies by SIGKILL. */
void pieces_run(rt_rank_fn *fn, const struct story *s, int round);

/* Elements of each tensor that images have. */
struct found {
    int shard, ends, copy, states;
};

/* Adds what one rank's part of a memory has of a step, all of it right; false:
 * nothing. `f` may be NULL: only look for the label. */
bool pieces_find(
    int fd, int part, int parts, int round, int step, struct found *f);

/* The newest step of the round that is in the memory of all ranks of one node,
 * whole and right; 0: none. */
int pieces_newest(int round);

#endif
