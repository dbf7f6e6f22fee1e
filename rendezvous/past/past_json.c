#include "rendezvous/past/past_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/json.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/account/account_json.h"

#define CLOCKS_TOLD 20

/* The index of the first of the last `most`. */
static size_t first_of(size_t n, size_t most)
{
    return n > most ? n - most : 0;
}

/* -- rounds ---------------------------------------------------------------- */

static const struct past_round *last_round(const struct past *p)
{
    return p->n_rounds > 0 ? &p->rounds[p->n_rounds - 1] : NULL;
}

static void write_round(struct json *j, const struct past_round *r)
{
    enum round_end end = r->done     ? ROUND_DONE
                         : r->failed ? ROUND_FAILED
                                     : ROUND_STOPPED;
    bool untold = r->why[0] == '\0' && !r->done;
    json_open(j, NULL, '{');
    json_int(j, "round", r->round);
    json_micros(j, "sealed_unix", r->sealed_us);
    json_int(j, "nodes", r->nodes);
    json_int(j, "world_size", r->world_size);
    account_json_parts(j, &r->cost);
    if (r->end_us > 0) {
        json_text(j, "ended", timeline_word(end));
        json_text(j, "text", untold ? "no word of its end" : r->why);
    }
    json_close(j, '}');
}

static void write_timeline(struct json *j, const struct past *p)
{
    size_t first = first_of(p->n_rounds, PAST_JSON_ROUNDS_MAX);
    json_open(j, "timeline", '[');
    for (size_t i = first; i < p->n_rounds; i++)
        write_round(j, &p->rounds[i]);
    json_close(j, ']');
    json_int(j, "timeline_left_out", (int64_t)first);
}

/* -- failures and take-overs ----------------------------------------------- */

static void write_tail(struct json *j, const char *tail)
{
    json_open(j, "tail", '[');
    while (*tail != '\0') {
        char line[PAST_TAIL_SIZE]; /* holds the whole tail */
        size_t len = strcspn(tail, "\n");
        ddp_assert(len < sizeof(line));
        memcpy(line, tail, len);
        line[len] = '\0';
        json_text(j, NULL, line);
        tail += len + (tail[len] == '\n');
    }
    json_close(j, ']');
}

static void write_failures(struct json *j, const struct past *p)
{
    size_t first = first_of(p->n_failures, PAST_JSON_FAILURES_MAX);
    json_open(j, "failures", '[');
    for (size_t i = first; i < p->n_failures; i++) {
        const struct past_failure *f = &p->failures[i];
        json_open(j, NULL, '{');
        json_micros(j, "at_unix", f->at_us);
        json_int(j, "round", f->round);
        json_text(j, "node", p->launches[f->launch].node);
        if (f->rank >= 0)
            json_int(j, "rank", f->rank);
        json_text(j, "text", f->text);
        if (f->tail[0] != '\0' && i + PAST_JSON_TAILS_MAX >= p->n_failures)
            write_tail(j, f->tail);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_int(j, "failures_left_out", (int64_t)first);
}

static void write_taken(struct json *j, const struct past *p)
{
    size_t first = first_of(p->n_taken, PAST_JSON_TAKEN_MAX);
    json_open(j, "takeovers", '[');
    for (size_t i = first; i < p->n_taken; i++) {
        const struct past_taken *t = &p->taken[i];
        json_open(j, NULL, '{');
        json_micros(j, "at_unix", t->at_us);
        json_text(j, "node", p->launches[t->launch].node);
        json_int(j, "term", t->epoch);
        json_text(j, "server", t->server);
        json_text(j, "before", t->before);
        json_micros(j, "gap_s", t->gap_us);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_int(j, "takeovers_left_out", (int64_t)first);
}

/* -- launches -------------------------------------------------------------- */

/* A launch that is told, and which of all it is. */
struct past_row {
    int launch;
    int64_t group_rank;
    bool failed;
};

/* By rank; if there is no room for all, those on which something failed come
 * first. */
static int compare_rows(const void *a, const void *b)
{
    const struct past_row *x = a;
    const struct past_row *y = b;
    if (x->failed != y->failed)
        return x->failed ? -1 : 1;
    if (x->group_rank != y->group_rank)
        return x->group_rank < y->group_rank ? -1 : 1;
    return (x->launch > y->launch) - (x->launch < y->launch);
}

static size_t make_rows(const struct past *p, struct past_row *rows)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_launches; i++)
        if (p->launches[i].file >= 0)
            rows[n++] = (struct past_row){
                .launch = (int)i, .group_rank = p->launches[i].group_rank};
    for (size_t i = 0; n > PAST_JSON_LAUNCHES_MAX && i < p->n_failures; i++)
        for (size_t k = 0; k < n; k++)
            rows[k].failed |= rows[k].launch == p->failures[i].launch;
    qsort(rows, n, sizeof(rows[0]), compare_rows);
    return n;
}

