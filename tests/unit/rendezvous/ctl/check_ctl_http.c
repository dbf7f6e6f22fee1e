/* links: rendezvous/ctl/{http,line} TLS */
/* links: rendezvous/base/{dial,opts,err,buf,mono,log,utf8} */
/* links: rendezvous/net/addr */
/* libs: -ldl */
/* ddpctl's reading of an answer: whole, plain ones are taken, all else is an
 * error that says what is wrong; at every length that it may have been cut. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/ctl/http.h"
#include "tests/lib/suite.h"

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
    const char *all;
    int status; /* -1: an error */
    const char *what;
} cases[] = {
    {OK "Content-Length: 2\r\n\r\nok", 200, "ok"},
    {OK "content-length:2  \r\nX: y\r\n\r\nok, and more", 200, "ok"},
    {OK "\r\nup to the end", 200, "up to the end"},
    {"HTTP/1.0 403 Forbidden\r\n\r\n", 403, ""},
    {"HTTP/1.1 503\r\n\r\n", 503, ""},
    {OK "Content-Length: 3\r\n\r\nok", -1, "cut off"},
    {OK "Content-Length: -1\r\n\r\nok", -1, "length"},
    {OK "Content-Length: 99999999999999999999\r\n\r\nok", -1, "length"},
    {OK "Content-Length: 67108865\r\n\r\nok", -1, "length"},
    {OK "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", -1,
     "encoding"},
    {OK "X: y\r\n", -1, "cut off"},
    {"HTTP/2 200 OK\r\n\r\n", -1, "not from a ddprun rendezvous"},
    {"HTTP/1.1 2x0 OK\r\n\r\n", -1, "not from a ddprun rendezvous"},
    {"HTTP/1.1 2000 K\r\n\r\n", -1, "not from a ddprun rendezvous"},
    {"SSH-2.0-OpenSSH_9.2\r\n\r\n", -1, "not from a ddprun rendezvous"},
    {"", -1, "not from a ddprun rendezvous"},
};
#define CASES (int)(sizeof(cases) / sizeof(cases[0]))

TEST_LOOP(test_http_answers, 0, CASES)
{
    struct ddp_err err;
    const char *body;
    size_t len;
    int status;
    size_t all_len = strlen(cases[_i].all);
    int rc = ctl_http_parse(cases[_i].all, all_len, &status, &body, &len, &err);
    ck_assert_int_eq(rc, cases[_i].status < 0 ? -1 : 0);
    if (rc != 0) {
        ck_assert_int_eq(err.code, DDP_E_PROTO);
        ck_assert_ptr_nonnull(strstr(err.text, cases[_i].what));
        return;
    }
    ck_assert_int_eq(status, cases[_i].status);
    ck_assert_uint_eq(len, strlen(cases[_i].what));
    ck_assert(memcmp(body, cases[_i].what, len) == 0);
}

/* Cut anywhere, in memory that ends there. */
TEST_LOOP(test_http_answers_that_are_cut, 0, CASES)
{
    size_t all_len = strlen(cases[_i].all);
    for (size_t cut = 0; cut < all_len; cut++) {
        struct ddp_err err;
        const char *body;
        size_t len;
        int status;
        char *copy = malloc(cut + (cut == 0));
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, cases[_i].all, cut);
        if (ctl_http_parse(copy, cut, &status, &body, &len, &err) == 0)
            ck_assert(body >= copy && body + len <= copy + cut);
        free(copy);
    }
}

TEST(test_http_escape)
{
    char out[32];
    ctl_http_escape("job-1.a_~", out, sizeof(out));
    ck_assert_str_eq(out, "job-1.a_~");
    ctl_http_escape("a b&c=\xc3\xa9/", out, sizeof(out));
    ck_assert_str_eq(out, "a%20b%26c%3D%C3%A9%2F");
    ctl_http_escape("%%%%%%%%%%%%%%%%%%%%", out, sizeof(out));
    ck_assert_uint_lt(strlen(out), sizeof(out));
}

SUITE("ctl_http", "fast")
