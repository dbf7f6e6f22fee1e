/*
 * A command is looked at once its newline is there. Happy path: find_line,
 * split it into words, put each word that is known into the request, and see
 * whether the command has all that it needs.
 *
 * Failure modes, each PMI_BAD: a line longer than PMI_LINE_MAX, a NUL, a first
 * word that is no command, a word that is needed and missing or too long, a
 * number that is none, a spawn without an end. Words that are not known are
 * skipped, since later versions of the protocol have more of them; so is what
 * is no NAME=VALUE, since the message of an abort may have blanks in it.
 */
#include "rendezvous/proto/pmi.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The words of a request, as bits. */
enum {
    HAS_KVSNAME = 1,
    HAS_KEY = 2,
    HAS_VALUE = 4,
    HAS_SERVICE = 8,
    HAS_PORT = 16,
    HAS_NUMBER = 32,
};

/* clang-format off */
static const struct op_row {
    const char *name;
    const char *answer; /* NULL: there is none */
    const char *number; /* the word that is its number */
    unsigned needs;
} ops[] = {
    [PMI_INIT]              = {"init", "response_to_init", "pmi_version", HAS_NUMBER},
    [PMI_GET_MAXES]         = {"get_maxes", "maxes", NULL, 0},
    [PMI_GET_APPNUM]        = {"get_appnum", "appnum", NULL, 0},
    [PMI_GET_UNIVERSE_SIZE] = {"get_universe_size", "universe_size", NULL, 0},
    [PMI_GET_MY_KVSNAME]    = {"get_my_kvsname", "my_kvsname", NULL, 0},
    [PMI_CREATE_KVS]        = {"create_kvs", "newkvs", NULL, 0},
    [PMI_DESTROY_KVS]       = {"destroy_kvs", "kvs_destroyed", NULL, 0},
    [PMI_PUT]               = {"put", "put_result", NULL, HAS_KEY | HAS_VALUE},
    [PMI_GET]               = {"get", "get_result", NULL, HAS_KEY},
    [PMI_GETBYIDX]          = {"getbyidx", "getbyidx_results", "idx", HAS_NUMBER},
    [PMI_BARRIER_IN]        = {"barrier_in", "barrier_out", NULL, 0},
    [PMI_PUBLISH_NAME]      = {"publish_name", "publish_result", NULL, HAS_SERVICE | HAS_PORT},
    [PMI_UNPUBLISH_NAME]    = {"unpublish_name", "unpublish_result", NULL, HAS_SERVICE},
    [PMI_LOOKUP_NAME]       = {"lookup_name", "lookup_result", NULL, HAS_SERVICE},
    [PMI_ABORT]             = {"abort", NULL, "exitcode", 0},
    [PMI_FINALIZE]          = {"finalize", "finalize_ack", NULL, 0},
    [PMI_SPAWN]             = {"spawn", "spawn_result", NULL, 0},
};
/* clang-format on */
_Static_assert(sizeof(ops) / sizeof(ops[0]) == PMI_OPS, "a row for each");

const char *pmi_op_name(enum pmi_op op)
{
    ddp_assert((unsigned)op < PMI_OPS);
    return ops[op].name;
}

/* -- words ----------------------------------------------------------------- */

static bool is_text(struct pmi_text t, const char *text)
{
    return t.len == strlen(text) && memcmp(t.at, text, t.len) == 0;
}

/* For messages: a peer's text, printable, and cut. */
#define SHOWN_MAX 48
static const char *shown(struct pmi_text t, char out[SHOWN_MAX + 1])
{
    size_t n = t.len < SHOWN_MAX ? t.len : SHOWN_MAX;
    for (size_t i = 0; i < n; i++)
        out[i] = t.at[i] >= ' ' && t.at[i] <= '~' ? t.at[i] : '?';
    out[n] = '\0';
    return out;
}

/* Takes the next word off the front of a line. */
static struct pmi_text next_word(struct pmi_text *line)
{
    while (line->len > 0 && *line->at == ' ') {
        line->at++;
        line->len--;
    }
    const char *blank = line->len > 0 ? memchr(line->at, ' ', line->len) : NULL;
    struct pmi_text word = {
        line->at, blank == NULL ? line->len : (size_t)(blank - line->at)};
    line->at += word.len;
    line->len -= word.len;
    return word;
}

/* False: it is no NAME=VALUE. */
static bool
split_word(struct pmi_text word, struct pmi_text *name, struct pmi_text *value)
{
    const char *eq = word.len > 0 ? memchr(word.at, '=', word.len) : NULL;
    if (eq == NULL)
        return false;
    *name = (struct pmi_text){word.at, (size_t)(eq - word.at)};
    *value = (struct pmi_text){eq + 1, word.len - name->len - 1};
    return true;
}

