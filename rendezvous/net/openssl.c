/*
 * Happy path: dlopen once, look up each function of the list, and give OpenSSL
 * our allocator, which wipes what it frees.
 *
 * Failure modes, each a sentence that names the library: it is not installed,
 * or an OpenSSL 3 without one of the functions. Both end a program that was
 * given a token at its start; one without a token never comes here.
 */
#include "rendezvous/net/openssl.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
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

/*
 * OpenSSL's memory. It wipes some secrets when it frees them, but not all: an
 * SSL object has the traffic secrets of its connection in it. Forked children
 * (tls_forget) and core dumps must not have any. What is larger than that is
 * buffers, which hold messages and come and go with each of them.
 */
#define SECRET_MAX ((size_t)12 * 1024)

static void *on_malloc(size_t len, const char *file, int line)
{
    (void)file;
    (void)line;
    return len > 0 ? malloc(len) : NULL;
}

static void on_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    size_t len = malloc_usable_size(p); /* of NULL: 0 */
    if (len > 0 && len <= SECRET_MAX)
        explicit_bzero(p, len);
    free(p);
}

static void *on_realloc(void *p, size_t len, const char *file, int line)
{
    void *made = on_malloc(len, file, line);
    size_t old = malloc_usable_size(p); /* of NULL: 0 */
    if (made == NULL && len > 0)
        return NULL;
    if (made != NULL && p != NULL)
        memcpy(made, p, old < len ? old : len);
    on_free(p, file, line);
    return made;
}

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
    /* This fails if other code of this process has used OpenSSL before, which
     * only tests do. */
    (void)ossl.f_CRYPTO_set_mem_functions(on_malloc, on_realloc, on_free);
    loaded = true; /* and stays so: its exit handlers must not be unmapped */
    return 0;
}
