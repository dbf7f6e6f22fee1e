#include "launcher/cluster/hostfile.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/cluster/hostlist.h"
#include "rendezvous/base/opts.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define BLANKS          " \t\r"

/* -- one host -------------------------------------------------------------- */

static bool read_slots(const char *text, int *slots)
{
    int64_t n;
    if (!opts_read_int(text, 1, HOSTFILE_SLOTS_MAX, &n))
        return false;
    *slots = (int)n;
    return true;
}

static int wrong_slots(const char *text, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_USAGE,
                       "'%.60s' is no number of slots: must be a whole number "
                       "from 1 to %d",
                       text, HOSTFILE_SLOTS_MAX);
}

/* Without a zone: that is another one on each host. */
static bool is_ip6(const char *text)
{
    struct in6_addr addr;
    return inet_pton(AF_INET6, text, &addr) == 1;
}

/* A user's name must not look like an option of ssh. */
static bool is_target(const char *target, const char **name)
{
    const char *at = strrchr(target, '@');
    size_t len = at != NULL ? (size_t)(at - target) : 0;
    *name = at != NULL ? at + 1 : target;
    if (target[0] == '-' || (at != NULL && len == 0))
        return false;
    for (size_t i = 0; i < len; i++)
        if (strchr("'\"\\$`;&|<>()@ ", target[i]) != NULL ||
            (unsigned char)target[i] <= ' ' || target[i] == 0x7f)
            return false;
    return (*name)[0] != '-' && (hostlist_is_name(*name) || is_ip6(*name));
}

static struct listed_host *find(const struct listed_hosts *l, const char *name)
{
    for (int i = l->n - 1; i >= 0; i--) /* repeated lines stand together */
        if (strcasecmp(l->host[i].name, name) == 0)
            return &l->host[i];
    return NULL;
}

/* A bare name that comes again is one slot more. */
static int repeat(struct listed_host *h, bool counted, struct ddp_err *err)
{
    if (counted || h->counted)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the host %.60s is there twice (first as number "
                           "%d); a host with a number of slots must be there "
                           "once",
                           h->name, h->line);
    h->slots = h->slots == 0 ? 2 : h->slots + 1;
    if (h->slots <= HOSTFILE_SLOTS_MAX)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       /* many: messages: ok */
                       "the host %.60s is there more than %d times", h->name,
                       HOSTFILE_SLOTS_MAX);
}

