/* links: launcher/mpi/{space,kvs,mapping} rendezvous/proto/pmi */
/* links: rendezvous/base/{err,buf} */
/*
 * What a launcher answers to its workers' MPI libraries: each call here is one
 * event, and all that follows is written down as words in `did`: "RANK:ANSWER",
 * "fail:RANK:CODE", "fence:DATA", "name:RANK:COMMAND", "look".
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/mpi/space.h"
#include "tests/lib/suite.h"

static struct space s;
static char did[20000];
static char failed_why[SPACE_WHY_MAX];

/* -- what is wished -------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void write_down(const char *fmt,
                                                             ...)
{
    size_t len = strlen(did);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(did + len, sizeof(did) - len, fmt, ap);
    va_end(ap);
}

/* Without the words that are the same in each. */
static void say(void *ctx, int local_rank, const struct pmi_answer *a)
{
    char line[PMI_LINE_MAX];
    (void)ctx;
    ck_assert(a->len > 5 && a->line[a->len - 1] == '\n');
    memcpy(line, a->line + 4, a->len - 5);
    line[a->len - 5] = '\0';
    char *same = strstr(line, " rc=0 msg=success info=ok");
    if (same != NULL)
        memmove(same, same + 25, strlen(same + 25) + 1);
    write_down("%d:%s; ", local_rank, line);
}

static void on_fail(void *ctx, int local_rank, int code, const char *why)
{
    (void)ctx;
    write_down("fail:%d:%d; ", local_rank, code);
    (void)snprintf(failed_why, sizeof(failed_why), "%s", why);
}

static void warn(void *ctx, int local_rank, const char *why)
{
    (void)ctx;
    write_down("warn:%d:%.15s; ", local_rank, why);
}

static void fence(void *ctx, const void *fresh, size_t len)
{
    (void)ctx;
    write_down("fence:%.*s; ", (int)len, (const char *)fresh);
}

static void name(void *ctx,
                 int local_rank,
                 enum pmi_op op,
                 struct pmi_text key,
                 struct pmi_text value)
{
    (void)ctx;
    write_down("name:%d:%s %.*s=%.*s; ", local_rank, pmi_op_name(op),
               (int)key.len, key.at, (int)value.len, value.at);
}

static void look(void *ctx)
{
    (void)ctx;
    write_down("look; ");
}

static const struct space_handler handler = {.say = say,
                                             .fail = on_fail,
                                             .warn = warn,
                                             .fence = fence,
                                             .name = name,
                                             .look = look};

/* -- what happens ---------------------------------------------------------- */

/* A command line of a worker, without "cmd=". */
static void says(int local_rank, const char *line)
{
    char text[PMI_LINE_MAX];
    struct pmi_decoder d = {0};
    struct pmi_request req;
    struct ddp_err err = {.text = ""};
    size_t used;
    did[0] = '\0';
    int n = snprintf(text, sizeof(text), "%s%s\n",
                     strncmp(line, "mcmd", 4) == 0 ? "" : "cmd=", line);
    ck_assert_msg(pmi_decode(&d, text, (size_t)n, &req, &used, &err) ==
                      PMI_DONE,
                  "%s", err.text);
    space_request(&s, local_rank, &req);
}

static void expect(int local_rank, const char *line, const char *want)
{
    says(local_rank, line);
    ck_assert_msg(strcmp(did, want) == 0, "%d: %s\n got: %s\nwant: %s",
                  local_rank, line, did, want);
}

static struct pmi_text text(const char *t)
{
    return (struct pmi_text){t, strlen(t)};
}

#define INIT "init pmi_version=1 pmi_subversion=1"

static void all_init(void)
{
    for (int i = 0; i < s.nproc; i++)
        expect(i, INIT,
               i == 0   ? "0:response_to_init pmi_version=1 pmi_subversion=1 "
                          "rc=0; "
               : i == 1 ? "1:response_to_init pmi_version=1 pmi_subversion=1 "
                          "rc=0; "
                        : "2:response_to_init pmi_version=1 pmi_subversion=1 "
                          "rc=0; ");
}

/* A round of three workers, on one node or of seven on three. */
static void begin(int64_t nodes)
{
    space_begin(&s, "0123456789abcdef0123456789abcdef", 5, nodes,
                nodes == 1 ? 3 : 7);
    did[0] = '\0';
}

