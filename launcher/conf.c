/*
 * The order matters in two places: how many nodes there are decides what must
 * be said about where to meet, and the backend decides what a node rank and
 * some keys of --rdzv_conf mean. The program is looked up last, so that a
 * wrong option is told before a missing file.
 */
#include "launcher/conf.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "launcher/options.h"
#include "launcher/placement.h"
#include "launcher/program.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"

#define HOST_MAX 255

/* join.heartbeat_ms in rendezvous/proto/messages.def. */
#define HEARTBEAT_MIN_US (300 * MONO_MS)
#define HEARTBEAT_MAX_US (3600 * MONO_S)
#define YEAR_US          (INT64_C(31536000) * MONO_S)

__attribute__((format(printf, 2, 3))) static void
note(struct conf *c, const char *fmt, ...)
{
    size_t max = sizeof(c->notes) / sizeof(c->notes[0]);
    ddp_assert((size_t)c->notes_len < max);
    va_list ap;
    va_start(ap, fmt);
    char *text = c->notes[c->notes_len++];
    (void)vsnprintf(text, sizeof(c->notes[0]), fmt, ap); /* cut is still told */
    va_end(ap);
}

/* Given, and not as an empty text (as templates of job files do). */
static bool said(const struct opts *o, int id)
{
    return opts_given(o, id) && opts_text(o, id)[0] != '\0';
}

/* "--name=value: " before the text of `err`, as the user wrote it; -1. */
static int blame(const struct opts *o, int id, struct ddp_err *err)
{
    char name[64];
    return ddp_err_wrap(err, "%s=%.120s", opts_where(o, id, name),
                        opts_text(o, id));
}

static bool one_of(const char *text, const char *const words[])
{
    for (; *words != NULL; words++) {
        if (strcasecmp(text, *words) == 0)
            return true;
    }
    return false;
}

/* -- nodes and workers ------------------------------------------------------
 */

static int
check_nnodes(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_nnodes);
    const char *colon = strchr(text, ':');
    char min_text[16] = "";
    int64_t min = 0, max = 0;
    bool good = true;
    if (colon != NULL) {
        size_t len = (size_t)(colon - text);
        good = len < sizeof(min_text);
        memcpy(min_text, text, good ? len : 0);
        good = good && opts_read_int(min_text, 1, CONF_NNODES_MAX, &min);
    }
    good = good && opts_read_int(colon != NULL ? colon + 1 : text, 1,
                                 CONF_NNODES_MAX, &max);
    if (!good) {
        ddp_err_set(err, DDP_E_USAGE,
                    "must be N or MIN:MAX, whole numbers from 1 to %d",
                    CONF_NNODES_MAX);
        return blame(o, OPTIONS_nnodes, err);
    }
    c->nnodes_max = (int)max;
    c->nnodes_min = (int)(colon != NULL ? min : max);
    if (c->nnodes_min > c->nnodes_max) {
        ddp_err_set(err, DDP_E_USAGE, "the least is more than the most");
        return blame(o, OPTIONS_nnodes, err);
    }
    return 0;
}

static int
check_nproc(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_nproc_per_node);
    bool automatic = strcmp(text, "auto") == 0;
    int64_t n = 0;
    if (strcmp(text, "cpu") == 0) {
        n = placement_count_cpus(CONF_NPROC_MAX);
    } else if (automatic || strcmp(text, "gpu") == 0) {
        n = placement_count_gpus(
            "/proc", "/dev", getenv("CUDA_VISIBLE_DEVICES"), CONF_NPROC_MAX);
        if (n == 0 && automatic)
            n = placement_count_cpus(CONF_NPROC_MAX);
        if (n == 0)
            ddp_err_set(err, DDP_E_CONFIG,
                        "this machine has no NVIDIA GPU that workers could see"
                        " (/dev/nvidia0, CUDA_VISIBLE_DEVICES)");
    } else if (!opts_read_int(text, 1, CONF_NPROC_MAX, &n)) {
        ddp_err_set(err, DDP_E_USAGE,
                    "must be a whole number from 1 to %d, cpu, gpu or auto",
                    CONF_NPROC_MAX);
    }
    c->nproc = (int)n;
    return n > 0 ? 0 : blame(o, OPTIONS_nproc_per_node, err);
}

