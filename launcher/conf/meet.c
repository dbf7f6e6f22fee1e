/*
 * Where the nodes meet, and which node serves the rendezvous there.
 *
 * There are three outcomes. One node without an endpoint of its own gets a
 * private rendezvous on a free port of loopback (conf.standalone), so that two
 * jobs on a machine never collide. c10d takes --rdzv_endpoint; the node that
 * has this address is found later, by binding it (is_host stays -1), unless
 * is_host in --rdzv_conf says which it is. The endpoint may be a list there:
 * each of its addresses is found in the same way, by the node that has it.
 * static takes --rdzv_endpoint or --master_addr and --master_port, and node
 * rank 0 serves.
 *
 * What fails: several nodes without an endpoint, an IPv6 address without
 * brackets, the address of all interfaces, and an endpoint without a host,
 * which an unset variable leaves behind; in a list also an address that is
 * there twice, and localhost beside other hosts. These are errors, since each
 * node would otherwise train alone without a word. An option that has no effect
 * with the chosen backend gets a note.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"

#define HOST_MAX 255

/* -- where to meet --------------------------------------------------------- */

/* Copies a host name or an address without brackets. `extra` are characters
 * that it may have beside those of a name: ":%" for IPv6 with a zone. */
static int check_host(const char *text,
                      size_t len,
                      const char *extra,
                      char host[HOST_MAX + 1],
                      struct ddp_err *err)
{
    if (len > HOST_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the host must be at most %d bytes long", HOST_MAX);
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)text[i];
        if (!isalnum(ch) && ch < 0x80 && strchr("._-", ch) == NULL &&
            strchr(extra, ch) == NULL)
            return ddp_err_set(err, DDP_E_USAGE, "'%.*s' is not a host name",
                               (int)(len < 60 ? len : 60), text);
    }
    memcpy(host, text, len);
    host[len] = '\0';
    return 0;
}

/* Whether it is a numeric IPv6 address, with or without a zone. */
static bool is_ipv6(const char *text, size_t len)
{
    char host[INET6_ADDRSTRLEN];
    struct in6_addr addr;
    const char *zone = memchr(text, '%', len);
    size_t n = zone != NULL ? (size_t)(zone - text) : len;
    if (n >= sizeof(host))
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    return inet_pton(AF_INET6, host, &addr) == 1;
}

/* Whether it is the address of all interfaces, in any spelling: 0.0.0.0, 0, ::,
 * ::ffff:0.0.0.0. A server may listen there; to a client it means nothing. */
static bool is_wildcard(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (inet_aton(host, &four) != 0)
        return four.s_addr == INADDR_ANY;
    if (inet_pton(AF_INET6, host, &six) != 1)
        return false;
    for (size_t i = 12; i < sizeof(six.s6_addr); i++)
        if (six.s6_addr[i] != 0)
            return false;
    return memcmp(six.s6_addr, mapped, sizeof(mapped)) == 0 ||
           IN6_IS_ADDR_UNSPECIFIED(&six);
}

/* One node that serves for itself alone may listen anywhere. */
static int refuse_wildcard(const struct conf *c,
                           const struct opts *o,
                           int id,
                           struct ddp_err *err)
{
    bool own = c->backend == CONF_STATIC && c->nnodes_max == 1;
    for (int i = 0; i < c->endpoints_len && !own; i++) {
        if (!is_wildcard(c->endpoints[i].host))
            continue;
        ddp_err_set(err, DDP_E_USAGE,
                    "no node can connect to %.40s: a server that listens there "
                    "listens on all of its addresses; name the node that "
                    "serves the rendezvous, or one of its addresses",
                    c->endpoints[i].host);
        return conf_blame(o, id, err);
    }
    return 0;
}

static int check_port(const char *text, int *port, struct ddp_err *err)
{
    int64_t n = 0;
    if (strlen(text) > 5 || text[strspn(text, "0123456789")] != '\0' ||
        !opts_read_int(text, 0, 65535, &n))
        return ddp_err_set(err, DDP_E_USAGE,
                           "the port '%.40s' must be a number from 0 to 65535",
                           text);
    *port = (int)n;
    return 0;
}

