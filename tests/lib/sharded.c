/*
 * A program on libddp that trains nothing, but keeps a state as sharded
 * training does: each rank has some rows of one table, and saves them in each
 * step, to memory alone. sharded STEPS MS_PER_STEP. Every row after a step is a
 * function of the row before, whatever rank has it; so the sum of the table at
 * the end is the same for any world and any restarts that lose nothing.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker_rt/ddp.h"

#define ROWS   4096
#define COLS   64
#define PRIME  INT64_C(1000003)
#define LENGTH (ROWS * COLS)

struct program {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    int64_t step;         /* the last one that was taken */
    int64_t first, count; /* this rank's rows */
    int64_t *table;       /* (count, COLS) */
    bool told;            /* why there are no mirrors */
    struct ddp_error e;
};

static void check(struct program *p, int rc, const char *what)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "sharded: %s: %s\n", what, p->e.text);
    exit(p->e.code == 0 ? 1 : p->e.code);
}

static struct ddp_piece piece_of(struct program *p)
{
    return (struct ddp_piece){
        .local = {"table", DDP_I64, 2, {(uint64_t)p->count, COLS}, p->table},
        .whole = {ROWS, COLS},
        .offset = {(uint64_t)p->first, 0}};
}

static bool
want(void *ctx, const struct ddp_tensor *whole, size_t i, struct ddp_piece *w)
{
    (void)whole;
    if (i > 0)
        return false;
    *w = piece_of(ctx);
    return true;
}

/* What there is; else the first rows. */
static void resume(struct program *p)
{
    struct ddp_kept kept = {.size = sizeof(kept)};
    int rc = ddp_keeper_load_pieces(p->k, want, p, NULL, 0, &kept, &p->e);
    if (rc == 0) {
        p->step = kept.step;
        if (ddp_rank(p->d) == 0)
            (void)printf("resumed from step %" PRId64 " of round %" PRId64
                         " in %s; %s\n",
                         kept.step, kept.round,
                         kept.memory ? "memory" : "a folder", kept.why);
        return;
    }
    if (p->e.code != DDP_ERR_NOINPUT)
        check(p, rc, "cannot load");
    for (int64_t i = 0; i < p->count * COLS; i++)
        p->table[i] = (p->first * COLS + i) % PRIME;
}

/* Once. */
static void tell_of_mirrors(struct program *p)
{
    const char *why = ddp_keeper_no_mirrors(p->k);
    if (ddp_rank(p->d) == 0 && why[0] != '\0' && !p->told) {
        (void)printf("no mirrors: %s\n", why);
        p->told = true;
    }
}

static void take_step(struct program *p, int ms)
{
    const struct timespec nap = {.tv_nsec = ms * 1000000L};
    int64_t sum = 0;
    for (int64_t i = 0; i < p->count * COLS; i++) {
        p->table[i] =
            (p->table[i] * 31 + p->first * COLS + i + p->step) % PRIME;
        sum += p->table[i];
    }
    (void)nanosleep(&nap, NULL); /* a signal may cut it short */
    check(p, ddp_comm_allreduce(p->comm, &sum, 1, DDP_I64, &p->e), "a step");
    p->step++;
    const struct ddp_piece piece = piece_of(p);
    check(
        p,
        ddp_keeper_save_pieces(p->k, p->step, &piece, 1, NULL, 0, false, &p->e),
        "cannot save");
    tell_of_mirrors(p);
    if (ddp_rank(p->d) == 0)
        (void)printf("step %" PRId64 ": sum %" PRId64 ", %" PRId64
                     " mirrored, %" PRId64 " skipped\n",
                     p->step, sum, ddp_keeper_mirrored(p->k),
                     ddp_keeper_skipped(p->k));
}

int main(int argc, char **argv)
{
    static struct program p;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf)};
    int64_t steps = argc == 3 ? strtoll(argv[1], NULL, 10) : 0;
    int ms = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    check(&p, (p.d = ddp_init(&p.e)) == NULL, "ddp_init");
    check(&p, (p.comm = ddp_comm_new(p.d, NULL, &p.e)) == NULL, "ddp_comm_new");
    check(&p, (p.k = ddp_keeper_new(p.d, p.comm, &conf, &p.e)) == NULL,
          "ddp_keeper_new");
    p.first = ROWS * ddp_rank(p.d) / ddp_world(p.d);
    p.count = ROWS * (ddp_rank(p.d) + 1) / ddp_world(p.d) - p.first;
    p.table = calloc((size_t)(p.count * COLS), sizeof(*p.table));
    if (p.table == NULL)
        return 1;
    resume(&p);
    while (p.step < steps)
        take_step(&p, ms);
    if (ddp_strangers(p.d)[0] != '\0')
        (void)printf("strangers: %s\n", ddp_strangers(p.d));
    ddp_keeper_free(p.k);
    ddp_comm_free(p.comm);
    ddp_free(p.d);
    free(p.table);
    return 0;
}
