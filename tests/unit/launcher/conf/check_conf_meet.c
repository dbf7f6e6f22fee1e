/* links: tests/lib/conf_line */
/* libs: -lcjson -ldl */
/* Command lines of ddprun, and where the nodes meet by them: tables of line →
 * conf. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/conf/conf.h"
#include "launcher/conf/options.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/words.h"

/* What `meeting` says: nodes, workers, backend, endpoint, who serves, rank,
 * what MASTER_ADDR:MASTER_PORT must be, and the number of notes. */
static const char *meeting(const struct conf *c, char text[1024])
{
    char master[300] = "-";
    if (c->master_addr[0] != '\0')
        (void)snprintf(master, sizeof(master), "%s %d", c->master_addr,
                       c->master_port);
    else
        ck_assert_int_eq(c->master_port, 0);
    (void)snprintf(
        text, 1024, "%d:%d %s%s at %s %d%s host %d rank %d master %s%s",
        c->nnodes_min, c->nnodes_max,
        c->backend == CONF_STATIC ? "static" : "c10d",
        c->standalone ? " alone" : "", c->endpoints[0].host,
        c->endpoints[0].port, c->loopback ? " loopback" : "", c->is_host,
        c->node_rank, master, c->notes_len > 0 ? " noted" : "");
    return text;
}

#define ALONE "1:1 c10d alone at 127.0.0.1 0 host 1 rank "

static const struct {
    const char *env;
    const char *line; /* without the program */
    const char *want;
} meetings[] = {
    /* one node */
    {"", "", ALONE "-1 master -"},
    {"", "--nnodes=1:1", ALONE "-1 master -"},
    {"", "--rdzv_backend=c10d", ALONE "-1 master -"},
    {"", "--rdzv_backend=static", ALONE "0 master -"},
    {"", "--node_rank=0", ALONE "0 master -"},
    {"", "--master_addr=10.0.0.1", ALONE "0 master -"},
    {"", "--standalone", ALONE "-1 master -"},
    {"", "--standalone --nnodes=1:4", ALONE "-1 master - noted"},
    {"", "--standalone --rdzv_endpoint=h:1", ALONE "-1 master - noted"},
    {"PET_STANDALONE=1", "", ALONE "-1 master -"},
    {"", "--master_port=29501",
     "1:1 static at 127.0.0.1 29501 loopback host 1 rank 0 master "
     "127.0.0.1 29501"},
    {"", "--master_addr=h --master_port=1",
     "1:1 static at h 1 host 1 rank 0 master h 1"},
    {"", "--master_addr=0.0.0.0 --master_port=1",
     "1:1 static at 0.0.0.0 1 host 1 rank 0 master 0.0.0.0 1"},
    {"", "--rdzv_endpoint=localhost:0",
     "1:1 c10d at localhost 0 loopback host 1 rank -1 master -"},
    {"", "--rdzv_endpoint=h", "1:1 c10d at h 29400 host -1 rank -1 master -"},
    /* several, c10d */
    {"", "--nnodes=2 --rdzv_endpoint=host:29500",
     "2:2 c10d at host 29500 host -1 rank -1 master -"},
    {"", "--nnodes=1:2 --rdzv-endpoint host --rdzv-backend c10d",
     "1:2 c10d at host 29400 host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=[fd00::1]:7",
     "2:2 c10d at fd00::1 7 host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=[fe80::1%eth0]",
     "2:2 c10d at fe80::1%eth0 29400 host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=LocalHost:7",
     "2:2 c10d at LocalHost 7 loopback host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=[::1]:7",
     "2:2 c10d at ::1 7 loopback host -1 rank -1 master -"},
    {"", "--nnodes=2 --node_rank=1 --master_addr=127.0.1.1",
     "2:2 static at 127.0.1.1 29500 loopback host 0 rank 1 master "
     "127.0.1.1 29500"},
    {"", "--rdzv_endpoint=:7",
     "1:1 c10d at localhost 7 loopback host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --node_rank=1",
     "2:2 c10d at h 7 host -1 rank 1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --node_rank=2",
     "2:2 c10d at h 7 host -1 rank -1 master - noted"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --master_addr=g",
     "2:2 c10d at h 7 host -1 rank -1 master - noted"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_conf=is_host=1",
     "2:2 c10d at h 7 host 1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_conf=is_host=No",
     "2:2 c10d at h 7 host 0 rank -1 master -"},
    {"PET_RDZV_ENDPOINT=h:7 PET_NNODES=1:3", "",
     "1:3 c10d at h 7 host -1 rank -1 master -"},
    {"PET_RDZV_ENDPOINT=h:7 PET_NNODES=1:3", "--nnodes=2 --rdzv_endpoint=g:8",
     "2:2 c10d at g 8 host -1 rank -1 master -"},
    /* several, static */
    {"", "--nnodes=2 --node_rank=1 --master_addr=h",
     "2:2 static at h 29500 host 0 rank 1 master h 29500"},
    {"", "--nnodes=2 --node_rank=0 --master_addr=[::1] --master_port=5",
     "2:2 static at ::1 5 loopback host 1 rank 0 master ::1 5"},
    {"", "--nnodes=2 --node_rank=0 --master_addr=fd00::2",
     "2:2 static at fd00::2 29500 host 1 rank 0 master fd00::2 29500"},
    {"", "--nnodes=2 --master_addr=h",
     "2:2 static at h 29500 host 1 rank 0 master h 29500 noted"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --node_rank=1",
     "2:2 static at h 7 host 0 rank 1 master h 7"},
    {"", "--nnodes=2 --rdzv_backend=static --rdzv_endpoint=h --node_rank=1",
     "2:2 static at h 29500 host 0 rank 1 master h 29500"},
    {"", "--nnodes=2 --rdzv_endpoint=h --node_rank=1 --master_port=6",
     "2:2 static at h 6 host 0 rank 1 master h 6"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --node_rank=1 --master_addr=g",
     "2:2 static at h 7 host 0 rank 1 master h 7 noted"},
    {"PET_NNODES=4 PET_NODE_RANK=3 PET_MASTER_ADDR=h PET_MASTER_PORT=8", "",
     "4:4 static at h 8 host 0 rank 3 master h 8"},
};