static void
write_span(struct json *j, const struct past *p, const struct past_span *s)
{
    int64_t last_us = p->launches[s->launch].last_us;
    json_open(j, NULL, '{');
    json_int(j, "round", s->round);
    json_micros(j, "sealed_unix", s->sealed_us);
    if (s->started_us > 0)
        json_micros(j, "started_unix", s->started_us);
    json_micros(j, "ended_unix", s->end_us > 0 ? s->end_us : last_us);
    json_bool(j, "failed", s->failed);
    json_close(j, '}');
}

static void write_launch(struct json *j,
                         const struct past *p,
                         const struct past_row *row,
                         int64_t from)
{
    json_open(j, NULL, '{');
    json_text(j, "node", p->launches[row->launch].node);
    json_int(j, "group_rank", row->group_rank);
    json_open(j, "spans", '[');
    for (size_t i = 0; i < p->n_spans; i++)
        if (p->spans[i].launch == row->launch && p->spans[i].round >= from)
            write_span(j, p, &p->spans[i]);
    json_close(j, ']');
    json_close(j, '}');
}

/* Returns whether there was memory for it. */
static bool write_launches(struct json *j, const struct past *p)
{
    struct past_row *rows = calloc(p->n_launches + 1, sizeof(rows[0]));
    if (rows == NULL)
        return false;
    size_t n = make_rows(p, rows);
    size_t told = n < PAST_JSON_LAUNCHES_MAX ? n : PAST_JSON_LAUNCHES_MAX;
    size_t first = first_of(p->n_rounds, PAST_JSON_SPANS_MAX / (told + 1));
    int64_t from = first > 0 ? p->rounds[first].round : 0;
    json_open(j, "launches", '[');
    for (size_t i = 0; i < told; i++)
        write_launch(j, p, &rows[i], from);
    json_close(j, ']');
    json_int(j, "launches_left_out", (int64_t)(n - told));
    json_int(j, "launches_from_round", from);
    free(rows);
    return true;
}

/* -- notes ----------------------------------------------------------------- */

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

__attribute__((format(printf, 2, 3))) static void
say(struct json *j, const char *format, ...)
{
    char text[256]; /* longer than any sentence here */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_text(j, NULL, text);
}

static void say_clocks(struct json *j, const struct past *p)
{
    int said = 0;
    for (size_t i = 0; i < p->n_launches && said < CLOCKS_TOLD; i++) {
        const struct past_launch *l = &p->launches[i];
        if (l->file < 0 || l->ahead_us == 0)
            continue;
        say(j, "The clock of %s was %.3f s %s; its times are corrected.",
            l->node, (double)llabs(l->ahead_us) / (double)MONO_S,
            l->ahead_us > 0 ? "ahead" : "behind");
        said++;
    }
}

/* Nodes of a round without events. */
static int64_t missing(const struct past *p)
{
    int64_t most = 0;
    for (size_t i = 0; i < p->n_rounds; i++)
        if (p->rounds[i].nodes - p->rounds[i].seen > most)
            most = p->rounds[i].nodes - p->rounds[i].seen;
    return most;
}

