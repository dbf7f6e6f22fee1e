/*
 * Runs of workers that ended in the same way, as text and back. A job of 10,000
 * workers that loses one of them ends with 9,999 exits by SIGTERM: one run for
 * each node. The space is fixed on both sides, so the worst case (each worker
 * ends in another way) is cut and not refused; readers have the counts.
 */
#include "rendezvous/proto/exits.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define RUN_LONG 15 /* "4094-4095=-127 " */
#define RANK_MAX INT64_C(409600000)
_Static_assert(EXITS_RUNS *RUN_LONG <= EXITS_TEXT_MAX, "all runs fit");

/* -- one node -------------------------------------------------------------- */

/* Whether run `i` continues the one before it: the next rank, ended alike. */
static bool continues(const struct exits *e, int i)
{
    return i > 0 && i < e->n && e->runs[i - 1].how == e->runs[i].how &&
           e->runs[i - 1].last + 1 == e->runs[i].first;
}

static void join_runs(struct exits *e, int i)
{
    if (!continues(e, i))
        return;
    e->runs[i - 1].last = e->runs[i].last;
    e->n--;
    memmove(&e->runs[i], &e->runs[i + 1],
            (size_t)(e->n - i) * sizeof(e->runs[0]));
}

void exits_add(struct exits *e, int local_rank, int how)
{
    ddp_assert(local_rank >= 0 && local_rank <= EXITS_LOCAL_MAX);
    ddp_assert(e->n >= 0 && e->n <= EXITS_RUNS);
    int at = e->n;
    while (at > 0 && e->runs[at - 1].first > local_rank)
        at--;
    memmove(&e->runs[at + 1], &e->runs[at],
            (size_t)(e->n - at) * sizeof(e->runs[0]));
    e->n++;
    e->runs[at] = (struct exits_run){
        .first = (int16_t)local_rank,
        .last = (int16_t)local_rank,
        .how = (int16_t)how,
    };
    join_runs(e, at + 1);
    join_runs(e, at);
    if (e->n > EXITS_RUNS)
        e->n = EXITS_RUNS;
}

static int print_run(const struct exits_run *r, char text[24])
{
    if (r->first == r->last)
        return snprintf(text, 24, "%d=%d ", r->first, r->how);
    return snprintf(text, 24, "%d-%d=%d ", r->first, r->last, r->how);
}

void exits_print(const struct exits *e, char text[EXITS_TEXT_MAX + 1])
{
    size_t len = 0;
    text[0] = '\0';
    for (int i = 0; i < e->n; i++) {
        char run[24];
        int n = print_run(&e->runs[i], run);
        ddp_assert(len + (size_t)n <= EXITS_TEXT_MAX);
        memcpy(text + len, run, (size_t)n + 1);
        len += (size_t)n;
    }
}

/* A whole number of at most nine digits; false: there is none. */
static bool take_number(const char **at, int64_t *number)
{
    const char *p = *at;
    *number = 0;
    while (*p >= '0' && *p <= '9' && p - *at < 9)
        *number = *number * 10 + (*p++ - '0');
    bool found = p > *at;
    *at = p;
    return found;
}

static bool take_char(const char **at, char c)
{
    bool found = **at == c;
    *at += found;
    return found;
}

/* A run behind local rank `above`. */
static bool take_run(const char **at, int above, struct exits_run *r)
{
    int64_t first, last, how;
    if (!take_number(at, &first))
        return false;
    last = first;
    if (take_char(at, '-') && !take_number(at, &last))
        return false;
    if (!take_char(at, '='))
        return false;
    bool is_signal = take_char(at, '-');
    if (!take_number(at, &how) || !take_char(at, ' '))
        return false;
    if (first <= above || last < first || last > EXITS_LOCAL_MAX || how == 0 ||
        how > (is_signal ? 127 : 255))
        return false;
    *r = (struct exits_run){
        .first = (int16_t)first,
        .last = (int16_t)last,
        .how = (int16_t)(is_signal ? -how : how),
    };
    return true;
}

void exits_parse(struct exits *e, const char *text)
{
    e->n = 0;
    int above = -1;
    while (e->n < EXITS_RUNS && take_run(&text, above, &e->runs[e->n]))
        above = e->runs[e->n++].last;
}