static int grow(struct listed_hosts *l, struct ddp_err *err)
{
    int cap = l->cap == 0 ? 16 : l->cap * 2;
    if (l->n < l->cap)
        return 0;
    struct listed_host *more = realloc(l->host, (size_t)cap * sizeof(*more));
    if (more == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a list of hosts");
    l->host = more;
    l->cap = cap;
    return 0;
}

/* slots 0: no number stands with it. */
static int add(struct listed_hosts *l,
               const char *target,
               int slots,
               int line,
               struct ddp_err *err)
{
    const char *name;
    if (!is_target(target, &name))
        return ddp_err_set(err, DDP_E_USAGE, "'%.60s' is not a host name",
                           target);
    struct listed_host *known = find(l, name);
    if (known != NULL)
        return repeat(known, slots > 0, err);
    if (l->n == HOSTFILE_HOSTS_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "more than %d hosts", /* messages: ok */
                           HOSTFILE_HOSTS_MAX);
    if (grow(l, err) < 0)
        return -1;
    char *copy = strdup(target);
    if (copy == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a list of hosts");
    l->host[l->n++] = (struct listed_host){.target = copy,
                                           .name = copy + (name - target),
                                           .slots = slots,
                                           .line = line,
                                           .counted = slots > 0};
    return 0;
}

/* "user@[fd00::1]" becomes "user@fd00::1", as ssh takes it. What has brackets
 * and is no such address stays, and is then not a host name. */
static void take_off_brackets(char *word)
{
    size_t len = strlen(word);
    char *open = strchr(word, '[');
    if (open == NULL || word[len - 1] != ']')
        return;
    word[len - 1] = '\0';
    if (is_ip6(open + 1))
        memmove(open, open + 1, strlen(open));
    else
        word[len - 1] = ']';
}

/* "node1" or "node1:4", which is cut at the colon. An IPv6 address has several:
 * "fd00::1" or "[fd00::1]:4". */
static int cut_slots(char *word, int *slots, struct ddp_err *err)
{
    char *close = strchr(word, ']');
    char *colon = strchr(close != NULL ? close : word, ':');
    bool counted = colon != NULL && strchr(colon + 1, ':') == NULL;
    if (counted)
        *colon = '\0';
    take_off_brackets(word);
    return !counted || read_slots(colon + 1, slots)
               ? 0
               : wrong_slots(colon + 1, err);
}

/* -- a file ---------------------------------------------------------------- */

/* Grid Engine's "node1 4 queue@node1 UNDEFINED": whether the number of slots
 * and two more words are all that follows the host. */
static bool is_pe_line(const char *rest, int *slots)
{
    char number[16];
    int end = 0;
    return sscanf(rest, "%15s %*s %*s %n", number, &end) == 1 && end > 0 &&
           rest[end] == '\0' && read_slots(number, slots);
}

/* One word behind the host. */
static int read_word(const char *word, int *slots, struct ddp_err *err)
{
    int most;
    const char *value = strchr(word, '=');
    size_t len = strcspn(word, "=");
    bool max = (len == 9 && strncmp(word, "max_slots", len) == 0) ||
               (len == 9 && strncmp(word, "max-slots", len) == 0);
    if (value != NULL && max)
        return read_slots(value + 1, &most) ? 0 : wrong_slots(value + 1, err);
    if (value == NULL || len != 5 || strncmp(word, "slots", len) != 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "'%.60s' is not understood: a line must be HOST, "
                           "HOST:N or HOST slots=N",
                           word);
    if (*slots > 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the number of slots is there twice");
    return read_slots(value + 1, slots) ? 0 : wrong_slots(value + 1, err);
}

static int
read_line(struct listed_hosts *l, char *line, int number, struct ddp_err *err)
{
    char *save = NULL;
    int slots = 0;
    line[strcspn(line, "#")] = '\0';
    char *host = strtok_r(line, BLANKS, &save);
    if (host == NULL)
        return 0;
    if (is_pe_line(save, &slots))
        return add(l, host, slots, number, err);
    if (cut_slots(host, &slots, err) < 0)
        return -1;
    for (const char *word; (word = strtok_r(NULL, BLANKS, &save)) != NULL;)
        if (read_word(word, &slots, err) < 0)
            return -1;
    return add(l, host, slots, number, err);
}

int hostfile_read(struct listed_hosts *l,
                  const char *text,
                  const char *path,
                  struct ddp_err *err)
{
    char line[HOSTFILE_LINE_MAX + 1];
    int number = 0;
    ddp_assert(l->n == 0);
    const char *p = text;
    if (strncmp(p, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
        p += strlen(BYTE_ORDER_MARK); /* an editor's; nobody can see it */
    while (*p != '\0') {
        size_t len = strcspn(p, "\n");
        if (++number > HOSTFILE_LINES_MAX)
            return ddp_err_set(err, DDP_E_USAGE,
                               /* many: messages: ok */
                               "%.200s: more than %d lines", path,
                               HOSTFILE_LINES_MAX);
        if (len > HOSTFILE_LINE_MAX)
            return ddp_err_set(err, DDP_E_USAGE,
                               "%.200s:%d: longer than %d bytes", path, number,
                               HOSTFILE_LINE_MAX);
        memcpy(line, p, len);
        line[len] = '\0';
        if (read_line(l, line, number, err) < 0)
            return ddp_err_wrap(err, "%.200s:%d", path, number);
        p += len + (p[len] == '\n');
    }
    if (l->n > 0)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "%.200s: no host is in it; a line must be HOST, HOST:N "
                       "or HOST slots=N",
                       path);
}

/* -- a list ---------------------------------------------------------------- */

static char *trim(char *word)
{
    word += strspn(word, BLANKS);
    size_t len = strlen(word);
    while (len > 0 && strchr(BLANKS, word[len - 1]) != NULL)
        word[--len] = '\0';
    return word;
}

int hostfile_read_list(struct listed_hosts *l,
                       const char *text,
                       struct ddp_err *err)
{
    int number = 0, rc = 0;
    char *copy = strdup(text);
    ddp_assert(l->n == 0);
    if (copy == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a list of hosts");
    for (char *next = copy; next != NULL && rc == 0;) {
        char *word = strsep(&next, ",");
        int slots = 0;
        word = trim(word);
        rc = cut_slots(word, &slots, err);
        rc = rc == 0 ? add(l, word, slots, ++number, err) : rc;
        if (rc == 0 && slots == 0 && l->n < number)
            rc = ddp_err_set(err, DDP_E_USAGE,
                             "the host %.60s is there twice; HOST:N gives a "
                             "host several workers",
                             word);
    }
    free(copy);
    return rc;
}

void hostfile_free(struct listed_hosts *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->host[i].target);
    free(l->host);
    *l = (struct listed_hosts){.n = 0};
}