/* -- names ------------------------------------------------------------------
 */

/* Copies a name that will stand in logs and in the names of files. */
static int copy_name(const struct opts *o,
                     int id,
                     const char *forbidden,
                     char *out,
                     size_t cap,
                     struct ddp_err *err)
{
    const char *text = opts_text(o, id);
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)text[i];
        if (ch >= ' ' && ch != 0x7f && strchr(forbidden, ch) == NULL)
            continue;
        ddp_err_set(err, DDP_E_USAGE, "must be printable%s%s",
                    forbidden[0] != '\0' ? " and without " : "", forbidden);
        return blame(o, id, err);
    }
    if (len >= cap) {
        ddp_err_set(err, DDP_E_USAGE, "must be at most %zu bytes long",
                    cap - 1);
        return blame(o, id, err);
    }
    memcpy(out, text, len + 1);
    return 0;
}

/* A random name in the form of a UUID, which is what torchrun's users see. */
static void random_run_id(struct conf *c)
{
    char id[RNG_ID_LEN + 1];
    rng_id(id);
    _Static_assert(RNG_ID_LEN == 32, "five parts of a UUID");
    (void)snprintf(c->run_id, sizeof(c->run_id), "%.8s-%.4s-%.4s-%.4s-%.12s",
                   id, id + 8, id + 12, id + 16, id + 20); /* 36 letters */
}

static int
check_names(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (copy_name(o, OPTIONS_role, "", c->role, sizeof(c->role), err) < 0 ||
        copy_name(o, OPTIONS_rdzv_id, "/", c->run_id, sizeof(c->run_id), err) <
            0)
        return -1;
    bool alone = opts_number(o, OPTIONS_standalone) != 0;
    if (c->run_id[0] != '\0' && !(alone && !opts_given(o, OPTIONS_rdzv_id)))
        return 0;
    random_run_id(c);
    if (!alone)
        note(c, "--rdzv_id is empty: this run is called %s", c->run_id);
    return 0;
}

/* -- where to meet ----------------------------------------------------------
 */

/* A name or an address without brackets: letters of the three kinds of them,
 * and % for an IPv6 zone. */
static int check_host(const char *text,
                      size_t len,
                      const char *extra,
                      char host[HOST_MAX + 1],
                      struct ddp_err *err)
{
    if (len > HOST_MAX)
        return ddp_err_set(err, DDP_E_USAGE, "the host is longer than %d bytes",
                           HOST_MAX);
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)text[i];
        if (!isalnum(ch) && ch < 0x80 && strchr("._-", ch) == NULL &&
            strchr(extra, ch) == NULL)
            return ddp_err_set(err, DDP_E_USAGE, "'%.*s' is no host's name",
                               (int)(len < 60 ? len : 60), text);
    }
    memcpy(host, text, len);
    host[len] = '\0';
    return 0;
}

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

static int check_port(const char *text, int *port, struct ddp_err *err)
{
    int64_t n = 0;
    if (strlen(text) > 5 || text[strspn(text, "0123456789")] != '\0' ||
        !opts_read_int(text, 0, 65535, &n))
        return ddp_err_set(err, DDP_E_USAGE,
                           "the port is '%.40s', must be 0 to 65535", text);
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
        return ddp_err_set(err, DDP_E_USAGE, "'%.*s' is no IPv6 address",
                           (int)(len < 60 ? len : 60), text + 1);
    *port = end[1] == ':' ? end + 2 : NULL;
    return check_host(text + 1, len, ":%", host, err);
}

/* Splits at the last colon. More than one colon is an IPv6 address without
 * brackets: with a port only where it cannot be read in two ways. */
static int split_plain(const char *text,
                       char host[HOST_MAX + 1],
                       const char **port,
                       struct ddp_err *err)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    *port = colon != NULL ? colon + 1 : NULL;
    if (memchr(text, ':', len) == NULL)
        return check_host(text, len, "", host, err);
    if (!is_ipv6(text, len) && !is_ipv6(text, strlen(text)))
        return check_host(text, len, "", host, err); /* says what is wrong */
    if (is_ipv6(text, strlen(text)))
        return ddp_err_set(err, DDP_E_USAGE,
                           "an IPv6 address must stand in brackets, "
                           "[ADDRESS]:PORT");
    return check_host(text, len, ":%", host, err);
}