/* A whole number that fits an int. */
static bool read_number(struct pmi_text t, int64_t *out)
{
    bool minus = t.len > 0 && t.at[0] == '-';
    int64_t n = 0;
    if (t.len <= minus || t.len > 11)
        return false;
    for (size_t i = minus; i < t.len; i++) {
        if (t.at[i] < '0' || t.at[i] > '9')
            return false;
        n = n * 10 + (t.at[i] - '0');
    }
    *out = minus ? -n : n;
    return *out >= INT32_MIN && *out <= INT32_MAX;
}

/* -- requests -------------------------------------------------------------- */

static enum pmi_status
bad(struct ddp_err *err, const char *what, struct pmi_text text)
{
    char room[SHOWN_MAX + 1];
    (void)ddp_err_set(err, DDP_E_PROTO, "%s: '%s'", what, shown(text, room));
    return PMI_BAD;
}

/* Stores the word if the command has it; sets its bit. */
static enum pmi_status take_word(struct pmi_request *req,
                                 struct pmi_text name,
                                 struct pmi_text value,
                                 unsigned *has,
                                 struct ddp_err *err)
{
    const struct {
        const char *name;
        struct pmi_text *to;
        unsigned bit;
        size_t min, max;
    } texts[] = {
        {"kvsname", &req->kvsname, HAS_KVSNAME, 0, PMI_KVSNAME_MAX - 1},
        {"key", &req->key, HAS_KEY, 1, PMI_KEY_MAX - 1},
        {"value", &req->value, HAS_VALUE, 0, PMI_VALUE_MAX - 1},
        {"service", &req->service, HAS_SERVICE, 1, PMI_KVSNAME_MAX - 1},
        {"port", &req->port, HAS_PORT, 0, PMI_VALUE_MAX - 1},
    };
    const char *number = ops[req->op].number;
    if (number != NULL && is_text(name, number)) {
        *has |= HAS_NUMBER;
        return read_number(value, &req->number)
                   ? PMI_DONE
                   : bad(err, "a PMI command with a value that is no number",
                         value);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!is_text(name, texts[i].name))
            continue;
        *has |= texts[i].bit;
        *texts[i].to = value;
        if (value.len >= texts[i].min && value.len <= texts[i].max)
            return PMI_DONE;
        (void)ddp_err_set(err, DDP_E_PROTO,
                          "a PMI command whose %s has %zu bytes; it may have "
                          "%zu to %zu",
                          texts[i].name, value.len, texts[i].min, texts[i].max);
        return PMI_BAD;
    }
    return PMI_DONE;
}

static bool find_op(struct pmi_text name, enum pmi_op *op)
{
    for (int i = 0; i < PMI_OPS; i++)
        if (is_text(name, ops[i].name)) {
            *op = (enum pmi_op)i;
            return true;
        }
    return false;
}

/* A line with cmd=. */
static enum pmi_status
read_command(struct pmi_text line, struct pmi_request *req, struct ddp_err *err)
{
    struct pmi_text rest = line, name, value;
    unsigned has = 0;
    if (!split_word(next_word(&rest), &name, &value) || !is_text(name, "cmd"))
        return bad(err, "a line that is no PMI command", line);
    if (!find_op(value, &req->op) || req->op == PMI_SPAWN)
        return bad(err, "a PMI command that does not exist", value);
    for (;;) {
        struct pmi_text word = next_word(&rest);
        if (word.len == 0)
            break;
        if (split_word(word, &name, &value) &&
            take_word(req, name, value, &has, err) != PMI_DONE)
            return PMI_BAD;
    }
    if ((has & ops[req->op].needs) != ops[req->op].needs)
        return bad(err, "a PMI command that lacks a value", line);
    if (req->op == PMI_GETBYIDX && req->number < 0)
        return bad(err, "a PMI command with a negative index", line);
    return PMI_DONE;
}

/* A line of a spawn. PMI_MORE: there are more, or more commands of it. */
static enum pmi_status read_spawn(struct pmi_decoder *d,
                                  struct pmi_text line,
                                  struct pmi_request *req,
                                  struct ddp_err *err)
{
    struct pmi_text name, value;
    if (d->lines == 0)
        d->of = d->number = 1;
    if (++d->lines > PMI_LINES_MAX)
        return bad(err, "a PMI spawn without an end", line);
    if (is_text(line, "endcmd")) {
        d->lines = 0;
        req->op = PMI_SPAWN;
        return d->number >= d->of ? PMI_DONE : PMI_MORE;
    }
    if (!split_word(line, &name, &value))
        return PMI_MORE;
    bool ok = true;
    if (is_text(name, "totspawns"))
        ok = read_number(value, &d->of);
    else if (is_text(name, "spawnssofar"))
        ok = read_number(value, &d->number);
    return ok ? PMI_MORE
              : bad(err, "a PMI spawn with a value that is no number", line);
}

