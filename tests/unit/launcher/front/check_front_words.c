/* links: launcher/front/{orders,marks} */
/* links: rendezvous/base/{opts,opts_help,buf,opts_complete,err,mono,log} */
/* links: rendezvous/base/utf8 */
/*
 * What a front end and its proxies say to each other: what one half writes the
 * other reads, and what neither writes is refused.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/front/marks.h"
#include "launcher/front/orders.h"
#include "tests/lib/suite.h"

#define MARK "0123456789abcdef0123456789abcdef"

/* -- orders ---------------------------------------------------------------- */

/* Reads what was written; the caller frees `data`. */
static int
read_back(struct buf *b, struct orders_start *s, char **data, char **words)
{
    char line[ORDERS_LINE_MAX];
    const char *head = (const char *)buf_head(b);
    const char *newline = memchr(head, '\n', buf_len(b));
    ck_assert_ptr_nonnull(newline);
    size_t len = (size_t)(newline - head);
    ck_assert_uint_lt(len, sizeof(line));
    memcpy(line, head, len);
    line[len] = '\0';
    if (orders_read_line(s, line, NULL) < 0)
        return -1;
    ck_assert_uint_eq(buf_len(b), len + 1 + s->bytes);
    *data = malloc(s->bytes);
    ck_assert_ptr_nonnull(*data);
    memcpy(*data, newline + 1, s->bytes);
    return orders_read_words(s, *data, words, NULL);
}

