/*
 * Happy path: the first step chooses the runs (plan). If some are so large that
 * they are shown in groups, the next steps go through the places of all nodes
 * and add theirs (count). Then each step writes a run (write_next).
 *
 * Runs are written in full, their nodes one by one, until the budget of listed
 * nodes is used up; the next ones have groups.
 *
 * Failure modes:
 * - texts of peers are so long that the whole does not fit: it is written anew,
 *   all runs in brief;
 * - a run is forgotten before it was written, and its slot may be another
 *   one's: its id tells, and it is left out;
 * - a run has become too large for a list of its nodes when it is written: it
 *   is in brief until the next document;
 * - no memory: -1.
 */
#include "rendezvous/http/overview.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/json.h"
#include "rendezvous/base/log.h"
#include "rendezvous/core/status.h"
#include "rendezvous/http/status_priv.h"

/* Of more runs than this only the last rounds are shown. */
#define RUNS_FEW       4
#define ROUNDS_OF_MANY 8

enum overview_state {
    OVERVIEW_RESTS,
    OVERVIEW_COUNTS, /* nodes of runs that are in groups */
    OVERVIEW_WRITES
};

enum overview_how {
    OVERVIEW_BRIEF,
    OVERVIEW_NODES,
    OVERVIEW_GROUPS
};

struct planned_run {
    int run;
    char id[sizeof(((struct msg_join *)0)->run)];
    enum overview_how how;
    int group;       /* OVERVIEW_GROUPS: index of its groups */
    int group_world; /* for them */
};

struct overview {
    enum overview_state state;
    struct json j;
    size_t before; /* of the buffer, when the document was begun */
    struct planned_run runs[OVERVIEW_RUNS_MAX];
    int n_runs, n_groups, left_out;
    int listed;            /* nodes that may still be */
    int rounds;            /* shown of each run in full */
    struct groups *groups; /* n_groups; NULL: there are none */
    int place;             /* the next one to be looked at */
    int next;              /* run to be written */
    bool brief;            /* all of them */
};

