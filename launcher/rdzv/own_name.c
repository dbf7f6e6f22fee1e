#include "launcher/rdzv/own_name.h"

#include <netdb.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/net/addr.h"

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *all)
{
    const char *name = req->data;
    uv_freeaddrinfo(all); /* NULL is fine */
    if (status != 0 && status != UV_ECANCELED)
        log_warnx("--local_addr=%.100s: this name does not resolve here (%s); "
                  "if the other nodes do not know it either, no worker of "
                  "theirs reaches this node",
                  name, uv_strerror(status));
}

void own_name_check(uv_loop_t *loop, const char *name)
{
    static uv_getaddrinfo_t req;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    union {
        const char *in;
        void *out;
    } data = {.in = name}; /* libuv does not write to it */
    ddp_assert(req.data == NULL);
    if (name[0] == '\0' || addr_is_number(name))
        return;
    req.data = data.out;
    int rc = uv_getaddrinfo(loop, &req, on_resolved, name, NULL, &hints);
    if (rc != 0) /* such a name can never be resolved */
        on_resolved(&req, rc, NULL);
}