/* Takes [v6] or [v6]:port apart; `text` begins with the bracket. */
static int split_brackets(const char *text,
                          char host[HOST_MAX + 1],
                          const char **port,
                          struct ddp_err *err)
{
    const char *end = strchr(text, ']');
    if (end == NULL || (end[1] != '\0' && end[1] != ':'))
        return ddp_err_set(err, DDP_E_USAGE,
                           "must be [ADDRESS] or [ADDRESS]:PORT");
    size_t len = (size_t)(end - text) - 1;
    if (!is_ipv6(text + 1, len))
        return ddp_err_set(err, DDP_E_USAGE, "'%.*s' is not an IPv6 address",
                           (int)(len < 60 ? len : 60), text + 1);
    *port = end[1] == ':' ? end + 2 : NULL;
    return check_host(text + 1, len, ":%", host, err);
}

/* Says how to write an IPv6 address that has no brackets. The last group of
 * some may be a port as well. */
static int ask_for_brackets(const char *text, size_t len, struct ddp_err *err)
{
    bool whole = is_ipv6(text, strlen(text));
    if (!is_ipv6(text, len))
        return ddp_err_set(err, DDP_E_USAGE,
                           "an IPv6 address must be in brackets: "
                           "[%.60s]:PORT",
                           text);
    return ddp_err_set(err, DDP_E_USAGE,
                       "an IPv6 address must be in brackets: [%.*s]%.10s%s%.60s"
                       "%s",
                       (int)len, text, text + len, whole ? ", or [" : "",
                       whole ? text : "", whole ? "]:PORT" : "");
}

/* Splits at the last colon. A text with more than one colon is an IPv6 address
 * without brackets. */
static int split_plain(const char *text,
                       char host[HOST_MAX + 1],
                       const char **port,
                       struct ddp_err *err)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    *port = colon != NULL ? colon + 1 : NULL;
    if (is_ipv6(text, len) || is_ipv6(text, strlen(text)))
        return ask_for_brackets(text, len, err);
    return check_host(text, len, "", host, err);
}

/*
 * "host", "host:port", "[v6]", "[v6]:port", blanks around it trimmed: the port
 * is behind the last colon, `default_port` if there is none; an empty host is
 * localhost. `what` names the option in the error (DDP_E_USAGE).
 */
static int read_endpoint(const char *text,
                         const char *what,
                         int default_port,
                         char host[256],
                         int *port,
                         struct ddp_err *err)
{
    char copy[HOST_MAX + 16];
    const char *port_text = NULL;
    const char *start = text + strspn(text, " \t\r\n");
    size_t len = strlen(start);
    while (len > 0 && strchr(" \t\r\n", start[len - 1]) != NULL)
        len--;
    int rc = -1;
    if (len >= sizeof(copy)) {
        ddp_err_set(err, DDP_E_USAGE, "must be at most %d bytes long",
                    HOST_MAX);
    } else {
        memcpy(copy, start, len);
        copy[len] = '\0';
        rc = copy[0] == '[' ? split_brackets(copy, host, &port_text, err)
                            : split_plain(copy, host, &port_text, err);
    }
    *port = default_port;
    if (rc == 0 && port_text != NULL)
        rc = check_port(port_text, port, err);
    if (rc < 0)
        return ddp_err_wrap(err, "%s=%.120s", what, text);
    if (host[0] == '\0')
        (void)snprintf(host, HOST_MAX + 1, "localhost"); /* it fits */
    return 0;
}

/* An address that stands by itself, with or without brackets. */
static int copy_address(const struct opts *o,
                        int id,
                        char host[HOST_MAX + 1],
                        struct ddp_err *err)
{
    const char *text = opts_text(o, id), *port = NULL;
    int rc;
    if (text[0] == '[')
        rc = split_brackets(text, host, &port, err);
    else if (is_ipv6(text, strlen(text)))
        rc = check_host(text, strlen(text), ":%", host, err);
    else
        rc = check_host(text, strlen(text), "", host, err);
    if (rc == 0 && port != NULL)
        rc = ddp_err_set(err, DDP_E_USAGE, "must be an address without a port");
    return rc < 0 ? conf_blame(o, id, err) : 0;
}

