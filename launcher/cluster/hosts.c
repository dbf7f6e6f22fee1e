/*
 * Each form is taken apart into entries of a host and its slots, in one array.
 * Then settle() sorts them by name, adds the slots of a repeated host to its
 * first entry (or refuses it), and sorts what is left by its place in the list
 * again: n log n, however often hosts repeat.
 */
#include "launcher/cluster/hosts.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rendezvous/base/opts.h"

#define SLOTS_MAX 1000000

static int
add(struct hosts *h, const char *name, int slots, struct ddp_err *err)
{
    if (!hostlist_is_name(name))
        return ddp_err_set(err, DDP_E_USAGE, "'%.60s' is not a host name",
                           name);
    if (h->n == HOSTS_ENTRIES_MAX)
        return ddp_err_set(err, DDP_E_USAGE, "more than %d entries",
                           HOSTS_ENTRIES_MAX);
    if (h->n == h->cap) {
        int cap = h->cap == 0 ? 16 : h->cap * 2;
        struct host *more = realloc(h->host, (size_t)cap * sizeof(*more));
        if (more == NULL)
            return ddp_err_set(err, DDP_E_NOMEM,
                               "no memory for a list of hosts");
        h->host = more;
        h->cap = cap;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a list of hosts");
    h->host[h->n] = (struct host){.name = copy, .slots = slots, .entry = h->n};
    h->n++;
    return 0;
}

/* -- the forms ------------------------------------------------------------- */

struct adding {
    struct hosts *hosts;
    struct ddp_err *err;
    bool failed;
};

static bool add_one(void *ctx, const char *name)
{
    struct adding *a = ctx;
    a->failed = add(a->hosts, name, 1, a->err) < 0;
    return !a->failed;
}

static int read_slurm(struct hosts *h, const char *text, struct ddp_err *err)
{
    struct adding a = {.hosts = h, .err = err};
    int n = hostlist_walk(text, add_one, &a, err);
    return n < 0 || a.failed ? -1 : 0;
}

static int read_commas(struct hosts *h, char *text, struct ddp_err *err)
{
    for (char *next = text; next != NULL;) {
        char *name = strsep(&next, ",");
        name += strspn(name, " \t");
        name[strcspn(name, " \t\r\n")] = '\0';
        if (add(h, name, 1, err) < 0)
            return -1;
    }
    return 0;
}

static int read_json(struct hosts *h, const char *text, struct ddp_err *err)
{
    cJSON *list = cJSON_Parse(text);
    bool good = cJSON_IsArray(list) != 0;
    int rc = 0;
    for (const cJSON *item = good ? list->child : NULL; item != NULL && rc == 0;
         item = item->next) {
        good = good && cJSON_IsString(item);
        rc = good ? add(h, item->valuestring, 1, err) : -1;
    }
    cJSON_Delete(list);
    if (!good)
        return ddp_err_set(err, DDP_E_USAGE,
                           "must be a JSON list of host names, such as "
                           "[\"algo-1\", \"algo-2\"]");
    return rc;
}

static bool read_slots(const char *word, int *slots)
{
    int64_t n = 0;
    if (word == NULL || !opts_read_int(word, 1, SLOTS_MAX, &n))
        return false;
    *slots = (int)n;
    return true;
}

/* Lines whose first word is a host; with `slotted` the second is its slots.
 * Empty lines are left out. */
static int
read_lines(struct hosts *h, char *text, bool slotted, struct ddp_err *err)
{
    int line = 0;
    for (char *next = text; next != NULL;) {
        char *rest = strsep(&next, "\n"), *save = NULL;
        const char *name = strtok_r(rest, " \t\r", &save);
        int slots = 1;
        line++;
        if (name == NULL)
            continue;
        if (slotted && !read_slots(strtok_r(NULL, " \t\r", &save), &slots))
            return ddp_err_set(err, DDP_E_USAGE,
                               "line %d: a number of slots must stand behind "
                               "the host %.60s",
                               line, name);
        if (add(h, name, slots, err) < 0)
            return ddp_err_wrap(err, "line %d", line);
    }
    return 0;
}

static int read_pairs(struct hosts *h, char *text, struct ddp_err *err)
{
    char *save = NULL;
    for (const char *name = strtok_r(text, " \t\r\n", &save); name != NULL;
         name = strtok_r(NULL, " \t\r\n", &save)) {
        int slots;
        if (!read_slots(strtok_r(NULL, " \t\r\n", &save), &slots))
            return ddp_err_set(err, DDP_E_USAGE,
                               "a number of slots must stand behind the host "
                               "%.60s",
                               name);
        if (add(h, name, slots, err) < 0)
            return -1;
    }
    return 0;
}

/* -- each host once -------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int order = strcasecmp(x->name, y->name);
    return order != 0 ? order : x->entry - y->entry;
}

static int by_entry(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    return x->entry - y->entry;
}

static int add_slots(struct host *to, const struct host *from)
{
    return to->slots < SLOTS_MAX - from->slots ? to->slots + from->slots
                                               : SLOTS_MAX;
}

static int settle(struct hosts *h, bool repeats, struct ddp_err *err)
{
    int kept = 0;
    qsort(h->host, (size_t)h->n, sizeof(h->host[0]), by_name);
    for (int i = 0; i < h->n; i++) {
        struct host *last = kept > 0 ? &h->host[kept - 1] : NULL;
        bool same =
            last != NULL && strcasecmp(last->name, h->host[i].name) == 0;
        if (same && !repeats)
            return ddp_err_set(err, DDP_E_USAGE,
                               "the host %.60s is there twice; each must be "
                               "there once",
                               last->name);
        if (same) {
            last->slots = add_slots(last, &h->host[i]);
            free(h->host[i].name);
            h->host[i].name = NULL;
            continue;
        }
        struct host moved = h->host[i];
        h->host[i].name = NULL;
        h->host[kept++] = moved;
    }
    h->n = kept;
    qsort(h->host, (size_t)h->n, sizeof(h->host[0]), by_entry);
    if (h->n <= HOSTLIST_HOSTS_MAX)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "more than %d hosts", /* messages: ok */
                       HOSTLIST_HOSTS_MAX);
}