int conf_endpoint(const char *text,
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
        ddp_err_set(err, DDP_E_USAGE, "longer than %d bytes", HOST_MAX);
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
    return rc < 0 ? blame(o, id, err) : 0;
}

static int
choose_backend(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_rdzv_backend);
    if (!said(o, OPTIONS_rdzv_backend)) {
        bool placed = said(o, OPTIONS_node_rank) ||
                      said(o, OPTIONS_master_addr) ||
                      said(o, OPTIONS_master_port);
        c->backend = placed ? CONF_STATIC : CONF_C10D;
        return 0;
    }
    if (strcmp(text, "c10d") == 0 || strcmp(text, "static") == 0) {
        c->backend = text[0] == 'c' ? CONF_C10D : CONF_STATIC;
        return 0;
    }
    bool etcd = strncmp(text, "etcd", 4) == 0;
    ddp_err_set(err, DDP_E_USAGE, "must be c10d or static%s",
                etcd ? "; ddprun needs no etcd, c10d does the same" : "");
    return blame(o, OPTIONS_rdzv_backend, err);
}

static void meet_nobody(struct conf *c)
{
    c->backend = CONF_C10D;
    c->standalone = true;
    c->is_host = 1;
    c->endpoint_port = 0;
    (void)snprintf(c->endpoint_host, sizeof(c->endpoint_host), "127.0.0.1");
}

static int
check_standalone(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (c->nnodes_min > 1)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--standalone is for one node, and --nnodes asks "
                           "for %d; leave one of them out",
                           c->nnodes_min);
    if (c->nnodes_max > 1)
        note(c, "--standalone: no other node can join, --nnodes becomes 1");
    if (said(o, OPTIONS_rdzv_endpoint) || said(o, OPTIONS_master_addr))
        note(c, "--standalone: the endpoint that was given is ignored");
    c->nnodes_max = 1;
    meet_nobody(c);
    c->store_port = (int)opts_number(o, OPTIONS_master_port);
    return 0;
}

/* From --rdzv_endpoint, or under static from --master_addr and _port. */
static int
find_endpoint(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    bool fixed = c->backend == CONF_STATIC;
    int port = fixed ? CONF_PORT_STATIC : CONF_PORT_C10D;
    if (fixed && said(o, OPTIONS_master_port))
        port = (int)opts_number(o, OPTIONS_master_port);
    if (said(o, OPTIONS_rdzv_endpoint)) {
        char name[64];
        return conf_endpoint(opts_text(o, OPTIONS_rdzv_endpoint),
                             opts_where(o, OPTIONS_rdzv_endpoint, name), port,
                             c->endpoint_host, &c->endpoint_port, err);
    }
    c->endpoint_port = port;
    if (fixed && said(o, OPTIONS_master_addr))
        return copy_address(o, OPTIONS_master_addr, c->endpoint_host, err);
    if (c->nnodes_max > 1) {
        ddp_err_set(err, DDP_E_USAGE,
                    "several nodes need a place to meet: add "
                    "--rdzv_endpoint=HOST:PORT, the same on every node (or "
                    "--master_addr=HOST on every node, with its own "
                    "--node_rank on each)");
        return blame(o, OPTIONS_nnodes, err);
    }
    (void)snprintf(c->endpoint_host, sizeof(c->endpoint_host), "127.0.0.1");
    return 0;
}

/* What was said about the master and does not count. */
static void note_master(struct conf *c, const struct opts *o)
{
    bool addr = said(o, OPTIONS_master_addr);
    if (c->backend == CONF_C10D && addr)
        note(c, "--master_addr is for static: under c10d it is the address of "
                "the node with group rank 0");
    else if (addr && said(o, OPTIONS_rdzv_endpoint) &&
             strcmp(opts_text(o, OPTIONS_master_addr), c->endpoint_host) != 0)
        note(c,
             "--rdzv_endpoint goes before --master_addr: the master is %.100s",
             c->endpoint_host);
}