static int
choose_backend(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_rdzv_backend);
    if (!conf_said(o, OPTIONS_rdzv_backend)) {
        bool placed = conf_said(o, OPTIONS_node_rank) ||
                      conf_said(o, OPTIONS_master_addr) ||
                      conf_said(o, OPTIONS_master_port);
        c->backend = placed ? CONF_STATIC : CONF_C10D;
        return 0;
    }
    if (strcmp(text, "c10d") == 0 || strcmp(text, "static") == 0) {
        c->backend = text[0] == 'c' ? CONF_C10D : CONF_STATIC;
        return 0;
    }
    bool etcd = strncmp(text, "etcd", 4) == 0;
    ddp_err_set(err, DDP_E_USAGE, "must be c10d or static%s",
                etcd ? "; ddprun needs no etcd, use c10d instead" : "");
    return conf_blame(o, OPTIONS_rdzv_backend, err);
}

/* One endpoint, and no list. */
static void set_endpoint(struct conf *c, const char *host, int port)
{
    struct conf_endpoint *e = &c->endpoints[0];
    (void)snprintf(e->host, sizeof(e->host), "%s", host); /* fits */
    e->port = port;
    c->endpoints_len = 1;
}

/* One node with a private rendezvous. --master_port is its store's. */
static void meet_nobody(struct conf *c, const struct opts *o)
{
    c->store_port = (int)opts_number(o, OPTIONS_master_port);
    c->backend = CONF_C10D;
    c->standalone = true;
    c->is_host = 1;
    set_endpoint(c, "127.0.0.1", 0);
}

static int
check_standalone(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (c->nnodes_min > 1)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--standalone is for one node, but --nnodes asks "
                           "for %d: leave one of the two out",
                           c->nnodes_min);
    if (c->nnodes_max > 1)
        conf_note(
            c, "--standalone: no other node can join, so --nnodes becomes 1");
    if (conf_said(o, OPTIONS_rdzv_endpoint) ||
        conf_said(o, OPTIONS_master_addr))
        conf_note(c, "--standalone: the given endpoint is ignored");
    c->nnodes_max = 1;
    meet_nobody(c, o);
    return 0;
}

/*
 * A job script's "$HEAD:29500" becomes ":29500" if the variable is empty. Each
 * node would then connect to itself, and train alone if one node is enough.
 */
static int check_host_said(const struct conf *c,
                           const struct opts *o,
                           const char *text,
                           struct ddp_err *err)
{
    text += strspn(text, " \t\r\n");
    if (c->nnodes_max == 1 || text[0] != ':' || text[1] == ':') /* ::1 */
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "the host before the colon is missing (is a variable empty?), "
                "so each node would connect to itself; name one of the nodes, "
                "or localhost if all are on this machine");
    return conf_blame(o, OPTIONS_rdzv_endpoint, err);
}

/* Such an endpoint means another machine on each node, so several nodes that
 * use it are on one machine. */
static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 ||
           strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* What is wrong with a list that was read; NULL: nothing. */
static const char *why_no_list(const struct conf *c)
{
    const struct conf_endpoint *first = &c->endpoints[0];
    if (c->endpoints_len > 1 && c->backend == CONF_STATIC)
        return "a list is for c10d; under static the endpoint is the address "
               "of node 0, and no other node can serve in its place";
    for (int i = 1; i < c->endpoints_len; i++) {
        const struct conf_endpoint *e = &c->endpoints[i];
        if (is_loopback(e->host) != is_loopback(first->host))
            return "localhost and other hosts cannot be in one list: on each "
                   "node localhost is another machine";
        if (strlen(e->host) > CONF_TOLD_HOST_MAX ||
            strlen(first->host) > CONF_TOLD_HOST_MAX)
            return "nodes tell each other 64 bytes of a name at most; give "
                   "shorter ones, or addresses";
        if (e->port == 0 || first->port == 0)
            return "each address of a list needs a port that all nodes know, "
                   "not 0";
        for (int j = 0; j < i; j++)
            if (e->port == c->endpoints[j].port &&
                strcasecmp(e->host, c->endpoints[j].host) == 0)
                return "an address is in the list twice; name different hosts";
    }
    return NULL;
}

