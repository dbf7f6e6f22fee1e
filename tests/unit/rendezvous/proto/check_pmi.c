/* links: rendezvous/proto/pmi rendezvous/base/err */
/*
 * The codec of PMI-1. Commands are written here as MPI libraries write them,
 * answers as they are read there.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/proto/pmi.h"
#include "tests/lib/suite.h"

static struct pmi_request req;
static struct ddp_err err;
static size_t used;

static enum pmi_status decode(struct pmi_decoder *d, const char *text)
{
    return pmi_decode(d, text, strlen(text), &req, &used, &err);
}

static void expect_text(struct pmi_text t, const char *want)
{
    want = want == NULL ? "" : want;
    ck_assert_uint_eq(t.len, strlen(want));
    if (t.len > 0)
        ck_assert_mem_eq(t.at, want, t.len);
}

/* -- commands -------------------------------------------------------------- */

static const struct command {
    const char *line;
    enum pmi_op op;
    const char *kvsname, *key, *value, *service, *port;
    int64_t number;
} commands[] = {
    {.line = "cmd=init pmi_version=1 pmi_subversion=1\n",
     .op = PMI_INIT,
     .number = 1},
    {.line = "cmd=get_maxes\n", .op = PMI_GET_MAXES},
    {.line = "cmd=get_appnum\n", .op = PMI_GET_APPNUM},
    {.line = "cmd=get_universe_size\n", .op = PMI_GET_UNIVERSE_SIZE},
    {.line = "cmd=get_my_kvsname \n", .op = PMI_GET_MY_KVSNAME},
    {.line = "cmd=create_kvs\n", .op = PMI_CREATE_KVS},
    {.line = "cmd=destroy_kvs kvsname=k\n",
     .op = PMI_DESTROY_KVS,
     .kvsname = "k"},
    {.line = "cmd=put kvsname=k key=a value=b=c[x]\n",
     .op = PMI_PUT,
     .kvsname = "k",
     .key = "a",
     .value = "b=c[x]"},
    {.line = "cmd=put  key=a value= kvsname=k later=1\n",
     .op = PMI_PUT,
     .kvsname = "k",
     .key = "a"},
    {.line = "cmd=get kvsname=k key=PMI_process_mapping\n",
     .op = PMI_GET,
     .kvsname = "k",
     .key = "PMI_process_mapping"},
    {.line = "cmd=getbyidx kvsname=k idx=3\n",
     .op = PMI_GETBYIDX,
     .kvsname = "k",
     .number = 3},
    {.line = "cmd=barrier_in\n", .op = PMI_BARRIER_IN},
    {.line = "cmd=publish_name service=s port=tag#0$x\n",
     .op = PMI_PUBLISH_NAME,
     .service = "s",
     .port = "tag#0$x"},
    {.line = "cmd=unpublish_name service=s\n",
     .op = PMI_UNPUBLISH_NAME,
     .service = "s"},
    {.line = "cmd=lookup_name service=s\n",
     .op = PMI_LOOKUP_NAME,
     .service = "s"},
    {.line = "cmd=abort exitcode=-7 error_msg=two words\n",
     .op = PMI_ABORT,
     .number = -7},
    {.line = "cmd=abort\n", .op = PMI_ABORT},
    {.line = "cmd=finalize\n", .op = PMI_FINALIZE},
    {.line = "mcmd=spawn\nnprocs=2\nexecname=x\ntotspawns=1\nspawnssofar=1\n"
             "arg1=a b=c\nargcnt=1\ninfo_num=0\nendcmd\n",
     .op = PMI_SPAWN},
};
#define COMMANDS ((int)(sizeof(commands) / sizeof(commands[0])))

static void expect_command(const struct command *c)
{
    ck_assert_int_eq(req.op, c->op);
    ck_assert_int_eq(req.number, c->number);
    expect_text(req.kvsname, c->kvsname);
    expect_text(req.key, c->key);
    expect_text(req.value, c->value);
    expect_text(req.service, c->service);
    expect_text(req.port, c->port);
}