static int
check_node_rank(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    bool given = said(o, OPTIONS_node_rank);
    c->node_rank = given ? (int)opts_number(o, OPTIONS_node_rank) : -1;
    if (c->backend == CONF_STATIC && !given) {
        c->node_rank = 0;
        if (c->nnodes_max > 1)
            note(c,
                 "no --node_rank: this is node 0, and serves the rendezvous");
    }
    if (c->node_rank < c->nnodes_max)
        return 0;
    if (c->backend == CONF_C10D) {
        note(c,
             "--node_rank=%d is not below the number of nodes, %d: this node "
             "is numbered as it arrives",
             c->node_rank, c->nnodes_max);
        c->node_rank = -1;
        return 0;
    }
    ddp_err_set(err, DDP_E_USAGE, "must be below the number of nodes, %d",
                c->nnodes_max);
    return blame(o, OPTIONS_node_rank, err);
}

static int
check_meeting(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    c->node_rank = -1;
    c->is_host = -1;
    if (said(o, OPTIONS_local_addr) &&
        copy_address(o, OPTIONS_local_addr, c->local_addr, err) < 0)
        return -1;
    if (opts_number(o, OPTIONS_standalone) != 0)
        return check_standalone(c, o, err);
    if (choose_backend(c, o, err) < 0 || check_node_rank(c, o, err) < 0)
        return -1;
    /* torchrun since 2.12 or so: one node without a port of its own choice
     * does not insist on 29500, where the next job would collide with it. */
    if (c->nnodes_max == 1 && !said(o, OPTIONS_rdzv_endpoint) &&
        (c->backend == CONF_C10D || !said(o, OPTIONS_master_port))) {
        meet_nobody(c);
        return 0;
    }
    if (find_endpoint(c, o, err) < 0)
        return -1;
    note_master(c, o);
    if (c->endpoint_port == 0 && c->nnodes_max > 1)
        return ddp_err_set(err, DDP_E_USAGE,
                           "port 0 (any free one) of %.100s is for one node: "
                           "several nodes must know the port",
                           c->endpoint_host);
    int master_port = (int)opts_number(o, OPTIONS_master_port);
    if (c->backend == CONF_C10D || master_port != c->endpoint_port)
        c->store_port = master_port; /* 0: not said */
    if (c->backend == CONF_STATIC) {
        memcpy(c->master_addr, c->endpoint_host, sizeof(c->master_addr));
        c->master_port = c->store_port != 0 ? c->store_port : c->endpoint_port;
        c->is_host = c->node_rank == 0;
    }
    if (c->endpoint_port == 0)
        c->is_host = 1; /* nobody else could know it */
    return 0;
}

/* -- --rdzv_conf ------------------------------------------------------------
 */

/* What the keys said; a duration is 0, is_host -1, where they said nothing. */
struct keys {
    int64_t join_us;
    int64_t last_call_us;
    int64_t close_us;
    int64_t read_us;
    int64_t heartbeat_us;
    int64_t reconnect_us;
    int64_t timeout_us;
    int64_t keep_alive_us;
    int64_t attempts;     /* of keep-alives; 0 not said */
    bool last_call_given; /* 0 is a value of it */
    int is_host;
    char idle[160]; /* keys that mean nothing here */
};

enum key_kind {
    KEY_SECONDS,
    KEY_IS_HOST,
    KEY_STORE_TYPE,
    KEY_ATTEMPTS,
    KEY_IDLE, /* torchrun's; nothing to set here */
};

struct key {
    const char *name;
    enum key_kind kind;
    size_t field; /* of struct keys, for KEY_SECONDS */
    int64_t min_us;
};

#define SECONDS(name, field, min_us)                                           \
    {                                                                          \
        name, KEY_SECONDS, offsetof(struct keys, field), min_us                \
    }
