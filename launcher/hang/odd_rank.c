#include "launcher/hang/odd_rank.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define RANGES_MAX 6 /* of ranks in a sentence */

/* -- which one ------------------------------------------------------------- */

static bool is_known_place(const struct rank_look *look)
{
    return look->where[0] != '\0' &&
           (look->doing == RANK_ELSEWHERE || look->doing == RANK_IN_COLLECTIVE);
}

static int count(const struct rank_look *looks, int n, enum rank_doing doing)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        found += looks[i].doing == doing;
    return found;
}

/*
 * A rank whose stack shows another place than a collective is the cause only of
 * waits in one: if no other stack could be taken, nothing is to be compared.
 */
static int find_by_doing(const struct rank_look *looks, int n)
{
    int least = 0;
    for (int i = 1; i < n; i++)
        if (looks[i].doing < looks[least].doing)
            least = i;
    enum rank_doing doing = looks[least].doing;
    /* A wait says little of whose fault it is, wherever that is. */
    if (doing == RANK_WAITS || doing == RANK_IN_COLLECTIVE ||
        doing == RANK_UNSEEN || count(looks, n, doing) == n)
        return ODD_RANK_NONE;
    if (doing == RANK_ELSEWHERE && count(looks, n, RANK_IN_COLLECTIVE) == 0)
        return ODD_RANK_NONE;
    return least;
}

static int count_there(const struct rank_look *looks, int n, const char *where)
{
    int there = 0;
    for (int i = 0; i < n; i++)
        there +=
            is_known_place(&looks[i]) && strcmp(looks[i].where, where) == 0;
    return there;
}

static int find_by_place(const struct rank_look *looks, int n)
{
    const char *most = NULL;
    int odd = ODD_RANK_NONE;
    for (int i = 0; i < n && most == NULL; i++)
        if (is_known_place(&looks[i]) &&
            2 * count_there(looks, n, looks[i].where) > n)
            most = looks[i].where;
    for (int i = n - 1; i >= 0 && most != NULL; i--)
        if (is_known_place(&looks[i]) && strcmp(looks[i].where, most) != 0)
            odd = i;
    return odd;
}

static int find_by_step(const struct rank_look *looks, int n)
{
    int least = 0;
    bool alone = true;
    for (int i = 0; i < n; i++) {
        if (looks[i].step < 0)
            return ODD_RANK_NONE;
        if (i > 0 && looks[i].step <= looks[least].step) {
            alone = looks[i].step < looks[least].step;
            least = i;
        }
    }
    return alone && n > 1 ? least : ODD_RANK_NONE;
}

static int find_by_look(const struct rank_look *looks, int n)
{
    int odd = find_by_doing(looks, n);
    return odd != ODD_RANK_NONE ? odd : find_by_place(looks, n);
}

int odd_rank_find(const struct rank_look *looks, int n)
{
    ddp_assert(n >= 1);
    int odd = find_by_look(looks, n);
    return odd != ODD_RANK_NONE ? odd : find_by_step(looks, n);
}

/* -- in words -------------------------------------------------------------- */

struct doing_words {
    const char *one, *many; /* behind "it" and "rank 1", behind "ranks 1, 2" */
    const char *before_where;
    const char *behind;
};

static const struct doing_words words[] = {
    [RANK_STOPPED] = {"is stopped", "are stopped", NULL,
                      " (state T: SIGSTOP, or a debugger)"},
    [RANK_DEFUNCT] = {"has", "have", NULL,
                      " no main thread any more (state Z)"},
    [RANK_IN_KERNEL] = {"waits", "wait", NULL,
                        " for a disk or a device (state D)"},
    [RANK_AWAY] = {"is", "are", " in ", " away from its peers' collective"},
    [RANK_SLEEPS] = {"sleeps", "sleep", " in ", ""},
    [RANK_COMPUTES] = {"computes", "compute", " in ", ""},
    [RANK_ELSEWHERE] = {"stands", "stand", " in ", ", in no collective"},
    [RANK_WAITS] = {"waits", "wait", " in ", ""},
    [RANK_IN_COLLECTIVE] = {"waits", "wait", " in ", ""},
    [RANK_UNSEEN] = {"cannot be seen", "cannot be seen", NULL, ""},
};
_Static_assert(sizeof(words) / sizeof(words[0]) == RANK_DOINGS,
               "each has its words");

