/* links: rendezvous/http/http rendezvous/base/err */
/* The reader of HTTP requests: what is one, what is none and which answer that
 * gets, whatever pieces the bytes come in. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/http/http.h"
#include "tests/lib/suite.h"

#define HOST "Host: h\r\n\r\n"

static char huge[HTTP_HEAD_MAX + 100]; /* a header that never ends */
static char near[HTTP_HEAD_MAX + 1];   /* one that just fits */
static char longest[HTTP_TARGET_MAX + 64], longer[HTTP_TARGET_MAX + 64];

/* `path` NULL: the request is bad, with that status; "": it is not whole. */
static const struct {
    const char *bytes;
    int status;
    const char *path;
} cases[] = {
    {"GET / HTTP/1.1\r\n" HOST, 0, "/"},
    {"GET /status?run=a HTTP/1.1\r\nX:\r\n" HOST, 0, "/status"},
    {"GET / HTTP/1.1\nhOsT:h\n\n", 0, "/"},
    {"GET / HTTP/1.0\r\n\r\n", 0, "/"},
    {"GET / HTTP/1.9\r\n" HOST, 0, "/"},
    {"HEAD /x HTTP/1.1\r\n" HOST, 0, "/x"},
    {"GET http://h:1/y?z HTTP/1.1\r\n" HOST, 0, "/y"},
    {"GET / HTTP/1.1\r\nA: \t\x80\xff\r\n" HOST, 0, "/"},
    {"GET / HTTP/1.1\r\n" HOST "GET /next HTTP/1.1\r\n", 0, "/"},
    {longest, 0, longest + 4},
    {near, 0, "/"},
    {"GET / HTTP/1.1\r\nHost: h\r\n", 0, ""},
    {"GET / HTTP/1.1", 0, ""},
    {"G", 0, ""},
    {"GET / HTTP/1.1\r\n\r\n", 400, NULL}, /* no Host */
    {"GET / HTTP/1.1\r\nHost: a\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.0\r\nHost: a\r\n" HOST, 400, NULL},
    {"GET /\r\n\r\n", 400, NULL}, /* HTTP/0.9 */
    {"GET  / HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET /\x01 HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET /\x80 HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET * HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET http:///x HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET http://h HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET x HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.1 \r\n" HOST, 400, NULL},
    {"GET / http/1.1\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.1\r" HOST, 400, NULL}, /* a CR alone */
    {"GET / HTTP/1.1\r\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.1\r\n a: b\r\n" HOST, 400, NULL}, /* folded */
    {"GET / HTTP/1.1\r\na: b\r\n c\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.1\r\na : b\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.1\r\n: b\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.1\r\nab\r\n" HOST, 400, NULL},
    {"GET / HTTP/1.1\r\na: \x1b[0m\r\n" HOST, 400, NULL},
    {"G\x01T / HTTP/1.1\r\n" HOST, 400, NULL},
    {"GET / HTTP/2.0\r\n" HOST, 505, NULL},
    {"PRI * HTTP/2.0\r\n\r\n", 505, NULL},
    {"POST / HTTP/1.1\r\n" HOST, 405, NULL},
    {"GETS / HTTP/1.1\r\n" HOST, 405, NULL},
    {"get / HTTP/1.1\r\n" HOST, 405, NULL},
    {"CONNECT h:80 HTTP/1.1\r\n" HOST, 405, NULL},
    {"OPTIONS * HTTP/1.1\r\n" HOST, 405, NULL},
    {"AVERYVERYLONGMETHODINDEED / HTTP/1.1\r\n" HOST, 405, NULL},
    {longer, 414, NULL},
    {huge, 431, NULL},
};

static void setup(void)
{
    (void)snprintf(huge, sizeof(huge), "GET / HTTP/1.1\r\nA: ");
    memset(huge + strlen(huge), 'a', sizeof(huge) - strlen(huge) - 1);
    memcpy(near, huge, HTTP_HEAD_MAX);
    memcpy(near + HTTP_HEAD_MAX - 13, "\r\n" HOST, 13);
    (void)snprintf(longest, sizeof(longest), "GET /%0*d HTTP/1.0\r\n\r\n",
                   (int)HTTP_TARGET_MAX - 1, 0);
    (void)snprintf(longer, sizeof(longer), "GET /%0*d HTTP/1.0\r\n\r\n",
                   (int)HTTP_TARGET_MAX, 0);
}

/* Fed in pieces of `step` bytes; true once it has decided. */
static bool feed(struct http *h, const char *bytes, size_t step)
{
    size_t len = strlen(bytes);
    http_init(h);
    for (size_t at = 0; at < len; at += step)
        if (http_feed(h, bytes + at, len - at < step ? len - at : step))
            return true;
    return false;
}

