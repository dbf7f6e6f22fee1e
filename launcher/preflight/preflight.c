#include "launcher/preflight/preflight.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/preflight/io.h"
#include "launcher/preflight/probe.h"
#include "rendezvous/base/log.h"

int preflight_prepare(const struct conf *conf, struct ddp_err *err)
{
    if (setenv(PROBE_ENV_ADDR, conf->local_addr, 1) == 0 &&
        setenv(PROBE_ENV_PROBLEM, conf->preflight_problem, 1) == 0)
        return 0;
    return ddp_err_sys(err, DDP_E_NOMEM, "no memory for the environment");
}

/* -- the others ------------------------------------------------------------ */

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
                           "this node came to the store too late");
    if (probe_play(p, err) != 0 || probe_look_again(p, err) != 0 ||
        store_client_text(&p->store, probe_key(key, "verdict"), &text,
                          p->end_us + LINGER_US, err) != 0)
        return -1;
    log_info("all is well; the table is what %.60s prints", text);
    free(text);
    return 0;
}

/* The common case of a firewall. */
static void explain_store(struct probe *p, const struct ddp_err *why)
{
    char host[64] = "?";
    char text[480];
    const char *reason =
        why->sys_errno != 0 ? strerror(why->sys_errno) : why->text;
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(text, sizeof(text),
                   "%s does not reach the store of the workers at MASTER_ADDR "
                   "%.60s port %d: %.60s: a firewall there? Unless "
                   "--master_port says which, it is another port in each "
                   "round, of /proc/sys/net/ipv4/ip_local_port_range",
                   host, p->store.host, p->store.port, reason);
    probe_write_error(text);
    /* Else every launcher is about to print it. */
    if (!p->again && p->rank != 0)
        log_warnx("%s", text);
}

/* Rank 0 measures the others without us, and ends the round then; unless it is
 * rank 0 that does not reach its own store. */
static int sit_out(struct probe *p, struct ddp_err *err)
{
    explain_store(p, err);
    if (p->rank != 0)
        (void)preflight_io_wait(-1, 0, p->began_us + SIT_OUT_US, NULL);
    return ddp_err_set(err, DDP_E_PREFLIGHT, "%s", "");
}

/* The second round, only to hear the name of a node that does not reach the
 * store: the error of who fails first goes to all launchers. The others wait
 * for their end. */
static int find_missing(struct probe *p, struct ddp_err *err)
{
    int64_t until_us = p->began_us + WORD_US;
    if (store_client_ready(&p->store, until_us, err) != 0) {
        explain_store(p, err);
        return ddp_err_set(err, DDP_E_PREFLIGHT, "%s", "");
    }
    until_us += (p->rank == 0 ? 1 : 2) * WORD_US;
    (void)preflight_io_wait(-1, 0, until_us, NULL);
    return ddp_err_set(err, DDP_E_PREFLIGHT,
                       "now every node reaches the store: run it again");
}

static int run(struct probe *p, struct ddp_err *err)
{
    if (probe_begin(p, err) != 0)
        return -1;
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
    if (p.responder > 0) {
        (void)kill(p.responder, SIGKILL);
        (void)waitpid(p.responder, NULL, 0);
    }
    store_client_free(&p.store);
    free(p.ranks);
    free(p.links);
    return rc == 0 ? 0 : ddp_code_exit(err.code);
}