static const struct key keys_known[] = {
    SECONDS("join_timeout", join_us, MONO_MS),
    SECONDS("last_call_timeout", last_call_us, 0),
    SECONDS("lastcall", last_call_us, 0), /* its name in older torchruns */
    SECONDS("close_timeout", close_us, MONO_MS),
    SECONDS("read_timeout", read_us, MONO_MS),
    SECONDS("heartbeat_timeout", heartbeat_us, HEARTBEAT_MIN_US),
    SECONDS("reconnect_timeout", reconnect_us, MONO_MS),
    SECONDS("timeout", timeout_us, MONO_MS),
    {"is_host", KEY_IS_HOST, 0, 0},
    {"store_type", KEY_STORE_TYPE, 0, 0},
    SECONDS("keep_alive_interval", keep_alive_us, MONO_MS),
    {"keep_alive_max_attempt", KEY_ATTEMPTS, 0, 0},
    {"rank", KEY_IDLE, 0, 0},
    {"use_libuv", KEY_IDLE, 0, 0},
};
#undef SECONDS
#define KEYS_LEN ((int)(sizeof(keys_known) / sizeof(keys_known[0])))

/* The list is long enough for each key once; what is too much is left out. */
static void add_idle(struct keys *k, const char *name)
{
    size_t used = strlen(k->idle), len = strlen(name);
    if (sizeof(k->idle) - used < len + sizeof(", "))
        return;
    if (used > 0) {
        memcpy(k->idle + used, ", ", 2);
        used += 2;
    }
    memcpy(k->idle + used, name, len + 1);
}

static const struct key *find_key(const char *name, struct ddp_err *err)
{
    const char *names[sizeof(keys_known) / sizeof(keys_known[0])];
    for (int i = 0; i < KEYS_LEN; i++) {
        if (strcmp(keys_known[i].name, name) == 0)
            return &keys_known[i];
        names[i] = keys_known[i].name;
    }
    const char *near = opts_nearest(name, names, KEYS_LEN);
    if (near == NULL)
        ddp_err_set(err, DDP_E_USAGE, "unknown key '%.60s'; see ddprun(1)",
                    name);
    else
        ddp_err_set(err, DDP_E_USAGE, "unknown key '%.60s'; did you mean %s?",
                    name, near);
    return NULL;
}

static int set_seconds(struct keys *k,
                       const struct key *key,
                       const char *value,
                       struct ddp_err *err)
{
    int64_t us;
    if (!opts_read_seconds(value, key->min_us, YEAR_US, &us))
        return ddp_err_set(
            err, DDP_E_USAGE, "%s=%.60s: must be seconds from %g to %" PRId64,
            key->name, value, (double)key->min_us / (double)MONO_S,
            YEAR_US / MONO_S);
    memcpy((char *)k + key->field, &us, sizeof(us));
    if (key->field == offsetof(struct keys, last_call_us))
        k->last_call_given = true;
    return 0;
}

static int set_is_host(struct keys *k, const char *value, struct ddp_err *err)
{
    static const char *const yes[] = {"1", "true", "t", "yes", "y", NULL};
    static const char *const no[] = {"0", "false", "f", "no", "n", NULL};
    if (!one_of(value, yes) && !one_of(value, no))
        return ddp_err_set(err, DDP_E_USAGE, "is_host=%.60s: must be 0 or 1",
                           value);
    k->is_host = one_of(value, yes);
    return 0;
}

static int set_key(struct keys *k,
                   const char *name,
                   const char *value,
                   struct ddp_err *err)
{
    const struct key *key = find_key(name, err);
    if (key == NULL)
        return -1;
    switch (key->kind) {
    case KEY_SECONDS:
        return set_seconds(k, key, value, err);
    case KEY_IS_HOST:
        return set_is_host(k, value, err);
    case KEY_STORE_TYPE:
        if (strcmp(value, "tcp") != 0)
            return ddp_err_set(err, DDP_E_USAGE,
                               "store_type=%.60s: ddprun meets over tcp only",
                               value);
        return 0;
    case KEY_ATTEMPTS:
        if (!opts_read_int(value, 1, 1000, &k->attempts))
            return ddp_err_set(err, DDP_E_USAGE,
                               "%s=%.60s: must be a whole number from 1 to "
                               "1000",
                               name, value);
        return 0;
    case KEY_IDLE:
        add_idle(k, name);
        return 0;
    }
    DDP_WRONG("kind of a key");
}