TEST_EACH(test_http_request_however_it_comes, cases)
{
    static const size_t steps[] = {1, 2, 7, 100, 100000};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct http h;
        const char *want = cases[_i].path;
        bool done = feed(&h, cases[_i].bytes, steps[i]);
        ck_assert_int_eq(done, want == NULL || want[0] != '\0');
        if (!done)
            continue;
        ck_assert_int_eq(h.status, cases[_i].status);
        if (want == NULL)
            continue;
        ck_assert(strncmp(h.path, want, strlen(h.path)) == 0);
        ck_assert_uint_gt(strlen(h.path), 0);
        ck_assert_int_eq(h.is_head, cases[_i].bytes[0] == 'H');
    }
}

/* The fields that are asked for are kept, the first of each, cut. */
TEST(test_http_keeps_the_fields_that_are_wanted)
{
    static const struct {
        const char *bytes, *accept, *key;
    } rows[] = {
        {"Accept: text/html, */*\r\n", "text/html, */*", ""},
        {"aCCEPT:\ta \r\nX-Key: 12 \r\nX-Key: 3\r\n", "a", "12"},
        {"Accept2: x\r\nAccep: y\r\n", "", ""},
        {"Accept: \r\nX-Key:1\r\n", "", "1"},
    };
    char bytes[2000];
    struct http h;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_field fields[] = {{.name = "Accept"}, {.name = "X-Key"}};
        (void)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\n%s" HOST,
                       rows[i].bytes);
        http_init(&h);
        h.fields = fields;
        h.n_fields = 2;
        ck_assert(http_feed(&h, bytes, strlen(bytes)));
        ck_assert_int_eq(h.status, 0);
        ck_assert_str_eq(h.host, "h");
        ck_assert_str_eq(fields[0].value, rows[i].accept);
        ck_assert_str_eq(fields[1].value, rows[i].key);
    }
    struct http_field long_one = {.name = "Accept"};
    (void)snprintf(bytes, sizeof(bytes),
                   "GET / HTTP/1.1\r\nAccept: %01000d\r\n" HOST, 0);
    http_init(&h);
    h.fields = &long_one;
    h.n_fields = 1;
    ck_assert(http_feed(&h, bytes, strlen(bytes)));
    ck_assert_uint_eq(strlen(long_one.value), HTTP_FIELD_MAX);
}

/* POST is for those who want it. */
TEST(test_http_post_is_taken_where_it_is_wanted)
{
    static const char post[] = "POST /x HTTP/1.1\r\n" HOST;
    static const char put[] = "PUT /x HTTP/1.1\r\n" HOST;
    struct http h;
    http_init(&h);
    h.takes_post = true;
    ck_assert(http_feed(&h, post, strlen(post)));
    ck_assert_int_eq(h.status, 0);
    ck_assert(h.is_post && !h.is_head);
    http_init(&h);
    h.takes_post = true;
    ck_assert(http_feed(&h, put, strlen(put)));
    ck_assert_int_eq(h.status, 405);
}

/* Only what is no request yet may go on: bytes are counted to the limit. */
TEST(test_http_head_that_never_ends_is_cut)
{
    struct http h;
    unsigned fed = 0;
    http_init(&h);
    ck_assert(!http_feed(&h, "GET / HTTP/1.1\n", 15));
    while (!http_feed(&h, "a:b\n", 4))
        fed++;
    ck_assert_int_eq(h.status, 431);
    ck_assert_uint_le(15 + 4 * fed, HTTP_HEAD_MAX);
    ck_assert_uint_gt(15 + 4 * (fed + 1), HTTP_HEAD_MAX - 4);
}

static const struct {
    const char *query, *value;
    int rc;
} queries[] = {
    {"run=a", "a", 1},
    {"run=", "", 1},
    {"x=1&run=a%20b+c%2B", "a b c+", 1},
    {"run=1&run=2", "1", 1},
    {"run=%e2%82%AC", "\xe2\x82\xac", 1},
    {"", NULL, 0},
    {"runs=1&xrun=2&run&ru=", NULL, 0},
    {"run=%", NULL, -1},
    {"run=%4", NULL, -1},
    {"run=%4&x", NULL, -1},
    {"run=%g0", NULL, -1},
    {"run=a%00b", NULL, -1},
    {"run=12345678", NULL, -1}, /* room for seven */
};