void exits_filter(const struct exits *e,
                  int how,
                  bool not_so,
                  struct exits *out)
{
    out->n = 0;
    for (int i = 0; i < e->n; i++)
        if ((e->runs[i].how == how) != not_so)
            out->runs[out->n++] = e->runs[i];
}

/* -- counts ---------------------------------------------------------------- */

static int64_t *count_of(struct exits_counts *c, int64_t signal)
{
    if (signal == 0)
        return &c->by_code;
    if (signal == SIGTERM)
        return &c->by_term;
    return signal == SIGKILL ? &c->by_kill : &c->by_signal;
}

void exits_count(struct exits_counts *c, int64_t signal)
{
    *count_of(c, signal) += 1;
}

void exits_uncount(struct exits_counts *c, int64_t signal)
{
    int64_t *count = count_of(c, signal);
    if (*count > 0)
        *count -= 1;
}

static unsigned told(int64_t count)
{
    ddp_assert(count >= 0);
    return (unsigned)(count < RANK_MAX ? count : RANK_MAX);
}

void exits_print_counts(const struct exits_counts *c,
                        char text[EXITS_COUNTS_MAX + 1])
{
    (void)snprintf(text, EXITS_COUNTS_MAX + 1, /* fits */
                   "%u %u %u %u", told(c->by_term), told(c->by_kill),
                   told(c->by_signal), told(c->by_code));
}

void exits_add_counts(struct exits_counts *c, const char *text)
{
    int64_t *all[] = {&c->by_term, &c->by_kill, &c->by_signal, &c->by_code};
    for (int i = 0; i < 4; i++) {
        int64_t n;
        if ((i > 0 && !take_char(&text, ' ')) || !take_number(&text, &n))
            return;
        *all[i] += n;
    }
}

/* -- several nodes --------------------------------------------------------- */

/* "@4 node-b " */
static bool take_node(const char **at, struct exits_found *f)
{
    int64_t base;
    if (!take_char(at, '@') || !take_number(at, &base) || !take_char(at, ' '))
        return false;
    size_t len = strcspn(*at, " ");
    if (len == 0 || len >= sizeof(f->node) || (*at)[len] == '\0')
        return false;
    f->base_rank = base;
    f->run.last = -1;
    memcpy(f->node, *at, len);
    f->node[len] = '\0';
    *at += len + 1;
    return true;
}

bool exits_next(const char **at, struct exits_found *f)
{
    while (**at == '@')
        if (!take_node(at, f))
            return false;
    return f->node[0] != '\0' && take_run(at, f->run.last, &f->run);
}

/* The place in the list of the first node with ranks above `base_rank`. Each
 * '@' begins a node, since names have none. */
static size_t place_of(const char *list, int64_t base_rank)
{
    const char *at = list;
    while ((at = strchr(at, '@')) != NULL) {
        const char *number = at + 1;
        int64_t base = 0;
        (void)take_number(&number, &base); /* we wrote the list */
        if (base > base_rank)
            return (size_t)(at - list);
        at++;
    }
    return strlen(list);
}

static void print_name(const char *name, char text[65])
{
    size_t len = 0;
    for (; name[len] != '\0' && len < 64; len++) {
        bool good = name[len] > ' ' && name[len] < 0x7f && name[len] != '@';
        text[len] = name[len];
        if (!good)
            text[len] = '?';
    }
    text[len] = '\0';
    if (len == 0)
        memcpy(text, "?", 2);
}

void exits_merge(char list[EXITS_LIST_MAX + 1],
                 int64_t base_rank,
                 const char *name,
                 const struct exits *e)
{
    char node[EXITS_TEXT_MAX + 100], runs[EXITS_TEXT_MAX + 1], word[65];
    char all[EXITS_LIST_MAX + sizeof(node)];
    if (e->n == 0 || base_rank < 0 || base_rank > RANK_MAX)
        return;
    print_name(name, word);
    exits_print(e, runs);
    (void)snprintf(node, /* fits */ sizeof(node), "@%lld %s %s",
                   (long long)base_rank, word, runs);
    size_t before = place_of(list, base_rank), ours = strlen(node);
    size_t len = strlen(list) + ours;
    memcpy(all, list, before);
    memcpy(all + before, node, ours);
    memcpy(all + before + ours, list + before, len - before - ours + 1);
    while (len > EXITS_LIST_MAX) { /* drop whole nodes, from the end */
        do
            len--;
        while (all[len] != '@');
        all[len] = '\0';
    }
    memcpy(list, all, len + 1);
}