/* Each command is read, whatever follows it. */
TEST_LOOP(test_pmi_command_is_read, 0, COMMANDS)
{
    const struct command *c = &commands[_i];
    struct pmi_decoder d = {0};
    char two[1024];
    ck_assert_int_eq(decode(&d, c->line), PMI_DONE);
    expect_command(c);
    ck_assert_uint_eq(used, strlen(c->line));
    (void)snprintf(two, sizeof(two), "%scmd=finalize\n", c->line);
    d = (struct pmi_decoder){0};
    ck_assert_int_eq(decode(&d, two), PMI_DONE);
    expect_command(c);
    ck_assert_int_eq(decode(&d, two + used), PMI_DONE);
    ck_assert_int_eq(req.op, PMI_FINALIZE);
}

/* ... also if its bytes come one by one. */
TEST_LOOP(test_pmi_command_may_come_in_pieces, 0, COMMANDS)
{
    const struct command *c = &commands[_i];
    struct pmi_decoder d = {0};
    char have[1024];
    size_t len = 0;
    for (const char *p = c->line; *p != '\0'; p++) {
        have[len++] = *p;
        enum pmi_status status = pmi_decode(&d, have, len, &req, &used, &err);
        ck_assert_int_eq(status, p[1] == '\0' ? PMI_DONE : PMI_MORE);
        if (status == PMI_DONE)
            break;
        memmove(have, have + used, len - used);
        len -= used;
    }
    expect_command(c);
}

/* Several commands of one spawn have one answer. */
TEST(test_pmi_spawn_of_two_is_one_request)
{
    struct pmi_decoder d = {0};
    const char *first = "mcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd\n";
    ck_assert_int_eq(decode(&d, first), PMI_MORE);
    ck_assert_uint_eq(used, strlen(first));
    ck_assert_int_eq(
        decode(&d, "mcmd=spawn\ntotspawns=2\nspawnssofar=2\nendcmd\n"),
        PMI_DONE);
    ck_assert_int_eq(req.op, PMI_SPAWN);
}

/* -- what is none ---------------------------------------------------------- */

static const struct wrong {
    const char *text, *why;
} wrongs[] = {
    {"\n", "no PMI command"},
    {"hello\n", "no PMI command: 'hello'"},
    {"GET / HTTP/1.1\n", "no PMI command"},
    {"key=a cmd=get\n", "no PMI command"},
    {"mcmd=other\n", "no PMI command"},
    {"\x1b[2J\n", "no PMI command: '?[2J'"},
    {"cmd=\n", "does not exist"},
    {"cmd=fetch\n", "does not exist: 'fetch'"},
    {"cmd=spawn\n", "does not exist: 'spawn'"},
    {"cmd=init\n", "lacks a value"},
    {"cmd=init pmi_version=x\n", "no number"},
    {"cmd=init pmi_version=99999999999999999999\n", "no number"},
    {"cmd=init pmi_version=-\n", "no number"},
    {"cmd=put key=a\n", "lacks a value"},
    {"cmd=put value=a\n", "lacks a value"},
    {"cmd=put key= value=a\n", "key has 0 bytes; it may have 1 to 63"},
    {"cmd=get\n", "lacks a value"},
    {"cmd=get key=0123456789012345678901234567890123456789012345678901234567890"
     "123\n",
     "key has 64 bytes; it may have 1 to 63"},
    {"cmd=getbyidx\n", "lacks a value"},
    {"cmd=getbyidx idx=-1\n", "negative index"},
    {"cmd=publish_name service=s\n", "lacks a value"},
    {"cmd=lookup_name service=\n", "service has 0 bytes; it may have 1 to 255"},
    {"mcmd=spawn\ntotspawns=x\n", "no number"},
};

/* Whatever else comes is refused, and said in printable letters. */
TEST_EACH(test_pmi_nonsense_is_bad, wrongs)
{
    struct pmi_decoder d = {0};
    ck_assert_int_eq(decode(&d, wrongs[_i].text), PMI_BAD);
    ck_assert_int_eq(err.code, DDP_E_PROTO);
    ck_assert_msg(strstr(err.text, wrongs[_i].why) != NULL, "%s", err.text);
}

