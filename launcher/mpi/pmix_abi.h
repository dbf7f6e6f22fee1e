/*
 * launcher/mpi/pmix_abi: what is used of libpmix's binary interface, which is
 * loaded at run time: the layouts, numbers and names that the PMIx standard
 * gives, the same in OpenPMIx 4.2 and 5. `struct pmixlib_x` is its pmix_x_t.
 */
#ifndef LAUNCHER_MPI_PMIX_ABI_H
#define LAUNCHER_MPI_PMIX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PMIXLIB_NAME        "libpmix.so.2"
#define PMIXLIB_MAJOR_MIN   4
#define PMIXLIB_MINOR_MIN   2 /* of 4: before it a map cannot be "raw:" */
#define PMIXLIB_MAJOR_MAX   5
#define PMIXLIB_NSPACE_SIZE 256
#define PMIXLIB_KEY_SIZE    512
#define PMIXLIB_ALL_RANKS   UINT32_C(4294967294)

/* pmix_status_t */
#define PMIXLIB_SUCCESS       0
#define PMIXLIB_NOMEM         (-32)
#define PMIXLIB_UNREACHABLE   (-25)
#define PMIXLIB_NOT_FOUND     (-46)
#define PMIXLIB_NOT_SUPPORTED (-47)
#define PMIXLIB_DONE_AT_ONCE  (-157) /* the callback is not called */

/* pmix_data_type_t */
#define PMIXLIB_STRING 3
#define PMIXLIB_UINT32 14

struct pmixlib_proc {
    char nspace[PMIXLIB_NSPACE_SIZE];
    uint32_t rank;
};

struct pmixlib_value {
    uint16_t type;
    union {
        char *string;
        uint32_t uint32;
        struct {
            void *pointers[2];
            char letter;
        } longest; /* pmix_envar_t */
    } data;
};

struct pmixlib_info {
    char key[PMIXLIB_KEY_SIZE];
    uint32_t flags;
    struct pmixlib_value value;
};

struct pmixlib_pdata {
    struct pmixlib_proc proc;
    char key[PMIXLIB_KEY_SIZE];
    struct pmixlib_value value;
};

#if UINTPTR_MAX > UINT32_MAX
_Static_assert(sizeof(struct pmixlib_proc) == 260, "pmix_proc_t");
_Static_assert(sizeof(struct pmixlib_value) == 32, "pmix_value_t");
_Static_assert(sizeof(struct pmixlib_info) == 552, "pmix_info_t");
_Static_assert(offsetof(struct pmixlib_info, value) == 520, "pmix_info_t");
_Static_assert(sizeof(struct pmixlib_pdata) == 808, "pmix_pdata_t");
_Static_assert(offsetof(struct pmixlib_pdata, value) == 776, "pmix_pdata_t");
#endif

typedef void (*pmixlib_op_fn)(int status, void *data);
typedef void (*pmixlib_release_fn)(void *data);
typedef void (*pmixlib_modex_fn)(int status,
                                 const char *bytes,
                                 size_t len,
                                 void *data,
                                 pmixlib_release_fn release,
                                 void *release_data);
typedef void (*pmixlib_lookup_fn)(int status,
                                  struct pmixlib_pdata *found,
                                  size_t n,
                                  void *data);
typedef void (*pmixlib_held_fn)(int status,
                                char *bytes,
                                size_t len,
                                void *data);

/* pmix_server_module_t: what the library asks us. Those that are NULL are not
 * served. */
struct pmixlib_module {
    int (*client_connected)(const struct pmixlib_proc *proc,
                            void *object,
                            pmixlib_op_fn done,
                            void *data);
    int (*client_finalized)(const struct pmixlib_proc *proc,
                            void *object,
                            pmixlib_op_fn done,
                            void *data);
    int (*abort)(const struct pmixlib_proc *proc,
                 void *object,
                 int status,
                 const char *text,
                 struct pmixlib_proc *procs,
                 size_t n,
                 pmixlib_op_fn done,
                 void *data);
    int (*fence)(const struct pmixlib_proc *procs,
                 size_t n,
                 const struct pmixlib_info *info,
                 size_t info_len,
                 char *bytes,
                 size_t len,
                 pmixlib_modex_fn done,
                 void *data);
    int (*modex)(const struct pmixlib_proc *proc,
                 const struct pmixlib_info *info,
                 size_t info_len,
                 pmixlib_modex_fn done,
                 void *data);
    int (*publish)(const struct pmixlib_proc *proc,
                   const struct pmixlib_info *info,
                   size_t info_len,
                   pmixlib_op_fn done,
                   void *data);
    int (*lookup)(const struct pmixlib_proc *proc,
                  char **keys,
                  const struct pmixlib_info *info,
                  size_t info_len,
                  pmixlib_lookup_fn done,
                  void *data);
    int (*unpublish)(const struct pmixlib_proc *proc,
                     char **keys,
                     const struct pmixlib_info *info,
                     size_t info_len,
                     pmixlib_op_fn done,
                     void *data);
    int (*spawn)(const struct pmixlib_proc *proc,
                 const struct pmixlib_info *info,
                 size_t info_len,
                 const void *apps,
                 size_t n,
                 void *done,
                 void *data);
    void *others[55]; /* as many as a later version may have */
};

/* X(symbol, type of what it returns, arguments) */
#define PMIXLIB_FUNCTIONS(X)                                                   \
    X(PMIx_Get_version, const char *, (void))                                  \
    X(PMIx_server_init, int,                                                   \
      (struct pmixlib_module * module, struct pmixlib_info * info, size_t n))  \
    X(PMIx_server_register_nspace, int,                                        \
      (const char *nspace, int workers, struct pmixlib_info *info, size_t n,   \
       pmixlib_op_fn done, void *data))                                        \
    X(PMIx_server_register_client, int,                                        \
      (const struct pmixlib_proc *proc, uid_t uid, gid_t gid, void *object,    \
       pmixlib_op_fn done, void *data))                                        \
    X(PMIx_server_setup_fork, int,                                             \
      (const struct pmixlib_proc *proc, char ***env))                          \
    X(PMIx_server_dmodex_request, int,                                         \
      (const struct pmixlib_proc *proc, pmixlib_held_fn done, void *data))

#endif