static void setup(void)
{
    ck_assert_int_eq(space_init(&s, 3, &handler, NULL), 0);
    begin(1);
}

static void teardown(void)
{
    space_free(&s);
}

#define KVS "ddprun_0123456789abcdef_5"

/* -- one node -------------------------------------------------------------- */

TEST(test_space_tells_the_place)
{
    all_init();
    expect(1, "get_maxes",
           "1:maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096; ");
    expect(1, "get_appnum", "1:appnum rc=0 appnum=0; ");
    expect(1, "get_universe_size", "1:universe_size rc=0 size=3; ");
    expect(1, "get_my_kvsname", "1:my_kvsname rc=0 kvsname=" KVS "; ");
    expect(1, "get kvsname=" KVS " key=PMI_process_mapping",
           "1:get_result value=(vector,(0,1,3)); ");
    expect(1, "create_kvs",
           "1:newkvs rc=-1 msg=not_supported errmsg=not_supported status=-1; ");
    expect(1, "destroy_kvs kvsname=x",
           "1:kvs_destroyed rc=-1 msg=not_supported info=not_supported; ");
    expect(1, "mcmd=spawn\nnprocs=1\nexecname=x\nendcmd",
           "warn:1:MPI_Comm_spawn ; 1:spawn_result rc=-1 msg=not_supported "
           "errmsg=not_supported status=-1; ");
    expect(2, "mcmd=spawn\nendcmd",
           "2:spawn_result rc=-1 msg=not_supported errmsg=not_supported "
           "status=-1; ");
    expect(1, "finalize", "1:finalize_ack; ");
}

TEST(test_space_keys_are_those_of_the_round)
{
    all_init();
    expect(0, "put kvsname=" KVS " key=a value=1", "0:put_result; ");
    expect(0, "put kvsname=" KVS " key=b value=2", "0:put_result; ");
    expect(0, "put kvsname=" KVS " key=a value=3", "0:put_result; ");
    expect(0, "put kvsname=old key=a value=3",
           "0:put_result rc=-1 msg=unknown_kvsname info=unknown_kvsname; ");
    expect(0, "put kvsname=" KVS " key=a=b value=3",
           "warn:0:a key of PMI is; "
           "0:put_result rc=-1 msg=bad_key info=bad_key; ");
    expect(2, "get kvsname=" KVS " key=a", "2:get_result value=3; ");
    expect(2, "get key=b", "2:get_result value=2; ");
    expect(2, "get key=c",
           "2:get_result rc=-1 msg=no_such_key info=no_such_key "
           "value=unknown; ");
    expect(2, "get kvsname=old key=a",
           "2:get_result rc=-1 msg=unknown_kvsname info=unknown_kvsname "
           "value=unknown; ");
    expect(2, "getbyidx kvsname=" KVS " idx=0",
           "2:getbyidx_results rc=0 nextidx=1 key=a val=3; ");
    expect(2, "getbyidx kvsname=" KVS " idx=1",
           "2:getbyidx_results rc=0 nextidx=2 key=b val=2; ");
    expect(2, "getbyidx kvsname=" KVS " idx=2",
           "2:getbyidx_results rc=-2 reason=no_more_keyvals; ");
    begin(1);
    all_init();
    expect(2, "get key=a",
           "2:get_result rc=-1 msg=no_such_key info=no_such_key "
           "value=unknown; ");
}

/* A put over the bound is refused, and said once; those before it stay, and the
 * next barrier makes room. */
TEST(test_space_over_nodes_new_keys_are_bounded)
{
    static char line[PMI_LINE_MAX], data[PMI_VALUE_MAX];
    int n = 0;
    begin(2);
    all_init();
    memset(data, 'x', PMI_VALUE_MAX - 1);
    do {
        (void)snprintf(line, sizeof(line), "put key=%04d value=%s", n, data);
        says(1, line);
    } while (strcmp(did, "1:put_result; ") == 0 && ++n < 2000);
    ck_assert_int_eq(n, (int)(SPACE_FRESH_MAX / (PMI_VALUE_MAX + 5)));
    ck_assert_str_eq(did, "warn:1:a key or a name; 1:put_result rc=-1 "
                          "msg=no_room_for_more_keys "
                          "info=no_room_for_more_keys; ");
    expect(0, line,
           "0:put_result rc=-1 msg=no_room_for_more_keys "
           "info=no_room_for_more_keys; ");
    says(0, "get key=0000");
    ck_assert(strncmp(did, "0:get_result value=xx", 21) == 0);
    for (int i = 0; i < 3; i++)
        says(i, "barrier_in");
    space_fenced(&s, "", 0);
    expect(0, line, "0:put_result; ");
}

