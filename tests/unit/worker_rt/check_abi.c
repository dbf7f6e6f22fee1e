/* links: worker_rt/abi rendezvous/base/err */
/* libs: -ldl */
/*
 * What programs that were built for libddp.so.1 rely on: the names, the places
 * of members, the numbers of enumerators. A line here may be added for what is
 * new; one that must be changed breaks those programs.
 */
#include <check.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "worker_rt/abi.h"
#include "worker_rt/ddp.h"

/* clang-format off */
#define NAMES(X)                                                               \
    X(ddp_beat)                                                                \
    X(ddp_comm_abort)                                                          \
    X(ddp_comm_all_gather)                                                     \
    X(ddp_comm_all_reduce)                                                     \
    X(ddp_comm_allgather)                                                      \
    X(ddp_comm_allreduce)                                                      \
    X(ddp_comm_barrier)                                                        \
    X(ddp_comm_broadcast)                                                      \
    X(ddp_comm_free)                                                           \
    X(ddp_comm_nccl)                                                           \
    X(ddp_comm_new)                                                            \
    X(ddp_comm_reduce_scatter)                                                 \
    X(ddp_comm_wait)                                                           \
    X(ddp_dtype_size)                                                          \
    X(ddp_free)                                                                \
    X(ddp_group_rank)                                                          \
    X(ddp_init)                                                                \
    X(ddp_instance)                                                            \
    X(ddp_keeper_free)                                                         \
    X(ddp_keeper_load)                                                         \
    X(ddp_keeper_load_into)                                                    \
    X(ddp_keeper_new)                                                          \
    X(ddp_keeper_no_memory)                                                    \
    X(ddp_keeper_rank_state)                                                   \
    X(ddp_keeper_save)                                                         \
    X(ddp_keeper_saved)                                                        \
    X(ddp_keeper_set_rank_state)                                               \
    X(ddp_keeper_settle)                                                       \
    X(ddp_keeper_wait)                                                         \
    X(ddp_kv_get_i64)                                                          \
    X(ddp_kv_set_i64)                                                          \
    X(ddp_local_rank)                                                          \
    X(ddp_local_world)                                                         \
    X(ddp_rank)                                                                \
    X(ddp_restart_count)                                                       \
    X(ddp_round)                                                               \
    X(ddp_run_id)                                                              \
    X(ddp_sampler_epoch)                                                       \
    X(ddp_sampler_free)                                                        \
    X(ddp_sampler_left)                                                        \
    X(ddp_sampler_new)                                                         \
    X(ddp_sampler_next)                                                        \
    X(ddp_sampler_position)                                                    \
    X(ddp_sampler_seek)                                                        \
    X(ddp_should_stop)                                                         \
    X(ddp_stop_on_signal)                                                      \
    X(ddp_store_add)                                                           \
    X(ddp_store_barrier)                                                       \
    X(ddp_store_check)                                                         \
    X(ddp_store_get)                                                           \
    X(ddp_store_set)                                                           \
    X(ddp_store_wait)                                                          \
    X(ddp_tensor_len)                                                          \
    X(ddp_version)                                                             \
    X(ddp_world)

