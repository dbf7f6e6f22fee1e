/* links: launcher/report/may_die launcher/conf/endpoints */
/* links: rendezvous/base/{mono,err} */
/*
 * What a job of variable size says at its start, and which jobs say nothing.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/report/may_die.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static struct conf conf;
static struct msg_world first;
static char text[MAY_DIE_MAX];

/* A job of min:max whose first round has so many nodes. */
static void job(int min, int max, int nodes)
{
    memset(&conf, 0, sizeof(conf));
    conf.nnodes_min = min;
    conf.nnodes_max = max;
    conf.backend = CONF_C10D;
    conf.endpoints_len = 1;
    conf.endpoints[0].port = 29500;
    (void)snprintf(conf.endpoints[0].host, sizeof(conf.endpoints[0].host),
                   "head");
    conf.reconnect_timeout_us = 600 * MONO_S;
    first = (struct msg_world){.round = 1, .group_world = nodes};
    text[0] = '\0';
}

static const struct {
    int min, max, nodes;
    const char *says; /* NULL: nothing */
} rows[] = {
    {1, 4, 1, NULL},
    {3, 3, 3, NULL},
    {1, 3, 3, "any one of the 3 nodes"},
    {2, 4, 4, "any one of the 4 nodes"},
    {2, 8, 5, "up to 2 of the 5 nodes"},
    {4, 8, 5, "with fewer than 4 the job waits"},
    {1, 31, 31,
     "up to 15 of the 31 nodes may be lost at once, also the "
     "one that serves the rendezvous"},
    /* 31 vote: 16 others may hold more than half of the votes. */
    {1, 32, 32, "up to 15 of the 32 nodes"},
    {1, 62, 62,
     "up to 15 of the 62 nodes may be lost at once, also the "
     "one that serves the rendezvous (31 of them vote on the "
     "next round, and 16 of these have to be left)"},
    {50, 99, 62, "; with fewer than 50 the job waits"},
    {1, 2, 2, "falls silent"},
};

TEST_EACH(test_may_die_says_what_a_user_must_know, rows)
{
    job(rows[_i].min, rows[_i].max, rows[_i].nodes);
    bool said = may_die_describe(&conf, &first, text);
    ck_assert(said == (rows[_i].says != NULL));
    if (said)
        ck_assert_msg(strstr(text, rows[_i].says) != NULL, "%s", text);
}

/* One node of the job says it, and none under static or in a preflight. */
TEST(test_may_die_is_said_once)
{
    job(1, 3, 3);
    first.group_rank = 1;
    ck_assert(!may_die_describe(&conf, &first, text));
    job(1, 3, 3);
    conf.backend = CONF_STATIC;
    ck_assert(!may_die_describe(&conf, &first, text));
    job(1, 3, 3);
    conf.preflight = true;
    ck_assert(!may_die_describe(&conf, &first, text));
}

SUITE("may_die", "lines", .tags = "fast")
