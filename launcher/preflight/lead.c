/*
 * Rank 0 of a preflight: gathers the data of all nodes, tells them who came,
 * adds up what they measured, has slow links measured again, judges and prints.
 *
 * Nodes that do not reach the store in GATHER_US are left out, and named as
 * missing. If the measurement fails half way (a node died, SIGTERM) rank 0
 * judges and prints what it has. It ends with PREFLIGHT's status if there is a
 * problem, or with UNREACHABLE if a node is missing: that status costs a
 * restart, and in the second round the missing node reports why (preflight.h).
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/preflight/io.h"
#include "launcher/preflight/link.h"
#include "launcher/preflight/pairing.h"
#include "launcher/preflight/preflight.h"
#include "launcher/preflight/probe.h"
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

/* Slow links are measured again, since something else may have used the line.
 * Rank 0 makes the list. */
static int tell_again(struct probe *p,
                      const struct preflight_report *r,
                      struct ddp_err *err)
{
    struct preflight_link again[AGAIN_MAX];
    int n = 0;
    char key[PROBE_KEY_MAX];
    for (int net = 0; net < PREFLIGHT_NETS; net++) {
        int64_t good = preflight_good_rate(r, (enum preflight_net)net);
        for (int i = 0; i < r->links_len && n < AGAIN_MAX; i++)
            if (r->links[i].net == net && preflight_is_slow(&r->links[i], good))
                again[n++] = r->links[i];
    }
    return probe_tell_own(p, probe_key(key, "again"),
                          preflight_links_text(again, n), err);
}

/* Reads the links that each node measured. A result that is damaged, or names a
 * node that did not come, ends the measurement: the tables index by it. */
static int
gather_links(struct probe *p, struct preflight_report *r, struct ddp_err *err)
{
    ddp_assert(r->links == NULL && r->links_len == 0);
    int most = PREFLIGHT_NETS * pairing_rounds(r->n);
    r->links = calloc((size_t)most * (size_t)r->n + 1, sizeof(*r->links));
    if (r->links == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for links");
    for (int i = 0; i < r->n; i++) {
        char key[PROBE_KEY_MAX];
        char *text = NULL;
        int64_t rank = r->nodes[i].rank;
        int first = r->links_len;
        if (store_client_text(&p->store, probe_key(key, "links/%d", (int)rank),
                              &text, p->end_us, err) != 0)
            return -1;
        bool good =
            preflight_links_read(r->links, &r->links_len, most, rank, text);
        free(text);
        for (int k = first; good && k < r->links_len; k++)
            good = preflight_find(r, r->links[k].to) >= 0;
        if (!good) {
            r->links_len = first; /* what came before is judged */
            return ddp_err_set(err, DDP_E_PROTO,
                               "the results of node %d are damaged", (int)rank);
        }
    }
    return 0;
}

/* The better of both results counts. */
static void take_better(struct preflight_report *r,
                        const struct preflight_link *second)
{
    for (int i = 0; i < r->links_len; i++) {
        struct preflight_link *l = &r->links[i];
        if (l->from == second->from && l->to == second->to &&
            l->net == second->net && l->rate < second->rate &&
            second->state == PREFLIGHT_OK)
            *l = *second;
    }
}

/* Reads the results of the second measurement. A damaged one is left out: the
 * first result stands. */
static int
gather_again(struct probe *p, struct preflight_report *r, struct ddp_err *err)
{
    struct preflight_link again[AGAIN_MAX];
    int n = probe_read_again(p, again, err);
    for (int k = 0; k < n; k++) {
        char key[PROBE_KEY_MAX];
        char *text = NULL;
        struct preflight_link link;
        int one = 0;
        if (store_client_text(&p->store, probe_key(key, "again/%d", k), &text,
                              p->end_us, err) != 0)
            return -1;
        if (preflight_links_read(&link, &one, 1, again[k].from, text) &&
            one == 1)
            take_better(r, &link);
        free(text);
    }
    return n < 0 ? -1 : 0;
}

/* The steps between the first node's data and the last link. */
static int
measure_all(struct probe *p, struct preflight_report *r, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    gather(p, r);
    if (r->n > 1) /* messages: ok, 2 or more */
        log_info("measuring %d nodes, for about %.0f s", r->n,
                 (double)(2 * pairing_rounds(r->n) * PREFLIGHT_LINK_US) /
                         MONO_S +
                     1);
    if (r->n > PAIRING_ALL_MAX) /* messages: ok, 32 and 8 */
        log_info("more than %d nodes: each is measured with %d others, chosen "
                 "at random",
                 PAIRING_ALL_MAX, PAIRING_FEW);
    if (probe_tell_own(p, probe_key(key, "start"), list_ranks(r), err) != 0 ||
        probe_agree(p, err) != 0 || probe_play(p, err) != 0 ||
        gather_links(p, r, err) != 0 || tell_again(p, r, err) != 0 ||
        probe_look_again(p, err) != 0)
        return -1;
    return gather_again(p, r, err);
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
        return probe_tell(p, probe_key(key, "verdict"), p->self.name, err);
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
    preflight_io_catch_term();
    int rc = measure_all(p, &r, &why);
    r.took_s = (double)(mono_now_us() - p->began_us) / MONO_S;
    r.cut = rc != 0;
    if (rc != 0 && why.code != DDP_E_ABORTED)
        log_warnx("the measurement ended early: %s", why.text);
    ddp_assert(r.n >= 0 && r.n <= r.world);
    rc = conclude(p, &r, err);
    free(r.nodes);
    free(r.links);
    return rc;
}
