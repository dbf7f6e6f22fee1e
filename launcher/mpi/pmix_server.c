/*
 * Happy path: libpmix is loaded and told of the round's ranks and nodes; for
 * each worker of this node the launcher gets the variables by which its MPI
 * library finds this server; then the library's thread calls on_..., and the
 * main thread takes the launcher's answers.
 *
 * Failure modes:
 *  - libpmix cannot be loaded or refuses something: the launcher is told
 *    (PMIX_FAILED), and the process ends.
 *  - The launcher is gone: this process ends.
 *  - The library dies of what a worker sent to it: the launcher sees the end of
 *    the socket, and the round fails.
 *  - More requests at a time than TICKETS_MAX, or more data than
 *    PMIX_BYTES_MAX: the request fails.
 */
#include "launcher/mpi/pmix_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/mpi/pmix_abi.h"
#include "launcher/mpi/pmix_frame.h"
#include "launcher/mpi/space.h"
#include "rendezvous/net/helper.h"

#define PMIX_BYTES_MAX SPACE_FRESH_MAX
#define TICKETS_MAX    4096

/* A request that the launcher has to answer. */
struct pmix_ticket {
    enum {
        TICKET_FREE,
        TICKET_BYTES, /* fence, modex */
        TICKET_FOUND, /* lookup */
        TICKET_DONE,  /* publish, unpublish */
    } kind;
    union {
        pmixlib_modex_fn bytes;
        pmixlib_lookup_fn found;
        pmixlib_op_fn done;
    } call;
    void *data;
    char key[PMIXLIB_KEY_SIZE]; /* lookup */
};

struct pmix_functions {
#define MEMBER(symbol, type, arguments) type(*symbol) arguments;
    PMIXLIB_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* There is one in a process: the library's callbacks have no context. */
static struct {
    int fd;
    const struct pmix_job *job;
    struct pmix_functions functions;
    pthread_mutex_t lock; /* of what follows, and of writing */
    struct buf out;
    struct pmix_ticket tickets[TICKETS_MAX];
} server;

/* -- the library ----------------------------------------------------------- */

/* As in hw/nvml: ISO C has no cast from what dlsym returns to a function. */
static void load(void *library, const char *symbol, void *function)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof(found));
}