static enum pmi_status read_line(struct pmi_decoder *d,
                                 struct pmi_text line,
                                 struct pmi_request *req,
                                 struct ddp_err *err)
{
    if (line.len > 0 && memchr(line.at, '\0', line.len) != NULL)
        return bad(err, "a PMI line with a NUL in it", line);
    if (d->lines > 0 || is_text(line, "mcmd=spawn"))
        return read_spawn(d, line, req, err);
    return read_command(line, req, err);
}

enum pmi_status pmi_decode(struct pmi_decoder *d,
                           const char *data,
                           size_t len,
                           struct pmi_request *req,
                           size_t *used,
                           struct ddp_err *err)
{
    *used = 0;
    *req = (struct pmi_request){.op = PMI_INIT};
    while (*used < len) {
        const char *at = data + *used;
        size_t left = len - *used;
        ddp_assert(d->scanned <= left);
        const char *newline =
            left > d->scanned ? memchr(at + d->scanned, '\n', left - d->scanned)
                              : NULL;
        size_t n = newline == NULL ? left : (size_t)(newline - at);
        if (n >= PMI_LINE_MAX)
            return bad(err, "a PMI line that is too long",
                       (struct pmi_text){at, n});
        d->scanned = newline == NULL ? n : 0;
        if (newline == NULL)
            return PMI_MORE;
        *used += n + 1;
        enum pmi_status status =
            read_line(d, (struct pmi_text){at, n}, req, err);
        if (status != PMI_MORE)
            return status;
    }
    return PMI_MORE;
}

/* -- answers --------------------------------------------------------------- */

/* All that an answer can hold fits: its longest parts are bounded above. */
__attribute__((format(printf, 3, 4))) static void
say(struct pmi_answer *a, enum pmi_op op, const char *fmt, ...)
{
    va_list ap;
    ddp_assert(ops[op].answer != NULL);
    int n = snprintf(a->line, sizeof(a->line), "cmd=%s ", ops[op].answer);
    va_start(ap, fmt);
    int more = vsnprintf(a->line + n, sizeof(a->line) - (size_t)n, fmt, ap);
    va_end(ap);
    a->len = (size_t)n + (size_t)more;
    ddp_assert(more >= 0 && a->len + 1 < sizeof(a->line));
    a->line[a->len++] = '\n';
    a->line[a->len] = '\0';
}

void pmi_answer_init(struct pmi_answer *a, int64_t version)
{
    say(a, PMI_INIT, "pmi_version=1 pmi_subversion=1 rc=%d",
        version == 1 ? 0 : -1);
}

void pmi_answer_maxes(struct pmi_answer *a)
{
    say(a, PMI_GET_MAXES, "rc=0 kvsname_max=%d keylen_max=%d vallen_max=%d",
        PMI_KVSNAME_MAX, PMI_KEY_MAX, PMI_VALUE_MAX);
}

void pmi_answer_number(struct pmi_answer *a, enum pmi_op op, int64_t number)
{
    ddp_assert(op == PMI_GET_APPNUM || op == PMI_GET_UNIVERSE_SIZE);
    say(a, op, "rc=0 %s=%lld", op == PMI_GET_APPNUM ? "appnum" : "size",
        (long long)number);
}

void pmi_answer_kvsname(struct pmi_answer *a, const char *name)
{
    say(a, PMI_GET_MY_KVSNAME, "rc=0 kvsname=%s", name);
}

/* Clients look at rc, and for names at info. */
void pmi_answer_done(struct pmi_answer *a, enum pmi_op op, const char *why)
{
    if (why == NULL)
        say(a, op, "rc=0 msg=success info=ok");
    else
        say(a, op, "rc=-1 msg=%s info=%s", why, why);
}

void pmi_answer_text(struct pmi_answer *a,
                     enum pmi_op op,
                     struct pmi_text text,
                     const char *why)
{
    const char *word = op == PMI_GET ? "value" : "port";
    ddp_assert(op == PMI_GET || op == PMI_LOOKUP_NAME);
    if (why == NULL)
        say(a, op, "rc=0 msg=success info=ok %s=%.*s", word, (int)text.len,
            text.at);
    else
        say(a, op, "rc=-1 msg=%s info=%s %s=unknown", why, why, word);
}

void pmi_answer_pair(struct pmi_answer *a,
                     int64_t index,
                     const char *key,
                     struct pmi_text value)
{
    if (key == NULL)
        say(a, PMI_GETBYIDX, "rc=-2 reason=no_more_keyvals");
    else
        say(a, PMI_GETBYIDX, "rc=0 nextidx=%lld key=%s val=%.*s",
            (long long)index + 1, key, (int)value.len, value.at);
}

void pmi_answer_refuse(struct pmi_answer *a, enum pmi_op op)
{
    ddp_assert(op == PMI_CREATE_KVS || op == PMI_SPAWN);
    say(a, op, "rc=-1 msg=not_supported errmsg=not_supported status=-1");
}
