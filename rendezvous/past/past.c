/*
 * Events are folded into launches and spans as they come, so memory grows with
 * rounds times nodes and not with the files; the limits hold that, too, and
 * what is above them is counted. past_finish then works on these alone.
 */
#include "rendezvous/past/past.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define SAME_START_US 20000 /* a clock's start is read with so much jitter */
#define WHYS_MAX      100000
#define TABLE_LEN     32768 /* more than there are launches */

void past_init(struct past *h)
{
    *h = (struct past){.status = -1};
}

void past_free(struct past *h)
{
    free(h->launches);
    free(h->table);
    free(h->spans);
    free(h->failures);
    free(h->taken);
    free(h->whys);
    free(h->rounds);
    past_init(h);
}

/* -- arrays ---------------------------------------------------------------- */

/* Room for one more behind *n, of at most `max`; NULL: it is left out. */
static void *
more(int64_t *left_out, void **array, size_t *n, size_t size, size_t max)
{
    if (*n >= max) {
        (*left_out)++;
        return NULL;
    }
    if ((*n & (*n - 1)) == 0) { /* 0, 1, 2, 4, ...: it is full */
        void *grown = realloc(*array, (*n == 0 ? 1 : 2 * *n) * size);
        if (grown == NULL)
            fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the events");
        *array = grown;
    }
    char *at = (char *)*array + *n * size;
    memset(at, 0, size);
    (*n)++;
    return at;
}

