/*
 * One probe, from its start to its exit status. The part of a probe depends on
 * its rank, on whether the store is reached, and on whether this is the second
 * round (see preflight.h for the whole).
 */
#include "launcher/preflight/preflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/preflight/probe.h"
#include "launcher/preflight/reach.h"
#include "rendezvous/base/log.h"
#include "rendezvous/net/helper.h"

int preflight_prepare(const struct conf *conf, struct ddp_err *err)
{
    if (setenv(PROBE_ENV_ADDR, conf->local_addr, 1) == 0 &&
        setenv(PROBE_ENV_PROBLEM, conf->preflight_problem, 1) == 0)
        return 0;
    return ddp_err_sys(err, DDP_E_NOMEM, "no memory for the environment");
}

/* -- the others ------------------------------------------------------------ */

/* A rank above 0 that reached the store: tries its links, and waits for rank
 * 0's verdict. Without a verdict there was a problem, and rank 0's exit ends
 * the round before this wait does. */
static int follow(struct probe *p, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    char *text = NULL;
    if (probe_agree(p, err) != 0)
        return -1;
    bool in = false;
    for (int i = 0; i < p->n; i++)
        in |= p->ranks[i] == p->rank;
    if (!in)
        return ddp_err_set(err, DDP_E_PREFLIGHT,
                           "this node reached the store too late");
    if (probe_try(p, err) != 0 ||
        store_client_text(&p->store, probe_key(key, "verdict"), &text,
                          p->end_us + LINGER_US, err) != 0)
        return -1;
    log_info("passed; %.60s prints the report", text);
    free(text);
    return 0;
}

/* Mostly a firewall. */
static void explain_store(struct probe *p, const struct ddp_err *why)
{
    char host[64] = "?";
    char text[480];
    const char *reason =
        why->sys_errno != 0 ? strerror(why->sys_errno) : why->text;
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(
        text, sizeof(text),
        "%s cannot reach the workers' store at MASTER_ADDR %.60s port %d: "
        "%.60s; check the firewall there. Without --master_port the port is "
        "another "
        "one in each round, from /proc/sys/net/ipv4/ip_local_port_range",
        host, p->store.host, p->store.port, reason);
    probe_write_error(text);
    /* In the second round every launcher prints it. */
    if (!p->again && p->rank != 0)
        log_warnx("%s", text);
}

/* This node does not reach the store. Rank 0 judges the others without it and
 * then ends the round; if this is rank 0 itself, the round ends at once. */
static int sit_out(struct probe *p, struct ddp_err *err)
{
    explain_store(p, err);
    if (p->rank != 0)
        (void)dial_wait(-1, 0, p->began_us + SIT_OUT_US, reach_stop());
    return ddp_err_set(err, DDP_E_PREFLIGHT, "%s", "");
}

/* The second round only serves to get the name of a node that does not reach
 * the store: it fails first, and the error of the first failure goes to all
 * launchers. The others wait to be ended. */
static int find_missing(struct probe *p, struct ddp_err *err)
{
    int64_t until_us = p->began_us + WORD_US;
    if (store_client_ready(&p->store, until_us, err) != 0) {
        explain_store(p, err);
        return ddp_err_set(err, DDP_E_PREFLIGHT, "%s", "");
    }
    until_us += (p->rank == 0 ? 1 : 2) * WORD_US;
    (void)dial_wait(-1, 0, until_us, reach_stop());
    return ddp_err_set(
        err, DDP_E_PREFLIGHT,
        "every node reaches the store now: run the preflight again");
}

static int run(struct probe *p, struct ddp_err *err)
{
    if (probe_begin(p, err) != 0)
        return -1;
    ddp_assert(p->rank >= 0 && p->rank < p->world);
    if (p->again)
        return find_missing(p, err);
    if (store_client_ready(&p->store, p->began_us + REACH_US, err) != 0)
        return sit_out(p, err);
    if (probe_introduce(p, err) != 0)
        return -1;
    return p->rank == 0 ? probe_lead(p, err) : follow(p, err);
}

int preflight_main(void)
{
    struct probe p = {.rank = -1, .store = {.fd = -1}};
    struct ddp_err err = {.code = DDP_E_OK};
    int rc = run(&p, &err);
    if (rc != 0 && err.text[0] != '\0') {
        log_warnx("%s", err.text);
        probe_write_error(err.text);
    }
    helper_kill(&p.responder);
    store_client_free(&p.store);
    free(p.ranks);
    free(p.links);
    return rc == 0 ? 0 : ddp_code_exit(err.code);
}