/* A line, a value and a spawn have an end. */
TEST(test_pmi_is_bounded)
{
    static char line[PMI_LINE_MAX + 1];
    struct pmi_decoder d = {0};
    ck_assert_int_eq(pmi_decode(&d, NULL, 0, &req, &used, &err), PMI_MORE);
    memset(line, 'x', PMI_LINE_MAX);
    ck_assert_int_eq(pmi_decode(&d, line, PMI_LINE_MAX - 1, &req, &used, &err),
                     PMI_MORE);
    ck_assert_uint_eq(used, 0);
    ck_assert_int_eq(pmi_decode(&d, line, PMI_LINE_MAX, &req, &used, &err),
                     PMI_BAD);
    const char put[] = "cmd=put key=a value=";
    memcpy(line, put, sizeof(put) - 1);
    for (size_t len = PMI_VALUE_MAX - 1; len <= PMI_VALUE_MAX; len++) {
        line[sizeof(put) - 1 + len] = '\n';
        d = (struct pmi_decoder){0};
        ck_assert_int_eq(
            pmi_decode(&d, line, sizeof(put) + len, &req, &used, &err),
            len < PMI_VALUE_MAX ? PMI_DONE : PMI_BAD);
        line[sizeof(put) - 1 + len] = 'x';
    }
    d = (struct pmi_decoder){0};
    enum pmi_status status = decode(&d, "mcmd=spawn\n");
    for (int i = 1; i < PMI_LINES_MAX; i++) {
        ck_assert_int_eq(status, PMI_MORE);
        status = decode(&d, "arg1=x\n");
    }
    ck_assert_int_eq(status, PMI_MORE);
    ck_assert_int_eq(decode(&d, "arg1=x\n"), PMI_BAD);
    d = (struct pmi_decoder){0};
    ck_assert_int_eq(pmi_decode(&d, "cmd=get\0key=a\n", 14, &req, &used, &err),
                     PMI_BAD);
}

/* -- answers --------------------------------------------------------------- */

static struct pmi_text text(const char *s)
{
    return (struct pmi_text){s, strlen(s)};
}

static void expect(const struct pmi_answer *a, const char *want)
{
    ck_assert_str_eq(a->line, want);
    ck_assert_uint_eq(a->len, strlen(want));
}

TEST(test_pmi_answers)
{
    struct pmi_answer a;
    pmi_answer_init(&a, 1);
    expect(&a, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    pmi_answer_init(&a, 2);
    expect(&a, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    pmi_answer_maxes(&a);
    expect(&a,
           "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096\n");
    pmi_answer_number(&a, PMI_GET_APPNUM, 0);
    expect(&a, "cmd=appnum rc=0 appnum=0\n");
    pmi_answer_number(&a, PMI_GET_UNIVERSE_SIZE, 12);
    expect(&a, "cmd=universe_size rc=0 size=12\n");
    pmi_answer_kvsname(&a, "k");
    expect(&a, "cmd=my_kvsname rc=0 kvsname=k\n");
    pmi_answer_done(&a, PMI_PUT, NULL);
    expect(&a, "cmd=put_result rc=0 msg=success info=ok\n");
    pmi_answer_done(&a, PMI_BARRIER_IN, NULL);
    expect(&a, "cmd=barrier_out rc=0 msg=success info=ok\n");
    pmi_answer_done(&a, PMI_UNPUBLISH_NAME, "no");
    expect(&a, "cmd=unpublish_result rc=-1 msg=no info=no\n");
    pmi_answer_text(&a, PMI_GET, text("v=1"), NULL);
    expect(&a, "cmd=get_result rc=0 msg=success info=ok value=v=1\n");
    pmi_answer_text(&a, PMI_GET, text(""), "no");
    expect(&a, "cmd=get_result rc=-1 msg=no info=no value=unknown\n");
    pmi_answer_text(&a, PMI_LOOKUP_NAME, text("p"), NULL);
    expect(&a, "cmd=lookup_result rc=0 msg=success info=ok port=p\n");
    pmi_answer_pair(&a, 4, "k", text("v"));
    expect(&a, "cmd=getbyidx_results rc=0 nextidx=5 key=k val=v\n");
    pmi_answer_pair(&a, 4, NULL, text(""));
    expect(&a, "cmd=getbyidx_results rc=-2 reason=no_more_keyvals\n");
    pmi_answer_refuse(&a, PMI_SPAWN);
    expect(&a, "cmd=spawn_result rc=-1 msg=not_supported errmsg=not_supported "
               "status=-1\n");
}

SUITE("pmi", "codec", .tags = "fast")
