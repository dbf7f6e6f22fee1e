/*
 * Happy path: an order for each rank, whose answer comes in parts: each is
 * shown as it comes. All ranks of a run are those from 0 on, up to the first
 * one that there is not.
 *
 * Failure modes: what a node cannot say of a worker it says in the stacks'
 * place. A node that is absent, or silent for longer than debuggers may take:
 * that is said there, too, and is the status at the end. A rank that there is
 * not, a run that is over, no rendezvous: the rest is not asked for.
 */
#include "rendezvous/ctl/stacks.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/ctl/command.h"
#include "rendezvous/ctl/status.h"

/* Without what a terminal would take for commands. */
static void print_lines(void *ctx, const char *text)
{
    const struct ctl_stacks *s = ctx;
    while (*text != '\0') {
        char line[1024], clean[1024];
        size_t len = strcspn(text, "\n");
        size_t shown = len < sizeof(line) ? len : sizeof(line) - 1;
        memcpy(line, text, shown);
        line[shown] = '\0';
        ctl_clean(s->style, line, clean, sizeof(clean));
        (void)puts(clean); /* the end says if it failed */
        text += len + (text[len] == '\n');
    }
    (void)fflush(stdout); /* the same */
}

#define RANK_MAX 500000000 /* messages.def: order */

/* Digits, up to what a message takes; -1: there are none. */
static int64_t read_number(const char **at)
{
    int64_t number = 0;
    const char *from = *at;
    while (isdigit((unsigned char)**at) && number < INT32_MAX)
        number = 10 * number + (*(*at)++ - '0');
    return *at > from && number <= RANK_MAX ? number : -1;
}

/* "3" or "3-5". */
static int
read_ranks(const char *word, int64_t *first, int64_t *last, struct ddp_err *err)
{
    const char *at = word;
    *last = *first = read_number(&at);
    if (*at == '-') {
        at++;
        *last = read_number(&at);
    }
    if (*at == '\0' && *first >= 0 && *last >= *first)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "'%.60s' is no rank: give numbers, or 0-7", word);
}

static void tell_missing(const struct ctl_stacks *s,
                         int64_t rank,
                         const struct ddp_err *err)
{
    char line[sizeof(err->text) + 32];
    (void)snprintf(line, /* fits */
                   sizeof(line), "rank %lld: %s", (long long)rank, err->text);
    print_lines((void *)(uintptr_t)s, line);
}

/* A node that shows nothing keeps nobody from the others' ranks. */
static int show(const struct ctl_stacks *s,
                int64_t rank,
                bool *missing,
                struct ddp_err *err)
{
    struct msg m = {.kind = MSG_KIND_order,
                    .order = {.version = MSG_VERSION,
                              .verb = MSG_ORDER_STACKS,
                              .rank = rank}};
    msg_set(m.order.run, s->run);
    int rc = ctl_order_shown(s->peer, &m, mono_now_us() + s->timeout_us,
                             print_lines, (void *)(uintptr_t)s, err);
    if (rc == 0 || err->code != DDP_E_PEER)
        return rc;
    tell_missing(s, rank, err);
    *missing = true;
    return 0;
}

static int
show_all(const struct ctl_stacks *s, bool *missing, struct ddp_err *err)
{
    int64_t rank = 0;
    int rc;
    while ((rc = show(s, rank, missing, err)) == 0)
        rank++;
    return rank > 0 && err->code == DDP_E_USAGE ? 0 : rc;
}

static int show_some(const struct ctl_stacks *s,
                     const char *word,
                     bool *missing,
                     struct ddp_err *err)
{
    int64_t first, last;
    int rc = read_ranks(word, &first, &last, err);
    for (; rc == 0 && first <= last; first++)
        rc = show(s, first, missing, err);
    return rc;
}

int ctl_stacks_run(const struct ctl_stacks *s)
{
    struct ddp_err err;
    bool missing = false;
    int rc = s->n_ranks == 0 ? show_all(s, &missing, &err) : 0;
    for (int i = 0; i < s->n_ranks && rc == 0; i++)
        rc = show_some(s, s->ranks[i], &missing, &err);
    if (rc != 0) {
        ctl_complain(s->style, s->where, &err);
        return ddp_code_exit(err.code);
    }
    if (ferror(stdout) != 0) {
        log_warn("cannot write to standard output");
        return ddp_code_exit(DDP_E_IO);
    }
    return missing ? ddp_code_exit(DDP_E_PEER) : 0;
}