/* Options and environment say where the nodes meet and who serves there. */
TEST_EACH(test_conf_meeting_place_is_found, meetings)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    char line[512], text[1024];
    (void)snprintf(line, sizeof(line), "%s prog", meetings[_i].line);
    ck_assert_msg(conf_line_conf(&c, meetings[_i].env, line, &err) == 0,
                  "%s: %s", line, err.text);
    ck_assert_str_eq(meeting(&c, text), meetings[_i].want);
    conf_free(&c);
}

/* A list of endpoints. */
static const struct {
    const char *line;
    const char *endpoints;
} lists[] = {
    {"--nnodes=2 --rdzv_endpoint=h:7", "h port 7"},
    {"--nnodes=2 --rdzv_endpoint=h:7,g:8", "h port 7, g port 8"},
    {"--nnodes=1:2 --rdzv_endpoint=h,[fd00::1]:8,g:9",
     "h port 29400, fd00::1 port 8, g port 9"},
    {"--nnodes=2 --rdzv_endpoint=h:7,g:8 --rdzv_conf=is_host=0",
     "h port 7, g port 8"},
    {"--nnodes=2 --rdzv_endpoint=localhost:7,127.0.0.1:8",
     "localhost port 7, 127.0.0.1 port 8"},
    {"--rdzv_endpoint=h:7,g:8", "h port 7, g port 8"},
    {"--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=7",
     "h port 7"},
    {"--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=8",
     "h port 7"},
    {"--nnodes=2 --node_rank=1 --master_addr=h", "h port 29500"},
    {"", "a free port of 127.0.0.1"},
    {"--nnodes=2 --rdzv_endpoint=a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1,j:1,k:1,"
     "l:1,m:1,n:1,o:1,p:1",
     "a port 1, b port 1, c port 1, d port 1, e port 1, f port 1, g port 1, h "
     "port 1, i port 1, j port 1, k port 1, l port 1, m port 1, n port 1, o "
     "port 1, p port 1"},
};

