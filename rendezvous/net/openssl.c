#include "rendezvous/net/openssl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBSSL     "libssl.so." TEXT(OPENSSL_SHLIB_VERSION)

struct openssl ossl;

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define ROW(name) {#name, offsetof(struct openssl, f_##name)},
    OPENSSL_FUNCTIONS(ROW)
#undef ROW
};
#define FUNCTIONS_LEN (sizeof(functions) / sizeof(functions[0]))

_Static_assert(sizeof(ossl) == FUNCTIONS_LEN * sizeof(void *), "one of each");

int openssl_load(struct ddp_err *err)
{
    static bool loaded;
    if (loaded)
        return 0;
    void *lib = dlopen(LIBSSL, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "a token needs OpenSSL, and %s cannot be loaded "
                           "here: install it (Debian: libssl3) (%s)",
                           LIBSSL, dlerror());
    for (size_t i = 0; i < FUNCTIONS_LEN; i++) {
        void *f = dlsym(lib, functions[i].name);
        if (f == NULL)
            return ddp_err_set(err, DDP_E_CONFIG,
                               "a token needs OpenSSL, and the %s of this "
                               "machine has no %s",
                               LIBSSL, functions[i].name);
        memcpy((char *)&ossl + functions[i].at, &f, sizeof(f));
    }
    loaded = true; /* and stays so: its exit handlers must not be unmapped */
    return 0;
}
