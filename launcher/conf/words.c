/* Small helpers of all parts: see launcher/conf/conf_priv.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "launcher/conf/conf_priv.h"
#include "rendezvous/base/mono.h"

/* Of a check: its time, if the user says none, and what can be said. */
#define COMMAND_US       (30 * MONO_S)
#define COMMAND_LEAST_US MONO_S
#define COMMAND_MOST_US  (86400 * MONO_S)

void conf_note(struct conf *c, const char *fmt, ...)
{
    size_t max = sizeof(c->notes) / sizeof(c->notes[0]);
    ddp_assert((size_t)c->notes_len < max);
    va_list ap;
    va_start(ap, fmt);
    char *text = c->notes[c->notes_len++];
    (void)vsnprintf(text, sizeof(c->notes[0]), fmt, ap); /* a long one is cut */
    va_end(ap);
}

bool conf_said(const struct opts *o, int id)
{
    return opts_given(o, id) && opts_text(o, id)[0] != '\0';
}

int conf_blame(const struct opts *o, int id, struct ddp_err *err)
{
    char name[64];
    return ddp_err_wrap(err, "%s=%.120s", opts_where(o, id, name),
                        opts_text(o, id));
}

bool conf_one_of(const char *text, const char *const words[])
{
    for (; *words != NULL; words++) {
        if (strcasecmp(text, *words) == 0)
            return true;
    }
    return false;
}

int conf_command(const struct opts *o,
                 int id,
                 char *text,
                 size_t size,
                 int64_t *us,
                 struct ddp_err *err)
{
    const char *all = conf_said(o, id) ? opts_text(o, id) : "";
    const char *at = strrchr(all, '@');
    bool timed = at != NULL && at[1] != '\0' &&
                 at[1 + strspn(at + 1, "0123456789.")] == '\0';
    size_t len = timed ? (size_t)(at - all) : strlen(all);
    *us = COMMAND_US;
    if (timed &&
        !opts_read_seconds(at + 1, COMMAND_LEAST_US, COMMAND_MOST_US, us))
        (void)ddp_err_set(err, DDP_E_USAGE,
                          "the seconds behind @ must be a number from 1 to "
                          "86400");
    else if (timed && len == 0)
        (void)ddp_err_set(err, DDP_E_USAGE, "there is no command before @");
    else if (len >= size)
        (void)ddp_err_set(err, DDP_E_USAGE, "must be shorter than %zu bytes",
                          size);
    else {
        memcpy(text, all, len);
        text[len] = '\0';
        return 0;
    }
    return conf_blame(o, id, err);
}