TEST_EACH(test_conf_list_of_endpoints_is_read, lists)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    char line[512], text[CONF_ENDPOINTS_TEXT_MAX];
    (void)snprintf(line, sizeof(line), "%s prog", lists[_i].line);
    ck_assert_msg(conf_line_conf(&c, "", line, &err) == 0, "%s: %s", line,
                  err.text);
    conf_endpoints_text(&c, text);
    ck_assert_str_eq(text, lists[_i].endpoints);
    ck_assert_int_eq(c.notes_len, 0);
    conf_free(&c);
}

TEST(test_conf_endpoints_too_long_for_a_text_are_counted)
{
    struct conf c = {.endpoints_len = CONF_ENDPOINTS_MAX};
    char text[CONF_ENDPOINTS_TEXT_MAX];
    for (int i = 0; i < CONF_ENDPOINTS_MAX; i++) {
        memset(c.endpoints[i].host, 'a' + i, sizeof(c.endpoints[i].host) - 1);
        c.endpoints[i].port = 65535;
    }
    conf_endpoints_text(&c, text);
    ck_assert_msg(strstr(text, "a port 65535, bbb") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "c port 65535, and 13 more") != NULL, "%s",
                  text);
}

/* A key of the release before. */
TEST(test_conf_key_that_is_gone_is_noted)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_int_eq(
        conf_line_conf(&c, "", "--rdzv_conf=failover=0 prog", &err), 0);
    ck_assert_int_eq(c.notes_len, 1);
    ck_assert_str_eq(c.notes[0],
                     "--rdzv_conf: ignored: failover (nothing to set: another "
                     "server always takes over)");
    conf_free(&c);
}

/* MASTER_PORT: where it is fixed, and whether the rendezvous's own port is the
 * workers' store's as well, which then hands connections over. */
static const struct {
    const char *line;
    int store_port; /* 0: not fixed, or the endpoint's */
    bool shared;
} stores[] = {
    {"", 0, false},
    {"--standalone --master_port=5", 5, false},
    {"--rdzv_backend=c10d --master_port=5", 5, false},
    {"--rdzv_backend=c10d", 0, false},
    {"--master_port=5", 0, true},
    {"--master_port=5 --worker_store=none", 0, false},
    {"--rdzv_endpoint=h:7", 0, false},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=5", 5, false},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=7", 7, true},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=7 "
     "--worker_store=none",
     7, false},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=7 "
     "--rdzv_conf=is_host=0",
     7, false},
    {"--nnodes=2 --master_addr=h --node_rank=0", 0, true},
    {"--nnodes=2 --master_addr=h --node_rank=1", 0, false},
    {"--nnodes=2 --rdzv_endpoint=h:7 --node_rank=0 --master_port=7", 0, true},
    {"--nnodes=2 --rdzv_endpoint=h:7 --node_rank=0 --master_port=5", 5, false},
};

TEST_EACH(test_conf_master_port_is_found, stores)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    char line[512];
    (void)snprintf(line, sizeof(line), "%s prog", stores[_i].line);
    ck_assert_msg(conf_line_conf(&c, "", line, &err) == 0, "%s: %s", line,
                  err.text);
    ck_assert_int_eq(c.store_port, stores[_i].store_port);
    ck_assert_int_eq(conf_shares_port(&c), stores[_i].shared);
    conf_free(&c);
}

/* A node is lost after so many keep-alives that did not come; a
 * heartbeat_timeout that is given goes before that. */
TEST_LOOP(test_conf_keep_alives_are_a_heartbeat, 0, 7)
{
    static const struct {
        const char *line;
        int64_t heartbeat_us;
    } cases[] = {
        {"prog", 5000000},
        {"--rdzv_conf=keep_alive_interval=2 prog", 6000000},
        {"--rdzv_conf=keep_alive_max_attempt=4 prog", 20000000},
        {"--rdzv_conf=keep_alive_interval=0.5,keep_alive_max_attempt=2 prog",
         1000000},
        {"--rdzv_conf=keep_alive_interval=0.01 prog", 300000},
        {"--rdzv_conf=keep_alive_interval=3000 prog", 3600000000},
        {"--rdzv_conf=keep_alive_interval=2,heartbeat_timeout=1 prog", 1000000},
    };
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(c.heartbeat_timeout_us, cases[_i].heartbeat_us);
    ck_assert_int_eq(c.notes_len, 0);
    conf_free(&c);
}