#define AT(type, member, at)                                                   \
    _Static_assert(offsetof(struct type, member) == (at), #type "." #member)
#define IS(name, value) _Static_assert((name) == (value), #name)

/* Fixed for ever: they have no size. */
AT(ddp_error, code, 0); AT(ddp_error, sys_errno, 4); AT(ddp_error, text, 8);
IS(sizeof(struct ddp_error), 520);
AT(ddp_tensor, name, 0); AT(ddp_tensor, dtype, 8); AT(ddp_tensor, dims, 12);
AT(ddp_tensor, shape, 16); AT(ddp_tensor, data, 80);
IS(sizeof(struct ddp_tensor), 88);
AT(ddp_kv, key, 0); AT(ddp_kv, value, 8);
IS(sizeof(struct ddp_kv), 264);

/* These may grow at their end. */
AT(ddp_comm_opts, size, 0); AT(ddp_comm_opts, kind, 8);
AT(ddp_comm_opts, init_timeout_ms, 16); AT(ddp_comm_opts, timeout_ms, 24);
AT(ddp_comm_opts, stream, 32); AT(ddp_comm_opts, async, 40);
AT(ddp_keeper_conf, size, 0); AT(ddp_keeper_conf, folder, 8);
AT(ddp_keeper_conf, keep, 16); AT(ddp_keeper_conf, no_memory, 20);
AT(ddp_keeper_conf, load_only, 21); AT(ddp_keeper_conf, gpu, 22);
AT(ddp_keeper_conf, stream, 24); AT(ddp_keeper_conf, later, 32);
AT(ddp_keeper_conf, room, 40); AT(ddp_keeper_conf, room_len, 48);
AT(ddp_keeper_conf, rank_state_max, 56);
AT(ddp_keeper_conf, copies, 64); AT(ddp_keeper_conf, check_every, 68);
AT(ddp_keeper_conf, may_differ, 72);
AT(ddp_kept, size, 0); AT(ddp_kept, step, 8); AT(ddp_kept, round, 16);
AT(ddp_kept, instance, 24); AT(ddp_kept, foreign, 57);
AT(ddp_kept, memory, 58); AT(ddp_kept, rank, 60); AT(ddp_kept, why, 64);
AT(ddp_sampler_conf, size, 0); AT(ddp_sampler_conf, samples, 8);
AT(ddp_sampler_conf, rank, 16); AT(ddp_sampler_conf, world, 20);
AT(ddp_sampler_conf, seed, 24); AT(ddp_sampler_conf, shuffle, 32);
AT(ddp_sampler_conf, drop_last, 33);
IS(ABI_COMM_OPTS_MIN, 48);
IS(ABI_KEEPER_CONF_MIN, 80); IS(ABI_KEPT_MIN, 576);
IS(ABI_SAMPLER_CONF_MIN, 40);

IS(DDP_F64, 1); IS(DDP_F32, 2); IS(DDP_F16, 3); IS(DDP_BF16, 4);
IS(DDP_I64, 5); IS(DDP_I32, 6); IS(DDP_I16, 7); IS(DDP_I8, 8);
IS(DDP_U8, 9); IS(DDP_BOOL, 10); IS(DDP_F8_E4M3, 11);
IS(DDP_F8_E5M2, 12); IS(DDP_U64, 13); IS(DDP_U32, 14); IS(DDP_U16, 15);
IS(DDP_COMM_CPU, 0); IS(DDP_COMM_NCCL, 1);
IS(DDP_STOP_NO, 0); IS(DDP_STOP_SIGNAL, 1); IS(DDP_STOP_SCALE_UP, 2);
IS(DDP_STOP_SCALE_DOWN, 3);
IS(DDP_SUM, 0); IS(DDP_AVG, 1); IS(DDP_MAX, 2); IS(DDP_MIN, 3);
IS(DDP_PROD, 4);
IS(DDP_OK, 0); IS(DDP_ERR_USAGE, 2); IS(DDP_ERR_CONFLICT, 65);
IS(DDP_ERR_NOINPUT, 66); IS(DDP_ERR_CORRUPT, 67);
IS(DDP_ERR_UNREACHABLE, 69); IS(DDP_ERR_BUG, 70); IS(DDP_ERR_NOMEM, 71);
IS(DDP_ERR_LOST, 72); IS(DDP_ERR_IO, 74); IS(DDP_ERR_TIMEOUT, 75);
IS(DDP_ERR_PROTO, 76); IS(DDP_ERR_PEER, 77); IS(DDP_ERR_CONFIG, 78);
IS(DDP_ERR_ABORTED, 79);
/* clang-format on */

/* The shared library beside this program has every name, and says the version
 * of the header. */
TEST(test_abi_library_has_every_name)
{
#define X(name) #name,
    static const char *const names[] = {NAMES(X)};
#undef X
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
    ck_assert_int_gt(n, 0);
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    (void)strcat(path, "/../../libddp.so");
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", lib == NULL ? dlerror() : "");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_msg(dlsym(lib, names[i]) != NULL, "%s is gone", names[i]);
    int (*version)(const char **);
    void *found = dlsym(lib, "ddp_version");
    const char *text = NULL;
    memcpy(&version, &found, sizeof(version));
    ck_assert_int_eq(version(&text), DDP_VERSION);
    char wanted[32];
    (void)snprintf(wanted, sizeof(wanted), "%d.%d.%d", DDP_VERSION_MAJOR,
                   DDP_VERSION_MINOR, DDP_VERSION_PATCH); /* fits */
    ck_assert_str_eq(text, wanted);
}

/* Three versions of a struct that grows. */
struct old {
    size_t size;
    int a;
    int b;
};
struct ours {
    size_t size;
    int a;
    int b;
    int64_t c;
};
struct newer {
    struct ours ours;
    int64_t d;
};
#define LEAST sizeof(struct old)

TEST_LOOP(test_abi_struct_of_another_version_is_taken, 0, 2)
{
    struct ddp_err e;
    struct ours o;
    struct old a = {.size = _i == 0 ? 0 : sizeof(a), .a = 1, .b = 2};
    memset(&o, 0xff, sizeof(o));
    ck_assert_int_eq(abi_take(&o, sizeof(o), &a, LEAST, &e), 0);
    ck_assert(o.a == 1 && o.b == 2 && o.c == 0);
    struct newer n = {.ours = {sizeof(n), 3, 4, 5}, .d = 0};
    ck_assert_int_eq(abi_take(&o, sizeof(o), &n, LEAST, &e), 0);
    ck_assert(o.a == 3 && o.b == 4 && o.c == 5);
    n.d = 6; /* asks for what this library does not know */
    ck_assert_int_eq(abi_take(&o, sizeof(o), &n, LEAST, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_USAGE);
    a.size = 1;
    ck_assert_int_eq(abi_take(&o, sizeof(o), &a, LEAST, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_USAGE);
}

TEST_LOOP(test_abi_struct_of_another_version_is_filled, 0, 2)
{
    const struct ours o = {.a = 1, .b = 2, .c = 3};
    struct newer n = {.ours.size = sizeof(n), .d = 7};
    struct {
        struct old old;
        int64_t behind;
    } a = {.old.size = _i == 0 ? 0 : sizeof(a.old), .behind = 9};
    abi_give(&a.old, &o, sizeof(o), LEAST);
    ck_assert(a.old.a == 1 && a.old.b == 2 && a.behind == 9);
    ck_assert_uint_eq(a.old.size, _i == 0 ? 0 : sizeof(a.old));
    abi_give(&n, &o, sizeof(o), LEAST);
    ck_assert(n.ours.c == 3 && n.d == 7 && n.ours.size == sizeof(n));
}

SUITE("abi", "all")
