#include "launcher/front/orders.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/opts.h"

#define FIRST_WORD "ddprun-front"
#define VERSION    1
#define SIGNO_MAX  64

static const char signal_word[] = "signal ";

/* -- the front end's half -------------------------------------------------- */

static int count(char *const *words, size_t *bytes)
{
    int n = 0;
    for (; words[n] != NULL && n <= ORDERS_WORDS_MAX; n++)
        *bytes += strlen(words[n]) + 1;
    return n;
}

static int put_words(struct buf *b, char *const *words)
{
    for (; *words != NULL; words++)
        if (buf_put(b, *words, strlen(*words) + 1) < 0)
            return -1;
    return 0;
}

int orders_put_start(struct buf *b,
                     const struct orders_start *s,
                     struct ddp_err *err)
{
    char line[ORDERS_LINE_MAX];
    size_t bytes = strlen(s->folder) + 1;
    int n_args = count(s->args, &bytes), n_vars = count(s->vars, &bytes);
    ddp_assert(strlen(s->mark) == ORDERS_MARK_LEN);
    if (n_args + n_vars > ORDERS_WORDS_MAX || bytes > ORDERS_BYTES_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the arguments and variables for a host are too "
                           "many or too long: at most %d, of %u bytes in all",
                           ORDERS_WORDS_MAX, ORDERS_BYTES_MAX);
    int len = snprintf(line, sizeof(line), "%s %d %s %d %d %d %d %d %zu\n",
                       FIRST_WORD, VERSION, s->mark, s->beat_ms, s->grace_ms,
                       (int)s->how, n_args, n_vars, bytes);
    if (buf_put(b, line, (size_t)len) < 0 ||
        buf_put(b, s->folder, strlen(s->folder) + 1) < 0 ||
        put_words(b, s->args) < 0 || put_words(b, s->vars) < 0)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for what a host is told");
    return 0;
}

bool orders_put(struct buf *b, enum order_kind kind, int signo)
{
    char line[ORDERS_LINE_MAX];
    ddp_assert(kind != ORDER_WRONG);
    if (kind == ORDER_SIGNAL)
        (void)snprintf(line, sizeof(line), "%s%d\n", signal_word, signo);
    else
        (void)snprintf(line, sizeof(line), "%s\n",
                       kind == ORDER_ASK ? "ask" : "beat");
    return buf_put(b, line, strlen(line)) == 0;
}

/* -- the proxy's half ----------------------------------------------------- */

static int not_ours(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_PROTO,
                       "what came on stdin is not from the front end of a "
                       "ddprun of this version");
}

static bool take_number(char **next, int64_t max, int64_t *n)
{
    const char *word = *next != NULL ? strsep(next, " ") : "";
    return opts_read_int(word, 0, max, n);
}

static bool is_mark(const char *word)
{
    return strlen(word) == ORDERS_MARK_LEN &&
           strspn(word, "0123456789abcdef") == ORDERS_MARK_LEN;
}

int orders_read_line(struct orders_start *s, char *line, struct ddp_err *err)
{
    int64_t version, beat, grace, how, args, vars, bytes;
    char *next = line;
    *s = (struct orders_start){.beat_ms = 0};
    if (strcmp(strsep(&next, " "), FIRST_WORD) != 0 ||
        !take_number(&next, 1000, &version) || version != VERSION ||
        next == NULL)
        return not_ours(err);
    const char *mark = strsep(&next, " ");
    if (!is_mark(mark) || !take_number(&next, ORDERS_TIME_MAX, &beat) ||
        !take_number(&next, ORDERS_TIME_MAX, &grace) ||
        !take_number(&next, ORDERS_STEP, &how) ||
        !take_number(&next, ORDERS_WORDS_MAX, &args) ||
        !take_number(&next, ORDERS_WORDS_MAX - args, &vars) ||
        !take_number(&next, ORDERS_BYTES_MAX, &bytes) || next != NULL ||
        args < 1 || bytes < args + vars + 1)
        return not_ours(err);
    memcpy(s->mark, mark, sizeof(s->mark));
    s->beat_ms = (int)beat;
    s->grace_ms = (int)grace;
    s->how = (enum orders_how)how;
    s->n_args = (int)args;
    s->n_vars = (int)vars;
    s->bytes = (size_t)bytes;
    return 0;
}

int orders_read_words(struct orders_start *s,
                      char *data,
                      char **words,
                      struct ddp_err *err)
{
    int n = 0, all = s->n_args + s->n_vars + 1;
    size_t at = 0;
    ddp_assert(s->bytes > 0 && s->n_args > 0);
    if (data[s->bytes - 1] != '\0')
        return not_ours(err);
    for (; n < all && at < s->bytes; n++) {
        if (n == 0)
            s->folder = data;
        else /* a NULL stands behind the arguments */
            words[n - 1 + (n > s->n_args)] = data + at;
        if (n > s->n_args && strchr(data + at, '=') == NULL)
            return not_ours(err);
        at += strlen(data + at) + 1;
    }
    if (n != all || at != s->bytes)
        return not_ours(err);
    words[s->n_args] = words[s->n_args + 1 + s->n_vars] = NULL;
    s->args = words;
    s->vars = words + s->n_args + 1;
    return 0;
}

enum order_kind orders_read(const char *line, int *signo)
{
    int64_t n;
    if (strcmp(line, "beat") == 0)
        return ORDER_BEAT;
    if (strcmp(line, "ask") == 0)
        return ORDER_ASK;
    if (strncmp(line, signal_word, strlen(signal_word)) != 0 ||
        !opts_read_int(line + strlen(signal_word), 1, SIGNO_MAX, &n))
        return ORDER_WRONG;
    *signo = (int)n;
    return ORDER_SIGNAL;
}