/* Only those that asked are told, and a rank may put a path of its own. */
TEST_LOOP(test_space_topology_is_waited_for, 0, 2)
{
    all_init();
    expect(0, "get key=PMI_hwloc_xmlfile", "look; ");
    expect(2, "get key=PMI_hwloc_xmlfile", "look; ");
    expect(1, "get_appnum", "1:appnum rc=0 appnum=0; ");
    did[0] = '\0';
    space_told_topology(&s, _i == 0 ? "/proc/1/fd/7" : "");
    ck_assert_str_eq(did, _i == 0 ? "0:get_result value=/proc/1/fd/7; "
                                    "2:get_result value=/proc/1/fd/7; "
                                  : "0:get_result rc=-1 msg=no_such_key "
                                    "info=no_such_key value=unknown; "
                                    "2:get_result rc=-1 msg=no_such_key "
                                    "info=no_such_key value=unknown; ");
    expect(2, "put key=PMI_hwloc_xmlfile value=/own", "2:put_result; ");
    expect(0, "get key=PMI_hwloc_xmlfile", "0:get_result value=/own; ");
    begin(1);
    space_told_topology(&s, "/proc/1/fd/7");
    ck_assert_str_eq(did, "");
}

/* While it waits for that, a rank counts as any other. */
TEST_LOOP(test_space_end_or_command_while_looking_is_a_failure, 0, 2)
{
    all_init();
    says(1, "get key=PMI_hwloc_xmlfile");
    if (_i == 0)
        ck_assert_ptr_nonnull(space_ended(&s, 1));
    else
        expect(1, "get_appnum", "fail:1:76; ");
}

TEST(test_space_barrier_waits_for_all)
{
    all_init();
    for (int round = 0; round < 2; round++) {
        expect(1, "barrier_in", "");
        expect(0, "barrier_in", "");
        expect(2, "barrier_in",
               "0:barrier_out; 1:barrier_out; 2:barrier_out; ");
    }
}

TEST(test_space_names)
{
    all_init();
    expect(0, "lookup_name service=s",
           "0:lookup_result rc=-1 msg=no_such_name info=no_such_name "
           "port=unknown; ");
    expect(1, "publish_name service=s port=p$1", "1:publish_result; ");
    expect(0, "lookup_name service=s", "0:lookup_result port=p$1; ");
    expect(0, "unpublish_name service=s", "0:unpublish_result; ");
    expect(0, "unpublish_name service=s",
           "0:unpublish_result rc=-1 msg=no_such_name info=no_such_name; ");
}

/* -- whose fault it is ----------------------------------------------------- */

static const struct {
    int64_t code;
    int status;
} aborts[] = {{3, 3}, {0, 1}, {256, 1}, {-1, 255}, {511, 255}};

TEST_EACH(test_space_abort_fails_with_its_code, aborts)
{
    char line[64], want[64];
    (void)snprintf(line, sizeof(line), "abort exitcode=%lld",
                   (long long)aborts[_i].code);
    (void)snprintf(want, sizeof(want), "fail:2:%d; ", aborts[_i].status);
    if (_i != 0) /* before MPI_Init as well */
        all_init();
    expect(2, line, want);
    (void)snprintf(want, sizeof(want), "MPI_Abort was called with code %lld",
                   (long long)aborts[_i].code);
    ck_assert_str_eq(failed_why, want);
    expect(2, line, ""); /* once */
}

TEST(test_space_end_between_init_and_finalize_is_a_failure)
{
    says(1, INIT);
    says(1, "finalize");
    ck_assert_ptr_null(space_ended(&s, 1));
    ck_assert_ptr_null(space_ended(&s, 2)); /* no MPI program */
    expect(0, INIT,
           "0:response_to_init pmi_version=1 pmi_subversion=1 rc=0; "
           "fail:2:1; ");
    begin(1);
    says(0, INIT);
    ck_assert_ptr_nonnull(space_ended(&s, 0));
}

