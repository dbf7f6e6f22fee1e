/* links: launcher/mpi/{pmix_frame,pmix_nodes,mapping} */
/* links: rendezvous/base/{err,buf} */
/*
 * What a launcher and its PMIx server say to each other, whole and in pieces,
 * and the maps of nodes and ranks.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/mpi/pmix_frame.h"
#include "launcher/mpi/pmix_nodes.h"
#include "tests/lib/suite.h"

static enum pmix_frame_result
get(const struct buf *in, struct pmix_frame *f, size_t *used)
{
    return pmix_frame_get(buf_head(in), buf_len(in), f, used);
}

/* However it is cut, a frame comes out as it went in. */
TEST_LOOP(test_frame_comes_out_as_it_went_in, 0, 4)
{
    char bytes[] = "a\0b";
    struct pmix_frame f = {.kind = PMIX_FENCE,
                           .rank = -3,
                           .number = INT64_MIN,
                           .data = bytes,
                           .len = (size_t)_i};
    struct pmix_frame got;
    struct buf out, in;
    size_t used = 0;
    buf_init(&out, 100);
    buf_init(&in, 100);
    ck_assert_int_eq(pmix_frame_put(&out, &f), 0);
    size_t len = buf_len(&out);
    for (size_t i = 0; i < len; i++) {
        ck_assert_int_eq(get(&in, &got, &used), PMIX_FRAME_MORE);
        ck_assert_int_eq(buf_put(&in, buf_head(&out) + i, 1), 0);
    }
    ck_assert_int_eq(get(&in, &got, &used), PMIX_FRAME_DONE);
    ck_assert_uint_eq(used, len);
    ck_assert_int_eq(got.kind, f.kind);
    ck_assert_int_eq(got.rank, f.rank);
    ck_assert_int_eq(got.number, f.number);
    ck_assert_uint_eq(got.len, f.len);
    ck_assert_int_eq(memcmp(got.data, bytes, got.len), 0);
    ck_assert_int_eq(pmix_frame_put(&out, &f) == 0, 2 * len <= 100);
    buf_free(&out);
    buf_free(&in);
}

/* A length or a kind that cannot be. */
TEST_LOOP(test_frame_impossible_is_bad, 0, 2)
{
    uint8_t head[17] = {0};
    struct pmix_frame got;
    struct buf in;
    size_t used;
    buf_init(&in, 100);
    head[_i == 0 ? 4 : 3] = _i == 0 ? PMIX_KINDS : 2;
    ck_assert_int_eq(buf_put(&in, head, sizeof(head)), 0);
    ck_assert_int_eq(get(&in, &got, &used), PMIX_FRAME_BAD);
    buf_free(&in);
}

TEST(test_frame_pair)
{
    int64_t pair = pmix_frame_pair(INT32_MAX, UINT32_MAX);
    ck_assert_int_eq(pmix_frame_small(pair), INT32_MAX);
    ck_assert_uint_eq(pmix_frame_other(pair), UINT32_MAX);
    ck_assert_int_eq(pmix_frame_small(pmix_frame_pair(3, 0)), 3);
    ck_assert_int_ge(pmix_frame_small(-1), 0); /* whatever a peer sends */
}

static const struct {
    const char *data;
    size_t len;
    const char *name; /* NULL: there is none */
    size_t value_len;
} names[] = {
    {"port\0tcp", 8, "port", 3}, {"port\0", 5, "port", 0}, {"port", 4, NULL, 0},
    {"\0tcp", 4, NULL, 0},       {"", 0, NULL, 0},
};

