/*
 * Happy path: each node sets a key of its own, first with what /proc shows and
 * then with the stacks, and asks for the keys of all others until each is
 * whole. All judge the same looks, and so by the same rule come to one verdict.
 *
 * Failure modes:
 * - The ranks of a node still print, and so the node tells nothing: they are
 *   missing when the time is over. A node that is slower than the others has
 *   told something, and is waited for longer.
 * - There is no store (--worker_store=none), or it does not answer: this node's
 *   ranks are judged alone.
 * - What stands there was written by anybody who may use the workers' store: it
 *   is text that is read with limits, and decides only which rank is named, and
 *   whether a round whose ranks all stand still is ended (with auto).
 */
#include "launcher/hang/rank_meet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/client/store.h"

#define KEY_MAX   96
#define WORKS     "works\n"
#define OVER      (-1) /* in place of a node: its word is for the round */
#define TEXT_MAX  ((1 + RANK_LOOKS_MAX) * RANK_MEET_LINE_MAX)
#define ANSWER_US (2 * MONO_S) /* longest wait for one answer */
#define AGAIN_US  (100 * 1000) /* between two looks at the store */
#define RANKS_MAX 409600000    /* as messages.def has it */

/* -- the text -------------------------------------------------------------- */

size_t rank_meet_write(
    const struct rank_look *looks, int n, bool whole, char *text, size_t size)
{
    char line[RANK_MEET_LINE_MAX];
    size_t len = 0;
    for (int i = -1; i < n; i++) {
        int more = i < 0 ? snprintf(line, sizeof(line), "%s\n",
                                    whole ? "whole" : "early")
                         : snprintf(line, sizeof(line),
                                    "%" PRId64 " %d %" PRId64 " %s\n",
                                    looks[i].rank, (int)looks[i].doing,
                                    looks[i].step, looks[i].where);
        if ((size_t)more >= size - len)
            return 0;
        memcpy(text + len, line, (size_t)more + 1);
        len += (size_t)more;
    }
    return len;
}

static bool read_line(const char *line, struct rank_look *look)
{
    int doing, at = 0;
    if (sscanf(line, "%" SCNd64 " %d %" SCNd64 "%n", &look->rank, &doing,
               &look->step, &at) != 3 ||
        line[at] != ' ' || look->rank < 0 || look->rank >= RANKS_MAX ||
        look->step < -1 || doing < 0 || doing >= RANK_DOINGS)
        return false;
    look->doing = (enum rank_doing)doing;
    const char *where = line + at + 1;
    size_t len = strcspn(where, "\n");
    if (len >= sizeof(look->where))
        return false;
    for (size_t i = 0; i < len; i++)
        if (where[i] < ' ' || where[i] > '~')
            return false;
    memcpy(look->where, where, len);
    look->where[len] = '\0';
    return true;
}

