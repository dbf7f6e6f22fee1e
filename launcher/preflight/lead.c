/*
 * Rank 0 of a preflight: gathers the data of all nodes, tells them which nodes
 * came, adds up which ones each reaches, judges and prints.
 *
 * Nodes that do not reach the store in GATHER_US are left out, and named as
 * missing. If that fails half way (a node died, SIGTERM) rank 0 judges and
 * prints what it has. It ends with PREFLIGHT's status if there is a
 * problem, or with UNREACHABLE if a node is missing: that status costs a
 * restart, and in the second round the missing node reports why (preflight.h).
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/preflight/preflight.h"
#include "launcher/preflight/probe.h"
#include "launcher/preflight/reach.h"
#include "launcher/preflight/report.h"
#include "rendezvous/base/log.h"

/* -- gathering ------------------------------------------------------------- */

/* Reads the data of all nodes. After the deadline it asks once for each of the
 * rest, which may have come meanwhile. */
static void gather(struct probe *p, struct preflight_report *r)
{
    for (int rank = 0; rank < p->world; rank++) {
        char key[PROBE_KEY_MAX];
        bool there = true;
        int64_t until_us = p->began_us + GATHER_US;
        if (mono_now_us() >= until_us) {
            until_us = mono_now_us() + MONO_S;
            struct ddp_err e;
            if (store_client_check(&p->store, probe_key(key, "node/%d", rank),
                                   &there, until_us, &e) != 0)
                there = false;
        }
        if (there && probe_read_node(p, rank, &r->nodes[r->n], until_us) == 0)
            r->n++;
    }
}

/* The ranks of those that came, as a list. */
static char *list_ranks(const struct preflight_report *r)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; array != NULL && i < r->n; i++)
        (void)cJSON_AddItemToArray(
            array, cJSON_CreateNumber((double)r->nodes[i].rank));
    char *text = array != NULL ? cJSON_PrintUnformatted(array) : NULL;
    cJSON_Delete(array);
    return text;
}

/* The links that a node tried. Links that are damaged, or to a node that did
 * not come, end the gathering: the judge looks up their ends. */
static int read_links(struct probe *p,
                      struct preflight_report *r,
                      int rank,
                      struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    char *text = NULL;
    int first = r->links_len, most = PREFLIGHT_NETS * reach_steps(r->n);
    if (store_client_text(&p->store, probe_key(key, "links/%d", rank), &text,
                          p->end_us, err) != 0)
        return -1;
    bool good = preflight_links_read(r->links, &r->links_len, most, rank, text);
    free(text);
    for (int k = first; good && k < r->links_len; k++)
        good = preflight_find(r, r->links[k].to) >= 0;
    if (good)
        return 0;
    r->links_len = first; /* what came before is judged */
    return ddp_err_set(err, DDP_E_PROTO, "the results of node %d are damaged",
                       rank);
}

static int
gather_links(struct probe *p, struct preflight_report *r, struct ddp_err *err)
{
    size_t most = (size_t)PREFLIGHT_NETS * (size_t)reach_steps(r->n);
    ddp_assert(r->links == NULL && r->links_len == 0);
    r->links = calloc(most * (size_t)r->n + 1, sizeof(*r->links));
    if (r->links == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for links");
    for (int i = 0; i < r->n; i++)
        if (read_links(p, r, r->nodes[i].rank, err) != 0)
            return -1;
    return 0;
}

/* The steps between the first node's data and the last link. */
static int
try_all(struct probe *p, struct preflight_report *r, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    gather(p, r);
    if (r->n > REACH_ALL_MAX) /* messages: ok, 64 and 9 */
        log_info("more than %d nodes: each tries to reach %d others, the next "
                 "one and %d spread over the list",
                 REACH_ALL_MAX, reach_steps(r->n), REACH_FEW);
    if (probe_tell_own(p, probe_key(key, "start"), list_ranks(r), err) != 0 ||
        probe_agree(p, err) != 0 || probe_try(p, err) != 0)
        return -1;
    return gather_links(p, r, err);
}

/* Prints the report. If there is a problem its first sentence goes to the error
 * file, and so to the last line of every launcher. */
static int
conclude(struct probe *p, struct preflight_report *r, struct ddp_err *err)
{
    static struct preflight_findings f; /* large */
    char key[PROBE_KEY_MAX], text[480];
    preflight_judge(r, &f);
    preflight_print(r, &f, stdout);
    if (fflush(stdout) != 0 || ferror(stdout))
        return ddp_err_sys(err, DDP_E_IO, "cannot write the report");
    if (f.problems == 0 && !r->cut)
        return probe_tell(p, probe_key(key, "verdict"), p->self.fact[FACT_NAME],
                          err);
    (void)snprintf(text, sizeof(text), "%d problem%s%.400s", f.problems,
                   f.problems == 0   ? "s so far"
                   : f.problems == 1 ? ": "
                                     : "s, the first: ",
                   f.problems > 0 ? f.at[0].text : "");
    probe_write_error(text);
    bool all = r->n == p->world;
    return ddp_err_set(err, all ? DDP_E_PREFLIGHT : DDP_E_UNREACHABLE, "%s",
                       "");
}

/* The name of the run that will train: ours without the suffix. */
static const char *real_run(char *run, size_t size)
{
    (void)snprintf(run, size, "%s", probe_env("TORCHELASTIC_RUN_ID"));
    size_t len = strlen(run), more = strlen(PREFLIGHT_SUFFIX);
    if (len > more && strcmp(run + len - more, PREFLIGHT_SUFFIX) == 0)
        run[len - more] = '\0';
    return run;
}

int probe_lead(struct probe *p, struct ddp_err *err)
{
    struct ddp_err why;
    char run[160];
    ddp_assert(p->rank == 0 && p->world > 0);
    struct preflight_report r = {
        .run = real_run(run, sizeof(run)),
        .master_addr = p->store.host,
        .master_port = p->store.port,
        .world = p->world,
    };
    r.nodes = calloc((size_t)p->world, sizeof(*r.nodes));
    if (r.nodes == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for nodes");
    reach_catch_term();
    int rc = try_all(p, &r, &why);
    r.took_s = (double)(mono_now_us() - p->began_us) / MONO_S;
    r.cut = rc != 0;
    if (rc != 0 && why.code != DDP_E_ABORTED)
        log_warnx("the preflight ended early: %s", why.text);
    ddp_assert(r.n >= 0 && r.n <= r.world);
    rc = conclude(p, &r, err);
    free(r.nodes);
    free(r.links);
    return rc;
}
