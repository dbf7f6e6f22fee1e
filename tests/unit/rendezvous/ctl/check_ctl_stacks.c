/* links: rendezvous/ctl/{stacks,text} PROTO BASE tests/lib/scratch */
/* libs: -lcjson */
/*
 * Stacks are shown rank after rank; where a node shows none the others are
 * shown, and the end only says so. The rendezvous is the test's own.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/ctl/command.h"
#include "rendezvous/ctl/stacks.h"
#include "rendezvous/ctl/status.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static const struct ctl_style style = {.utf8 = true};
static enum ddp_code answers[4]; /* of each rank; behind them there is none */
static int asked, complained;

int ctl_order_shown(const struct ctl_peer *peer,
                    const struct msg *order,
                    int64_t deadline_us,
                    ctl_take take,
                    void *ctx,
                    struct ddp_err *err)
{
    (void)peer;
    (void)deadline_us;
    asked++;
    enum ddp_code code =
        order->order.rank < 4 ? answers[order->order.rank] : DDP_E_USAGE;
    if (code == DDP_E_OK)
        take(ctx, "shown");
    return code == DDP_E_OK ? 0 : ddp_err_set(err, code, "not shown");
}

void ctl_complain(const struct ctl_style *with,
                  const char *where,
                  const struct ddp_err *err)
{
    (void)with;
    (void)where;
    (void)err;
    complained++;
}

/* Returns the status; `out` gets the lines. */
static int run(const char *rank, char out[200])
{
    const struct ctl_stacks s = {
        .style = &style, .run = "r", .ranks = &rank, .n_ranks = rank != NULL};
    ck_assert_ptr_nonnull(freopen("out", "we", stdout));
    int status = ctl_stacks_run(&s);
    FILE *f = fopen("out", "re");
    ck_assert_ptr_nonnull(f);
    out[fread(out, 1, 199, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    return status;
}

static const struct {
    enum ddp_code of[4];
    const char *rank; /* NULL: all */
    int status, asked, complained;
    const char *out;
} cases[] = {
    {{0}, NULL, 0, 5, 0, "shown\nshown\nshown\nshown\n"},
    {{DDP_E_PEER, 0, DDP_E_PEER},
     NULL,
     77,
     5,
     0,
     "rank 0: not shown\nshown\nrank 2: not shown\nshown\n"},
    {{0, DDP_E_PEER}, "1-2", 77, 2, 0, "rank 1: not shown\nshown\n"},
    {{0, DDP_E_ABORTED}, NULL, 79, 2, 1, "shown\n"},
    {{0, DDP_E_PEER, DDP_E_UNREACHABLE},
     NULL,
     69,
     3,
     1,
     "shown\nrank 1: not shown\n"},
    {{DDP_E_USAGE}, NULL, 2, 1, 1, ""},
};

/* The end of the ranks, of the workers or of the rendezvous ends it. */
TEST_EACH(test_ctl_stacks_of_ranks_that_can_be_had, cases)
{
    char out[200];
    memcpy(answers, cases[_i].of, sizeof(answers));
    ck_assert_int_eq(run(cases[_i].rank, out), cases[_i].status);
    ck_assert_str_eq(out, cases[_i].out);
    ck_assert_int_eq(asked, cases[_i].asked);
    ck_assert_int_eq(complained, cases[_i].complained);
}

SUITE("ctl_stacks", "fast", FIXTURE(scratch_enter, scratch_leave))