/* Some libraries wait in shared memory, and say nothing in a barrier. */
TEST_LOOP(test_space_end_without_init_fails_once_others_count_on_it, 0, 3)
{
    if (_i == 2) /* what it said is no matter then */
        space_broke(&s, 2, "nonsense");
    if (_i == 0) {
        says(0, INIT);
        ck_assert_ptr_nonnull(space_ended(&s, 2));
        return;
    }
    ck_assert_ptr_null(space_ended(&s, 2));
    expect(0, INIT,
           "0:response_to_init pmi_version=1 pmi_subversion=1 rc=0; "
           "fail:2:1; ");
    ck_assert_str_eq(failed_why, "it ended with 0 and without MPI_Init, for "
                                 "which other ranks wait");
}

/* What a worker says after MPI_Finalize is nobody else's matter. */
TEST(test_space_nonsense_after_finalize_is_no_failure)
{
    all_init();
    says(1, "finalize");
    space_broke(&s, 1, "nonsense");
    ck_assert_ptr_null(space_ended(&s, 1));
    expect(0, "get_appnum", "0:appnum rc=0 appnum=0; ");
    expect(0, "finalize", "0:finalize_ack; ");
    ck_assert_ptr_null(space_ended(&s, 0));
}

static const char *const turns[][2] = {
    {NULL, "get key=a"},         {NULL, "barrier_in"},      {INIT, INIT},
    {"barrier_in", "get_maxes"}, {"finalize", "get_maxes"},
};

TEST_EACH(test_space_command_out_of_turn_is_lost, turns)
{
    bool new = turns[_i][0] == NULL;
    if (!new &&strcmp(turns[_i][0], INIT) != 0)
        says(1, INIT);
    if (!new)
        says(1, turns[_i][0]);
    bool final = !new &&strcmp(turns[_i][0], "finalize") == 0;
    expect(1, turns[_i][1], new || final ? "" : "fail:1:76; ");
    ck_assert(space_is_lost(&s, 1));
    ck_assert(!space_is_lost(&s, 0));
    expect(1, "abort exitcode=3", ""); /* it is not heard any more */
}

TEST(test_space_lost_before_init_fails_once_others_wait)
{
    space_broke(&s, 1, "nonsense");
    ck_assert_str_eq(did, "");
    says(0, INIT);
    expect(0, "barrier_in", "fail:1:76; ");
}

/* -- several nodes --------------------------------------------------------- */

TEST(test_space_over_nodes_mapping_waits)
{
    static const char lines[] = "2=2\n0=2\n1=3\n";
    begin(3);
    all_init();
    expect(0, "get key=PMI_process_mapping", "");
    did[0] = '\0';
    space_told_nodes(&s, lines, sizeof(lines) - 1);
    ck_assert_str_eq(did,
                     "0:get_result value=(vector,(0,1,2),(1,1,3),(2,1,2)); ");
    expect(1, "get key=PMI_process_mapping",
           "1:get_result value=(vector,(0,1,2),(1,1,3),(2,1,2)); ");
}

TEST(test_space_over_nodes_barrier_carries_keys)
{
    static const char all[] = "a=1\nb==2\nc=\n";
    begin(3);
    all_init();
    says(0, "put key=a value=1");
    says(1, "put key=b value==2");
    says(0, "barrier_in");
    says(1, "barrier_in");
    expect(2, "barrier_in", "fence:a=1\nb==2\n; ");
    did[0] = '\0';
    space_fenced(&s, all, sizeof(all) - 1);
    ck_assert_str_eq(did, "0:barrier_out; 1:barrier_out; 2:barrier_out; ");
    expect(2, "get key=b", "2:get_result value==2; ");
    expect(2, "get key=c", "2:get_result value=; ");
    says(0, "barrier_in");
    says(1, "barrier_in");
    expect(2, "barrier_in", "fence:; "); /* those are not new any more */
}

static const char *const nonsense[] = {
    "a=1", "=1\n", "a\n",
    "0123456789012345678901234567890123456789012345678901234567890123=1\n"};