/* One part of the list. */
static int add_endpoint(struct conf *c,
                        const struct opts *o,
                        const char *text,
                        int port,
                        struct ddp_err *err)
{
    char name[64];
    struct conf_endpoint *e = &c->endpoints[c->endpoints_len];
    if (c->endpoints_len == CONF_ENDPOINTS_MAX) {
        ddp_err_set(err, DDP_E_USAGE, "a list has at most %d addresses",
                    CONF_ENDPOINTS_MAX);
        return conf_blame(o, OPTIONS_rdzv_endpoint, err);
    }
    if (check_host_said(c, o, text, err) < 0 ||
        read_endpoint(text, opts_where(o, OPTIONS_rdzv_endpoint, name), port,
                      e->host, &e->port, err) < 0)
        return -1;
    c->endpoints_len++;
    return 0;
}

static int read_endpoints(struct conf *c,
                          const struct opts *o,
                          int port,
                          struct ddp_err *err)
{
    char copy[CONF_ENDPOINTS_MAX * (HOST_MAX + 16)];
    const char *text = opts_text(o, OPTIONS_rdzv_endpoint);
    bool list = strchr(text, ',') != NULL;
    if (list && strlen(text) >= sizeof(copy)) {
        ddp_err_set(err, DDP_E_USAGE, "must be at most %zu bytes long",
                    sizeof(copy) - 1);
        return conf_blame(o, OPTIONS_rdzv_endpoint, err);
    }
    if (!list)
        return add_endpoint(c, o, text, port, err);
    memcpy(copy, text, strlen(text) + 1);
    char *next = copy;
    while (next != NULL) {
        const char *part = strsep(&next, ",");
        if (part[strspn(part, " \t\r\n")] == '\0') {
            ddp_err_set(err, DDP_E_USAGE,
                        "an address is missing beside a comma (is a variable "
                        "empty?)");
            return conf_blame(o, OPTIONS_rdzv_endpoint, err);
        }
        if (add_endpoint(c, o, part, port, err) < 0)
            return -1;
    }
    const char *why = why_no_list(c);
    if (why == NULL)
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "%s", why);
    return conf_blame(o, OPTIONS_rdzv_endpoint, err);
}

/* From --rdzv_endpoint, or under static from --master_addr and _port. */
static int
find_endpoint(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    bool fixed = c->backend == CONF_STATIC;
    int port = fixed ? CONF_PORT_STATIC : CONF_PORT_C10D;
    if (fixed && conf_said(o, OPTIONS_master_port))
        port = (int)opts_number(o, OPTIONS_master_port);
    if (conf_said(o, OPTIONS_rdzv_endpoint))
        return read_endpoints(c, o, port, err) < 0
                   ? -1
                   : refuse_wildcard(c, o, OPTIONS_rdzv_endpoint, err);
    set_endpoint(c, "127.0.0.1", port);
    if (fixed && conf_said(o, OPTIONS_master_addr)) {
        if (copy_address(o, OPTIONS_master_addr, c->endpoints[0].host, err) < 0)
            return -1;
        return refuse_wildcard(c, o, OPTIONS_master_addr, err);
    }
    if (c->nnodes_max > 1) {
        ddp_err_set(
            err, DDP_E_USAGE,
            "several nodes need an endpoint: add --rdzv_endpoint=HOST:PORT, "
            "the same on every node (or --master_addr=HOST on every node, and "
            "a --node_rank of its own on each)");
        return conf_blame(o, OPTIONS_nnodes, err);
    }
    return 0;
}

/* Notes about a --master_addr that has no effect. */
static void note_master(struct conf *c, const struct opts *o)
{
    bool addr = conf_said(o, OPTIONS_master_addr);
    if (c->backend == CONF_C10D && addr)
        conf_note(c, "--master_addr is ignored: under c10d it is the address "
                     "of the node with group rank 0");
    else if (addr && conf_said(o, OPTIONS_rdzv_endpoint) &&
             strcmp(opts_text(o, OPTIONS_master_addr), c->endpoints[0].host) !=
                 0)
        conf_note(
            c,
            "--master_addr is ignored: by --rdzv_endpoint the master is %.100s",
            c->endpoints[0].host);
}