static int open_library(struct pmix_functions *f, struct ddp_err *err)
{
    long major = 0, minor = 0;
    void *library = dlopen(PMIXLIB_NAME, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "cannot load %.150s; install libpmix2 (Debian, "
                           "Ubuntu) or pmix (RHEL, Fedora)",
                           dlerror());
#define LOAD(symbol, type, arguments)                                          \
    load(library, #symbol, &f->symbol);                                        \
    if (f->symbol == NULL)                                                     \
        return ddp_err_set(err, DDP_E_CONFIG, PMIXLIB_NAME " has no " #symbol);
    PMIXLIB_FUNCTIONS(LOAD)
#undef LOAD
    const char *version = f->PMIx_Get_version();
    const char *digit = strpbrk(version, "0123456789");
    char *end;
    if (digit != NULL) {
        major = strtol(digit, &end, 10);
        minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    }
    if (major < PMIXLIB_MAJOR_MIN || major > PMIXLIB_MAJOR_MAX ||
        (major == PMIXLIB_MAJOR_MIN && minor < PMIXLIB_MINOR_MIN))
        return ddp_err_set(err, DDP_E_CONFIG,
                           PMIXLIB_NAME
                           " is %.60s; PMIx 5, or 4.2 or later, is needed",
                           version);
    return 0;
}

int pmix_server_probe(struct ddp_err *err)
{
    struct pmix_functions f;
    int ends[2], status;
    if (pipe(ends) != 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot look for " PMIXLIB_NAME);
    pid_t pid = fork();
    if (pid == 0) {
        struct ddp_err why = {.text = ""};
        int rc = open_library(&f, &why);
        ssize_t n = rc == 0 ? 0 : write(ends[1], why.text, strlen(why.text));
        _exit(rc != 0 || n != 0);
    }
    (void)close(ends[1]);
    char text[sizeof(err->text)] = "";
    ssize_t n = pid < 0 ? 0 : read(ends[0], text, sizeof(text) - 1);
    (void)close(ends[0]);
    if (pid < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot look for " PMIXLIB_NAME);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return 0;
    return ddp_err_set(
        err, DDP_E_CONFIG, "%s",
        n > 0 ? text : PMIXLIB_NAME " cannot be loaded: it ends the process");
}

/* -- to the launcher ------------------------------------------------------- */

/* With the lock held. */
static void send_out(void)
{
    while (buf_len(&server.out) > 0) {
        ssize_t n = send(server.fd, buf_head(&server.out), buf_len(&server.out),
                         MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            _exit(0); /* the launcher has gone */
        if (n > 0)
            buf_take(&server.out, (size_t)n);
    }
}

static int tell(const struct pmix_frame *f)
{
    (void)pthread_mutex_lock(&server.lock);
    int rc = pmix_frame_put(&server.out, f);
    if (rc == 0)
        send_out();
    (void)pthread_mutex_unlock(&server.lock);
    return rc;
}

/* `status` is the library's, or 0. */
__attribute__((noreturn)) static void give_up(const char *what, int status)
{
    char text[300], number[32] = "";
    if (status != 0)
        (void)snprintf(number, sizeof(number), ": status %d", status);
    (void)snprintf(text, sizeof(text), "%s%s", what, number); /* may be cut */
    struct pmix_frame f = {
        .kind = PMIX_FAILED, .data = text, .len = strlen(text)};
    (void)tell(&f);
    _exit(ddp_code_exit(DDP_E_CONFIG));
}

/* A ticket for what `t` says; -1: there are too many. */
static int64_t take_ticket(const struct pmix_ticket *t)
{
    int64_t at = -1;
    (void)pthread_mutex_lock(&server.lock);
    for (int64_t i = 0; at < 0 && i < TICKETS_MAX; i++)
        if (server.tickets[i].kind == TICKET_FREE) {
            server.tickets[i] = *t;
            at = i;
        }
    (void)pthread_mutex_unlock(&server.lock);
    return at;
}

static struct pmix_ticket give_ticket(int64_t number)
{
    struct pmix_ticket t = {.kind = TICKET_FREE};
    (void)pthread_mutex_lock(&server.lock);
    if (number >= 0 && number < TICKETS_MAX) {
        t = server.tickets[number];
        server.tickets[number].kind = TICKET_FREE;
    }
    (void)pthread_mutex_unlock(&server.lock);
    return t;
}

/* Returns what a callback of the library has to return. */
static int
ask(enum pmix_kind kind, const struct pmix_ticket *t, const void *d, size_t len)
{
    struct pmix_frame f = {
        .kind = kind, .number = take_ticket(t), .data = d, .len = len};
    if (f.number < 0)
        return PMIXLIB_NOMEM;
    if (tell(&f) == 0)
        return PMIXLIB_SUCCESS;
    (void)give_ticket(f.number);
    return PMIXLIB_NOMEM;
}

/* -- what the library asks, on its thread ---------------------------------- */

/* -1: it is none of this node. */
static int32_t local_rank_of(const struct pmixlib_proc *proc)
{
    int64_t i = (int64_t)proc->rank - server.job->maps.base_rank;
    return i >= 0 && i < server.job->nproc ? (int32_t)i : -1;
}

static int tell_state(const struct pmixlib_proc *proc, enum pmix_kind kind)
{
    struct pmix_frame f = {.kind = kind, .rank = local_rank_of(proc)};
    return f.rank >= 0 && tell(&f) == 0 ? PMIXLIB_DONE_AT_ONCE
                                        : PMIXLIB_NOT_FOUND;
}

static int on_connected(const struct pmixlib_proc *proc,
                        void *object,
                        pmixlib_op_fn done,
                        void *data)
{
    (void)object;
    (void)done;
    (void)data;
    return tell_state(proc, PMIX_CONNECTED);
}

static int on_finalized(const struct pmixlib_proc *proc,
                        void *object,
                        pmixlib_op_fn done,
                        void *data)
{
    (void)object;
    (void)done;
    (void)data;
    return tell_state(proc, PMIX_FINALIZED);
}

static int on_abort(const struct pmixlib_proc *proc,
                    void *object,
                    int status,
                    const char *text,
                    struct pmixlib_proc *procs,
                    size_t n,
                    pmixlib_op_fn done,
                    void *data)
{
    struct pmix_frame f = {
        .kind = PMIX_ABORT, .rank = local_rank_of(proc), .number = status};
    (void)object;
    (void)text;
    (void)procs; /* whichever it names, the round ends */
    (void)n;
    (void)done;
    (void)data;
    return f.rank >= 0 && tell(&f) == 0 ? PMIXLIB_DONE_AT_ONCE
                                        : PMIXLIB_NOT_FOUND;
}

static bool is_all(const struct pmixlib_proc *procs, size_t n)
{
    return (n == 1 && procs[0].rank == PMIXLIB_ALL_RANKS) ||
           n == (size_t)server.job->world_size;
}

static bool is_local(const struct pmixlib_proc *procs, size_t n)
{
    size_t local = 0;
    while (local < n && local_rank_of(&procs[local]) >= 0)
        local++;
    return local == n || server.job->nodes == 1;
}

static int on_fence(const struct pmixlib_proc *procs,
                    size_t n,
                    const struct pmixlib_info *info,
                    size_t info_len,
                    char *bytes,
                    size_t len,
                    pmixlib_modex_fn done,
                    void *data)
{
    struct pmix_ticket t = {
        .kind = TICKET_BYTES, .call.bytes = done, .data = data};
    (void)info;
    (void)info_len;
    if (is_local(procs, n)) {
        done(PMIXLIB_SUCCESS, bytes, len, data, NULL, NULL);
        return PMIXLIB_SUCCESS;
    }
    if (!is_all(procs, n))
        return PMIXLIB_NOT_SUPPORTED;
    return len > PMIX_BYTES_MAX ? PMIXLIB_NOMEM
                                : ask(PMIX_FENCE, &t, bytes, len);
}

/* Of a rank of another node. */
static int on_modex(const struct pmixlib_proc *proc,
                    const struct pmixlib_info *info,
                    size_t info_len,
                    pmixlib_modex_fn done,
                    void *data)
{
    struct pmix_ticket t = {
        .kind = TICKET_BYTES, .call.bytes = done, .data = data};
    struct pmix_frame f = {.kind = PMIX_MODEX};
    (void)info;
    (void)info_len;
    if ((int64_t)proc->rank >= server.job->world_size ||
        local_rank_of(proc) >= 0)
        return PMIXLIB_NOT_FOUND;
    int64_t ticket = take_ticket(&t);
    if (ticket < 0)
        return PMIXLIB_NOMEM;
    f.number = pmix_frame_pair(ticket, proc->rank);
    if (tell(&f) == 0)
        return PMIXLIB_SUCCESS;
    (void)give_ticket(ticket);
    return PMIXLIB_NOMEM;
}

/* The only key of the program's own, with its text; those of the library begin
 * with "pmix.". NULL: there is none, or not one text. */
static const struct pmixlib_info *only_text(const struct pmixlib_info *info,
                                            size_t n)
{
    const struct pmixlib_info *found = NULL;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(info[i].key, "pmix.", 5) == 0)
            continue;
        if (found != NULL || info[i].value.type != PMIXLIB_STRING ||
            info[i].value.data.string == NULL)
            return NULL;
        found = &info[i];
    }
    return found;
}

static int on_publish(const struct pmixlib_proc *proc,
                      const struct pmixlib_info *info,
                      size_t info_len,
                      pmixlib_op_fn done,
                      void *data)
{
    struct pmix_ticket t = {
        .kind = TICKET_DONE, .call.done = done, .data = data};
    char both[PMIXLIB_KEY_SIZE + PMI_VALUE_MAX];
    const struct pmixlib_info *i = only_text(info, info_len);
    (void)proc;
    if (i == NULL)
        return PMIXLIB_NOT_SUPPORTED;
    size_t key_len = strnlen(i->key, PMI_KVSNAME_MAX);
    size_t len = strlen(i->value.data.string);
    if (key_len == 0 || key_len == PMI_KVSNAME_MAX || len >= PMI_VALUE_MAX)
        return PMIXLIB_NOMEM;
    memcpy(both, i->key, key_len);
    both[key_len] = '\0';
    memcpy(both + key_len + 1, i->value.data.string, len);
    return ask(PMIX_PUBLISH, &t, both, key_len + 1 + len);
}

/* For lookup and unpublish. */
static int ask_key(enum pmix_kind kind, struct pmix_ticket *t, char **keys)
{
    if (keys == NULL || keys[0] == NULL || keys[1] != NULL)
        return PMIXLIB_NOT_SUPPORTED;
    size_t len = strlen(keys[0]);
    if (len == 0 || len >= PMI_KVSNAME_MAX)
        return PMIXLIB_NOT_FOUND;
    memcpy(t->key, keys[0], len + 1);
    return ask(kind, t, keys[0], len + 1);
}

static int on_lookup(const struct pmixlib_proc *proc,
                     char **keys,
                     const struct pmixlib_info *info,
                     size_t info_len,
                     pmixlib_lookup_fn done,
                     void *data)
{
    struct pmix_ticket t = {
        .kind = TICKET_FOUND, .call.found = done, .data = data};
    (void)proc;
    (void)info;
    (void)info_len;
    return ask_key(PMIX_LOOKUP, &t, keys);
}

static int on_unpublish(const struct pmixlib_proc *proc,
                        char **keys,
                        const struct pmixlib_info *info,
                        size_t info_len,
                        pmixlib_op_fn done,
                        void *data)
{
    struct pmix_ticket t = {
        .kind = TICKET_DONE, .call.done = done, .data = data};
    (void)proc;
    (void)info;
    (void)info_len;
    return ask_key(PMIX_UNPUBLISH, &t, keys);
}

static int on_spawn(const struct pmixlib_proc *proc,
                    const struct pmixlib_info *info,
                    size_t info_len,
                    const void *apps,
                    size_t n,
                    void *done,
                    void *data)
{
    (void)info;
    (void)info_len;
    (void)apps;
    (void)n;
    (void)done;
    (void)data;
    (void)tell_state(proc, PMIX_SPAWN); /* or the refusal has no word */
    return PMIXLIB_NOT_SUPPORTED;
}

static struct pmixlib_module module = {
    .client_connected = on_connected,
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence = on_fence,
    .modex = on_modex,
    .publish = on_publish,
    .lookup = on_lookup,
    .unpublish = on_unpublish,
    .spawn = on_spawn,
};

/* -- the launcher's answers, on the main thread ---------------------------- */

static void on_held(int status, char *bytes, size_t len, void *data)
{
    int64_t *number = data;
    bool ok = status == PMIXLIB_SUCCESS && len <= PMIX_BYTES_MAX;
    struct pmix_frame f = {.kind = PMIX_HELD,
                           .number = *number,
                           .rank = ok,
                           .data = bytes,
                           .len = ok ? len : 0};
    if (tell(&f) != 0)
        _exit(ddp_code_exit(DDP_E_NOMEM)); /* the round fails */
    free(number);
}

/* Waits, in the library, until that rank has put it. */
static void find_held(const struct pmix_frame *f)
{
    struct pmixlib_proc proc = {
        .rank = (uint32_t)(server.job->maps.base_rank + f->rank)};
    int64_t *number = malloc(sizeof(*number));
    if (number == NULL)
        _exit(ddp_code_exit(DDP_E_NOMEM));
    *number = f->number;
    memcpy(proc.nspace, server.job->nspace, sizeof(server.job->nspace));
    int rc = f->rank < 0 || f->rank >= server.job->nproc
                 ? PMIXLIB_NOT_FOUND
                 : server.functions.PMIx_server_dmodex_request(&proc, on_held,
                                                               number);
    if (rc != PMIXLIB_SUCCESS)
        on_held(rc, NULL, 0, number);
}

static void answer_bytes(const struct pmix_ticket *t,
                         const struct pmix_frame *f)
{
    char *copy = malloc(f->len + 1); /* the library gives it back */
    if (copy == NULL || f->rank == 0) {
        free(copy);
        t->call.bytes(PMIXLIB_UNREACHABLE, NULL, 0, t->data, NULL, NULL);
        return;
    }
    if (f->len > 0)
        memcpy(copy, f->data, f->len);
    t->call.bytes(PMIXLIB_SUCCESS, copy, f->len, t->data, free, copy);
}

static void answer_found(const struct pmix_ticket *t,
                         const struct pmix_frame *f)
{
    static struct pmixlib_pdata found;
    char text[PMI_VALUE_MAX];
    if (f->rank == 0 || f->len >= sizeof(text)) {
        t->call.found(PMIXLIB_NOT_FOUND, NULL, 0, t->data);
        return;
    }
    if (f->len > 0)
        memcpy(text, f->data, f->len);
    text[f->len] = '\0';
    memset(&found, 0, sizeof(found));
    memcpy(found.proc.nspace, server.job->nspace, sizeof(server.job->nspace));
    memcpy(found.key, t->key, sizeof(found.key));
    found.value.type = PMIXLIB_STRING;
    found.value.data.string = text;
    t->call.found(PMIXLIB_SUCCESS, &found, 1, t->data);
}

static void answer(const struct pmix_frame *f)
{
    struct pmix_ticket t = give_ticket(f->number);
    switch (t.kind) {
    case TICKET_FREE:
        return;
    case TICKET_BYTES:
        answer_bytes(&t, f);
        return;
    case TICKET_FOUND:
        answer_found(&t, f);
        return;
    case TICKET_DONE:
        t.call.done(f->rank != 0 ? PMIXLIB_SUCCESS : PMIXLIB_NOT_FOUND, t.data);
        return;
    }
    DDP_WRONG("ticket");
}

__attribute__((noreturn)) static void serve(void)
{
    struct buf in;
    struct pmix_frame f;
    size_t used;
    buf_init(&in, PMIX_FRAME_MAX + 4096);
    for (;;) {
        uint8_t *at = buf_reserve(&in, 4096);
        ssize_t n = at == NULL ? -1 : recv(server.fd, at, 4096, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0); /* the launcher has gone */
        buf_commit(&in, (size_t)n);
        while (pmix_frame_get(buf_head(&in), buf_len(&in), &f, &used) ==
               PMIX_FRAME_DONE) {
            if (f.kind == PMIX_WANTED)
                find_held(&f);
            else
                answer(&f);
            buf_take(&in, used);
        }
    }
}

/* -- the job --------------------------------------------------------------- */

static struct pmixlib_info text_info(const char *key, char *text)
{
    struct pmixlib_info i = {
        .value = {.type = PMIXLIB_STRING, .data.string = text}};
    memcpy(i.key, key, strlen(key) + 1);
    return i;
}

static struct pmixlib_info number_info(const char *key, int64_t number)
{
    struct pmixlib_info i = {
        .value = {.type = PMIXLIB_UINT32, .data.uint32 = (uint32_t)number}};
    memcpy(i.key, key, strlen(key) + 1);
    return i;
}

/* "raw:" says that the map is written out, and not compressed. */
static char *raw(const char *map)
{
    char *text = malloc(strlen(map) + 5);
    if (text == NULL)
        give_up("no memory for the map of the nodes", 0);
    memcpy(text, "raw:", 4);
    memcpy(text + 4, map, strlen(map) + 1);
    return text;
}

static void register_job(const struct pmix_functions *f, const char *nspace)
{
    const struct pmix_job *job = server.job;
    struct pmixlib_info info[] = {
        number_info("pmix.univ.size", job->world_size),
        number_info("pmix.job.size", job->world_size),
        number_info("pmix.max.size", job->world_size),
        number_info("pmix.local.size", job->nproc),
        number_info("pmix.node.size", job->nproc),
        number_info("pmix.num.nodes", job->nodes),
        number_info("pmix.job.napps", 1),
        text_info("pmix.jobid", (char *)(uintptr_t)job->nspace),
        text_info("pmix.nmap", raw(job->maps.hosts)),
        text_info("pmix.pmap", raw(job->maps.ranks)),
        text_info("pmix.lpeers", job->maps.peers),
        /* Last, since there may be none. */
        text_info("pmix.tmpdir", (char *)(uintptr_t)job->folder),
    };
    size_t n = sizeof(info) / sizeof(info[0]) - (job->folder[0] == '\0');
    int rc =
        f->PMIx_server_register_nspace(nspace, job->nproc, info, n, NULL, NULL);
    if (rc != PMIXLIB_SUCCESS && rc != PMIXLIB_DONE_AT_ONCE)
        give_up("PMIx_server_register_nspace", rc);
}

static void put_variable(struct buf *all, const char *variable)
{
    if (buf_put(all, variable, strlen(variable) + 1) != 0)
        give_up("too many variables for a worker", 0);
}

/* Open MPI 4 and 5 share memory by files in these; what the user has set
 * stays. */
static void put_folder(struct buf *all)
{
    static const char *const names[] = {
        "OMPI_MCA_btl_sm_backing_directory",
        "OMPI_MCA_btl_vader_backing_directory",
        "OMPI_MCA_osc_sm_backing_directory",
        "OMPI_MCA_osc_rdma_backing_directory",
        "OMPI_MCA_osc_ucx_backing_directory",
    };
    char variable[64 + PMIX_FOLDER_MAX];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (server.job->folder[0] == '\0' || getenv(names[i]) != NULL)
            continue;
        (void)snprintf(variable, sizeof(variable), "%s=%s", names[i],
                       server.job->folder); /* fits */
        put_variable(all, variable);
    }
}

static void tell_env(int32_t local_rank, char **env)
{
    struct buf all;
    buf_init(&all, PMIX_ENV_MAX);
    for (; env != NULL && *env != NULL; env++)
        put_variable(&all, *env);
    put_folder(&all);
    struct pmix_frame f = {.kind = PMIX_ENV,
                           .rank = local_rank,
                           .data = (const char *)buf_head(&all),
                           .len = buf_len(&all)};
    if (tell(&f) != 0)
        give_up("no memory for the variables of the workers", 0);
    buf_free(&all);
}

static void
register_worker(const struct pmix_functions *f, const char *nspace, int i)
{
    struct pmixlib_proc proc;
    char **env = NULL; /* which the library makes */
    memcpy(proc.nspace, nspace, sizeof(proc.nspace));
    proc.rank = (uint32_t)(server.job->maps.base_rank + i);
    int rc = f->PMIx_server_register_client(&proc, getuid(), getgid(), NULL,
                                            NULL, NULL);
    if (rc != PMIXLIB_SUCCESS && rc != PMIXLIB_DONE_AT_ONCE)
        give_up("PMIx_server_register_client", rc);
    rc = f->PMIx_server_setup_fork(&proc, &env);
    if (rc != PMIXLIB_SUCCESS)
        give_up("PMIx_server_setup_fork", rc);
    tell_env(i, env);
    for (char **v = env; v != NULL && *v != NULL; v++)
        free(*v);
    free(env);
}

void pmix_server_main(int fd, const struct pmix_job *job)
{
    struct pmix_functions *f = &server.functions;
    struct ddp_err err = {.text = ""};
    char nspace[PMIXLIB_NSPACE_SIZE] = "";
    server.fd = fd;
    server.job = job;
    (void)pthread_mutex_init(&server.lock, NULL); /* cannot fail */
    buf_init(&server.out, PMIX_FRAME_MAX + 4096);
    helper_take_signals();
    (void)prctl(PR_SET_NAME, "ddprun-pmix"); /* for ps(1) */
    /* Its other stores put files into TMPDIR, which stay if it is killed. */
    (void)setenv("PMIX_MCA_gds", "hash", 0);
    /* Nor shall hwloc open displays, and the GPUs that the workers need. */
    (void)setenv("HWLOC_COMPONENTS", "-gl,-cuda,-nvml,-opencl,-rsmi,-levelzero",
                 0);
    if (open_library(f, &err) != 0)
        give_up(err.text, 0);
    struct pmixlib_info host =
        text_info("pmix.hname", (char *)(uintptr_t)job->maps.host);
    int rc = f->PMIx_server_init(&module, &host, 1);
    if (rc != PMIXLIB_SUCCESS)
        give_up("PMIx_server_init", rc);
    memcpy(nspace, job->nspace, sizeof(job->nspace));
    register_job(f, nspace);
    for (int i = 0; i < job->nproc; i++)
        register_worker(f, nspace, i);
    serve();
}
