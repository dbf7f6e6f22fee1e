/* links: rendezvous/daemon/server_fit */
/* links: rendezvous/base/{err,log,open_files,utf8} */
/*
 * For how many the server has capacity: by what it was told, and by the
 * descriptors that it may have.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "rendezvous/base/open_files.h"
#include "rendezvous/daemon/server_fit.h"
#include "tests/lib/suite.h"

#define PLENTY (1 << 20)

static void setup(void)
{
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* warnings */
}

/* clang-format off */
static const struct {
    int files, nodes_max, conns_max, http_max;
    bool store;
    struct server_capacity capacity; /* connections, nodes, HTTP; 0: too few */
} fits[] = {
    /* All that it is to have, and 64 pending connections. */
    {PLENTY, 16384,    0, 64, 0, {16448, 16384, 64}},
    {PLENTY,     1,    0,  8, 0, {   65,     1,  8}},
    /* Of few descriptors 32 are spared, HTTP has a sixteenth, and a quarter of
     * the connections is for those who are one too many. */
    {   200, 16384,    0, 64, 0, {  158,   119, 12}},
    {   200, 16384,    0,  0, 0, {  168,   126,  0}},
    {   200,   100,    0, 64, 0, {  158,   100, 12}},
    {  1000, 16384,    0, 64, 0, {  908,   844, 62}},
    /* As many as it was told, but never so few that nobody gets in. */
    {PLENTY, 16384,  100,  0, 0, {  100,    75,  0}},
    {PLENTY, 16384,    1,  0, 0, {    8,     6,  0}},
    {   200, 16384, 5000,  0, 0, {  168,   126,  0}},
    /* With a store more connections are pending, and some wait for it. */
    { 10000,   100,    0,  0, 1, { 2212,   100,  0}},
    {   200, 16384,    0,  0, 1, {  126,    95,  0}},
    /* The least. */
    {    40, 16384,    0, 64, 0, {    8,     6,  2}},
    {    39, 16384,    0, 64, 0, {    0,     0,  0}},
    {     3,     1,    1,  0, 0, {    0,     0,  0}},
};
/* clang-format on */
#define FITS_LEN ((int)(sizeof(fits) / sizeof(fits[0])))

TEST_LOOP(test_fit_gives_what_there_is_room_for, 0, FITS_LEN)
{
    struct server_limits limits = {.nodes_max = fits[_i].nodes_max,
                                   .conns_max = fits[_i].conns_max,
                                   .http_max = fits[_i].http_max};
    struct server_capacity capacity = {0};
    struct ddp_err err;
    int rc =
        server_fit(&capacity, &limits, fits[_i].store, fits[_i].files, &err);
    ck_assert_int_eq(rc, fits[_i].capacity.conns_max > 0 ? 0 : -1);
    if (rc != 0)
        ck_assert_ptr_nonnull(strstr(err.text, "needs 40 or more"));
    ck_assert_int_eq(capacity.conns_max, fits[_i].capacity.conns_max);
    ck_assert_int_eq(capacity.nodes_max, fits[_i].capacity.nodes_max);
    ck_assert_int_eq(capacity.http_max, fits[_i].capacity.http_max);
}

/* However many descriptors there are, they suffice for what is promised. */
TEST(test_fit_promises_no_more_descriptors_than_there_are)
{
    for (int files = 0; files < 5000; files++) {
        struct server_limits limits = {.nodes_max = 16384, .http_max = 64};
        struct server_capacity capacity;
        struct ddp_err err;
        if (server_fit(&capacity, &limits, files % 2 != 0, files, &err) != 0)
            continue;
        ck_assert_int_ge(capacity.nodes_max, 1);
        ck_assert_int_gt(capacity.conns_max, capacity.nodes_max);
        ck_assert_int_ge(capacity.http_max, 1);
        ck_assert_int_lt(capacity.conns_max + capacity.http_max, files);
    }
}

CASE("limits", .tags = "fast setrlimit")

TEST(test_fit_raises_the_limit_of_open_files)
{
    struct rlimit lim = {.rlim_cur = 100, .rlim_max = 300};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
    ck_assert_int_eq(open_files_raise(), 300);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &lim), 0);
    ck_assert_int_eq((int)lim.rlim_cur, 300);
    ck_assert_int_eq(open_files_raise(), 300);
}

SUITE("server_fit", "fit", .tags = "fast", FIXTURE(setup, NULL))
