#include "launcher/rdzv/own_name.h"

#include "launcher/rdzv/resolver.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/net/addr.h"

static void
on_resolved(void *ctx, const struct addr_list *list, const struct ddp_err *err)
{
    (void)ctx;
    if (list == NULL)
        log_warnx("--local_addr: %s; if the other nodes do not know it either, "
                  "no worker of theirs reaches this node",
                  err->text);
}

void own_name_check(uv_loop_t *loop, const char *name)
{
    static struct resolver resolver; /* a lookup cannot be ended */
    struct ddp_err err;
    ddp_assert(resolver.host[0] == '\0');
    if (name[0] == '\0' || addr_is_number(name))
        return;
    if (resolver_init(&resolver, loop, on_resolved, NULL, &err) != 0 ||
        resolver_start(&resolver, name, 0, &err) != 0)
        log_warnx("--local_addr=%.100s is not checked: %s", name, err.text);
}