TEST_EACH(test_space_over_nodes_nonsense_fails_who_waits, nonsense)
{
    begin(3);
    all_init();
    for (int i = 0; i < 3; i++)
        says(i, "barrier_in");
    did[0] = '\0';
    space_fenced(&s, nonsense[_i], strlen(nonsense[_i]));
    ck_assert_str_eq(did, "fail:0:72; ");
}

/* A rank that will never come tells the other nodes so, once, in place of the
 * keys; if nobody waits for it, nobody has failed. */
TEST_LOOP(test_space_over_nodes_refuses_for_who_never_comes, 0, 2)
{
    begin(3);
    for (int i = 0; i < 2; i++)
        if (_i == 0)
            ck_assert_ptr_null(space_ended(&s, i));
        else
            space_broke(&s, i, "nonsense");
    ck_assert_str_eq(did, "fence:\n; ");
    did[0] = '\0';
    space_fenced(&s, "\n\n", 2);
    ck_assert_str_eq(did, "");
    if (_i == 0) {
        expect(2, INIT,
               "2:response_to_init pmi_version=1 pmi_subversion=1 rc=0; "
               "fail:0:1; ");
        return;
    }
    says(2, INIT);
    expect(2, "barrier_in", "fail:0:76; ");
}

/* In any place among the keys of others. */
TEST_LOOP(test_space_over_nodes_refusal_fails_who_waits, 0, 3)
{
    static const char *const refusals[] = {"\n", "a=1\n\n", "\na=1\n"};
    begin(3);
    all_init();
    for (int i = 0; i < 3; i++)
        says(i, "barrier_in");
    did[0] = '\0';
    space_fenced(&s, refusals[_i], strlen(refusals[_i]));
    ck_assert_str_eq(did, "fail:0:72; ");
    ck_assert_str_eq(failed_why,
                     "a rank of another node ended without MPI_Init");
}

TEST(test_space_over_nodes_names)
{
    begin(3);
    all_init();
    expect(0, "publish_name service=s port=p", "name:0:publish_name s=p; ");
    did[0] = '\0';
    space_named(&s, 0, true, text(""));
    ck_assert_str_eq(did, "0:publish_result; ");
    expect(1, "lookup_name service=s", "name:1:lookup_name s=; ");
    did[0] = '\0';
    space_named(&s, 1, true, text("p"));
    ck_assert_str_eq(did, "1:lookup_result port=p; ");
    expect(1, "unpublish_name service=s", "name:1:unpublish_name s=; ");
    did[0] = '\0';
    space_cut_off(&s, "gone");
    ck_assert_str_eq(did, "fail:1:72; ");
}

/* Whoever reaches the store may have set what no worker of ours publishes. */
TEST_LOOP(test_space_name_that_is_no_value_is_none, 0, 3)
{
    static char text[20000];
    memset(text, 'v', sizeof(text) - 1);
    struct pmi_text values[] = {
        {text, sizeof(text) - 1}, {"p\ncmd=x", 7}, {"p\0x", 3}};
    begin(3);
    all_init();
    expect(1, "lookup_name service=s", "name:1:lookup_name s=; ");
    did[0] = '\0';
    space_named(&s, 1, true, values[_i]);
    ck_assert_msg(strncmp(did, "1:lookup_result rc=-1", 21) == 0, "%s", did);
}

/* Who waits for nobody runs on without the other nodes, until it does. */
TEST_LOOP(test_space_cut_off_fails_only_who_waits, 0, 3)
{
    begin(3);
    all_init();
    space_cut_off(&s, "gone");
    says(0, "barrier_in");
    space_cut_off(&s, "gone");
    ck_assert_str_eq(did, "");
    if (_i == 0)
        expect(1, "get key=PMI_process_mapping", "fail:1:72; ");
    if (_i == 1)
        expect(1, "lookup_name service=s",
               "name:1:lookup_name s=; fail:1:72; ");
    if (_i < 2)
        return;
    says(1, "barrier_in");
    expect(2, "barrier_in", "fence:; fail:0:72; ");
}

/* -- its parts ------------------------------------------------------------- */

