/* links: tests/lib/rt_world */
/* links: launcher/preflight/{probe,lead,facts,reach,look,judge,print} */
/* links: launcher/hw/{gpus,nvml,kfd,topology,cpus} OPTS rendezvous/net/addr */
/* links: rendezvous/client/store rendezvous/base/{dial,rng} */
/* libs: -luv -lcjson -ldl */
/*
 * What a probe makes of texts in the store that no probe writes: an error, and
 * never its own death. The store is a real one; the other node is a test that
 * puts its keys.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/preflight/probe.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"

static pid_t server;
static struct probe p;
static char secret[] = "00112233445566778899aabbccddeeff";

static void start(void)
{
    uint16_t port;
    server = rt_store_start(&port);
    p = (struct probe){.world = 2,
                       .secret = secret,
                       .responder = -1,
                       .began_us = mono_now_us(),
                       .self = {.rank = 0}};
    store_client_init(&p.store, "127.0.0.1", port);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
}

static void stop(void)
{
    store_client_free(&p.store);
    free(p.ranks);
    free(p.links);
    rt_kill(server);
}

static void put(const char *key, const char *text)
{
    struct ddp_err err;
    char whole[PROBE_KEY_MAX];
    ck_assert_msg(probe_tell(&p, probe_key(whole, "%s", key), text, &err) == 0,
                  "%s: %s", key, err.text);
}

static void put_node(int rank, const char *port)
{
    static struct preflight_node n;
    char key[PROBE_KEY_MAX];
    n.rank = rank;
    (void)snprintf(n.fact[FACT_NAME], FACT_MAX, "n%d", rank);
    (void)snprintf(n.fact[FACT_PORT], FACT_MAX, "%s", port);
    (void)snprintf(n.fact[FACT_ADDR], FACT_MAX, "127.0.0.1");
    char *text = preflight_node_text(&n);
    (void)snprintf(key, sizeof(key), "node/%d", rank);
    put(key, text);
    free(text);
}

/* Nothing listens at the port of node 1. */
static void put_second_node(void)
{
    put_node(0, "1");
    put_node(1, "1");
}

/* Rank 0's list of the nodes that came is never empty: it is in it itself. */
TEST(test_list_of_no_node_is_refused)
{
    struct ddp_err err;
    p.rank = 1;
    put("start", "[]");
    ck_assert_int_eq(probe_agree(&p, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_PROTO);
}

/* A responder has a port; 0 is what a node writes that has none. */
TEST(test_node_without_a_port_is_refused)
{
    static struct preflight_node n;
    put_node(1, "0");
    ck_assert_int_eq(probe_read_node(&p, 1, &n, mono_now_us() + MONO_S), -1);
    put_node(1, "65536");
    ck_assert_int_eq(probe_read_node(&p, 1, &n, mono_now_us() + MONO_S), -1);
    put_node(1, "65535");
    ck_assert_int_eq(probe_read_node(&p, 1, &n, mono_now_us() + MONO_S), 0);
}

/* Rank 0 judges what it has then: no link of node 1 is among it. */
TEST(test_link_to_a_node_that_did_not_come_is_left_out)
{
    struct preflight_link link = {.from = 1, .to = 7, .state = PREFLIGHT_NO};
    struct ddp_err err;
    char *text = preflight_links_text(&link, 1);
    put_second_node();
    put("links/1", text);
    free(text);
    ck_assert_int_eq(probe_lead(&p, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_PREFLIGHT);
}

SUITE("preflight_probe", "bad texts", .limit_s = 60, FIXTURE(start, stop))