/* Cuts blanks off both ends, in place. */
static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t", text[len - 1]) != NULL)
        text[--len] = '\0';
    return text;
}

static int read_keys(struct keys *k, const char *text, struct ddp_err *err)
{
    char copy[2048];
    size_t len = strlen(text);
    if (len >= sizeof(copy))
        return ddp_err_set(err, DDP_E_USAGE, "longer than %zu bytes",
                           sizeof(copy) - 1);
    memcpy(copy, text, len + 1);
    char *next = trim(copy);
    if (*next == '\0')
        return 0;
    while (next != NULL) {
        char *pair = strsep(&next, ",");
        char *value = strchr(pair, '=');
        if (value == NULL)
            return ddp_err_set(err, DDP_E_USAGE,
                               "'%.60s' is no KEY=VALUE, of which a list "
                               "separated by commas is wanted",
                               trim(pair));
        *value++ = '\0';
        if (set_key(k, trim(pair), trim(value), err) < 0)
            return -1;
    }
    return 0;
}

static int64_t or_seconds(int64_t given_us, int64_t seconds)
{
    return given_us != 0 ? given_us : seconds * MONO_S;
}

/*
 * What torchrun says by two keys: a node is lost after so many keep-alives that
 * did not come, each due so long after the one before (5 s, 3).
 */
static int64_t heartbeat_us(const struct keys *k)
{
    if (k->heartbeat_us != 0 || (k->keep_alive_us == 0 && k->attempts == 0))
        return or_seconds(k->heartbeat_us, 5);
    int64_t us = or_seconds(k->keep_alive_us, 5);
    int64_t attempts = k->attempts != 0 ? k->attempts : 3;
    if (us > HEARTBEAT_MAX_US / attempts)
        return HEARTBEAT_MAX_US;
    us *= attempts;
    return us < HEARTBEAT_MIN_US ? HEARTBEAT_MIN_US : us;
}

static void set_durations(struct conf *c, const struct keys *k)
{
    /* torchrun's static has no join time-out, its store's is 900 s. */
    bool fixed = c->backend == CONF_STATIC;
    int64_t join_us = k->join_us;
    if (fixed && join_us == 0)
        join_us = or_seconds(k->timeout_us, 900);
    c->join_timeout_us = or_seconds(join_us, 600);
    c->last_call_timeout_us =
        k->last_call_given ? k->last_call_us : 30 * MONO_S;
    c->close_timeout_us = or_seconds(k->close_us, 5);
    c->read_timeout_us = or_seconds(k->read_us, 60);
    c->heartbeat_timeout_us = heartbeat_us(k);
    c->reconnect_timeout_us = or_seconds(k->reconnect_us, 600);
}

/* After check_meeting: the backend is known. */
static int
check_rdzv_conf(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    struct keys k = {.is_host = -1};
    if (read_keys(&k, opts_text(o, OPTIONS_rdzv_conf), err) < 0) {
        char name[64];
        return ddp_err_wrap(err, "%s", opts_where(o, OPTIONS_rdzv_conf, name));
    }
    if (k.heartbeat_us > HEARTBEAT_MAX_US)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--rdzv_conf: heartbeat_timeout: must be at most "
                           "%" PRId64 " seconds",
                           HEARTBEAT_MAX_US / MONO_S);
    set_durations(c, &k);
    if (k.timeout_us != 0 && c->backend == CONF_C10D)
        add_idle(&k, "timeout");
    if (k.idle[0] != '\0')
        note(c, "--rdzv_conf: nothing here depends on %s", k.idle);
    if (k.is_host == 0 && c->endpoint_port == 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--rdzv_conf: is_host=0: nobody else can serve at a "
                           "port that is not known yet (0)");
    if (k.is_host >= 0)
        c->is_host = k.is_host;
    return 0;
}

/* -- the rest of the options ------------------------------------------------
 */

