#include "worker_rt/abi.h"

#include <stdint.h>
#include <string.h>

#include "worker_rt/ddp.h"

_Static_assert(sizeof(struct ddp_comm_opts) >= ABI_COMM_OPTS_MIN &&
                   sizeof(struct ddp_keeper_conf) >= ABI_KEEPER_CONF_MIN &&
                   sizeof(struct ddp_sampler_conf) >= ABI_SAMPLER_CONF_MIN &&
                   sizeof(struct ddp_kept) >= ABI_KEPT_MIN,
               "structs only grow");

int ddp_version(const char **text)
{
    if (text != NULL)
        *text = DDPRUN_VERSION;
    return DDP_VERSION;
}

static size_t size_of(const void *p, size_t least)
{
    size_t said;
    memcpy(&said, p, sizeof(said));
    return said == 0 ? least : said;
}

int abi_take(
    void *to, size_t len, const void *from, size_t least, struct ddp_err *err)
{
    size_t size = size_of(from, least);
    ddp_assert(least <= len);
    if (size < least || size > SIZE_MAX / 2)
        return ddp_err_set(err, DDP_E_USAGE,
                           "a struct of options says that it has %zu bytes: "
                           "set its size to sizeof, or all of it to zero",
                           size);
    for (size_t i = len; i < size; i++)
        if (((const uint8_t *)from)[i] != 0)
            return ddp_err_set(err, DDP_E_USAGE,
                               "an option is set that libddp %s does not know: "
                               "the program was built for a newer one",
                               DDPRUN_VERSION);
    memset(to, 0, len);
    memcpy(to, from, size < len ? size : len);
    return 0;
}

void abi_give(void *to, const void *from, size_t len, size_t least)
{
    size_t size = size_of(to, least), head = sizeof(size_t);
    ddp_assert(least <= len);
    size = size < least ? least : size;
    size = size < len ? size : len;
    memcpy((uint8_t *)to + head, (const uint8_t *)from + head, size - head);
}
