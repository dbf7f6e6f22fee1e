/*
 * The steps of every probe, whatever its rank. They are in lock step through
 * the store: a probe puts a key when it has done something, and waits for the
 * key of the other. Only one pair of probes measures a link at a time, so that
 * no measurement shares a line with another one.
 *
 *     node/RANK            what a node is: its addresses, versions, limits
 *     start                rank 0: the ranks that came, in order
 *     here/ROUND/RANK      ready for the partner of this round
 *     done/ROUND/RANK      this direction is measured
 *     links/RANK           what a node measured
 *     again, again/K       rank 0: slow links to measure again; each result
 *     verdict              rank 0: no problem was found
 *
 * Each wait has a deadline, and a wait that fails ends the probe: rank 0 then
 * prints what it has, as "ended before all was measured". A bad link is no
 * failure but a result. Texts in the store come from other nodes, and are
 * checked before they are used.
 */
#include "launcher/preflight/probe.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/conf/conf.h"
#include "launcher/preflight/io.h"
#include "launcher/preflight/link.h"
#include "launcher/preflight/look.h"
#include "launcher/preflight/pairing.h"
#include "rendezvous/net/addr.h"

const char *probe_env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* -- the store ------------------------------------------------------------- */

const char *probe_key(char key[PROBE_KEY_MAX], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(key, PROBE_KEY_MAX, "preflight/");
    n += vsnprintf(key + n, PROBE_KEY_MAX - (size_t)n, fmt, ap);
    va_end(ap);
    ddp_assert(n < PROBE_KEY_MAX); /* only numbers are formatted */
    return key;
}

/* A put is not acknowledged by the store; the reader's deadline finds out if it
 * was lost. */
int probe_tell(struct probe *p,
               const char *key,
               const char *text,
               struct ddp_err *err)
{
    if (text == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
    return store_client_set(&p->store, key, text, strlen(text),
                            mono_now_us() + TALK_US, err);
}

int probe_tell_own(struct probe *p,
                   const char *key,
                   char *text,
                   struct ddp_err *err)
{
    int rc = probe_tell(p, key, text, err);
    free(text);
    return rc;
}

void probe_write_error(const char *text)
{
    const char *path = probe_env("TORCHELASTIC_ERROR_FILE");
    FILE *f = path[0] != '\0' ? fopen(path, "we") : NULL;
    cJSON *json = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(json, "message", text);
    char *line = cJSON_PrintUnformatted(json);
    if (f != NULL && line != NULL)
        (void)fputs(line, f);
    if (f != NULL)
        (void)fclose(f); /* without the file the status must do */
    cJSON_Delete(json);
    free(line);
}

/* -- beginning ------------------------------------------------------------- */

/* The launcher sets these variables for each worker, so a bad one means that
 * this program was started by hand. */
static int env_number(const char *name, int max, struct ddp_err *err)
{
    char *end;
    const char *text = probe_env(name);
    long n = strtol(text, &end, 10);
    if (text[0] == '\0' || *end != '\0' || n < 0 || n > max)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s='%.40s': this program is started by ddprun "
                           "--preflight, not by hand",
                           name, text);
    return (int)n;
}

/* Finds the address by which the others reach this node. */
static int find_own_addr(struct probe *p, struct ddp_err *err)
{
    char *to = p->self.place[PREFLIGHT_MASTER].addr;
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    struct addr_list list;
    const char *given = probe_env(PROBE_ENV_ADDR);
    _Static_assert(sizeof(p->self.place[0].addr) == ADDR_TEXT_MAX, "one text");
    if (given[0] == '\0' && p->rank == 0)
        given = p->store.host;
    if (given[0] != '\0') {
        if (addr_resolve(given, 0, &list, err) != 0)
            return -1;
        addr_text((const struct sockaddr *)&list.at[0], to);
        return 0;
    }
    if (getsockname(p->store.fd, (struct sockaddr *)&ss, &len) != 0)
        return ddp_err_sys(err, DDP_E_IO, "cannot find this node's address");
    addr_text((const struct sockaddr *)&ss, to);
    return 0;
}

int probe_begin(struct probe *p, struct ddp_err *err)
{
    p->began_us = mono_now_us();
    p->responder = -1;
    p->rank = env_number("GROUP_RANK", CONF_NNODES_MAX, err);
    p->world = env_number("GROUP_WORLD_SIZE", CONF_NNODES_MAX, err);
    int port = env_number("MASTER_PORT", 65535, err);
    p->again = strcmp(probe_env("TORCHELASTIC_RESTART_COUNT"), "0") != 0;
    p->secret = probe_env("DDP_INSTANCE");
    if (p->rank < 0 || p->world <= p->rank || port < 0)
        return -1;
    store_client_init(&p->store, probe_env("MASTER_ADDR"), (uint16_t)port);
    p->store.stop = preflight_io_stop();
    p->self.rank = p->rank;
    (void)snprintf(p->self.problem, sizeof(p->self.problem), "%s",
                   probe_env(PROBE_ENV_PROBLEM));
    return 0;
}