static int
check_log_dir(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (!said(o, OPTIONS_log_dir))
        return 0;
    const char *dir = opts_text(o, OPTIONS_log_dir);
    size_t len = strlen(dir);
    struct stat st;
    /* Run, attempt, rank and file are put behind it. */
    if (len >= sizeof(c->log_dir) - 512) {
        return ddp_err_set(err, DDP_E_USAGE, "--log_dir: longer than %zu bytes",
                           sizeof(c->log_dir) - 513);
    }
    if (strcmp(dir, "/dev/null") != 0 && stat(dir, &st) == 0 &&
        !S_ISDIR(st.st_mode)) {
        ddp_err_set(err, DDP_E_USAGE, "this is a file, a folder is wanted");
        return blame(o, OPTIONS_log_dir, err);
    }
    memcpy(c->log_dir, dir, len + 1);
    return 0;
}

/* "90", "90s", "10m", "1.5h" or "7d" in microseconds. */
static bool read_window(const char *text, int64_t *us)
{
    static const char letters[] = "smhd";
    static const int64_t units[] = {1, 60, 3600, 86400};
    char number[32];
    size_t len = strlen(text);
    int64_t unit = 1;
    if (len == 0 || len >= sizeof(number))
        return false;
    const char *letter = strchr(letters, text[len - 1]);
    if (letter != NULL) {
        unit = units[letter - letters];
        len--;
    }
    memcpy(number, text, len);
    number[len] = '\0';
    if (!opts_read_seconds(number, MONO_MS, YEAR_US / unit, us))
        return false;
    *us *= unit;
    return true;
}

static int
check_max_restarts(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_max_restarts);
    const char *slash = strchr(text, '/');
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    char number[16] = "";
    int64_t n = 0;
    int64_t max = slash != NULL ? CONF_WINDOW_RESTARTS_MAX : 1000000;
    bool good =
        len < sizeof(number) && strlen(text) < sizeof(c->max_restarts_text);
    if (good) {
        memcpy(number, text, len);
        (void)snprintf(c->max_restarts_text, /* it was measured */
                       sizeof(c->max_restarts_text), "%s", text);
    }
    good = good && opts_read_int(number, 0, max, &n) &&
           (slash == NULL || read_window(slash + 1, &c->restart_window_us));
    c->max_restarts = (int)n;
    if (good)
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "must be a whole number from 0 to 1000000, or N/WINDOW such as "
                "3/1h: at most N (up to %d) in a time in s, m, h or d",
                CONF_WINDOW_RESTARTS_MAX);
    return blame(o, OPTIONS_max_restarts, err);
}

/* Empty is none only where it comes from the environment: whoever says it on
 * the command line means a file, and would get an open port. */
static int
check_token(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *path = opts_text(o, OPTIONS_rdzv_token_file);
    if (path == NULL ||
        (path[0] == '\0' &&
         o->value[OPTIONS_rdzv_token_file].source == OPTS_FROM_ENV))
        return 0;
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(c->token_file)) {
        ddp_err_set(err, DDP_E_USAGE, "must be the name of a file");
        return blame(o, OPTIONS_rdzv_token_file, err);
    }
    memcpy(c->token_file, path, len + 1);
    return 0;
}

static int check_word(const struct opts *o,
                      int id,
                      const char *allowed,
                      const char *const words[],
                      struct ddp_err *err)
{
    if (one_of(opts_text(o, id), words))
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "must be %s", allowed);
    return blame(o, id, err);
}

static int
check_store_allow(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_worker_store_allow);
    if (text == NULL)
        return 0;
    if (text[0] == '\0' || strlen(text) >= sizeof(c->store_allow)) {
        ddp_err_set(err, DDP_E_USAGE,
                    "must be nodes, or networks such as 10.1.0.0/16");
        return blame(o, OPTIONS_worker_store_allow, err);
    }
    if (!c->worker_store)
        note(c, "--worker_store_allow is ignored: there is no store of ours "
                "with --worker_store=none");
    else
        memcpy(c->store_allow, text, strlen(text) + 1);
    return 0;
}