TEST_EACH(test_http_query_value, queries)
{
    struct http h;
    char bytes[200], value[8];
    (void)snprintf(bytes, sizeof(bytes), "GET /s?%s HTTP/1.0\r\n\r\n",
                   queries[_i].query);
    ck_assert(feed(&h, bytes, 1000));
    ck_assert_int_eq(h.status, 0);
    ck_assert_int_eq(http_query(&h, "run", value, sizeof(value)),
                     queries[_i].rc);
    if (queries[_i].rc > 0)
        ck_assert_str_eq(value, queries[_i].value);
}

TEST(test_http_query_that_is_not_there)
{
    struct http h;
    char value[8];
    ck_assert(feed(&h, "GET /s HTTP/1.0\r\n\r\n", 1));
    ck_assert_int_eq(http_query(&h, "run", value, sizeof(value)), 0);
}

/* Of the header without the blanks around it, or of the target, which goes
 * first. */
static const struct {
    const char *bytes, *host;
} hosts[] = {
    {"GET / HTTP/1.1\r\nHost: a.example:1\r\n\r\n", "a.example:1"},
    {"GET / HTTP/1.1\r\nHost:b\r\n\r\n", "b"},
    {"GET / HTTP/1.1\r\nX: y\r\nhost: \t c \t\r\nHosts: z\r\n\r\n", "c"},
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", ""},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "a b"},
    {"GET / HTTP/1.0\r\n\r\n", ""},
    {"GET http://t:2/x HTTP/1.1\r\nHost: h\r\n\r\n", "t:2"},
};

TEST_EACH(test_http_host_of_a_request, hosts)
{
    struct http h;
    ck_assert(feed(&h, hosts[_i].bytes, 1));
    ck_assert_int_eq(h.status, 0);
    ck_assert_str_eq(h.host, hosts[_i].host);
}

TEST_LOOP(test_http_host_that_is_too_long, 0, 2)
{
    for (size_t more = 0; more < 2; more++) {
        char name[HTTP_HOST_MAX + 2] = "";
        char bytes[2 * sizeof(name) + 64];
        struct http h;
        memset(name, 'h', HTTP_HOST_MAX + more);
        (void)snprintf(bytes, sizeof(bytes),
                       "GET %s%s/ HTTP/1.0\r\n%s%s\r\n\r\n",
                       _i == 1 ? "http://" : "", _i == 1 ? name : "",
                       _i == 0 ? "Host: " : "X: ", _i == 0 ? name : "");
        ck_assert(feed(&h, bytes, 7));
        ck_assert_int_eq(h.status, more == 0 ? 0 : 400);
        if (more == 0)
            ck_assert_str_eq(h.host, name);
    }
}

/* An answer's head ends where its body begins, and says how long that is. */
TEST(test_http_head_of_an_answer)
{
    static const int all[] = {200, 400, 403, 404, 405, 408, 414, 431, 503, 505};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char line[HTTP_LINE_MAX], first[80];
        size_t len = http_head(line, all[i], "text/plain", 123456789, "");
        ck_assert_uint_eq(len, strlen(line));
        ck_assert_str_eq(line + len - 4, "\r\n\r\n");
        (void)snprintf(first, sizeof(first), "HTTP/1.1 %d %s\r\n", all[i],
                       http_reason(all[i]));
        ck_assert(strncmp(line, first, strlen(first)) == 0);
        ck_assert_ptr_nonnull(
            strstr(line, "\r\nContent-Length: 123456789\r\n"));
        ck_assert_ptr_nonnull(strstr(line, "\r\nConnection: close\r\n"));
        ck_assert_int_eq(strstr(line, "Allow: ") != NULL, all[i] == 405);
    }
}

static const struct {
    const char *accept;
    int weight; /* of text/plain */
} weights[] = {
    {"", 0},
    {"*/*", 0},
    {"text/*", 0},
    {"text/plainer", 0},
    {"x-text/plain", 0},
    {"text/plain", 1000},
    {"TEXT/Plain ; charset=utf-8", 1000},
    {"a/b;q=1, text/plain;version=0.0.4;q=0.3,*/*;q=0.2", 300},
    {"text/plain;q=0.25;x=y", 250},
    {"text/plain; q=0.1239", 123},
    {"text/plain;q=0", 0},
    {"text/plain;q=1.000", 1000},
    {"text/plain;q=1.9", 1000},
    {"text/plain;q=", 0},
    {"text/plain;q=0.", 0},
    {"text/plain;q=0.1,text/plain;q=0.4,,", 400},
    {"text/plain;;q=0.4", 400},
};

/* A type has the weight that the field gives it by its name. */
TEST_EACH(test_http_weight_of_a_type, weights)
{
    ck_assert_int_eq(http_weight(weights[_i].accept, "text/plain"),
                     weights[_i].weight);
}

SUITE("http", "fast", FIXTURE(setup, NULL))
