/*
 * --rdzv_conf: a list of keys, torchrun's and ours.
 *
 * torchrun takes any key and later asks for those that it knows, so an unknown
 * key must not end a job that runs there: it becomes a note, with the right
 * name if it looks misspelt. Quotes that a script left around the list are
 * taken off, as in --rdzv_conf="'timeout=5'".
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"
#include "rendezvous/base/mono.h"

/* join.heartbeat_ms in rendezvous/proto/messages.def. */
#define HEARTBEAT_MIN_US (300 * MONO_MS)
#define HEARTBEAT_MAX_US (3600 * MONO_S)

/* -- --rdzv_conf ----------------------------------------------------------- */

/* The values that were given. If a key was not given, a duration is 0, and
 * is_host is -1. */
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
    char idle[220]; /* keys that have no effect here, a list */
    int idle_len;   /* how many */
};

enum key_kind {
    KEY_SECONDS,
    KEY_BOOLEAN,
    KEY_STORE_TYPE,
    KEY_ATTEMPTS,
    KEY_IDLE, /* torchrun's; nothing to set here */
};

struct conf_key {
    const char *name;
    enum key_kind kind;
    size_t field; /* of struct keys */
    int64_t min_us;
    int64_t max_us;
};

#define KEY(name, kind, field, min_us, max_us)                                 \
    {#name, KEY_##kind, offsetof(struct keys, field), min_us, max_us},
static const struct conf_key keys_known[] = {
#include "launcher/conf/rdzv_keys.def"
};
#undef KEY
#define KEYS_LEN ((int)(sizeof(keys_known) / sizeof(keys_known[0])))

/* A key without effect, and why; what does not fit is left out. */
static void add_idle(struct keys *k, const char *name, const char *why)
{
    char text[200];
    int len = snprintf(text, sizeof(text), "%s%.60s (%s)",
                       k->idle_len > 0 ? ", " : "", name, why);
    size_t used = strlen(k->idle);
    ddp_assert(used < sizeof(k->idle) && len < (int)sizeof(text));
    k->idle_len++;
    if (sizeof(k->idle) - used > (size_t)len)
        memcpy(k->idle + used, text, (size_t)len + 1);
}

/* Keys of the release before, and what to do instead. */
static const struct opts_gone keys_gone[] = {
    {"failover", NULL, "nothing to set: another server always takes over"},
};

/* NULL: the key was never there. */
static const char *find_gone(const char *name)
{
    for (size_t i = 0; i < sizeof(keys_gone) / sizeof(keys_gone[0]); i++)
        if (strcmp(keys_gone[i].name, name) == 0)
            return keys_gone[i].instead;
    return NULL;
}

/* NULL: there is none of this name, and that is noted. */
static const struct conf_key *find_key(struct keys *k, const char *name)
{
    const char *names[sizeof(keys_known) / sizeof(keys_known[0])];
    for (int i = 0; i < KEYS_LEN; i++) {
        if (strcmp(keys_known[i].name, name) == 0)
            return &keys_known[i];
        names[i] = keys_known[i].name;
    }
    char why[80] = "there is no such key";
    const char *near = opts_nearest(name, names, KEYS_LEN);
    const char *gone = find_gone(name);
    if (gone == NULL && near != NULL)
        (void)snprintf(why, sizeof(why), "did you mean %s?", near); /* fits */
    add_idle(k, name, gone != NULL ? gone : why);
    return NULL;
}

static int set_seconds(struct keys *k,
                       const struct conf_key *key,
                       const char *value,
                       struct ddp_err *err)
{
    int64_t us;
    if (!opts_read_seconds(value, key->min_us, key->max_us, &us))
        return ddp_err_set(
            err, DDP_E_USAGE,
            "%s=%.60s: must be a number of seconds from %g to %" PRId64,
            key->name, value, (double)key->min_us / (double)MONO_S,
            key->max_us / MONO_S);
    memcpy((char *)k + key->field, &us, sizeof(us));
    if (key->field == offsetof(struct keys, last_call_us))
        k->last_call_given = true;
    return 0;
}

static int set_boolean(struct keys *k,
                       const struct conf_key *key,
                       const char *value,
                       struct ddp_err *err)
{
    static const char *const yes[] = {"1", "true", "t", "yes", "y", NULL};
    static const char *const no[] = {"0", "false", "f", "no", "n", NULL};
    if (!conf_one_of(value, yes) && !conf_one_of(value, no))
        return ddp_err_set(err, DDP_E_USAGE, "%s=%.60s: must be 0 or 1",
                           key->name, value);
    int is = conf_one_of(value, yes);
    memcpy((char *)k + key->field, &is, sizeof(is));
    return 0;
}

static int set_key(struct keys *k,
                   const char *name,
                   const char *value,
                   struct ddp_err *err)
{
    const struct conf_key *key = find_key(k, name);
    if (key == NULL)
        return 0;
    switch (key->kind) {
    case KEY_SECONDS:
        return set_seconds(k, key, value, err);
    case KEY_BOOLEAN:
        return set_boolean(k, key, value, err);
    case KEY_STORE_TYPE:
        if (strcmp(value, "tcp") != 0)
            return ddp_err_set(err, DDP_E_USAGE,
                               "store_type=%.60s: must be tcp; the nodes meet "
                               "at --rdzv_endpoint=HOST:PORT",
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
        add_idle(k, name, "ddprun has no use for it");
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

/* Takes one pair of quotes off, in place. */
static char *unquote(char *text)
{
    size_t len = strlen(text);
    if (len < 2 || strchr("'\"", text[0]) == NULL || text[0] != text[len - 1])
        return text;
    text[len - 1] = '\0';
    return trim(text + 1);
}

static int read_keys(struct keys *k, const char *text, struct ddp_err *err)
{
    char copy[2048];
    size_t len = strlen(text);
    if (len >= sizeof(copy))
        return ddp_err_set(err, DDP_E_USAGE, "must be at most %zu bytes long",
                           sizeof(copy) - 1);
    memcpy(copy, text, len + 1);
    char *next = unquote(trim(copy));
    if (*next == '\0')
        return 0;
    while (next != NULL) {
        char *pair = strsep(&next, ",");
        char *value = strchr(pair, '=');
        if (value == NULL)
            return ddp_err_set(err, DDP_E_USAGE,
                               "'%.60s' is not KEY=VALUE; must be a list of "
                               "these with commas between",
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
 * torchrun has two keys for it: a node is lost when keep_alive_max_attempt (3)
 * keep-alives are missing, which are due every keep_alive_interval (5 s).
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

static int
read_option(struct keys *k, const struct opts *o, struct ddp_err *err)
{
    char name[64];
    *k = (struct keys){.is_host = -1};
    if (read_keys(k, opts_text(o, OPTIONS_rdzv_conf), err) == 0)
        return 0;
    return ddp_err_wrap(err, "%s", opts_where(o, OPTIONS_rdzv_conf, name));
}

int conf_check_rdzv_conf(const struct opts *o, struct ddp_err *err)
{
    struct keys k;
    return read_option(&k, o, err);
}

int conf_rdzv_conf(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    struct keys k;
    if (read_option(&k, o, err) < 0)
        return -1;
    set_durations(c, &k);
    ddp_assert(c->heartbeat_timeout_us >= HEARTBEAT_MIN_US);
    ddp_assert(c->heartbeat_timeout_us <= HEARTBEAT_MAX_US);
    if (k.timeout_us != 0 && c->backend == CONF_C10D)
        add_idle(&k, "timeout", "c10d has join_timeout");
    if (k.idle[0] != '\0')
        conf_note(c, "--rdzv_conf: ignored: %s", k.idle);
    if (k.is_host == 0 && c->endpoints[0].port == 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--rdzv_conf: is_host=0: no other node can serve "
                           "the rendezvous if its port is 0");
    if (k.is_host >= 0)
        c->is_host = k.is_host;
    if (k.is_host == 1 && c->endpoints_len > 1)
        return ddp_err_set(
            err, DDP_E_USAGE,
            "--rdzv_conf: is_host=1 cannot be used with a list of endpoints: "
            "each node serves at those that are its own addresses");
    return 0;
}
