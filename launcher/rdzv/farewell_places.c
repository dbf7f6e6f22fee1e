/*
 * Happy path: the agent connects to a server and says what binds it, which is
 * on the page before; `voters` tells where the others are; each of these makes
 * the page anew.
 *
 * Failure modes: a place is a name: a guard does not resolve names, so it is
 * left out unless it was resolved for the agent. The farewell does not fit:
 * nothing is said, and the others wait for the lease.
 */
#include "launcher/rdzv/farewell_places.h"

#include <string.h>

#include "launcher/rdzv/endpoint.h"
#include "rendezvous/net/farewell_frame.h"

_Static_assert(FAREWELL_PLACES_MAX > 1 + CONF_ENDPOINTS_MAX,
               "some voters are told, however long the list");

void farewell_places_init(struct farewell_places *p, const struct conf *conf)
{
    *p = (struct farewell_places){.conf = conf};
}

void farewell_places_endpoint(struct farewell_places *p,
                              int which,
                              const struct addr_list *at)
{
    ddp_assert(which >= 0 && which < CONF_ENDPOINTS_MAX);
    p->endpoints[which] = at;
}

/* -- the next places ------------------------------------------------------- */

static bool is_same(const struct sockaddr_storage *x,
                    const struct sockaddr_storage *y)
{
    const struct sockaddr *a = (const struct sockaddr *)x;
    const struct sockaddr *b = (const struct sockaddr *)y;
    char a_text[ADDR_TEXT_MAX], b_text[ADDR_TEXT_MAX];
    if (x->ss_family == AF_UNSPEC || y->ss_family == AF_UNSPEC)
        return x->ss_family == y->ss_family;
    addr_text(a, a_text);
    addr_text(b, b_text);
    return strcmp(a_text, b_text) == 0 && addr_port(a) == addr_port(b);
}

/* One more, if there is room and it is not there yet. */
static void add(struct farewell_places *p, const struct sockaddr_storage *at)
{
    struct farewell_page *page = &p->page;
    for (int i = 0; i < page->n_places; i++)
        if (is_same(&page->places[i], at))
            return;
    if (page->n_places < FAREWELL_PLACES_MAX)
        page->places[page->n_places++] = *at;
}

/* The next word of a list, each of which is followed by a blank; its length, 0:
 * there is none. */
static size_t next_word(const char **list, const char **word)
{
    *word = *list;
    size_t len = strcspn(*list, " ");
    *list += len + ((*list)[len] == ' ' ? 1 : 0);
    return len;
}

static void add_number(struct farewell_places *p, const char *addr, size_t len)
{
    struct conf_endpoint at;
    struct addr_list list;
    struct ddp_err err;
    if (endpoint_read(addr, len, &at) && addr_is_number(at.host) &&
        addr_resolve(at.host, at.port, &list, &err) == 0)
        add(p, &list.at[0]);
}

/* In the order of group ranks, without this node. */
static void add_voters(struct farewell_places *p)
{
    const char *ids = p->voters.ids, *addrs = p->voters.addrs;
    const char *id, *addr;
    for (int i = 0; i < MSG_VOTERS_MAX; i++) {
        size_t id_len = next_word(&ids, &id);
        size_t addr_len = next_word(&addrs, &addr);
        if (addr_len == 0)
            return;
        bool self = id_len == MSG_VOTER_LEN &&
                    memcmp(id, p->said.agent, MSG_VOTER_LEN) == 0;
        if (!self)
            add_number(p, addr, addr_len);
    }
}

void farewell_places_update(struct farewell_places *p)
{
    struct farewell_page *page = &p->page;
    page->len = 0;
    page->n_places = 0;
    add(p, &p->server);
    for (int i = 0; i < p->conf->endpoints_len; i++)
        if (p->endpoints[i] != NULL && p->endpoints[i]->n > 0)
            add(p, &p->endpoints[i]->at[0]);
    add_voters(p);
    if (p->said.version != 0)
        page->len = farewell_frame(&p->said, p->conf->token, page->bytes,
                                   sizeof(page->bytes));
    farewell_page_write(page);
}

/* -- what changes them ----------------------------------------------------- */

void farewell_places_connected(struct farewell_places *p,
                               const struct sockaddr_storage *server,
                               bool own)
{
    p->server = *server;
    if (own)
        p->server = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
    farewell_places_update(p);
}

void farewell_places_hear(struct farewell_places *p, const struct msg *m)
{
    if (m->kind != MSG_KIND_voters)
        return;
    p->voters = m->voters;
    farewell_places_update(p);
}

void farewell_places_record(struct farewell_places *p,
                            const struct msg_vote *said)
{
    p->said = *said;
    farewell_places_update(p);
}
