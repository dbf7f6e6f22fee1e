/* links: tests/sim/{machine,net,dial,nodes,beside,faults,server,watch} */
/* links: tests/sim/{rounds,settle} CORE */
/* links: launcher/agent/{agent,tell,vote,candidates,end,search,session,work} */
/* links: launcher/agent/state rendezvous/proto/{msg,term,exits} */
/* links: rendezvous/base/{signals_name,err,mono,rng,json,utf8,buf} */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

/* -- the heap of events ---------------------------------------------------- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void grow_heap(struct sim *s)
{
    if (s->n_heap < s->cap_heap)
        return;
    s->cap_heap = s->cap_heap == 0 ? 1024 : s->cap_heap * 2;
    s->heap = realloc(s->heap, s->cap_heap * sizeof(s->heap[0]));
    if (s->heap == NULL)
        abort();
}

void sim_push(struct sim *s, struct event ev)
{
    grow_heap(s);
    ev.seq = s->seq++;
    size_t i = s->n_heap++;
    while (i > 0 && is_before(&ev, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = ev;
}

static struct event pop(struct sim *s)
{
    struct event top = s->heap[0];
    struct event last = s->heap[--s->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->n_heap)
            break;
        if (child + 1 < s->n_heap &&
            is_before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!is_before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static void dispatch(struct sim *s, const struct event *ev)
{
    switch (ev->kind) {
    case EV_PUMP:
        if (s->conns[ev->of].gen == ev->gen)
            net_pump(s, ev->of, (enum dir)ev->a);
        return;
    case EV_SYN:
        if (s->conns[ev->of].gen == ev->gen)
            dial_syn(s, ev->of);
        return;
    case EV_CONNECT_TIMEOUT:
        if (s->conns[ev->of].gen != ev->gen)
            return;
        if (!node_is_frozen(&s->nodes[s->conns[ev->of].node])) {
            dial_timeout(s, ev->of);
        } else {
            struct event later = *ev;
            later.at_us = s->now_us + 100 * MONO_MS;
            sim_push(s, later);
        }
        return;
    case EV_TCP_TIMEOUT:
        if (s->conns[ev->of].gen == ev->gen)
            net_timeout(s, ev->of, ev->a);
        return;
    case EV_SERVER_TICK:
    case EV_SERVER_DIES:
        server_event(s, ev);
        return;
    case EV_WORKER_DYING:
    case EV_WORKER_END:
    case EV_REAPED:
    case EV_NODE_TICK:
    case EV_GUARD:
    case EV_FAREWELL:
    case EV_SERVES:
        node_event(s, ev);
        return;
    }
    DDP_WRONG("event kind");
}

void sim_run_until(struct sim *s, int64_t at_us)
{
    while (s->n_heap > 0 && s->heap[0].at_us <= at_us && s->broken[0] == '\0') {
        struct event ev = pop(s);
        s->now_us = ev.at_us;
        dispatch(s, &ev);
    }
    if (s->now_us < at_us)
        s->now_us = at_us;
}

/* -- chance ---------------------------------------------------------------- */

bool sim_random(const struct sim *s)
{
    return s->conf.jitter_us > 0;
}

uint32_t sim_rnd(struct sim *s, uint32_t below)
{
    return sim_random(s) && below > 0 ? rng_below(&s->rng, below) : 0;
}

/* -- telling --------------------------------------------------------------- */

static void add_line(struct sim *s, const char *line)
{
    size_t len = strlen(line);
    if (s->trace_len + len + 1 > s->trace_cap) {
        s->trace_cap = (s->trace_cap + len + 1) * 2;
        s->trace = realloc(s->trace, s->trace_cap);
        if (s->trace == NULL)
            abort();
    }
    memcpy(s->trace + s->trace_len, line, len + 1);
    s->trace_len += len;
    if (s->conf.print)
        (void)fputs(line, stdout);
}

