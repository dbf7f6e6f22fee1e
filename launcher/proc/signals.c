#include "launcher/proc/signals.h"

#include <string.h>
#include <strings.h>

#include "rendezvous/base/err.h"

/* What a launcher can take: what somebody sends, and means. */
static const int takeable[] = {
    SIGTERM, SIGINT, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
    SIGALRM, SIGPWR, SIGXCPU, SIGXFSZ, SIGPROF, SIGVTALRM,
};

/* 0 if it is none of these. */
static int find(const char *name)
{
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t i = 0; i < sizeof(takeable) / sizeof(takeable[0]); i++)
        if (strcasecmp(name, signals_name(takeable[i]) + 3) == 0)
            return takeable[i];
    return 0;
}

static void append(char *list, size_t cap, const char *name)
{
    size_t used = strlen(list), len = strlen(name);
    if (used + len + 3 > cap)
        return;
    if (used > 0) {
        memcpy(list + used, ", ", 2);
        used += 2;
    }
    memcpy(list + used, name, len + 1);
}

uint64_t signals_read(const char *list, char *odd, size_t cap)
{
    uint64_t set = 0;
    ddp_assert(cap > 0);
    odd[0] = '\0';
    for (const char *p = list; *p != '\0'; p += *p == ',') {
        char name[32] = "";
        p += strspn(p, " \t");
        size_t len = strcspn(p, ","), n = len;
        while (n > 0 && strchr(" \t", p[n - 1]) != NULL)
            n--;
        if (n >= sizeof(name))
            n = sizeof(name) - 1;
        memcpy(name, p, n);
        name[n] = '\0';
        int signo = find(name);
        if (signo > 0)
            set |= SIGNALS_BIT(signo);
        else if (n > 0)
            append(odd, cap, name);
        p += len;
    }
    return set;
}