/* torchrun's keys that mean nothing here are taken with one note; blanks and
 * the older name of last_call_timeout too; `timeout` counts under static. */
TEST(test_conf_rdzv_conf_takes_torchruns_keys)
{
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "",
                                    "--rdzv_conf rank=1,use_libuv=1,"
                                    "store_type=tcp,timeout=9,lastcall=2,"
                                    "colour=blue prog",
                                    NULL),
                     0);
    ck_assert_int_eq(c.notes_len, 1);
    ck_assert_str_eq(c.notes[0],
                     "--rdzv_conf: ignored: rank (ddprun has no use for it), "
                     "use_libuv (ddprun has no use for it), colour (there is "
                     "no such key), timeout (c10d has join_timeout)");
    ck_assert_int_eq(c.last_call_timeout_us, 2000000);
    ck_assert_int_eq(c.join_timeout_us, 600000000);
    conf_free(&c);
    ck_assert_int_eq(
        conf_line_conf(&c, "", "--master_port=1 --rdzv_conf=timeout=9 prog",
                       NULL),
        0);
    ck_assert_int_eq(c.join_timeout_us, 9000000);
    conf_free(&c);
    ck_assert_int_eq(conf_line_conf(&c, "", "--master_port=1 prog", NULL), 0);
    ck_assert_int_eq(c.join_timeout_us, 900000000);
    conf_free(&c);
    ck_assert_int_eq(setenv("PET_RDZV_CONF", " close_timeout = 4 ", 1), 0);
    struct opts o;
    words_line("ddprun", "prog");
    ck_assert_int_eq(
        opts_parse(&o, &options_table, words_argc, words_argv, NULL), 0);
    ck_assert_int_eq(conf_init(&c, &o, words_argv + o.rest, NULL), 0);
    ck_assert_int_eq(c.close_timeout_us, 4000000);
    conf_free(&c);
}

/* One pair of quotes that came along is taken off; a name that looks misspelt
 * is told with the right one, and ends nothing that runs under torchrun. */
TEST_LOOP(test_conf_rdzv_conf_may_be_quoted_or_misspelt, 0, 6)
{
    static const struct {
        const char *line;
        int64_t join_us;
        const char *note; /* "" none */
    } cases[] = {
        {"--rdzv-conf='join_timeout=7,timeout=5' prog", 7000000,
         "--rdzv_conf: ignored: timeout (c10d has join_timeout)"},
        {"--rdzv_conf=\"join_timeout=7\" prog", 7000000, ""},
        {"--rdzv_conf='' prog", 600000000, ""},
        {"--rdzv_conf='join_timeout=7 prog", 600000000,
         "--rdzv_conf: ignored: 'join_timeout (did you mean join_timeout?)"},
        {"--rdzv_conf=join_timout=7 prog", 600000000,
         "--rdzv_conf: ignored: join_timout (did you mean join_timeout?)"},
        {"--rdzv_conf=jointimeout=1,colour=2 prog", 600000000,
         "--rdzv_conf: ignored: jointimeout (did you mean join_timeout?), "
         "colour (there is no such key)"},
    };
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(conf_line_conf(&c, "", cases[_i].line, &err) == 0, "%s",
                  err.text);
    ck_assert_int_eq(c.join_timeout_us, cases[_i].join_us);
    ck_assert_int_eq(c.notes_len, cases[_i].note[0] != '\0' ? 1 : 0);
    ck_assert_str_eq(c.notes[0], cases[_i].note);
    conf_free(&c);
}

SUITE("conf_meet",
      "conf_meet",
      .tags = "fast",
      FIXTURE_ONCE(conf_line_setup, scratch_leave))