int hosts_read(struct hosts *h,
               enum hosts_form form,
               const char *text,
               struct ddp_err *err)
{
    char *copy = strdup(text); /* the readers cut it */
    int rc = -1;
    ddp_assert(h->n == 0);
    if (copy == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a list of hosts");
    if (form == HOSTS_SLURM)
        rc = read_slurm(h, text, err);
    else if (form == HOSTS_COMMAS)
        rc = read_commas(h, copy, err);
    else if (form == HOSTS_JSON)
        rc = read_json(h, text, err);
    else if (form == HOSTS_PAIRS)
        rc = read_pairs(h, copy, err);
    else
        rc = read_lines(h, copy, form == HOSTS_SLOTS, err);
    free(copy);
    if (rc == 0 && h->n == 0)
        rc = ddp_err_set(err, DDP_E_USAGE, "must name at least one host");
    return rc < 0 ? -1 : settle(h, form >= HOSTS_LINES, err);
}

void hosts_free(struct hosts *h)
{
    for (int i = 0; i < h->n; i++)
        free(h->host[i].name);
    free(h->host);
    *h = (struct hosts){.n = 0};
}

/* -- which one is this ----------------------------------------------------- */

/* Whether they are the same up to the first '.' of either. */
static bool same_label(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");
    return len == strcspn(b, ".") && strncasecmp(a, b, len) == 0;
}

int hosts_find(const struct hosts *h, const char *name)
{
    int found = -1, alike = 0;
    for (int i = 0; i < h->n; i++) {
        if (strcasecmp(h->host[i].name, name) == 0)
            return i;
        if (same_label(h->host[i].name, name)) {
            found = i;
            alike++;
        }
    }
    return alike == 1 ? found : -1;
}