TEST(test_orders_start_is_read_as_it_was_written)
{
    char a0[] = "ddprun", a1[] = "--tee=3", a2[] = "", a3[] = "a b\n'c'";
    char v0[] = "PET_ROLE=x", v1[] = "EMPTY=";
    char *args[] = {a0, a1, a2, a3, NULL}, *vars[] = {v0, v1, NULL};
    struct orders_start in = {.mark = MARK,
                              .beat_ms = 20000,
                              .grace_ms = 35000,
                              .how = ORDERS_STEP,
                              .folder = "/tmp/a folder",
                              .args = args,
                              .vars = vars};
    struct orders_start out;
    struct buf b;
    char *data, *words[8];
    buf_init(&b, ORDERS_BYTES_MAX);
    ck_assert_int_eq(orders_put_start(&b, &in, NULL), 0);
    ck_assert_int_eq(read_back(&b, &out, &data, words), 0);
    ck_assert_str_eq(out.mark, MARK);
    ck_assert_int_eq(out.beat_ms, 20000);
    ck_assert_int_eq(out.grace_ms, 35000);
    ck_assert_int_eq(out.how, ORDERS_STEP);
    ck_assert_str_eq(out.folder, "/tmp/a folder");
    ck_assert_int_eq(out.n_args, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(out.args[i], args[i]);
    ck_assert_ptr_null(out.args[4]);
    ck_assert_int_eq(out.n_vars, 2);
    ck_assert_str_eq(out.vars[0], v0);
    ck_assert_str_eq(out.vars[1], v1);
    ck_assert_ptr_null(out.vars[2]);
    free(data);
    buf_free(&b);
}

TEST(test_orders_too_many_words_are_refused)
{
    char word[] = "x";
    char *none[] = {NULL};
    char **many = calloc(ORDERS_WORDS_MAX + 2, sizeof(*many));
    struct buf b;
    struct ddp_err err;
    ck_assert_ptr_nonnull(many);
    for (int i = 0; i <= ORDERS_WORDS_MAX; i++)
        many[i] = word;
    struct orders_start s = {
        .mark = MARK, .folder = "", .args = many, .vars = none};
    buf_init(&b, ORDERS_BYTES_MAX);
    ck_assert_int_eq(orders_put_start(&b, &s, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_uint_eq(buf_len(&b), 0);
    many[ORDERS_WORDS_MAX] = NULL;
    ck_assert_int_eq(orders_put_start(&b, &s, &err), 0);
    free(many);
    buf_free(&b);
}

/* First lines that no front end of this version writes. */
static const char *const wrong_lines[] = {
    "",
    "ddprun-front",
    "ddprun-front 1",
    "ddprun-front 2 " MARK " 0 0 0 1 0 3",
    "ddprun-fronts 1 " MARK " 0 0 0 1 0 3",
    "ddprun-front 1 " MARK " 0 0 0 1 0",
    "ddprun-front 1 " MARK " 0 0 0 1 0 3 4",
    "ddprun-front 1 " MARK " 0 0 0 1 0 ",
    "ddprun-front 1 " MARK " 0 0 2 1 0 3",
    "ddprun-front 1 " MARK " -1 0 0 1 0 3",
    "ddprun-front 1 " MARK " 86400001 0 0 1 0 3",
    "ddprun-front 1 " MARK " 0 0 0 0 0 3",
    "ddprun-front 1 " MARK " 0 0 0 100000 1 100003",
    "ddprun-front 1 " MARK " 0 0 0 100001 0 100003",
    "ddprun-front 1 " MARK " 0 0 0 1 0 1",
    "ddprun-front 1 " MARK " 0 0 0 1 0 8388609",
    "ddprun-front 1 " MARK "0 0 0 0 1 0 3",
    "ddprun-front 1 0123 0 0 0 1 0 3",
    "ddprun-front 1 X123456789abcdef0123456789abcdef 0 0 0 1 0 3",
    "SSH-2.0-OpenSSH_9.2",
};

TEST_EACH(test_orders_other_first_lines_are_refused, wrong_lines)
{
    char line[ORDERS_LINE_MAX + 40];
    struct orders_start s;
    struct ddp_err err = {.text = ""};
    (void)snprintf(line, sizeof(line), "%s", wrong_lines[_i]);
    ck_assert_msg(orders_read_line(&s, line, &err) == -1, "%s",
                  wrong_lines[_i]);
    ck_assert_int_eq(err.code, DDP_E_PROTO);
}

/* The folder, one argument and one variable, in so many bytes. */
static const struct {
    const char *text;
    size_t bytes;
    bool good;
} bodies[] = {
    {"f\0a\0V=1\0", 8, true},      {"\0a\0V=\0", 6, true},
    {"f\0a\0V=1\0x\0", 10, false}, /* one more */
    {"f\0a\0", 4, false},          /* one fewer */
    {"f\0a\0V=1", 7, false},       /* no NUL at the end */
    {"f\0a\0V\0", 6, false},       /* no variable */
    {"f\0a\0\0", 5, false},
};

TEST_EACH(test_orders_words_must_be_as_many_as_were_said, bodies)
{
    char line[ORDERS_LINE_MAX], data[16], *words[4];
    struct orders_start s;
    struct ddp_err err = {.text = ""};
    (void)snprintf(line, sizeof(line), "ddprun-front 1 %s 0 0 0 1 1 %zu", MARK,
                   bodies[_i].bytes);
    ck_assert_int_eq(orders_read_line(&s, line, &err), 0);
    memcpy(data, bodies[_i].text, bodies[_i].bytes);
    ck_assert_int_eq(orders_read_words(&s, data, words, &err),
                     bodies[_i].good ? 0 : -1);
    if (!bodies[_i].good)
        ck_assert_int_eq(err.code, DDP_E_PROTO);
}

TEST(test_orders_are_beats_and_signals)
{
    static const char *const wrong[] = {"",          "beats",       "signal",
                                        "signal ",   "signal 0",    "signal 65",
                                        "signal -1", "signal TERM", "BEAT"};
    struct buf b;
    int signo = 0;
    buf_init(&b, 16);
    ck_assert(orders_put(&b, ORDER_BEAT, 0));
    ck_assert(orders_put(&b, ORDER_SIGNAL, 15));
    ck_assert(!orders_put(&b, ORDER_ASK, 0)); /* it is full */
    ck_assert_uint_eq(buf_len(&b), 15);
    ck_assert_int_eq(memcmp(buf_head(&b), "beat\nsignal 15\n", 15), 0);
    ck_assert_int_eq(orders_read("beat", &signo), ORDER_BEAT);
    ck_assert_int_eq(orders_read("ask", &signo), ORDER_ASK);
    ck_assert_int_eq(orders_read("signal 15", &signo), ORDER_SIGNAL);
    ck_assert_int_eq(signo, 15);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_int_eq(orders_read(wrong[i], &signo), ORDER_WRONG);
    buf_free(&b);
}

/* -- marks ----------------------------------------------------------------- */

#define HELLO "\001" MARK " hello n1\n"
#define ENDED "\001" MARK " end 143 n1\n"

static const struct {
    const char *text;
    bool end;
    enum mark_kind kind;
    size_t plain, used;
} outputs[] = {
    {"", false, MARK_NONE, 0, 0},
    {"text\n", false, MARK_NONE, 5, 0},
    {HELLO, false, MARK_HELLO, 0, sizeof(HELLO) - 1},
    {"\001" MARK " here n1\n", false, MARK_HERE, 0, 42},
    {"abc" HELLO "def", false, MARK_HELLO, 3, sizeof(HELLO) - 1},
    {"abc\n" ENDED, true, MARK_END, 4, sizeof(ENDED) - 1},
    /* the beginning of one: the rest may come */
    {"abc\001", false, MARK_NONE, 3, 0},
    {"abc\001", true, MARK_NONE, 4, 0},
    {"abc\0010123456789", false, MARK_NONE, 3, 0},
    {"abc\001" MARK " hello n", false, MARK_NONE, 3, 0},
    {"abc\001" MARK " hello n", true, MARK_NONE, 3 + 34 + 7, 0},
    /* output that only looks like one */
    {"a\001b\n", false, MARK_NONE, 4, 0},
    {"\0010123456789abcdef0123456789abcdee hello n1\n", false, MARK_NONE, 43,
     0},
    {"\001\001" HELLO, false, MARK_HELLO, 2, sizeof(HELLO) - 1},
    {"\001" MARK "hello n1\n", false, MARK_NONE, 42, 0},
    /* of another version */
    {"\001" MARK " what n1\n", false, MARK_ODD, 0, 42},
    {"\001" MARK " end 256 n1\n", false, MARK_ODD, 0, 45},
    {"\001" MARK " end 1\n", false, MARK_ODD, 0, 40},
    {"\001" MARK " hello\n", false, MARK_ODD, 0, 40},
};

CASE("marks")

TEST_EACH(test_marks_are_found_in_output, outputs)
{
    struct mark m;
    const char *text = outputs[_i].text;
    marks_find(text, strlen(text), MARK, outputs[_i].end, &m);
    ck_assert_int_eq(m.kind, outputs[_i].kind);
    ck_assert_uint_eq(m.plain, outputs[_i].plain);
    ck_assert_uint_eq(m.used, outputs[_i].used);
    if (m.kind == MARK_HELLO || m.kind == MARK_END)
        ck_assert_str_eq(m.host, "n1");
    if (m.kind == MARK_END)
        ck_assert_int_eq(m.status, 143);
}

/* Cut anywhere, nothing of it is taken for output. */
TEST(test_marks_cut_anywhere_are_waited_for)
{
    struct mark m;
    static const char text[] = "abc" ENDED;
    for (size_t len = 4; len < sizeof(text) - 1; len++) {
        marks_find(text, len, MARK, false, &m);
        ck_assert_int_eq(m.kind, MARK_NONE);
        ck_assert_uint_eq(m.plain, 3);
    }
}

/* One that never ends is output as soon as it is too long. */
TEST(test_marks_too_long_are_output)
{
    struct mark m;
    char text[MARKS_MAX + 10];
    memset(text, 'x', sizeof(text));
    memcpy(text, "\001" MARK " hello ", 41);
    marks_find(text, MARKS_MAX - 1, MARK, false, &m);
    ck_assert_uint_eq(m.plain, 0);
    marks_find(text, sizeof(text), MARK, false, &m);
    ck_assert_uint_eq(m.plain, sizeof(text));
}

TEST(test_marks_are_read_as_they_were_written)
{
    char out[MARKS_MAX], host[300];
    struct mark m;
    size_t len = marks_write(out, MARK, MARK_END, 3, "odd \tname");
    marks_find(out, len, MARK, false, &m);
    ck_assert_int_eq(m.kind, MARK_END);
    ck_assert_int_eq(m.status, 3);
    ck_assert_str_eq(m.host, "odd??name");
    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    len = marks_write(out, MARK, MARK_HELLO, 0, host);
    marks_find(out, len, MARK, false, &m);
    ck_assert_int_eq(m.kind, MARK_HELLO);
    ck_assert_uint_eq(m.used, len);
}

SUITE("front_words", "orders")