struct overview *overview_new(void)
{
    struct overview *o = calloc(1, sizeof(*o));
    if (o == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the page");
    return o;
}

static void rest(struct overview *o)
{
    free(o->groups);
    *o = (struct overview){.state = OVERVIEW_RESTS};
}

void overview_del(struct overview *o)
{
    rest(o);
    free(o);
}

/* -- the plan -------------------------------------------------------------- */

static void plan_nodes(struct overview *o,
                       struct planned_run *p,
                       const struct status_run *run)
{
    if (run->listed <= OVERVIEW_NODES_MAX && run->listed <= o->listed) {
        p->how = OVERVIEW_NODES;
        o->listed -= run->listed;
    } else {
        p->how = OVERVIEW_GROUPS;
        p->group = o->n_groups++;
        p->group_world = run->group_world;
    }
}

static void
plan_one(struct overview *o, int index, const struct status_run *run)
{
    if (o->n_runs == OVERVIEW_RUNS_MAX) {
        o->left_out++;
        return;
    }
    struct planned_run *p = &o->runs[o->n_runs++];
    *p = (struct planned_run){.run = index, .how = OVERVIEW_BRIEF};
    msg_set(p->id, run->id);
    if (o->n_runs <= OVERVIEW_RUNS_FULL)
        plan_nodes(o, p, run);
}

/* -1: no memory. */
static int plan_runs(struct overview *o,
                     const struct rdzv *r,
                     const struct status_when *when,
                     const char *only)
{
    int *order = calloc((size_t)status_limits(r)->runs_max, sizeof(*order));
    if (order == NULL)
        return -1;
    int n = status_runs(r, order);
    for (int ended = 0; ended < 2; ended++)
        for (int i = 0; i < n; i++) {
            struct status_run run;
            status_run(r, order[i], when->now_us, &run);
            if ((run.state == STATUS_ENDED) == (ended != 0) &&
                (only == NULL || strcmp(only, run.id) == 0))
                plan_one(o, order[i], &run);
        }
    free(order);
    o->rounds =
        only != NULL || n <= RUNS_FEW ? TIMELINE_ROUNDS : ROUNDS_OF_MANY;
    return 0;
}

static int make_groups(struct overview *o)
{
    if (o->n_groups == 0)
        return 0;
    o->groups = calloc((size_t)o->n_groups, sizeof(o->groups[0]));
    if (o->groups == NULL)
        return -1;
    for (int i = 0; i < o->n_runs; i++)
        if (o->runs[i].how == OVERVIEW_GROUPS)
            groups_init(&o->groups[o->runs[i].group], o->runs[i].group_world);
    return 0;
}

static int begin(struct overview *o,
                 const struct buf *out,
                 const struct rdzv *r,
                 const struct status_when *when,
                 const char *only)
{
    o->before = buf_len(out);
    o->listed = OVERVIEW_LISTED_MAX;
    if (plan_runs(o, r, when, only) != 0 || make_groups(o) != 0)
        return -1;
    o->state = o->n_groups > 0 ? OVERVIEW_COUNTS : OVERVIEW_WRITES;
    return 1;
}

/* -- groups ---------------------------------------------------------------- */

/* NULL: its nodes are not counted. */
static struct groups *groups_of(struct overview *o, int run)
{
    for (int i = 0; i < o->n_runs; i++)
        if (o->runs[i].run == run && o->runs[i].how == OVERVIEW_GROUPS)
            return &o->groups[o->runs[i].group];
    return NULL;
}

static int
count(struct overview *o, const struct rdzv *r, const struct status_when *when)
{
    int all = status_places(r);
    int end = o->place + OVERVIEW_PLACES;
    int last = -1; /* nodes of a run often stand together */
    struct groups *g = NULL;
    for (; o->place < end && o->place < all; o->place++) {
        int run = status_place_run(r, o->place);
        if (run != last)
            g = groups_of(o, run);
        last = run;
        if (g != NULL)
            groups_add(g, r, o->place, when->now_us);
    }
    if (o->place >= all)
        o->state = OVERVIEW_WRITES;
    return 1;
}

/* -- writing --------------------------------------------------------------- */

static void
write_head(struct json *j, const struct rdzv *r, const struct status_daemon *d)
{
    json_open(j, NULL, '{');
    json_text(j, "version", DDPRUN_VERSION);
    json_text(j, "incarnation", d->incarnation);
    json_seconds(j, "uptime_s", d->uptime_us);
    json_bool(j, "token", d->token);
    json_int(j, "connections", d->nodes + d->pending + d->http);
    json_open(j, "limits", '{');
    json_int(j, "runs", status_limits(r)->runs_max);
    json_int(j, "nodes", status_limits(r)->nodes_max);
    json_close(j, '}');
    json_open(j, "runs", '[');
}

static void write_brief(struct json *j, const struct status_run *run)
{
    json_bool(j, "brief", true);
    json_text(j, "id", run->id);
    json_text(j, "state", status_run_word(run->state));
    json_int(j, "round", run->round);
    json_int(j, "nodes", run->nodes);
    json_int(j, "nodes_min", run->nodes_min);
    json_int(j, "nodes_max", run->nodes_max);
    json_int(j, "world_size", run->world_size);
    json_int(j, "restarts", run->restarts);
    json_seconds(j, "uptime_s", run->uptime_us);
}

static void write_nodes(struct json *j,
                        const struct rdzv *r,
                        int run,
                        const struct status_when *when)
{
    int order[OVERVIEW_NODES_MAX];
    int n = status_nodes(r, run, order);
    json_open(j, "nodes_list", '[');
    for (int i = 0; i < n; i++) {
        struct status_node node;
        status_node(r, order[i], when->now_us, &node);
        status_write_node(j, &node);
    }
    json_close(j, ']');
}

static void write_full(struct overview *o,
                       const struct planned_run *p,
                       const struct status_run *run,
                       const struct rdzv *r,
                       const struct status_daemon *d,
                       const struct status_when *when)
{
    struct status_progress here;
    const struct status_progress *progress = &here;
    if (p->how == OVERVIEW_GROUPS)
        progress = &o->groups[p->group].progress;
    else
        status_progress(r, p->run, &here);
    status_write_run(&o->j, run);
    status_write_history(&o->j, r, &d->accounts[p->run], p->run, when,
                         o->rounds, progress);
    if (p->how == OVERVIEW_GROUPS)
        groups_write(&o->groups[p->group], &o->j, r, p->run, when->now_us);
    else
        write_nodes(&o->j, r, p->run, when);
}

static void write_one(struct overview *o,
                      const struct planned_run *p,
                      const struct rdzv *r,
                      const struct status_daemon *d,
                      const struct status_when *when)
{
    struct status_run run;
    if (!status_has_run(r, p->run))
        return;
    status_run(r, p->run, when->now_us, &run);
    if (strcmp(run.id, p->id) != 0)
        return;
    bool grew = p->how == OVERVIEW_NODES && run.listed > OVERVIEW_NODES_MAX;
    json_open(&o->j, NULL, '{');
    if (p->how == OVERVIEW_BRIEF || grew || o->brief)
        write_brief(&o->j, &run);
    else
        write_full(o, p, &run, r, d, when);
    json_close(&o->j, '}');
}

/* It does not fit: all again in brief, if it was not. */
static int write_again(struct overview *o, struct buf *out)
{
    if (o->brief)
        return -1;
    buf_cut(out, o->before);
    o->brief = true;
    o->next = 0;
    return 1;
}

static int write_next(struct overview *o,
                      struct buf *out,
                      const struct rdzv *r,
                      const struct status_daemon *d,
                      const struct status_when *when)
{
    if (o->next == 0) {
        json_init(&o->j, out);
        write_head(&o->j, r, d);
    }
    if (o->next < o->n_runs)
        write_one(o, &o->runs[o->next++], r, d, when);
    if (o->next < o->n_runs)
        return o->j.full ? write_again(o, out) : 1;
    json_close(&o->j, ']');
    json_int(&o->j, "runs_left_out", o->left_out);
    json_close(&o->j, '}');
    return o->j.full ? write_again(o, out) : 0;
}

int overview_step(struct overview *o,
                  struct buf *out,
                  const struct rdzv *r,
                  const struct status_daemon *d,
                  const struct status_when *when,
                  const char *only)
{
    int rc = -1;
    switch (o->state) {
    case OVERVIEW_RESTS:
        rc = begin(o, out, r, when, only);
        break;
    case OVERVIEW_COUNTS:
        rc = count(o, r, when);
        break;
    case OVERVIEW_WRITES:
        rc = write_next(o, out, r, d, when);
        break;
    }
    if (rc <= 0)
        rest(o);
    return rc;
}
