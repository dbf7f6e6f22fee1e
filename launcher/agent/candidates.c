/*
 * Happy path: the first endpoint serves, and nothing is ever tried but that. If
 * it is lost: one pass over all others, in order, from the one behind it.
 *
 * Failure modes:
 *   - The server's host is silent: a voter's address on the same host would be
 *     silent as well, and cost a part of the lease. It is left out of the first
 *     pass.
 *   - Nobody has the authority: home and visits, see the header.
 *   - Home takes no connection any more: the next one in the order that does is
 *     the new home; one that stands before home and answers takes its place.
 *   - Servers send it on in a circle: all but the first such order cost a
 *     pause.
 */
#include "launcher/agent/candidates.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define HOME_PATIENCE 4

static void take(struct candidates *c, int at)
{
    c->at = at;
    c->answered = false;
    if (at < c->endpoints)
        c->target[0] = '\0';
    else
        msg_set(c->target, c->addrs[at - c->endpoints]);
}

void candidates_init(struct candidates *c, int endpoints)
{
    ddp_assert(endpoints >= 1);
    *c = (struct candidates){.endpoints = endpoints};
    take(c, 0);
    candidates_served(c);
}

/* -- addresses ------------------------------------------------------------- */

/* How long the host is in "HOST:PORT"; the port is behind the last colon, since
 * an IPv6 address has colons of its own. 0: that is none. */
static size_t host_len(const char *addr)
{
    const char *colon = strrchr(addr, ':');
    return colon == NULL ? 0 : (size_t)(colon - addr);
}

bool candidates_is_addr(const char *addr)
{
    size_t len = host_len(addr);
    if (len == 0 || strlen(addr) > CANDIDATES_ADDR_MAX)
        return false;
    for (const char *p = addr; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
            return false;
    int port = 0;
    const char *p = addr + len + 1;
    if (*p == '0' || strlen(p) > 5)
        return false;
    for (; *p >= '0' && *p <= '9'; p++)
        port = port * 10 + (*p - '0');
    return *p == '\0' && port >= 1 && port <= 65535;
}

/* The number of a voter's address, -1: it is none. */
static int find(const struct candidates *c, const char *addr)
{
    for (int i = 0; i < c->voters; i++)
        if (strcmp(c->addrs[i], addr) == 0)
            return c->endpoints + i;
    return -1;
}

void candidates_learn(struct candidates *c, const char *addrs)
{
    char one[CANDIDATES_ADDR_MAX + 1];
    c->voters = 0;
    while (*addrs != '\0' && c->voters < MSG_VOTERS_MAX) {
        size_t len = strcspn(addrs, " ");
        if (len < sizeof(one)) {
            memcpy(one, addrs, len);
            one[len] = '\0';
            if (candidates_is_addr(one) && find(c, one) < 0)
                msg_set(c->addrs[c->voters++], one);
        }
        addrs += len;
        addrs += strspn(addrs, " ");
    }
    if (c->target[0] != '\0')
        c->at = find(c, c->target);
    candidates_served(c); /* numbers of before mean nothing any more */
}

int candidates_count(const struct candidates *c)
{
    return c->endpoints + c->voters;
}

const char *candidates_target(const struct candidates *c)
{
    return c->target;
}

int candidates_which(const struct candidates *c)
{
    return c->target[0] == '\0' ? c->at : 0;
}

/* -- what became of it ----------------------------------------------------- */

void candidates_answered(struct candidates *c)
{
    c->answered = true;
    if (c->at >= 0 && (c->home < 0 || c->at < c->home))
        c->home = c->at;
}

void candidates_served(struct candidates *c)
{
    c->moves = 0;
    c->lost = c->walked = c->at;
    c->left = candidates_count(c) - (c->at >= 0 ? 1 : 0);
    c->again = false;
    c->home = -1;
    c->visited = c->at;
    c->silent[0] = '\0';
}

void candidates_silent(struct candidates *c, const char *host)
{
    (void)snprintf(c->silent, sizeof(c->silent), "%s", host); /* else none is
                                                                 left out */
}

void candidates_moved(struct candidates *c, const char *addr)
{
    ddp_assert(candidates_is_addr(addr));
    msg_set(c->moved, addr);
}

/* -- the next one ---------------------------------------------------------- */

static bool is_left_out(const struct candidates *c, int at)
{
    if (c->again || at < c->endpoints || c->silent[0] == '\0')
        return false;
    const char *addr = c->addrs[at - c->endpoints];
    size_t len = host_len(addr);
    return strlen(c->silent) == len && strncmp(c->silent, addr, len) == 0;
}

static int behind(const struct candidates *c, int at)
{
    return (at + 1) % candidates_count(c);
}

static bool is_to_return(const struct candidates *c)
{
    return !c->again && c->answered && c->lost >= 0 && c->at != c->lost;
}

/* The next one of the pass, or -1 if that is over. */
static int next_of_pass(struct candidates *c)
{
    if (is_to_return(c))
        return c->lost;
    while (c->left > 0) {
        c->left--;
        c->walked = behind(c, c->walked);
        if (!is_left_out(c, c->walked))
            return c->walked;
    }
    return -1;
}

/* All are tried once more, those on the silent host as well. */
static int next_pass(struct candidates *c)
{
    c->left = candidates_count(c);
    c->silent[0] = '\0';
    return next_of_pass(c);
}

static int next_visit(struct candidates *c)
{
    c->visited = behind(c, c->visited);
    if (c->visited == c->home)
        c->visited = behind(c, c->visited);
    return c->visited;
}

static int pick(struct candidates *c, bool leased)
{
    if (!c->again) {
        int at = next_of_pass(c);
        if (at < 0 && leased)
            at = next_pass(c);
        if (at >= 0)
            return at;
        c->again = true;
        c->visited = candidates_count(c) - 1; /* before the first */
        return c->home >= 0 ? c->home : behind(c, c->at);
    }
    if (c->at == c->home && !c->answered)
        c->home = -1; /* it is gone */
    if (c->home >= 0 && c->at != c->home)
        return c->home;
    return c->home >= 0 ? next_visit(c) : behind(c, c->at);
}

bool candidates_next(struct candidates *c, bool leased)
{
    if (c->moved[0] != '\0') {
        msg_set(c->target, c->moved);
        c->moved[0] = '\0';
        c->answered = false;
        c->at = find(c, c->target);
        return c->moves++ > 0;
    }
    struct candidates was = *c;
    take(c, pick(c, leased));
    candidates_check(c);
    if (is_to_return(&was) && !c->again)
        return false;
    return c->again ? !was.again || c->at <= was.at : c->walked <= was.walked;
}

bool candidates_are_tried(const struct candidates *c)
{
    return c->again;
}

int candidates_patience(const struct candidates *c)
{
    return c->again && c->at >= 0 && c->at == c->home ? HOME_PATIENCE : 1;
}

void candidates_check(const struct candidates *c)
{
    int n = candidates_count(c);
    ddp_assert(c->endpoints >= 1);
    ddp_assert(c->left >= 0 && c->left <= n);
    ddp_assert(c->voters >= 0 && c->voters <= MSG_VOTERS_MAX);
    ddp_assert(c->at >= -1 && c->at < n);
    ddp_assert(c->home >= -1 && c->home < n);
    ddp_assert(c->at < 0 || (c->target[0] == '\0') == (c->at < c->endpoints));
    ddp_assert(c->at >= 0 || c->target[0] != '\0');
}