/* Starts the responder on a free port of all addresses: it is measured by the
 * master address and by NCCL's. */
static int serve(struct probe *p, struct ddp_err *err)
{
    int fd = -1;
    if (addr_listen_any(0, &fd, err) != 0)
        return -1;
    p->self.port = addr_fd_port(fd);
    if (p->self.port == 0)
        (void)ddp_err_sys(err, DDP_E_IO, "cannot find the responder's port");
    else
        p->responder = preflight_responder_start(fd, p->secret, err);
    (void)close(fd); /* the responder has its own */
    return p->responder > 0 ? 0 : -1;
}

int probe_introduce(struct probe *p, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    if (find_own_addr(p, err) != 0 || serve(p, err) != 0)
        return -1;
    preflight_look(&p->self);
    return probe_tell_own(p, probe_key(key, "node/%d", p->rank),
                          preflight_node_text(&p->self), err);
}

/* -- which nodes came ------------------------------------------------------ */

int probe_read_node(struct probe *p,
                    int rank,
                    struct preflight_node *n,
                    int64_t until_us)
{
    char key[PROBE_KEY_MAX];
    char *text = NULL;
    struct ddp_err e;
    if (store_client_text(&p->store, probe_key(key, "node/%d", rank), &text,
                          until_us, &e) != 0)
        return -1;
    bool good = preflight_node_read(n, text) && n->rank == rank;
    free(text);
    return good ? 0 : -1;
}

/* Reads ranks in ascending order, below the world's size; one at least, since
 * rank 0 is in its own list. */
static bool read_ranks(struct probe *p, const char *text)
{
    cJSON *array = cJSON_Parse(text);
    const cJSON *item;
    bool good = cJSON_IsArray(array);
    p->ranks = calloc((size_t)p->world, sizeof(*p->ranks));
    cJSON_ArrayForEach(item, array)
    {
        int last = p->n > 0 ? p->ranks[p->n - 1] : -1;
        good = good && p->ranks != NULL && cJSON_IsNumber(item) &&
               item->valueint > last && item->valueint < p->world;
        if (good)
            p->ranks[p->n++] = item->valueint;
    }
    cJSON_Delete(array);
    return good && p->n > 0;
}

int probe_agree(struct probe *p, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    char *text = NULL;
    int64_t until_us = p->began_us + GATHER_US + LINGER_US;
    if (store_client_text(&p->store, probe_key(key, "start"), &text, until_us,
                          err) != 0)
        return -1;
    bool good = read_ranks(p, text);
    free(text);
    if (!good)
        return ddp_err_set(err, DDP_E_PROTO, "the list of nodes is damaged");
    int64_t links = 2 * PREFLIGHT_NETS * (int64_t)pairing_rounds(p->n);
    p->end_us = mono_now_us() + 30 * MONO_S + links * PREFLIGHT_LINK_MOST_US;
    p->links = calloc((size_t)links + 1, sizeof(*p->links));
    return p->links != NULL
               ? 0
               : ddp_err_set(err, DDP_E_NOMEM, "no memory for links");
}

/* -- measuring ------------------------------------------------------------- */

/* A node with one address only uses it for both networks. */
static int measure_net(struct probe *p,
                       const struct preflight_node *to,
                       enum preflight_net net,
                       struct preflight_link *link,
                       struct ddp_err *err)
{
    const char *addr = to->place[net].addr;
    if (addr[0] == '\0')
        addr = to->place[PREFLIGHT_MASTER].addr;
    *link =
        (struct preflight_link){.from = p->rank, .to = to->rank, .net = net};
    return preflight_link_measure(link, addr, (int)to->port, p->secret, err);
}

/* Measures both networks to a node, if either side has a second one. */
static int measure_node(struct probe *p,
                        const struct preflight_node *to,
                        struct ddp_err *err)
{
    for (int net = 0; net < PREFLIGHT_NETS; net++) {
        if (to->place[net].addr[0] == '\0' &&
            p->self.place[net].addr[0] == '\0')
            continue;
        struct preflight_link *link = &p->links[p->links_len];
        if (measure_net(p, to, (enum preflight_net)net, link, err) != 0)
            return -1;
        p->links_len++;
    }
    return 0;
}

