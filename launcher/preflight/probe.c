/*
 * The steps of every probe, whatever its rank. They go through the store:
 *
 *     node/RANK    what a node is: its addresses, versions, limits
 *     start        rank 0: the ranks that came, in order
 *     links/RANK   which nodes that one reaches
 *     verdict      rank 0: no problem was found
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
#include "launcher/preflight/look.h"
#include "launcher/preflight/reach.h"
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
    char *to = p->self.fact[FACT_ADDR + PREFLIGHT_MASTER];
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    struct addr_list list;
    const char *given = probe_env(PROBE_ENV_ADDR);
    _Static_assert(FACT_MAX >= ADDR_TEXT_MAX, "it has room for one");
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
    p->store.stop = reach_stop();
    p->self.rank = p->rank;
    (void)snprintf(p->self.fact[FACT_PROBLEM], FACT_MAX, "%s",
                   probe_env(PROBE_ENV_PROBLEM)); /* a long one is cut */
    return 0;
}

/* Answers at a free port of all addresses: others come by the master address
 * and by NCCL's. */
static int serve(struct probe *p, struct ddp_err *err)
{
    int fd = -1;
    if (addr_listen_any(0, &fd, err) != 0)
        return -1;
    int port = addr_fd_port(fd);
    (void)snprintf(p->self.fact[FACT_PORT], FACT_MAX, "%d", port);
    if (port == 0)
        (void)ddp_err_sys(err, DDP_E_IO, "cannot find the probe's port");
    else
        p->responder = reach_answer(fd, p->secret, err);
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
    bool good = preflight_node_read(n, rank, text);
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
    int64_t links = PREFLIGHT_NETS * (int64_t)reach_steps(p->n);
    p->end_us = mono_now_us() + 30 * MONO_S + links * REACH_MOST_US;
    p->links = calloc((size_t)links + 1, sizeof(*p->links));
    return p->links != NULL
               ? 0
               : ddp_err_set(err, DDP_E_NOMEM, "no memory for links");
}

/* -- who is reached -------------------------------------------------------- */

/* By both networks, if either side has a second one. */
static int try_node(struct probe *p, int rank, struct ddp_err *err)
{
    struct preflight_node to;
    if (probe_read_node(p, rank, &to, mono_now_us() + TALK_US) != 0)
        return ddp_err_set(err, DDP_E_PROTO, "there is no data of node %d",
                           rank);
    for (int net = 0; net < PREFLIGHT_NETS; net++) {
        struct preflight_link *l = &p->links[p->links_len];
        if (to.fact[FACT_ADDR + net][0] == '\0' &&
            p->self.fact[FACT_ADDR + net][0] == '\0')
            continue;
        *l = (struct preflight_link){.from = p->rank, .to = rank, .net = net};
        if (reach_try(l, preflight_addr(&to, (enum preflight_net)net),
                      preflight_port(&to), p->secret, err) != 0)
            return -1;
        p->links_len++;
    }
    return 0;
}

/* All nodes choose the same steps, from the same list: no message says who
 * tries whom. */
int probe_try(struct probe *p, struct ddp_err *err)
{
    char key[PROBE_KEY_MAX];
    int place = 0, step[REACH_ALL_MAX];
    ddp_assert(p->n > 0 && p->ranks != NULL && p->links_len == 0);
    int n = reach_choose(step, p->n);
    while (place < p->n - 1 && p->ranks[place] != p->rank)
        place++;
    for (int i = 0; i < n; i++)
        if (try_node(p, p->ranks[(place + step[i]) % p->n], err) != 0)
            return -1;
    return probe_tell_own(p, probe_key(key, "links/%d", p->rank),
                          preflight_links_text(p->links, p->links_len), err);
}
