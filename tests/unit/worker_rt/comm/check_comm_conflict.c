/* links: tests/lib/{rt_world,rt_comm} */
/* libs: -luv -pthread */
/*
 * Ranks that are in different calls: all of them are told, soon, and one of
 * them says what it was. And what is none of that is not taken for it.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/wire.h"
#include "worker_rt/ddp.h"

#define DEADLINE_MS 30000
#define BIG         ((size_t)8 << 20) /* more than the kernel takes at once */

static struct ddp_comm *join(struct ddp *d)
{
    struct ddp_error e;
    struct ddp_comm_opts opts = {.size = sizeof(opts), .init_timeout_ms = 5000};
    struct ddp_comm *c = ddp_comm_new(d, &opts, &e);
    RT_OK(c == NULL ? -1 : 0, e);
    return c;
}

/* What the ranks find, for the test to look at. */
struct told {
    int code[RT_RANKS_MAX];
    char text[RT_RANKS_MAX][512];
    int64_t took_us[RT_RANKS_MAX];
};

static const struct {
    const char *what;
    int world;
    const char *text; /* part of what one of the ranks says */
} disagreements[] = {
    {"operations", 3, "all-reduce number 2 with length 400 (F32, MAX)"},
    {"types", 3, "(I32, SUM)"},
    {"kinds", 3, "all-gather number 2 with"},
    {"scatters", 2, "reduce-scatter number 2 with"},
    {"roots", 3, "broadcast number 2 with length 400 (root "},
    {"lengths of a broadcast", 5,
     "broadcast number 2 (root 0), broadcast number 2 with length"},
    {"two roots of little", 2, "broadcast number 2 with length 400 (root "},
    {"two roots of much", 2, "broadcast number 2 with length 100000 (root "},
};

#define TOLD_AT_ONCE 6 /* from here on the call itself fails on each rank */

/* What a rank calls in the disagreement i. */
static int call_mine(struct ddp_comm *c, int i, int rank, struct ddp_error *e)
{
    static float in[400], out[400];
    static uint8_t big[BIG];
    switch (i) {
    case 0:
        return ddp_comm_all_reduce(c, in, out, 100, DDP_F32,
                                   rank == 1 ? DDP_MAX : DDP_SUM, e);
    case 1:
        return ddp_comm_all_reduce(c, in, out, 100,
                                   rank == 1 ? DDP_I32 : DDP_F32, DDP_SUM, e);
    case 2:
        return rank == 1
                   ? ddp_comm_all_gather(c, in, out, 100, DDP_F32, e)
                   : ddp_comm_reduce_scatter(c, in, out, 100, DDP_F32, 0, e);
    case 3:
        return rank == 1
                   ? ddp_comm_all_reduce(c, in, out, 100, DDP_F32, 0, e)
                   : ddp_comm_reduce_scatter(c, in, out, 100, DDP_F32, 0, e);
    case 4:
        return ddp_comm_broadcast(c, in, 400, rank == 0 ? 0 : 1, e);
    case 5: /* little data goes another way than much */
        return ddp_comm_broadcast(c, big, rank == 4 ? 400 : BIG, 0, e);
    default:
        return ddp_comm_broadcast(c, big, i == 6 ? 400 : 100000, rank, e);
    }
}

static struct told *noted;

static int disagree(int rank, void *arg)
{
    int i = *(int *)arg;
    struct ddp_error e;
    struct ddp_comm *c = join(rt_init());
    RT_OK(ddp_comm_barrier(c, &e), e); /* all have met */
    int64_t since_us = mono_now_us();
    int rc = call_mine(c, i, rank, &e);
    RT_CHECK(rc != 0 || i < TOLD_AT_ONCE);
    if (rc == 0) /* this rank's part was done before others found out */
        rc = ddp_comm_barrier(c, &e);
    RT_CHECK(rc != 0);
    noted->code[rank] = e.code;
    noted->took_us[rank] = mono_now_us() - since_us;
    (void)snprintf(noted->text[rank], sizeof(noted->text[0]), "%s", e.text);
    ddp_comm_free(c);
    return 0;
}

/* All ranks are told, soon, and one of them says what it was. */
TEST_EACH(test_calls_that_differ_are_a_conflict, disagreements)
{
    bool said = false;
    noted = rt_shared(sizeof(*noted));
    rt_world_run(disagreements[_i].world, disagree, &_i, DEADLINE_MS);
    for (int r = 0; r < disagreements[_i].world; r++) {
        ck_assert_msg(noted->code[r] == DDP_ERR_CONFLICT, "%s: rank %d: %s",
                      disagreements[_i].what, r, noted->text[r]);
        ck_assert_int_lt(noted->took_us[r], 5000000 * suite_slow());
        said = said || strstr(noted->text[r], disagreements[_i].text) != NULL;
    }
    ck_assert_msg(said, "%s: %s; %s", disagreements[_i].what, noted->text[0],
                  noted->text[1]);
}

/* Ranks that come late, one after the other, while others' calls come and are
 * looked at: nothing of that is a conflict. */
static int come_late(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp_comm *c = join(rt_init());
    static float data[100000];
    (void)arg;
    for (int late = 0; late < 3; late++) {
        if (rank == late)
            (void)usleep(300000);
        RT_OK(ddp_comm_broadcast(c, data, late == 0 ? 4 : 100000, 1, &e), e);
        RT_OK(ddp_comm_allreduce(c, data, late == 2 ? 1 : 100000, DDP_F32, &e),
              e);
        RT_OK(ddp_comm_barrier(c, &e), e);
    }
    ddp_comm_free(c);
    return 0;
}

TEST(test_calls_of_a_slow_rank_are_no_conflict)
{
    rt_world_run(3, come_late, NULL, DEADLINE_MS);
}

int main(void)
{
    wire_look_us = 200 * MONO_MS;
    return SUITE_RUN("comm_conflict", "calls", .limit_s = 60);
}