/* Both ways, the lower rank first; each waits while the other measures. */
static int meet(struct probe *p, int round, int other, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    struct preflight_node to;
    ddp_assert(other >= 0 && other < p->world && other != p->rank);
    if (probe_read_node(p, other, &to, mono_now_us() + TALK_US) != 0)
        return ddp_err_set(err, DDP_E_PROTO, "there is no data of node %d",
                           other);
    for (int turn = 0; turn < 2; turn++) {
        bool mine = (turn == 0) == (p->rank < other);
        if (!mine && store_client_wait(
                         &p->store, probe_key(key, "done/%d/%d", round, other),
                         p->end_us, err) != 0)
            return -1;
        if (mine && (measure_node(p, &to, err) != 0 ||
                     probe_tell(p, probe_key(key, "done/%d/%d", round, p->rank),
                                "1", err) != 0))
            return -1;
    }
    return 0;
}

/* The partner may still be busy with its last one. */
static int wait_for(struct probe *p, int round, int other, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    if (probe_tell(p, probe_key(key, "here/%d/%d", round, p->rank), "1", err) !=
        0)
        return -1;
    return store_client_wait(
        &p->store, probe_key(key, "here/%d/%d", round, other), p->end_us, err);
}

/* Any number that all nodes of the run have in common. */
static uint64_t seed_of(const char *instance)
{
    char digits[16];
    (void)snprintf(digits, sizeof(digits), "%.15s", instance);
    return strtoull(digits, NULL, 16);
}

/* The pairs of a round are known to each probe without a message, since all of
 * them compute the same pairing from the same list and seed. A probe that sits
 * out a round goes on to the next one, and waits for its partner there. */
int probe_play(struct probe *p, struct ddp_err *err)
{
    int *order = calloc((size_t)p->n + 1, sizeof(*order));
    int place = 0, rc = 0;
    ddp_assert(p->n > 0 && p->ranks != NULL && p->links_len == 0);
    if (order == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the rounds");
    pairing_order(order, p->n, seed_of(p->secret));
    while (place < p->n - 1 && p->ranks[order[place]] != p->rank)
        place++;
    for (int round = 0; rc == 0 && round < pairing_rounds(p->n); round++) {
        int with = pairing_partner(p->n, round, place);
        int other = with >= 0 ? p->ranks[order[with]] : -1;
        if (other >= 0 && (wait_for(p, round, other, err) != 0 ||
                           meet(p, round, other, err) != 0))
            rc = -1;
    }
    free(order);
    char key[PROBE_KEY_MAX];
    if (rc == 0)
        rc = probe_tell_own(p, probe_key(key, "links/%d", p->rank),
                            preflight_links_text(p->links, p->links_len), err);
    return rc;
}

/* -- a second look --------------------------------------------------------- */

/* Measures entry `k` of the list. The entries are measured one after the other,
 * in all of the cluster: each probe waits for the result of the entry before.
 */
static int measure_again(struct probe *p,
                         int k,
                         const struct preflight_link *l,
                         struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    struct preflight_node to;
    struct preflight_link link;
    ddp_assert(k >= 0 && k < AGAIN_MAX && l->from == p->rank);
    if (k > 0 && store_client_wait(&p->store, probe_key(key, "again/%d", k - 1),
                                   p->end_us, err) != 0)
        return -1;
    if (probe_read_node(p, (int)l->to, &to, mono_now_us() + TALK_US) != 0)
        return ddp_err_set(err, DDP_E_PROTO, "there is no data of node %d",
                           (int)l->to);
    if (measure_net(p, &to, (enum preflight_net)l->net, &link, err) != 0)
        return -1;
    return probe_tell_own(p, probe_key(key, "again/%d", k),
                          preflight_links_text(&link, 1), err);
}

int probe_read_again(struct probe *p,
                     struct preflight_link *again,
                     struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    char *text = NULL;
    if (store_client_text(&p->store, probe_key(key, "again"), &text, p->end_us,
                          err) != 0)
        return -1;
    int n = 0;
    bool good = preflight_links_read(again, &n, AGAIN_MAX, PREFLIGHT_ANY, text);
    free(text);
    return good ? n
                : ddp_err_set(err, DDP_E_PROTO, "the list of links is damaged");
}

int probe_look_again(struct probe *p, struct ddp_err *err)
{
    struct preflight_link again[AGAIN_MAX];
    int n = probe_read_again(p, again, err);
    for (int k = 0; k < n; k++)
        if (again[k].from == p->rank &&
            measure_again(p, k, &again[k], err) != 0)
            return -1;
    return n < 0 ? -1 : 0;
}