/* Under c10d a rank that cannot be is only a wish that is not granted; under
 * static two nodes would have the same place. */
static int
check_node_rank(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    bool given = conf_said(o, OPTIONS_node_rank);
    c->node_rank = given ? (int)opts_number(o, OPTIONS_node_rank) : -1;
    if (c->backend == CONF_STATIC && !given) {
        c->node_rank = 0;
        if (c->nnodes_max > 1)
            conf_note(c, "--node_rank is not given: this is node 0, which "
                         "serves the rendezvous");
    }
    if (c->node_rank < c->nnodes_max)
        return 0;
    if (c->backend == CONF_C10D) {
        conf_note(c,
                  "--node_rank=%d is ignored: it is not below the number of "
                  "nodes, %d",
                  c->node_rank, c->nnodes_max);
        c->node_rank = -1;
        return 0;
    }
    ddp_err_set(err, DDP_E_USAGE, "must be below the number of nodes, %d",
                c->nnodes_max);
    return conf_blame(o, OPTIONS_node_rank, err);
}

static int
check_local_addr(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (!conf_said(o, OPTIONS_local_addr))
        return 0;
    if (copy_address(o, OPTIONS_local_addr, c->local_addr, err) < 0)
        return -1;
    if (is_wildcard(c->local_addr))
        ddp_err_set(err, DDP_E_USAGE,
                    "no other node can connect to this address; give one of "
                    "this node's own");
    else if (strlen(c->local_addr) > CONF_TOLD_HOST_MAX)
        ddp_err_set(err, DDP_E_USAGE,
                    "other nodes can be told %d bytes of a name at most; give "
                    "a shorter one, or an address",
                    CONF_TOLD_HOST_MAX);
    else
        return 0;
    return conf_blame(o, OPTIONS_local_addr, err);
}

static bool all_loopback(const struct conf *c)
{
    for (int i = 0; i < c->endpoints_len; i++)
        if (!is_loopback(c->endpoints[i].host))
            return false;
    return true;
}

int conf_meeting(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    c->node_rank = -1;
    c->is_host = -1;
    if (check_local_addr(c, o, err) < 0)
        return -1;
    if (opts_number(o, OPTIONS_standalone) != 0)
        return check_standalone(c, o, err);
    if (choose_backend(c, o, err) < 0 || check_node_rank(c, o, err) < 0)
        return -1;
    /* As torchrun since about 2.12: one node that asks for no port does not
     * take 29500, where the next job would collide with it. */
    if (c->nnodes_max == 1 && !conf_said(o, OPTIONS_rdzv_endpoint) &&
        (c->backend == CONF_C10D || !conf_said(o, OPTIONS_master_port))) {
        meet_nobody(c, o);
        return 0;
    }
    if (find_endpoint(c, o, err) < 0)
        return -1;
    note_master(c, o);
    c->loopback = all_loopback(c);
    int endpoint_port = c->endpoints[0].port;
    if (endpoint_port == 0 && c->nnodes_max > 1) {
        bool endpoint = conf_said(o, OPTIONS_rdzv_endpoint);
        ddp_err_set(err, DDP_E_USAGE,
                    "port 0 (a free port) is for one node: several nodes must "
                    "know the port");
        return conf_blame(
            o, endpoint ? OPTIONS_rdzv_endpoint : OPTIONS_master_port, err);
    }
    int master_port = (int)opts_number(o, OPTIONS_master_port);
    if (c->backend == CONF_C10D || master_port != endpoint_port)
        c->store_port = master_port; /* 0: not said */
    if (c->backend == CONF_STATIC) {
        memcpy(c->master_addr, c->endpoints[0].host, sizeof(c->master_addr));
        c->master_port = c->store_port != 0 ? c->store_port : endpoint_port;
        c->is_host = c->node_rank == 0;
    }
    if (endpoint_port == 0)
        c->is_host = 1; /* no other node could know the port */
    ddp_assert(c->endpoints_len > 0 && c->endpoints[0].host[0] != '\0');
    ddp_assert(c->backend == CONF_C10D || c->node_rank >= 0);
    return 0;
}