static const struct {
    const char *lines;
    int64_t nodes, world;
    const char *want; /* NULL: refused */
} maps[] = {
    {"0=4\n", 1, 4, "(vector,(0,1,4))"},
    {"1=2\n0=2\n2=2\n", 3, 6, "(vector,(0,3,2))"},
    {"0=2\n1=1\n2=2\n", 3, 5, "(vector,(0,1,2),(1,1,1),(2,1,2))"},
    {"0=1\n1=1\n", 2, 2, "(vector,(0,2,1))"},
    {"0=1\n1=2\n2=2\n3=1\n", 4, 6, "(vector,(0,1,1),(1,2,2),(3,1,1))"},
    {"0=2\n", 2, 4, NULL},
    {"0=2\n0=2\n", 2, 4, NULL},
    {"0=2\n2=2\n", 2, 4, NULL},
    {"0=2\n1=3\n", 2, 4, NULL},
    {"0=2\n1=0\n", 2, 2, NULL},
    {"0=2\n1=2", 2, 4, NULL},
    {"0=2\n1=-2\n", 2, 4, NULL},
    {"0=99999999999999999999\n1=2\n", 2, 4, NULL},
    {"", 2, 4, NULL},
};

TEST_EACH(test_mapping, maps)
{
    char out[MAPPING_MAX];
    bool ok = mapping_read(maps[_i].lines, strlen(maps[_i].lines),
                           maps[_i].nodes, maps[_i].world, out);
    ck_assert(ok == (maps[_i].want != NULL));
    if (ok)
        ck_assert_str_eq(out, maps[_i].want);
}

/* One that is too long is left out, and what fits is whole. */
TEST(test_mapping_has_its_bound)
{
    char lines[8192] = "", out[MAPPING_MAX];
    size_t len = 0;
    int64_t world = 0;
    bool fitted = true;
    for (int n = 0; n < 200; n++) {
        len += mapping_tell(lines + len, n, 1 + n % 2);
        world += 1 + n % 2;
        ck_assert(mapping_read(lines, len, n + 1, world, out));
        ck_assert(fitted || out[0] == '\0');
        fitted = out[0] != '\0';
        if (fitted)
            ck_assert_str_eq(out + strlen(out) - 2, "))");
    }
    ck_assert(!fitted);
}

TEST(test_kvs_holds_many)
{
    struct kvs k = {.n = 0};
    char key[32], value[32];
    ck_assert_ptr_null(kvs_get(&k, text("0")));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5000; i++) {
            (void)snprintf(key, sizeof(key), "%d", i);
            (void)snprintf(value, sizeof(value), "%d", i + round);
            ck_assert_int_eq(kvs_put(&k, text(key), text(value)), 0);
        }
    ck_assert_uint_eq(k.n, 5000);
    for (int i = 0; i < 5000; i += 2) {
        (void)snprintf(key, sizeof(key), "%d", i);
        ck_assert(kvs_remove(&k, text(key)));
        i += i > 50 ? 500 : 0;
    }
    ck_assert(!kvs_remove(&k, text("0")));
    (void)snprintf(value, sizeof(value), "%d", 4998);
    ck_assert_str_eq(kvs_get(&k, text("4997"))->value, value);
    kvs_free(&k);
}

/* What is full says so, keeps what it has, and can replace it. */
TEST(test_kvs_is_bounded)
{
    static char value[1 << 20];
    struct kvs k = {.bytes = KVS_BYTES_MAX - 8 * sizeof(value)}; /* so far */
    char key[32];
    int rc = 0, n = 0;
    memset(value, 'x', sizeof(value));
    for (; rc == 0 && n < 1000; n++) {
        (void)snprintf(key, sizeof(key), "%d", n);
        rc = kvs_put(&k, text(key), (struct pmi_text){value, sizeof(value)});
    }
    ck_assert_int_eq(n,
                     8); /* the eighth has no room, with what it is kept by */
    ck_assert_int_eq(rc, -1);
    ck_assert_int_eq(kvs_put(&k, text("0"), text("")), 0);
    ck_assert_str_eq(kvs_get(&k, text("0"))->value, "");
    ck_assert_int_eq(kvs_put(&k, text(key), text(key)), 0);
    kvs_free(&k);
    ck_assert_uint_eq(k.bytes, 0);
}

SUITE("mpi_space", "space", .tags = "fast", FIXTURE(setup, teardown))
