#include "rendezvous/base/log_limit.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

void log_limit_init(struct log_limit *l, int burst, int per_s)
{
    ddp_assert(burst > 0 && per_s > 0);
    memset(l, 0, sizeof(*l));
    l->every_us = MONO_S / per_s;
    l->slack_us = l->every_us * (burst - 1);
}

/* FNV-1a: the first of the entries that a source may have. */
static size_t first_way(const char *source)
{
    uint32_t hash = 2166136261u;
    for (; *source != '\0'; source++)
        hash = (hash ^ (unsigned char)*source) * 16777619u;
    return (hash ^ hash >> 16) % (LOG_LIMIT_SOURCES / LOG_LIMIT_WAYS) *
           LOG_LIMIT_WAYS;
}

/* Its own entry, else one that remembers nothing, else one to be shared. */
static struct log_limit_source *
find_entry(struct log_limit *l, const char *source, int64_t now_us)
{
    struct log_limit_source *first = &l->at[first_way(source)];
    struct log_limit_source *idle = NULL;
    for (struct log_limit_source *it = first; it < first + LOG_LIMIT_WAYS;
         it++) {
        if (strcmp(it->source, source) == 0)
            return it;
        if (it->due_us <= now_us && it->left_out == 0)
            idle = it;
    }
    if (idle == NULL) {
        first->shared = true;
        return first;
    }
    *idle = (struct log_limit_source){.due_us = 0};
    memcpy(idle->source, source, SOURCE_TEXT_MAX);
    return idle;
}

bool log_limit_may(struct log_limit *l, const char *addr, int64_t now_us)
{
    char source[SOURCE_TEXT_MAX];
    quota_source_of(addr, source);
    struct log_limit_source *it = find_entry(l, source, now_us);
    if (it->due_us > now_us + l->slack_us) {
        l->waiting += it->left_out++ == 0;
        return false;
    }
    if (it->due_us < now_us)
        it->due_us = now_us;
    it->due_us = mono_after(it->due_us, l->every_us);
    return true;
}

bool log_limit_tell(struct log_limit *l, char *line, size_t size)
{
    if (l->waiting == 0)
        return false;
    struct log_limit_source *it = l->at;
    while (it->left_out == 0)
        it++;
    bool one = it->left_out == 1;
    (void)snprintf(line, /* may be cut */ size,
                   "%lld more %s about %s%s %s left out",
                   (long long)it->left_out, one ? "line" : "lines",
                   it->source[0] != '\0' ? it->source : "connections",
                   it->shared ? " and others" : "", one ? "was" : "were");
    it->left_out = 0;
    it->shared = false;
    l->waiting--;
    return true;
}
