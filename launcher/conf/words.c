/* Small helpers of all parts: see launcher/conf/conf_priv.h. */
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "launcher/conf/conf_priv.h"

void conf_note(struct conf *c, const char *fmt, ...)
{
    size_t max = sizeof(c->notes) / sizeof(c->notes[0]);
    ddp_assert((size_t)c->notes_len < max);
    va_list ap;
    va_start(ap, fmt);
    char *text = c->notes[c->notes_len++];
    (void)vsnprintf(text, sizeof(c->notes[0]), fmt, ap); /* cut is still told */
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