static bool is_done(const struct past *p)
{
    return last_round(p) != NULL && last_round(p)->done;
}

static bool is_over(const struct past *p)
{
    return p->status >= 0 || is_done(p);
}

static void say_left_out(struct json *j, const struct past *p)
{
    if (p->earlier > 0)
        say(j, "%lld earlier job%s of this id left out.", (long long)p->earlier,
            p->earlier == 1 ? " is" : "s are");
    if (p->untold > 0)
        say(j,
            "%lld failure%s, reasons and take-overs above the limits are left "
            "out.",
            (long long)p->untold, plural(p->untold));
    if (p->left_out > 0)
        say(j,
            "There is too much for one page: %lld part%s left out, and the "
            "sums are wrong.",
            (long long)p->left_out, p->left_out == 1 ? " is" : "s are");
}

static void write_notes(struct json *j,
                        const struct past *p,
                        const struct past_files *files)
{
    int64_t gone = missing(p);
    json_open(j, "notes", '[');
    say_clocks(j, p);
    if (!is_over(p))
        say(j, "The files do not tell the end of the run: it goes on, or all "
               "its launchers were killed. The sums are those up to the last "
               "event.");
    if (gone > 0)
        say(j,
            "The events of up to %lld node%s of a round are missing: the sums "
            "may be wrong.",
            (long long)gone, plural(gone));
    if (files->torn > 0)
        say(j,
            "%lld file%s with a last line that is not whole: a launcher was "
            "killed, or still writes.",
            (long long)files->torn, files->torn == 1 ? " ends" : "s end");
    if (files->bad > 0)
        say(j, "%lld line%s no event, and left out.", (long long)files->bad,
            files->bad == 1 ? " is" : "s are");
    say_left_out(j, p);
    json_close(j, ']');
}

/* -- the document ---------------------------------------------------------- */

static void write_report(struct json *j,
                         const struct past *p,
                         const struct past_files *files)
{
    json_open(j, "report", '{');
    json_int(j, "files", files->files);
    json_int(j, "torn_lines", files->torn);
    json_int(j, "bad_lines", files->bad);
    json_int(j, "nodes_missing", missing(p));
    write_notes(j, p, files);
    json_close(j, '}');
}

static void write_end(struct json *j, const struct past *p)
{
    if (!is_over(p))
        return;
    json_open(j, "end", '{');
    json_int(j, "status", p->status >= 0 ? p->status : 0);
    json_text(j, "text",
              is_done(p)      ? "all workers succeeded"
              : last_round(p) ? last_round(p)->why
                              : "");
    json_close(j, '}');
}

static bool write_run(struct json *j, const struct past *p)
{
    const struct past_round *last = last_round(p);
    json_open(j, NULL, '{');
    json_text(j, "id", p->run);
    json_text(j, "state", is_over(p) ? "ended" : "active");
    json_int(j, "round", last != NULL ? last->round : 0);
    json_int(j, "nodes", p->nodes);
    json_int(j, "world_size", last != NULL ? last->world_size : 0);
    json_int(j, "restarts", p->restarts);
    json_micros(j, "began_unix", p->start_us);
    json_micros(j, "uptime_s", p->end_us - p->start_us);
    write_end(j, p);
    account_json(j, &p->account, p->end_us);
    write_timeline(j, p);
    write_failures(j, p);
    write_taken(j, p);
    bool whole = write_launches(j, p);
    json_close(j, '}');
    return whole;
}

bool past_json(const struct past *p,
               const struct past_files *files,
               struct buf *out)
{
    struct json j;
    json_init(&j, out);
    json_open(&j, NULL, '{');
    json_text(&j, "version", DDPRUN_VERSION);
    write_report(&j, p, files);
    json_open(&j, "runs", '[');
    bool whole = write_run(&j, p);
    json_close(&j, ']');
    json_int(&j, "runs_left_out", 0);
    json_close(&j, '}');
    return whole && !j.full;
}
