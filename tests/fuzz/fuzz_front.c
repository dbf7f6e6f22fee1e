/* links: launcher/front/{orders,marks} */
/* links: rendezvous/base/{buf,opts,opts_help,opts_complete,err,mono,log} */
/* links: rendezvous/base/utf8 */
/*
 * What comes to a proxy on its stdin: a first line, the words that it
 * announces, and orders; and what comes to a front end: output with marks in
 * it. Whatever is accepted must keep the bounds of the headers, and
 * no byte of output is lost or shown twice.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/front/marks.h"
#include "launcher/front/orders.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX 8192u
#define WORDS_MAX 1024
#define MARK      "0123456789abcdef0123456789abcdef"

static void check_start(char *text, size_t len)
{
    static char *words[WORDS_MAX + 2];
    struct orders_start s;
    struct ddp_err err = {0};
    char *newline = memchr(text, '\n', len);
    if (newline == NULL || (size_t)(newline - text) >= ORDERS_LINE_MAX)
        return;
    *newline = '\0';
    if (orders_read_line(&s, text, &err) < 0) {
        ddp_assert(err.code == DDP_E_PROTO);
        return;
    }
    ddp_assert(s.n_args >= 1 && s.n_args + s.n_vars <= ORDERS_WORDS_MAX);
    ddp_assert(s.bytes >= 1 && s.bytes <= ORDERS_BYTES_MAX);
    ddp_assert(strlen(s.mark) == ORDERS_MARK_LEN);
    char *body = newline + 1;
    if (s.bytes > len - (size_t)(body - text) ||
        s.n_args + s.n_vars > WORDS_MAX)
        return;
    if (orders_read_words(&s, body, words, &err) < 0) {
        ddp_assert(err.code == DDP_E_PROTO);
        return;
    }
    ddp_assert(s.args[s.n_args] == NULL && s.vars[s.n_vars] == NULL);
    for (int i = 0; i < s.n_vars; i++)
        ddp_assert(strchr(s.vars[i], '=') != NULL);
}

static void check_orders(char *text)
{
    for (char *next = text; next != NULL;) {
        int signo = 0;
        if (orders_read(strsep(&next, "\n"), &signo) == ORDER_SIGNAL)
            ddp_assert(signo >= 1 && signo <= 64);
    }
}

static void check_marks(const char *data, size_t len)
{
    struct mark m;
    for (size_t at = 0; at < len;) {
        marks_find(data + at, len - at, MARK, true, &m);
        ddp_assert(m.plain + m.used <= len - at);
        ddp_assert((m.kind == MARK_NONE) == (m.used == 0));
        ddp_assert(m.kind != MARK_NONE || m.plain == len - at);
        ddp_assert(m.kind != MARK_END || (m.status >= 0 && m.status <= 255));
        at += m.plain + m.used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[INPUT_MAX + 1], copy[INPUT_MAX + 1];
    if (size > INPUT_MAX)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    memcpy(copy, text, size + 1);
    check_marks(text, size);
    check_start(copy, size);
    memcpy(copy, text, size + 1);
    check_orders(copy);
    return 0;
}