int rank_meet_read(const char *text,
                   struct rank_look *looks,
                   int max,
                   bool *whole)
{
    int n = 0;
    *whole = strncmp(text, "whole\n", 6) == 0;
    if (!*whole && strncmp(text, "early\n", 6) != 0)
        return -1;
    for (text += 6; *text != '\0' && n < max; n++) {
        if (!read_line(text, &looks[n]))
            return -1;
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return n;
}

/* -- the store ------------------------------------------------------------- */

static void key_of(const struct rank_meet *m, int64_t node, char key[KEY_MAX])
{
    (void)snprintf(key, KEY_MAX,
                   "ddprun/odd_rank/%" PRId64 "/%" PRId64 "/%" PRId64, m->round,
                   m->look, node); /* fits */
}

static bool is_alone(const struct rank_meet *m)
{
    return m->group_world < 2 || m->host[0] == '\0' || m->port == 0;
}

static void
say(const struct rank_meet *m, int64_t node, const char *text, size_t len)
{
    struct store_client store;
    struct ddp_err err;
    char key[KEY_MAX];
    if (is_alone(m) || len == 0)
        return;
    key_of(m, node, key);
    store_client_init(&store, m->host, m->port);
    (void)store_client_set(&store, key, text, len,
                           mono_after(mono_now_us(), ANSWER_US),
                           &err); /* or this node is judged alone */
    store_client_free(&store);
}

void rank_meet_tell(const struct rank_meet *m,
                    const struct rank_look *looks,
                    int n,
                    bool whole)
{
    char text[TEXT_MAX];
    say(m, m->group_rank, text,
        rank_meet_write(looks, n, whole, text, sizeof(text)));
}

void rank_meet_work(const struct rank_meet *m)
{
    say(m, m->group_rank, WORKS, sizeof(WORKS) - 1);
}

void rank_meet_over(const struct rank_meet *m)
{
    say(m, OVER, "over\n", 5);
}

enum word {
    WORD_NONE,
    WORD_EARLY,
    WORD_WHOLE
};

/* All that is known of the ranks. */
struct gathering {
    struct rank_look *looks;
    int n;
    enum word *words; /* by node */
    bool works;
    bool over;
};

static int by_rank(const void *a, const void *b)
{
    const struct rank_look *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Takes a node's word, of one rank at least, in place of its earlier one, which
 * had the same ranks. No memory: the word is left out. */
static void
take_looks(struct gathering *g, const struct rank_look *looks, int n)
{
    const size_t one = sizeof(*looks);
    size_t known = (size_t)g->n, more = (size_t)n;
    if (known == 0 || bsearch(looks, g->looks, known, one, by_rank) == NULL) {
        struct rank_look *all = reallocarray(g->looks, known + more, one);
        if (all == NULL)
            return;
        memcpy(all + known, looks, more * one);
        qsort(all, known + more, one, by_rank);
        g->looks = all;
        g->n += n;
        return;
    }
    for (int i = 0; i < n; i++) {
        struct rank_look *old =
            bsearch(&looks[i], g->looks, known, one, by_rank);
        if (old != NULL)
            *old = looks[i];
    }
}

/* Returns false if the store does not answer. */
static bool ask_node(const struct rank_meet *m,
                     struct store_client *store,
                     int64_t node,
                     struct gathering *g)
{
    struct rank_look looks[RANK_LOOKS_MAX];
    struct ddp_err err;
    char key[KEY_MAX], *text = NULL;
    bool there = false, whole;
    int64_t until_us = mono_after(mono_now_us(), ANSWER_US);
    key_of(m, node, key);
    if (store_client_check(store, key, &there, until_us, &err) != 0)
        return false;
    if (!there)
        return true;
    if (store_client_text(store, key, &text, until_us, &err) != 0)
        return false;
    g->works |= strcmp(text, WORKS) == 0;
    int n = rank_meet_read(text, looks, RANK_LOOKS_MAX, &whole);
    free(text);
    if (n > 0)
        take_looks(g, looks, n);
    /* Nonsense does not get better. */
    g->words[node] = n < 0 || whole ? WORD_WHOLE : WORD_EARLY;
    return true;
}

/* Until when to ask again; 0: all is told. */
static int64_t wait_until(const struct rank_meet *m,
                          const struct gathering *g,
                          const struct rank_meet_limits *limits)
{
    int64_t until_us = 0;
    for (int64_t i = 0; i < m->group_world && !g->works; i++)
        if (g->words[i] == WORD_EARLY)
            return limits->whole_us;
        else if (g->words[i] == WORD_NONE)
            until_us = limits->first_us;
    return until_us;
}

static void ask_whether_over(const struct rank_meet *m,
                             struct store_client *store,
                             struct gathering *g)
{
    struct ddp_err err;
    char key[KEY_MAX];
    key_of(m, OVER, key);
    (void)store_client_check(store, key, &g->over,
                             mono_after(mono_now_us(), ANSWER_US),
                             &err); /* or it is not known here */
}

static void ask_all(const struct rank_meet *m,
                    struct gathering *g,
                    const struct rank_meet_limits *limits)
{
    struct store_client store;
    bool answers = true;
    store_client_init(&store, m->host, m->port);
    g->words[m->group_rank] = WORD_WHOLE;
    for (;;) {
        for (int64_t i = 0; i < m->group_world && answers; i++)
            if (g->words[i] != WORD_WHOLE)
                answers = ask_node(m, &store, i, g);
        if (!answers || mono_now_us() >= wait_until(m, g, limits))
            break;
        (void)usleep(AGAIN_US);
    }
    if (answers)
        ask_whether_over(m, &store, g);
    store_client_free(&store);
}

struct rank_look *rank_meet_gather(const struct rank_meet *m,
                                   const struct rank_look *own,
                                   int n,
                                   const struct rank_meet_limits *limits,
                                   int *count,
                                   bool *works,
                                   bool *over)
{
    struct gathering g = {0};
    take_looks(&g, own, n);
    if (g.n == n && !is_alone(m)) {
        g.words = calloc((size_t)m->group_world, sizeof(*g.words));
        if (g.words != NULL)
            ask_all(m, &g, limits);
        free(g.words);
    }
    if (g.n < n) { /* no memory */
        free(g.looks);
        g.looks = NULL;
    }
    *count = g.looks != NULL ? g.n : 0;
    *works = g.works;
    *over = g.over;
    return g.looks;
}
