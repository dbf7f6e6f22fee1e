#include "rendezvous/base/log_limit.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

void hush_init(struct hush *h, int burst, int per_s)
{
    ddp_assert(burst > 0 && per_s > 0);
    memset(h, 0, sizeof(*h));
    h->every_us = MONO_S / per_s;
    h->slack_us = h->every_us * (burst - 1);
}

/* FNV-1a: the first of the places that a source may have. */
static size_t first_way(const char *source)
{
    uint32_t hash = 2166136261u;
    for (; *source != '\0'; source++)
        hash = (hash ^ (unsigned char)*source) * 16777619u;
    return (hash ^ hash >> 16) % (HUSH_SOURCES / HUSH_WAYS) * HUSH_WAYS;
}

/* Its own place, one of which nothing is to be remembered, or another's. */
static struct hush_source *
find_place(struct hush *h, const char *source, int64_t now_us)
{
    struct hush_source *first = &h->at[first_way(source)];
    struct hush_source *idle = NULL;
    for (struct hush_source *it = first; it < first + HUSH_WAYS; it++) {
        if (strcmp(it->source, source) == 0)
            return it;
        if (it->due_us <= now_us && it->left_out == 0)
            idle = it;
    }
    if (idle == NULL) {
        first->shared = true;
        return first;
    }
    *idle = (struct hush_source){.due_us = 0};
    memcpy(idle->source, source, SOURCE_TEXT_MAX);
    return idle;
}

bool hush_may(struct hush *h, const char *addr, int64_t now_us)
{
    char source[SOURCE_TEXT_MAX];
    quota_source_of(addr, source);
    struct hush_source *it = find_place(h, source, now_us);
    if (it->due_us > now_us + h->slack_us) {
        h->waiting += it->left_out++ == 0;
        return false;
    }
    if (it->due_us < now_us)
        it->due_us = now_us;
    it->due_us = mono_after(it->due_us, h->every_us);
    return true;
}

bool hush_tell(struct hush *h, char *line, size_t size)
{
    if (h->waiting == 0)
        return false;
    struct hush_source *it = h->at;
    while (it->left_out == 0)
        it++;
    (void)snprintf(line, /* may be cut */ size,
                   "%lld more lines about %s%s were left out",
                   (long long)it->left_out,
                   it->source[0] != '\0' ? it->source : "connections",
                   it->shared ? " and others" : "");
    it->left_out = 0;
    it->shared = false;
    h->waiting--;
    return true;
}