void sim_tell(struct sim *s, const char *who, const char *fmt, ...)
{
    if (!s->conf.trace)
        return;
    char text[900];
    char line[1000];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)snprintf(line, sizeof(line), "[%6lld] %-5s %s\n",
                   (long long)(s->now_us / MONO_MS), who, text);
    add_line(s, line);
}

void sim_tell_note(struct sim *s, const char *who, const struct note *n)
{
    if (!s->conf.trace || note_level(n->kind) <= NOTE_DEBUG)
        return;
    char text[800];
    note_format(n, text, sizeof(text));
    const char *rest = text; /* all is of one run: leave its name out */
    if (strncmp(text, "run sim ", 8) == 0)
        rest += 8;
    sim_tell(s, who, "%s", rest);
}

void sim_break(struct sim *s, const char *fmt, ...)
{
    if (s->broken[0] != '\0')
        return;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)snprintf(s->broken, sizeof(s->broken), "at %lld ms: %s",
                   (long long)(s->now_us / MONO_MS), text);
    sim_tell(s, "BROKEN", "%s", text);
}

/* -- life ------------------------------------------------------------------ */

static void *xalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        abort();
    return p;
}

struct sim *sim_new(const struct sim_conf *conf)
{
    struct sim *s = xalloc(1, sizeof(*s));
    s->conf = *conf;
    s->finish_us = -1;
    s->count[SIM_LISTED] = conf->endpoints > 1;
    s->count[SIM_BEHIND] = conf->behind > 1;
    for (int i = 0; i < MACHINES_MAX; i++)
        s->machines[i].tenant = -1;
    s->conns = xalloc(CONNS_MAX, sizeof(s->conns[0]));
    s->nodes = xalloc(SIM_AGENTS_MAX, sizeof(s->nodes[0]));
    s->instances = xalloc(INSTANCES_MAX, sizeof(s->instances[0]));
    rng_init(&s->rng, conf->seed);
    return s;
}

void sim_del(struct sim *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < MACHINES_MAX; i++)
        rdzv_del(s->servers[i].rdzv);
    net_free(s);
    round_free(s);
    free(s->heap);
    free(s->trace);
    free(s->nodes);
    free(s->instances);
    free(s);
}

/* -- looking --------------------------------------------------------------- */

const char *sim_count_meaning(enum sim_count c)
{
    static const char *const meanings[] = {
#define SIM_COUNT(name, meaning) meaning,
#include "tests/sim/counts.def"
#undef SIM_COUNT
    };
    return meanings[c];
}

int64_t sim_now_us(const struct sim *s)
{
    return s->now_us;
}

int sim_agents(const struct sim *s)
{
    return s->n_nodes;
}

const char *sim_broken(const struct sim *s)
{
    return s->broken[0] != '\0' ? s->broken : NULL;
}

const char *sim_trace(const struct sim *s)
{
    return s->trace != NULL ? s->trace : "";
}

int64_t sim_counted(const struct sim *s, enum sim_count c)
{
    return s->count[c];
}

bool sim_is_alive(const struct sim *s, int i)
{
    return s->nodes[i].alive;
}

bool sim_is_whole(const struct sim *s, int i)
{
    const struct node_sim *n = &s->nodes[i];
    return n->alive && !node_is_frozen(n) &&
           machine_reaches(s, n->machine, OUTSIDE) &&
           machine_reaches(s, OUTSIDE, n->machine);
}

bool sim_is_killed(const struct sim *s, int i)
{
    return s->nodes[i].killed;
}

const struct agent *sim_agent(const struct sim *s, int i)
{
    return &s->nodes[i].agent;
}

int sim_workers(const struct sim *s, int i)
{
    int n = 0;
    for (int k = 0; k < SIM_PROCS_MAX; k++)
        n += s->nodes[i].workers[k].alive;
    return n;
}

int sim_exit_status(const struct sim *s, int i)
{
    return s->nodes[i].exit_status;
}

bool sim_server_is_up(const struct sim *s)
{
    return server_is_up(s, OUTSIDE);
}