TEST_EACH(test_frame_name, names)
{
    struct pmix_frame f = {
        .kind = PMIX_PUBLISH, .data = names[_i].data, .len = names[_i].len};
    const char *name, *value;
    size_t name_len, value_len;
    bool ok = pmix_frame_name(&f, &name, &name_len, &value, &value_len);
    ck_assert(ok == (names[_i].name != NULL));
    if (!ok)
        return;
    ck_assert_uint_eq(name_len, strlen(names[_i].name));
    ck_assert_int_eq(memcmp(name, names[_i].name, name_len), 0);
    ck_assert_uint_eq(value_len, names[_i].value_len);
    ck_assert_int_eq(memcmp(value, "tcp", value_len), 0);
}

static const struct {
    const char *lines;
    int64_t nodes, group_rank, world;
    const char *want; /* hosts, ranks, peers, own name; NULL: refused */
} worlds[] = {
    {"0=2=a\n", 1, 0, 2, "a 0,1 0,1 a"},
    {"1=3=b\n0=1=a\n", 2, 1, 4, "a,b 0;1,2,3 1,2,3 b"},
    {"0=2=a\n2=1=a\n1=1=b\n", 3, 2, 4, "a_0,b,a_2 0,1;2;3 3 a_2"},
    {"0=2=a\n", 2, 0, 2, NULL},               /* of one only */
    {"0=2=a\n0=2=b\n", 2, 0, 4, NULL},        /* of one twice */
    {"0=2=a\n1=2=b\n2=2=c\n", 2, 0, 4, NULL}, /* of too many */
    {"0=2=a\n1=2=b\n", 2, 0, 5, NULL},        /* not of all ranks */
    {"0=2=a\n1=0=b\n", 2, 0, 2, NULL},
    {"0=2=a\n1=2=b", 2, 0, 4, NULL},
    {"0=2=a\n1=2=\n", 2, 0, 4, NULL},
    {"0=2=a\n1=2=x,y\n", 2, 0, 4, NULL},
    {"0=2=a\n1=2=a_0\n", 2, 0, 4, NULL},
    {"0=2=a\n1=-2=b\n", 2, 0, 4, NULL},
    {"0=2=a\n1=99999999999999999999=b\n", 2, 0, 4, NULL},
    {"0=2\n1=2\n", 2, 0, 4, NULL},
    {"", 2, 0, 4, NULL},
};

TEST_EACH(test_nodes, worlds)
{
    struct pmix_nodes n;
    char got[200];
    bool ok = pmix_nodes_read(&n, worlds[_i].lines, strlen(worlds[_i].lines),
                              worlds[_i].nodes, worlds[_i].group_rank,
                              worlds[_i].world);
    ck_assert(ok == (worlds[_i].want != NULL));
    if (ok) {
        (void)snprintf(got, sizeof(got), "%s %s %s %s", n.hosts, n.ranks,
                       n.peers, n.host);
        ck_assert_str_eq(got, worlds[_i].want);
        for (int64_t i = 0; i < worlds[_i].nodes; i++)
            ck_assert_int_eq(
                pmix_nodes_of(&n, worlds[_i].nodes, n.first_ranks[i]), i);
        ck_assert_int_eq(
            pmix_nodes_of(&n, worlds[_i].nodes, worlds[_i].world - 1),
            worlds[_i].nodes - 1);
    }
    pmix_nodes_free(&n);
    ck_assert_ptr_null(n.hosts);
}

/* Whatever a host is called, the others can read it. */
TEST_LOOP(test_nodes_tell_what_can_be_read, 0, 4)
{
    static const char long_host[] = "012345678901234567890123456789012345678901"
                                    "2345678901234567890123456789";
    static const char *const hosts[] = {"", "a b=c\n,;:[]_", "\xff\xfe",
                                        long_host};
    struct pmix_nodes n;
    char line[PMIX_NODES_LINE_MAX];
    size_t len = pmix_nodes_tell(line, 0, 1, hosts[_i]);
    ck_assert(pmix_nodes_read(&n, line, len, 1, 0, 1));
    ck_assert_str_eq(n.hosts, n.host);
    pmix_nodes_free(&n);
}

SUITE("pmix_frame", "fast")