static void append(char text[ODD_RANK_TEXT_MAX], const char *more)
{
    size_t len = strlen(text);
    (void)snprintf(text + len, ODD_RANK_TEXT_MAX - len, "%s", more);
}

static void append_doing(char text[ODD_RANK_TEXT_MAX],
                         const struct rank_look *look,
                         bool many)
{
    const struct doing_words *w = &words[look->doing];
    append(text, many ? w->many : w->one);
    if (w->before_where != NULL && look->where[0] != '\0') {
        append(text, w->before_where);
        append(text, look->where);
    }
    append(text, w->behind);
}

static bool is_alike(const struct rank_look *a, const struct rank_look *b)
{
    return a->doing == b->doing && strcmp(a->where, b->where) == 0;
}

/* Of one group of ranks while their numbers are written, in ascending order. */
struct ranges {
    int n;
    int64_t first, last; /* of the one that is not written yet */
};

static void end_range(char text[ODD_RANK_TEXT_MAX], struct ranges *r)
{
    char range[64] = ", ...";
    bool pair = r->last == r->first + 1;
    if (r->n < RANGES_MAX && r->last == r->first)
        (void)snprintf(range, sizeof(range), "%s%lld", r->n > 0 ? ", " : "",
                       (long long)r->first);
    else if (r->n < RANGES_MAX)
        (void)snprintf(range, sizeof(range), "%s%lld%s%lld",
                       r->n > 0 ? ", " : "", (long long)r->first,
                       pair ? ", " : "-", (long long)r->last);
    if (r->n <= RANGES_MAX)
        append(text, range);
    r->n++;
}

/* "; ranks 0, 2-5 wait in all_reduce" of all that are like `first`. */
static void append_group(char text[ODD_RANK_TEXT_MAX],
                         const struct rank_look *looks,
                         int n,
                         int first,
                         int blamed)
{
    struct ranges r = {.first = looks[first].rank, .last = looks[first].rank};
    int members = 1;
    for (int i = first + 1; i < n; i++)
        members += i != blamed && is_alike(&looks[i], &looks[first]);
    append(text, members > 1 ? "; ranks " : "; rank ");
    for (int i = first + 1; i < n; i++) {
        if (i == blamed || !is_alike(&looks[i], &looks[first]))
            continue;
        if (looks[i].rank != r.last + 1) {
            end_range(text, &r);
            r.first = looks[i].rank;
        }
        r.last = looks[i].rank;
    }
    end_range(text, &r);
    append(text, " ");
    append_doing(text, &looks[first], members > 1);
}

static bool is_first_of_group(const struct rank_look *looks, int i, int blamed)
{
    if (i == blamed)
        return false;
    for (int j = 0; j < i; j++)
        if (j != blamed && is_alike(&looks[j], &looks[i]))
            return false;
    return true;
}

static bool are_alike(const struct rank_look *looks, int n)
{
    for (int i = 1; i < n; i++)
        if (!is_alike(&looks[i], &looks[0]))
            return false;
    return true;
}

/* What no word of enum rank_doing says: none is odd, or its step is. */
static const char *
remark(const struct rank_look *looks, int n, int odd, int blamed)
{
    if (odd == ODD_RANK_NONE)
        return are_alike(looks, n)
                   ? ", as all ranks do"
                   : ", and which rank is the cause is not known";
    return odd == blamed && find_by_look(looks, n) == ODD_RANK_NONE
               ? ", and has done fewer steps than the others"
               : "";
}

void odd_rank_tell(const struct rank_look *looks,
                   int n,
                   int odd,
                   int blamed,
                   char text[ODD_RANK_TEXT_MAX])
{
    ddp_assert(blamed >= 0 && blamed < n && odd < n);
    (void)snprintf(text, ODD_RANK_TEXT_MAX, "it ");
    append_doing(text, &looks[blamed], false);
    if (n == 1)
        return;
    append(text, remark(looks, n, odd, blamed));
    if (odd == ODD_RANK_NONE && are_alike(looks, n))
        return;
    if (odd != ODD_RANK_NONE && odd != blamed) /* it comes before the others */
        append_group(text, looks, n, odd, blamed);
    for (int i = 0; i < n; i++)
        if (is_first_of_group(looks, i, blamed) &&
            (odd == ODD_RANK_NONE || odd == blamed ||
             !is_alike(&looks[i], &looks[odd])))
            append_group(text, looks, n, i, blamed);
}
