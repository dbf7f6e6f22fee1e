/*
 * Happy path: the first endpoint serves, and nothing else is ever looked at. If
 * it dies, the nodes ask all places. The endpoint refuses, the first voter's
 * server answers: all join that one, which then has the promises that it needs,
 * and leads.
 *
 * Failure modes:
 *   - The hosts next in the order are lost as well, and silent: nobody waits
 *     for them one after the other. Once the others have had their time, the
 *     first of those that answer is the place.
 *   - Not every node reaches every place: the nodes may join different ones at
 *     first. Each server knows how many voters look for a leader there, and
 *     tells all of them; the nodes go to the place that most of them reach.
 *   - The place that gave the last lease is no voter's: it stays in the order,
 *     so that a node that was cut off finds it again.
 *   - Servers send the node on in a circle: all but the first such order cost a
 *     pause.
 */
#include "launcher/agent/candidates.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define ASKED_IN_VAIN 3
#define NAMED_MAX     4

void candidates_init(struct candidates *c, int endpoints)
{
    ddp_assert(endpoints >= 1 && endpoints <= CANDIDATES_ENDPOINTS_MAX);
    *c = (struct candidates){.endpoints = endpoints};
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

/* The place with that address, -1: none has it. */
static int find(const struct candidates *c, const char *addr)
{
    for (int i = 0; i < c->others; i++)
        if (strcmp(c->addrs[i], addr) == 0)
            return c->endpoints + i;
    return -1;
}

static int add(struct candidates *c, const char *addr)
{
    ddp_assert(c->others <= MSG_VOTERS_MAX);
    msg_set(c->addrs[c->others], addr);
    return c->endpoints + c->others++;
}

/* It takes the place of the last one that was in no list. */
static int add_unlisted(struct candidates *c, const char *addr)
{
    if (c->unlisted)
        c->others--;
    c->unlisted = true;
    return add(c, addr);
}

/* The place with that address, which is in the order from now on. */
static int keep(struct candidates *c, const char *addr)
{
    int place = find(c, addr);
    return place >= 0 ? place : add_unlisted(c, addr);
}

/* Returns how many voters have no address there ("-"): the leader has not met
 * them. */
static int read_addrs(struct candidates *c, const char *addrs)
{
    char one[CANDIDATES_ADDR_MAX + 1];
    int unknown = 0;
    while (*addrs != '\0' && c->others < MSG_VOTERS_MAX) {
        size_t len = strcspn(addrs, " ");
        if (len < sizeof(one)) {
            memcpy(one, addrs, len);
            one[len] = '\0';
            if (candidates_is_addr(one) && find(c, one) < 0)
                (void)add(c, one);
            unknown += strcmp(one, "-") == 0;
        }
        addrs += len;
        addrs += strspn(addrs, " ");
    }
    return unknown;
}

/* Those voters may be where voters were before: if this leader is lost one of
 * them may lead, and look for nobody. */
static void keep_some(struct candidates *c, const struct candidates *was, int n)
{
    int listed = was->others - (was->unlisted ? 1 : 0);
    for (int i = 0; i < listed && n > 0 && c->others < MSG_VOTERS_MAX; i++) {
        if (find(c, was->addrs[i]) >= 0)
            continue;
        (void)add(c, was->addrs[i]);
        n--;
    }
}

static bool is_same_list(const struct candidates *a, const struct candidates *b)
{
    if (a->others != b->others || a->unlisted != b->unlisted)
        return false;
    for (int i = 0; i < a->others; i++)
        if (strcmp(a->addrs[i], b->addrs[i]) != 0)
            return false;
    return true;
}

bool candidates_learn(struct candidates *c, const char *addrs)
{
    struct candidates was = *c;
    const char *target = candidates_target(&was);
    c->others = 0;
    c->unlisted = false;
    keep_some(c, &was, read_addrs(c, addrs));
    if (was.unlisted)
        (void)keep(c, was.addrs[was.others - 1]);
    if (target[0] != '\0')
        c->at = keep(c, target);
    if (is_same_list(c, &was))
        return false;
    candidates_forget(c);
    return true;
}

int candidates_count(const struct candidates *c)
{
    return c->endpoints + c->others;
}

bool candidates_has_voters(const struct candidates *c)
{
    return c->others > (c->unlisted ? 1 : 0);
}

int candidates_at(const struct candidates *c)
{
    return c->at;
}

const char *candidates_addr(const struct candidates *c, int place)
{
    ddp_assert(place >= 0 && place < candidates_count(c));
    return place < c->endpoints ? "" : c->addrs[place - c->endpoints];
}

const char *candidates_target(const struct candidates *c)
{
    return candidates_addr(c, c->at);
}

int candidates_which(const struct candidates *c)
{
    return c->at < c->endpoints ? c->at : 0;
}

/* -- the place in hand ----------------------------------------------------- */

void candidates_take(struct candidates *c, int place)
{
    ddp_assert(place >= 0 && place < candidates_count(c));
    c->at = place;
}

void candidates_served(struct candidates *c)
{
    c->moves = 0;
}

bool candidates_moved(struct candidates *c, const char *addr)
{
    ddp_assert(candidates_is_addr(addr));
    c->at = keep(c, addr);
    c->seen[c->at] = (struct candidates_seen){.state = CANDIDATES_UNSEEN};
    return c->moves++ > 0;
}

/* -- a search -------------------------------------------------------------- */

void candidates_forget(struct candidates *c)
{
    memset(c->seen, 0, sizeof(c->seen));
}

void candidates_ask(struct candidates *c, int place)
{
    ddp_assert(place >= 0 && place < candidates_count(c));
    if (c->seen[place].asked++ >= ASKED_IN_VAIN)
        c->seen[place].state = CANDIDATES_FAILED;
}

void candidates_saw(struct candidates *c,
                    int place,
                    const struct candidates_seen *seen)
{
    ddp_assert(place >= 0 && place < candidates_count(c));
    bool barred = c->seen[place].barred && seen->state != CANDIDATES_LEADS;
    c->seen[place] = *seen;
    c->seen[place].barred = barred;
    if (barred)
        c->seen[place].state = CANDIDATES_FAILED;
}

void candidates_failed(struct candidates *c, int place)
{
    const struct candidates_seen failed = {.state = CANDIDATES_FAILED};
    candidates_saw(c, place, &failed);
}

void candidates_bar(struct candidates *c, int place)
{
    candidates_failed(c, place);
    c->seen[place].barred = true;
}

static bool has_higher_term(const struct candidates_seen *x,
                            const struct candidates_seen *y)
{
    return term_cmp(&x->term, &y->term) > 0;
}

static int find_leader(const struct candidates *c)
{
    int best = -1;
    for (int i = 0; i < candidates_count(c); i++)
        if (c->seen[i].state == CANDIDATES_LEADS &&
            (best < 0 || has_higher_term(&c->seen[i], &c->seen[best])))
            best = i;
    return best;
}

static int find_most_reached(const struct candidates *c)
{
    int best = -1;
    for (int i = 0; i < candidates_count(c); i++)
        if (c->seen[i].state == CANDIDATES_ANSWERS &&
            (best < 0 || c->seen[i].reached > c->seen[best].reached))
            best = i;
    return best;
}

/* `waits`: one before it that may still answer is waited for. */
static int find_first(const struct candidates *c, bool waits)
{
    for (int i = 0; i < candidates_count(c); i++) {
        if (c->seen[i].state == CANDIDATES_ANSWERS)
            return i;
        if (waits && c->seen[i].state == CANDIDATES_UNSEEN)
            return -1;
    }
    return -1;
}

int candidates_choose(const struct candidates *c, enum candidates_stage stage)
{
    int place = find_leader(c);
    if (place >= 0)
        return place;
    return stage == CANDIDATES_COUNTED
               ? find_most_reached(c)
               : find_first(c, stage == CANDIDATES_WAITS);
}

static bool is_unreached(const struct candidates *c, int place)
{
    const struct candidates_seen *seen = &c->seen[place];
    return seen->state == CANDIDATES_UNSEEN ||
           (seen->state == CANDIDATES_FAILED && !seen->barred);
}

/* What does not fit is left out. */
static void append(char *text, size_t size, const char *more)
{
    size_t used = strlen(text), len = strlen(more);
    if (used + len < size)
        memcpy(text + used, more, len + 1);
}

int candidates_unreached(const struct candidates *c, char *text, size_t size)
{
    char number[24];
    int n = 0;
    text[0] = '\0';
    for (int i = 0; i < candidates_count(c); i++) {
        const char *addr = candidates_addr(c, i);
        if (!is_unreached(c, i) || n++ >= NAMED_MAX)
            continue;
        (void)snprintf(number, sizeof(number), /* fits */
                       c->endpoints == 1 ? "the endpoint" : "endpoint %d",
                       i + 1);
        append(text, size, n > 1 ? ", " : "");
        append(text, size, addr[0] != '\0' ? addr : number);
    }
    (void)snprintf(number, sizeof(number), /* fits */ " and %d more",
                   n - NAMED_MAX);
    if (n > NAMED_MAX)
        append(text, size, number);
    return n;
}

void candidates_check(const struct candidates *c)
{
    ddp_assert(c->endpoints >= 1 && c->endpoints <= CANDIDATES_ENDPOINTS_MAX);
    ddp_assert(c->others >= (c->unlisted ? 1 : 0));
    ddp_assert(c->others <= MSG_VOTERS_MAX + (c->unlisted ? 1 : 0));
    ddp_assert(c->at >= 0 && c->at < candidates_count(c));
}
