/* The report as JSON; its fields are told in man/ddprun.1. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/report.h"
#include "launcher/report_ends.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define CONSEQUENCES_MAX 4096

static void add_number(cJSON *o, const char *name, int64_t n)
{
    cJSON_AddNumberToObject(o, name, (double)n);
}

static void add_seconds(cJSON *o, const char *name, int64_t us)
{
    cJSON_AddNumberToObject(o, name, (double)us / (double)MONO_S);
}

/* What ended the run, on `node`, and when; null and NULL where that is "". */
static cJSON *add_cause(cJSON *root,
                        const char *name,
                        const struct agent_verdict *v,
                        const char *node)
{
    if (!v->ended || node[0] == '\0') {
        cJSON_AddNullToObject(root, name);
        return NULL;
    }
    char when[64];
    cJSON *o = cJSON_AddObjectToObject(root, name);
    report_time(v->end.age_us + mono_now_us() - v->heard_us, when,
                sizeof(when));
    cJSON_AddStringToObject(o, "node", node);
    add_number(o, "round", v->end.round);
    cJSON_AddStringToObject(o, "time", when);
    return o;
}

static void add_first_failure(cJSON *root, const struct agent_verdict *v)
{
    const struct msg_end *e = &v->end;
    cJSON *o = add_cause(root, "first_failure", v, e->node);
    if (o == NULL)
        return;
    add_number(o, "rank", e->rank);
    add_number(o, "local_rank", e->local_rank);
    add_number(o, "pid", e->pid);
    journal_add_end(o, (int)e->code, (int)e->signal);
    cJSON_AddBoolToObject(o, "out_of_memory", e->oom != 0);
    cJSON_AddStringToObject(o, "error", e->error);
    cJSON_AddStringToObject(o, "stderr", e->tail);
    cJSON_AddStringToObject(o, "traceback", e->trace);
}

static void add_loss(cJSON *root, const struct agent_verdict *v)
{
    cJSON *o = add_cause(root, "node_lost", v, v->end.lost);
    if (o != NULL)
        cJSON_AddStringToObject(o, "how", v->end.lost_how);
}

struct list {
    cJSON *array;
    int len;
};

/* One object for each worker, a bounded number of them. */
static void add_consequence(void *ctx, const struct report_end *e)
{
    struct list *list = ctx;
    for (int i = 0; i < e->count && list->len < CONSEQUENCES_MAX; i++) {
        cJSON *o = cJSON_CreateObject();
        if (o == NULL)
            return;
        cJSON_AddStringToObject(o, "node", e->node);
        add_number(o, "rank", e->rank + i);
        add_number(o, "local_rank", e->local_rank + i);
        if (e->pids != NULL)
            add_number(o, "pid", e->pids[i]);
        journal_add_end(o, e->code, e->signal);
        (void)cJSON_AddItemToArray(list->array, o); /* else it is left out */
        list->len++;
    }
}

static void add_consequences(cJSON *root,
                             const struct agent_verdict *v,
                             const struct journal *j)
{
    struct list list = {.array = cJSON_AddArrayToObject(root, "consequences")};
    report_ends_each(v, j, add_consequence, &list);
}

static void add_ends(cJSON *root, const struct msg_end *e)
{
    cJSON *o = cJSON_AddObjectToObject(root, "consequences_in_all");
    add_number(o, "sigterm", e->by_term);
    add_number(o, "sigkill", e->by_kill);
    add_number(o, "other_signals", e->by_signal);
    add_number(o, "exit_codes", e->by_code);
}

static void add_times(cJSON *root, const struct journal *j)
{
    cJSON *o = cJSON_AddObjectToObject(root, "time");
    add_seconds(o, "wall_s", mono_now_us() - j->start_us);
    add_seconds(o, "waiting_s", j->waiting_us);
    add_seconds(o, "running_s", j->running_us);
    add_seconds(o, "restarting_s", j->restarting_us);
}

static char *make_json(const struct conf *conf,
                       const struct agent_verdict *v,
                       const struct journal *j,
                       const char *logs)
{
    cJSON *root = cJSON_CreateObject();
    const char *reason = v->ended ? v->end.text : v->text;
    add_number(root, "version", 1);
    cJSON_AddStringToObject(root, "run", conf->run_id);
    cJSON_AddStringToObject(root, "node", j->node);
    add_number(root, "status", v->status);
    cJSON_AddBoolToObject(root, "succeeded", v->status == 0);
    cJSON_AddStringToObject(root, "reason", reason);
    add_first_failure(root, v);
    add_loss(root, v);
    add_consequences(root, v, j);
    add_ends(root, &v->end);
    add_number(root, "stopped", j->stopped);
    add_number(root, "round", j->round);
    add_number(root, "rounds_here", j->rounds);
    add_number(root, "restarts", v->ended ? v->end.restarts : j->restarts);
    add_number(root, "max_restarts", conf->max_restarts);
    add_times(root, j);
    cJSON_AddStringToObject(root, "logs", logs);
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

/* Not by a rename where it is no plain file: /dev/stdout, a FIFO. */
static bool write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return false;
    bool good = fprintf(f, "%s\n", text) > 0;
    return (fclose(f) == 0) && good;
}

void report_write(const struct conf *conf,
                  const struct agent_verdict *v,
                  const struct journal *j,
                  const char *logs)
{
    const char *path = conf->output.report;
    char aside[sizeof(conf->output.report) + 16];
    char *text = make_json(conf, v, j, logs);
    (void)snprintf(aside, /* fits */
                   sizeof(aside), "%s.%d", path, (int)getpid());
    bool special = strncmp(path, "/dev/", 5) == 0;
    errno = ENOMEM;
    bool good = text != NULL && write_file(special ? path : aside, text) &&
                (special || rename(aside, path) == 0);
    if (!good)
        log_warn("cannot write the report to %s", path);
    if (!good && !special)
        (void)unlink(aside);
    free(text);
}