static int check_rest(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    static const char *const stores[] = {"agent", "none", NULL};
    static const char *const methods[] = {"spawn", "fork", "forkserver", NULL};
    static const int idle[] = {OPTIONS_start_method, OPTIONS_event_log_handler,
                               OPTIONS_logs_specs};
    c->crash_loop = (int)opts_number(o, OPTIONS_crash_loop);
    c->scale_interval_us = opts_number(o, OPTIONS_scale_interval);
    c->shutdown_timeout_us = opts_number(o, OPTIONS_shutdown_timeout);
    if (check_max_restarts(c, o, err) < 0 || check_log_dir(c, o, err) < 0 ||
        check_token(c, o, err) < 0 ||
        check_word(o, OPTIONS_worker_store, "agent or none", stores, err) < 0 ||
        check_word(o, OPTIONS_start_method, "spawn, fork or forkserver",
                   methods, err) < 0)
        return -1;
    c->worker_store =
        strcasecmp(opts_text(o, OPTIONS_worker_store), "agent") == 0;
    if (check_store_allow(c, o, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
        char name[64];
        if (opts_given(o, idle[i]))
            note(c, "%s has a meaning in Python only, and is ignored",
                 opts_where(o, idle[i], name));
    }
    return 0;
}

/* -- the program ------------------------------------------------------------
 */

/* Copies of `head` and `tail`, both ending with NULL, as one vector. */
static int join_vectors(struct conf *c,
                        const char *const head[],
                        char *const tail[],
                        struct ddp_err *err)
{
    size_t heads = 0, tails = 0;
    while (head[heads] != NULL)
        heads++;
    while (tail[tails] != NULL)
        tails++;
    c->argv = calloc(heads + tails + 1, sizeof(c->argv[0]));
    for (size_t i = 0; c->argv != NULL && i < heads + tails; i++) {
        c->argv[i] = strdup(i < heads ? head[i] : tail[i - heads]);
        if (c->argv[i] == NULL)
            return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    }
    if (c->argv == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    const char *name = c->argv[heads];
    const char *slash = strrchr(name, '/');
    c->prog_name = slash != NULL ? slash + 1 : name;
    return 0;
}

static int check_program(struct conf *c,
                         const struct opts *o,
                         char *const program[],
                         struct ddp_err *err)
{
    bool module = opts_number(o, OPTIONS_module) != 0;
    bool no_python = opts_number(o, OPTIONS_no_python) != 0;
    if (module && no_python)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--module and --no_python exclude each other: a "
                           "module is run by python");
    if (program[0] == NULL || program[0][0] == '\0')
        return ddp_err_set(err, DDP_E_USAGE,
                           "no program: its name comes after the options");
    char path[4096];
    bool python = module || (!no_python && program_is_script(program[0]));
    if (python && !module && program_check_script(program[0], err) < 0)
        return -1;
    int rc = python ? program_find_python(path, sizeof(path), err)
                    : program_find(program[0], path, sizeof(path), err);
    if (rc < 0)
        return -1;
    c->exec_path = strdup(path);
    if (c->exec_path == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    /* python finds its environment by its own path, so it gets all of it. */
    const char *head[4] = {NULL};
    if (python) {
        head[0] = path;
        head[1] = "-u";
        head[2] = module ? "-m" : NULL;
    }
    return join_vectors(c, head, program, err);
}

/* -- all of it --------------------------------------------------------------
 */

int conf_init(struct conf *c,
              const struct opts *o,
              char *const program[],
              struct ddp_err *err)
{
    ddp_assert(o->ask == OPTS_ASK_RUN && o->table == &options_table);
    memset(c, 0, sizeof(*c));
    if (check_nnodes(c, o, err) < 0 || check_nproc(c, o, err) < 0 ||
        check_names(c, o, err) < 0 || check_meeting(c, o, err) < 0 ||
        check_rdzv_conf(c, o, err) < 0 || check_rest(c, o, err) < 0 ||
        check_program(c, o, program, err) < 0) {
        conf_free(c);
        return -1;
    }
    return 0;
}

void conf_free(struct conf *c)
{
    for (char **p = c->argv; p != NULL && *p != NULL; p++)
        free(*p);
    free(c->argv);
    free(c->exec_path);
    memset(c, 0, sizeof(*c));
}

bool conf_shares_port(const struct conf *c)
{
    if (!c->worker_store || c->is_host == 0)
        return false;
    return c->store_port == 0 ? c->backend == CONF_STATIC
                              : c->store_port == c->endpoint_port;
}