static void *room_for(size_t n, size_t size)
{
    void *room = calloc(n + 1, size);
    if (room == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the events");
    return room;
}

#define MORE(h, left_out, array, max)                                          \
    more(&(h)->left_out, (void **)&(h)->array, &(h)->n_##array,                \
         sizeof((h)->array[0]), max)

static int64_t earlier_of(int64_t a_us, int64_t b_us)
{
    return a_us == 0 || b_us < a_us ? b_us : a_us;
}

static int64_t later_of(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* -- events ---------------------------------------------------------------- */

/* FNV-1a. */
static int *table_at(struct past *h, int file, const char *node)
{
    uint32_t hash = 2166136261u ^ (uint32_t)file;
    for (; *node != '\0'; node++)
        hash = (hash ^ (unsigned char)*node) * 16777619u;
    return &h->table[(hash ^ hash >> 16) % TABLE_LEN];
}

static bool is_of(const struct past_launch *l, int file, const char *node)
{
    return l->file == file && strcmp(l->node, node) == 0;
}

static int add_launch(struct past *h, int file, const struct past_line *e)
{
    struct past_launch *l = MORE(h, left_out, launches, PAST_LAUNCHES_MAX);
    if (l == NULL)
        return -1;
    int *newest = table_at(h, file, e->node);
    *l = (struct past_launch){
        .file = file,
        .base_us = e->time_us - e->up_us,
        .first_us = e->time_us,
        .exit_code = -1,
        .group_rank = -1,
        .span = -1,
        .older = *newest - 1,
    };
    (void)snprintf(l->node, sizeof(l->node), "%s", e->node);
    *newest = (int)h->n_launches;
    return *newest - 1;
}

/* The launch that began when this event says that its launch began. If there is
 * none, the clock was set, or this is the first event of another one. */
static int find_launch(struct past *h, int file, const struct past_line *e)
{
    int64_t base_us = e->time_us - e->up_us;
    int last = -1;
    if (h->table == NULL)
        h->table = room_for(TABLE_LEN, sizeof(h->table[0]));
    for (int i = *table_at(h, file, e->node) - 1; i >= 0;
         i = h->launches[i].older) {
        const struct past_launch *l = &h->launches[i];
        if (!is_of(l, file, e->node))
            continue;
        if (llabs(l->base_us - base_us) <= SAME_START_US)
            return i;
        if (last < 0)
            last = i;
    }
    bool first = last < 0 || e->kind == PAST_CONNECTING;
    return first ? add_launch(h, file, e) : last;
}

static void add_why(struct past *h,
                    int launch,
                    const struct past_line *e,
                    bool failed,
                    int64_t at_us)
{
    struct past_why *w = MORE(h, untold, whys, WHYS_MAX);
    if (w == NULL)
        return;
    *w = (struct past_why){
        .launch = launch, .round = e->round, .at_us = at_us, .failed = failed};
    (void)snprintf(w->text, sizeof(w->text), "%s", e->text); /* fits */
}

static void
add_span(struct past *h, int launch, const struct past_line *e, int64_t at)
{
    struct past_span *s = MORE(h, left_out, spans, PAST_SPANS_MAX);
    struct past_launch *l = &h->launches[launch];
    l->group_rank = e->group_rank;
    l->span = s == NULL ? -1 : (int64_t)h->n_spans - 1;
    if (s == NULL)
        return;
    *s = (struct past_span){
        .launch = launch,
        .round = e->round,
        .sealed_us = at,
        .nodes = e->nodes,
        .world_size = e->world_size,
        .restarts = e->restarts,
    };
    (void)snprintf(s->spent, sizeof(s->spent), "%s", e->spent); /* fits */
}

static void add_failure(struct past *h,
                        int launch,
                        const struct past_line *e,
                        int64_t at_us)
{
    struct past_failure *f = MORE(h, untold, failures, PAST_FAILURES_MAX);
    if (f == NULL)
        return;
    *f = (struct past_failure){
        .launch = launch, .round = e->round, .rank = e->rank, .at_us = at_us};
    (void)snprintf(f->text, sizeof(f->text), "%s", e->text); /* fits */
    (void)snprintf(f->tail, sizeof(f->tail), "%s", e->tail); /* fits */
}

static void
add_taken(struct past *h, int launch, const struct past_line *e, int64_t at_us)
{
    struct past_taken *t = MORE(h, untold, taken, PAST_TAKEN_MAX);
    if (t == NULL)
        return;
    *t = (struct past_taken){.launch = launch,
                             .at_us = at_us,
                             .epoch = e->epoch,
                             .gap_us = e->gap_us};
    (void)snprintf(t->server, sizeof(t->server), "%s", e->server);
    (void)snprintf(t->before, sizeof(t->before), "%s", e->before);
}

/* The round is over for this node, the first time that this is said. */
static void end_span(struct past *h,
                     struct past_span *s,
                     const struct past_line *e,
                     int64_t at_us)
{
    if (s == NULL || s->end_us != 0)
        return;
    s->end_us = at_us;
    s->failed = e->kind == PAST_FAILED;
    s->done = e->kind == PAST_DONE;
    if (e->detect_us > 0)
        s->sign_us = at_us - e->detect_us;
    if (!s->done)
        add_why(h, s->launch, e, s->failed, at_us);
}

static void
take_step(struct past_step *step, const struct past_line *e, int64_t at_us)
{
    if (step->at_us == 0 && e->step >= 0)
        *step = (struct past_step){.at_us = at_us, .step = e->step};
}

void past_add(struct past *h, int file, const struct past_line *e)
{
    int launch = find_launch(h, file, e);
    if (launch < 0)
        return;
    struct past_launch *l = &h->launches[launch];
    int64_t at_us = l->base_us + e->up_us;
    l->last_us = later_of(l->last_us, at_us);
    struct past_span *s = l->span < 0 ? NULL : &h->spans[l->span];
    switch (e->kind) {
    case PAST_JOINED:
        l->joined_us = earlier_of(l->joined_us, at_us);
        break;
    case PAST_SEALED:
        add_span(h, launch, e, at_us);
        break;
    case PAST_STARTED:
        if (s != NULL)
            s->started_us = later_of(s->started_us, at_us);
        break;
    case PAST_NEW_STEP:
        if (s != NULL)
            take_step(&s->fresh, e, at_us);
        break;
    case PAST_EXITED:
        if (s != NULL)
            s->exited_us = later_of(s->exited_us, at_us);
        break;
    case PAST_FAILED:
        add_failure(h, launch, e, at_us);
        end_span(h, s, e, at_us);
        break;
    case PAST_STOPPED:
    case PAST_FENCED:
    case PAST_LEAVING:
    case PAST_DONE:
        end_span(h, s, e, at_us);
        break;
    case PAST_TAKEN_OVER:
        add_taken(h, launch, e, at_us);
        break;
    case PAST_END:
        l->exit_code = e->exit_code;
        if (e->spent[0] != '\0')
            (void)snprintf(h->spent, sizeof(h->spent), "%s",
                           e->spent); /* fits */
        break;
    case PAST_OTHER:
    case PAST_CONNECTING:
        break;
    }
}

/* -- jobs of the same id --------------------------------------------------- */

/* The first round of each launch; INT64_MAX: none. */
static void first_rounds(const struct past *h, int64_t *first)
{
    for (size_t i = 0; i < h->n_launches; i++)
        first[i] = INT64_MAX;
    for (size_t i = 0; i < h->n_spans; i++)
        if (h->spans[i].round < first[h->spans[i].launch])
            first[h->spans[i].launch] = h->spans[i].round;
}

/* Rounds begin again with 1 on a node that had some before, by the same clock:
 * of a launch that is over, behind which this one stands in its file. */
static bool begins_again(const struct past *h, const int64_t *first, size_t at)
{
    const struct past_launch *l = &h->launches[at];
    if (first[at] != 1)
        return false;
    for (int i = l->older; i >= 0; i = h->launches[i].older)
        if (first[i] != INT64_MAX && h->launches[i].last_us < l->first_us &&
            is_of(&h->launches[i], l->file, l->node))
            return true;
    return false;
}

/* When the last job of several began. 0: there is one. */
static int64_t find_last_job(struct past *h)
{
    int64_t *first = room_for(h->n_launches, sizeof(first[0]));
    int64_t began_us = 0, in_file = 0;
    first_rounds(h, first);
    for (size_t i = 0; i < h->n_launches; i++) {
        if (i > 0 && h->launches[i].file != h->launches[i - 1].file)
            in_file = 0;
        if (!begins_again(h, first, i))
            continue;
        began_us = later_of(began_us, h->launches[i].first_us);
        h->earlier = later_of(h->earlier, ++in_file);
    }
    free(first);
    return began_us;
}

/* Takes out of an array all but those with a condition. */
#define KEEP(h, array, cond)                                                   \
    do {                                                                       \
        size_t kept_ = 0;                                                      \
        for (size_t i = 0; i < (h)->n_##array; i++)                            \
            if (cond)                                                          \
                (h)->array[kept_++] = (h)->array[i];                           \
        (h)->n_##array = kept_;                                                \
    } while (0)

static void drop_earlier(struct past *h)
{
    int64_t began_us = find_last_job(h);
    const struct past_launch *l = h->launches;
    if (began_us == 0)
        return;
    /* What was over by then. */
    KEEP(h, spans, l[h->spans[i].launch].last_us >= began_us);
    KEEP(h, failures, l[h->failures[i].launch].last_us >= began_us);
    KEEP(h, taken, l[h->taken[i].launch].last_us >= began_us);
    KEEP(h, whys, l[h->whys[i].launch].last_us >= began_us);
    for (size_t i = 0; i < h->n_launches; i++)
        if (h->launches[i].last_us < began_us)
            h->launches[i].file = -1; /* counts for nothing */
}

/* -- clocks ---------------------------------------------------------------- */

static int compare_spans(const void *a, const void *b)
{
    const struct past_span *x = a;
    const struct past_span *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    return (x->launch > y->launch) - (x->launch < y->launch);
}

/* The launch with the most rounds, whose clock is that of the page. */
static int find_reference(const struct past *h)
{
    size_t *n = room_for(h->n_launches, sizeof(n[0]));
    int best = 0;
    for (size_t i = 0; i < h->n_spans; i++)
        n[h->spans[i].launch]++;
    for (size_t i = 1; i < h->n_launches; i++)
        if (n[i] > n[best])
            best = (int)i;
    free(n);
    return best;
}

static const struct past_span *
span_of(const struct past *h, int launch, int64_t round)
{
    struct past_span key = {.round = round, .launch = launch};
    return bsearch(&key, h->spans, h->n_spans, sizeof(key), compare_spans);
}

/* What a launch's clock showed more than the reference's, when a round was
 * sealed. */
struct clock_look {
    int64_t launch, ahead_us;
};

static int compare_looks(const void *a, const void *b)
{
    const struct clock_look *x = a;
    const struct clock_look *y = b;
    if (x->launch != y->launch)
        return x->launch < y->launch ? -1 : 1;
    return (x->ahead_us > y->ahead_us) - (x->ahead_us < y->ahead_us);
}

/* The median of the looks counts: a message may have come late. */
static void
set_clock(struct past_launch *l, const struct clock_look *looks, size_t n)
{
    int64_t ahead_us = looks[n / 2].ahead_us;
    if (llabs(ahead_us) > PAST_SKEW_US)
        l->ahead_us = ahead_us;
}

/* A launch that has no round with the reference keeps its clock. */
static void compare_clocks(struct past *h)
{
    struct clock_look *looks = room_for(h->n_spans, sizeof(looks[0]));
    size_t n = 0;
    if (h->n_spans == 0) {
        free(looks);
        return;
    }
    qsort(h->spans, h->n_spans, sizeof(h->spans[0]), compare_spans);
    int reference = find_reference(h);
    for (size_t i = 0; i < h->n_spans; i++) {
        const struct past_span *s = &h->spans[i];
        const struct past_span *r = span_of(h, reference, s->round);
        if (r != NULL)
            looks[n++] = (struct clock_look){
                .launch = s->launch, .ahead_us = s->sealed_us - r->sealed_us};
    }
    qsort(looks, n, sizeof(looks[0]), compare_looks);
    for (size_t i = 0, first = 0; i < n; i++) {
        if (i + 1 < n && looks[i + 1].launch == looks[i].launch)
            continue;
        set_clock(&h->launches[looks[i].launch], &looks[first], i + 1 - first);
        first = i + 1;
    }
    free(looks);
}

static void shift(int64_t *at_us, int64_t ahead_us)
{
    if (*at_us != 0)
        *at_us -= ahead_us;
}

static void correct_clocks(struct past *h)
{
    for (size_t i = 0; i < h->n_spans; i++) {
        struct past_span *s = &h->spans[i];
        int64_t ahead_us = h->launches[s->launch].ahead_us;
        shift(&s->sealed_us, ahead_us);
        shift(&s->started_us, ahead_us);
        shift(&s->fresh.at_us, ahead_us);
        shift(&s->end_us, ahead_us);
        shift(&s->sign_us, ahead_us);
        shift(&s->exited_us, ahead_us);
    }
    for (size_t i = 0; i < h->n_failures; i++)
        shift(&h->failures[i].at_us,
              h->launches[h->failures[i].launch].ahead_us);
    for (size_t i = 0; i < h->n_taken; i++)
        shift(&h->taken[i].at_us, h->launches[h->taken[i].launch].ahead_us);
    for (size_t i = 0; i < h->n_whys; i++)
        shift(&h->whys[i].at_us, h->launches[h->whys[i].launch].ahead_us);
    for (size_t i = 0; i < h->n_launches; i++) {
        struct past_launch *l = &h->launches[i];
        shift(&l->joined_us, l->ahead_us);
        shift(&l->first_us, l->ahead_us);
        shift(&l->last_us, l->ahead_us);
    }
}

/* -- rounds ---------------------------------------------------------------- */

/* The round ends when the first node whose workers did not fail learns of it.
 * The first sign is a failure before that, or what the server knew of. */
static void add_to_round(struct past_round *r, const struct past_span *s)
{
    bool all_run = (r->seen == 0 || r->all_run_us > 0) && s->started_us > 0;
    r->sealed_us = earlier_of(r->sealed_us, s->sealed_us);
    r->all_run_us = all_run ? later_of(r->all_run_us, s->started_us) : 0;
    r->nodes = later_of(r->nodes, s->nodes);
    r->world_size = later_of(r->world_size, s->world_size);
    r->restarts = later_of(r->restarts, s->restarts);
    r->stopped_us = later_of(r->stopped_us, s->exited_us);
    r->done &= s->done;
    r->seen++;
    if (s->sign_us != 0)
        r->sign_us = earlier_of(r->sign_us, s->sign_us);
    if (s->failed) {
        r->failed = true;
        r->sign_us = earlier_of(r->sign_us, s->end_us);
    } else if (s->end_us != 0 && !s->done) {
        r->end_us = earlier_of(r->end_us, s->end_us);
    }
}

/* Spans of one round, from a first to behind a last one. */
static void add_round(struct past *h,
                      const struct past_span *from,
                      const struct past_span *to)
{
    struct past_round *r = &h->rounds[h->n_rounds++];
    int64_t last_us = 0;
    *r = (struct past_round){.round = from->round,
                             .done = true,
                             .from = (size_t)(from - h->spans),
                             .to = (size_t)(to - h->spans)};
    for (const struct past_span *s = from; s < to; s++) {
        add_to_round(r, s);
        last_us = later_of(last_us, s->end_us);
    }
    if (r->end_us == 0) /* all of them failed, or are done */
        r->end_us = r->failed ? r->sign_us : r->done ? last_us : 0;
    if (r->sign_us == 0 || r->sign_us > r->end_us)
        r->sign_us = r->end_us;
}

/* One of which no end is told, but another one came: its nodes all died. */
static void close_rounds(struct past *h)
{
    for (size_t i = 0; i + 1 < h->n_rounds; i++) {
        struct past_round *r = &h->rounds[i];
        if (r->end_us != 0)
            continue;
        r->end_us = r->stopped_us > 0 ? r->stopped_us : r[1].sealed_us;
        r->sign_us = r->sign_us == 0 ? r->end_us : r->sign_us;
    }
}

static void make_rounds(struct past *h)
{
    size_t from = 0;
    free(h->rounds);
    h->n_rounds = 0;
    h->rounds = room_for(h->n_spans, sizeof(h->rounds[0]));
    for (size_t i = 0; i < h->n_spans; i++) {
        if (i + 1 < h->n_spans && h->spans[i + 1].round == h->spans[i].round)
            continue;
        add_round(h, &h->spans[from], &h->spans[i + 1]);
        from = i + 1;
    }
    close_rounds(h);
}

/* By round; a failure before what others were told. */
static int compare_whys(const void *a, const void *b)
{
    const struct past_why *x = a;
    const struct past_why *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    if (x->failed != y->failed)
        return x->failed ? -1 : 1;
    return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

static void name_ends(struct past *h)
{
    size_t at = 0;
    if (h->n_whys > 0)
        qsort(h->whys, h->n_whys, sizeof(h->whys[0]), compare_whys);
    for (size_t i = 0; i < h->n_rounds; i++) {
        struct past_round *r = &h->rounds[i];
        while (at < h->n_whys && h->whys[at].round < r->round)
            at++;
        if (at < h->n_whys && h->whys[at].round == r->round)
            (void)snprintf(r->why, sizeof(r->why), "%s", h->whys[at].text);
    }
}

static int compare_failures(const void *a, const void *b)
{
    int64_t x = ((const struct past_failure *)a)->at_us;
    int64_t y = ((const struct past_failure *)b)->at_us;
    return (x > y) - (x < y);
}

static int compare_taken(const void *a, const void *b)
{
    int64_t x = ((const struct past_taken *)a)->at_us;
    int64_t y = ((const struct past_taken *)b)->at_us;
    return (x > y) - (x < y);
}

/* Of all nodes, as they came. */
static void sort_by_time(struct past *h)
{
    if (h->n_failures > 0)
        qsort(h->failures, h->n_failures, sizeof(h->failures[0]),
              compare_failures);
    if (h->n_taken > 0)
        qsort(h->taken, h->n_taken, sizeof(h->taken[0]), compare_taken);
}

/* -- the sum --------------------------------------------------------------- */

/* Notes for the account, as a server's core would give them. By one clock,
 * which is a little wrong: never before the last one. */
struct teller {
    struct past *past;
    struct account *account;
    int64_t at_us;
};

static void tell_phase(struct teller *t,
                       const struct past_round *r,
                       int64_t at_us,
                       struct note_phase *p)
{
    t->at_us = later_of(at_us, t->at_us);
    p->sealed_us = r != NULL ? r->sealed_us : 0;
    p->nodes = r != NULL ? (int)r->nodes : 0;
    p->world_size = r != NULL ? (int)r->world_size : 0;
    p->told_us = t->at_us;
    p->why = r != NULL ? r->why : "";
    p->told = p->told != NULL ? p->told : "";
    account_take(t->account, &(struct note){.kind = NOTE_phase,
                                            .round = r != NULL ? r->round : 0,
                                            .at_us = t->at_us,
                                            .phase = p});
}

static void
tell_step(struct teller *t, int64_t round, const struct past_step *step)
{
    const struct note_steps steps = {.steps = step->step + 1};
    t->at_us = later_of(step->at_us, t->at_us);
    account_take(t->account, &(struct note){.kind = NOTE_steps,
                                            .round = round,
                                            .at_us = t->at_us,
                                            .steps = &steps});
}

static int compare_steps(const void *a, const void *b)
{
    const struct past_step *x = a;
    const struct past_step *y = b;
    return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

/* What its nodes tell of their steps, as it came. Returns how many there are;
 * the caller frees them. */
static size_t find_steps(const struct past *h,
                         const struct past_round *r,
                         struct past_step **steps)
{
    size_t n = 0;
    *steps = room_for(r->to - r->from, sizeof(**steps));
    for (size_t i = r->from; i < r->to; i++)
        if (h->spans[i].fresh.at_us != 0)
            (*steps)[n++] = h->spans[i].fresh;
    qsort(*steps, n, sizeof(**steps), compare_steps);
    return n;
}

/* All workers have been started, some of which tell steps before the others
 * have been. */
static void tell_begin(struct teller *t, const struct past_round *r)
{
    struct past_step *steps;
    size_t n = find_steps(t->past, r, &steps), i = 0;
    for (; i < n && steps[i].at_us < r->all_run_us; i++)
        tell_step(t, r->round, &steps[i]);
    tell_phase(t, r, r->all_run_us,
               &(struct note_phase){.phase = PHASE_RUNS, .sealed = true});
    for (; i < n; i++)
        tell_step(t, r->round, &steps[i]);
    free(steps);
}

static const char *told_of(const struct past *h, const struct past_round *r)
{
    for (size_t i = r->from; i < r->to; i++)
        if (h->spans[i].spent[0] != '\0')
            return h->spans[i].spent;
    return "";
}

/* The timeline keeps the last rounds only. */
static void take_costs(struct past *h, const struct account *a, size_t upto)
{
    int len = timeline_len(&a->timeline);
    for (int i = len > 2 ? len - 2 : 0; i < len; i++) {
        const struct timeline_round *t = timeline_at(&a->timeline, i);
        for (size_t k = upto > 1 ? upto - 1 : 0; k <= upto; k++)
            if (h->rounds[k].round == t->number)
                h->rounds[k].cost = t->cost;
    }
}

/* No round before this one ran, as the first step says; so has the timeline
 * those that it keeps. */
static void start_over(struct past *h, size_t i)
{
    struct goodput_parts nobodys = {.restart_us = 0}, *payer = &nobodys;
    for (size_t k = 0; k < i; k++) {
        goodput_was_start(&h->rounds[k].cost, payer);
        payer = &h->rounds[k].cost;
    }
}

/* That nodes are missing is not believed if the next seal comes as soon as
 * messages do. */
static void tell_round(struct teller *t, size_t i)
{
    struct past *h = t->past;
    const struct past_round *r = &h->rounds[i];
    bool last = i + 1 == h->n_rounds;
    tell_phase(t, r, r->sealed_us,
               &(struct note_phase){.phase = PHASE_STARTS,
                                    .sealed = true,
                                    .told = told_of(h, r)});
    bool knew = account_knows_start(t->account);
    if (r->all_run_us > 0 && (r->end_us == 0 || r->all_run_us < r->end_us))
        tell_begin(t, r);
    if (!last) {
        tell_phase(t, r, r->end_us,
                   &(struct note_phase){.phase = PHASE_STARTS,
                                        .sign_us = r->sign_us,
                                        .end = r->failed ? ROUND_FAILED
                                                         : ROUND_STOPPED});
        if (r[1].sealed_us - r->stopped_us > PAST_SKEW_US)
            tell_phase(t, r, r->stopped_us,
                       &(struct note_phase){.phase = PHASE_WAITS,
                                            .end = r->failed ? ROUND_FAILED
                                                             : ROUND_STOPPED});
    }
    if (!knew && account_knows_start(t->account))
        start_over(h, i);
    take_costs(h, t->account, i);
}

static void sum_up(struct past *h)
{
    struct teller t = {.past = h, .account = &h->account};
    const struct past_round *last =
        h->n_rounds > 0 ? &h->rounds[h->n_rounds - 1] : NULL;
    tell_phase(&t, NULL, h->start_us,
               &(struct note_phase){.phase = PHASE_WAITS, .anew = true});
    for (size_t i = 0; i < h->n_rounds; i++)
        tell_round(&t, i);
    tell_phase(
        &t, last, h->end_us,
        &(struct note_phase){
            .phase = PHASE_OVER,
            .sign_us = last != NULL && last->end_us > 0 ? last->sign_us : 0,
            .end = last == NULL || !last->done ? ROUND_STOPPED : ROUND_DONE,
            .told = h->spent});
    h->end_us = t.at_us; /* later, if clocks contradict each other */
    h->sum = account_goodput(&h->account, h->end_us);
    if (last != NULL)
        take_costs(h, &h->account, h->n_rounds - 1);
}

static void find_ends(struct past *h)
{
    const struct past_round *last =
        h->n_rounds > 0 ? &h->rounds[h->n_rounds - 1] : NULL;
    int64_t last_us = 0;
    for (size_t i = 0; i < h->n_launches; i++) {
        const struct past_launch *l = &h->launches[i];
        if (l->file < 0)
            continue;
        if (l->joined_us != 0)
            h->start_us = earlier_of(h->start_us, l->joined_us);
        last_us = later_of(last_us, l->last_us);
        h->status = later_of(h->status, l->exit_code);
    }
    for (size_t i = 0; i < h->n_rounds; i++) {
        h->nodes = later_of(h->nodes, h->rounds[i].nodes);
        h->restarts = later_of(h->restarts, h->rounds[i].restarts);
    }
    h->end_us = last != NULL && last->end_us > 0 ? last->end_us : last_us;
}

int past_finish(struct past *h, struct ddp_err *err)
{
    drop_earlier(h);
    compare_clocks(h);
    correct_clocks(h);
    sort_by_time(h);
    make_rounds(h);
    name_ends(h);
    find_ends(h);
    if (h->start_us == 0)
        return ddp_err_set(err, DDP_E_NOINPUT,
                           "no launch of run '%.128s' came to the rendezvous: "
                           "there is nothing to sum up",
                           h->run);
    sum_up(h);
    return 0;
}
