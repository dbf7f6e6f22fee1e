/*
 * A libpmix.so.2 for tests: what its clients would do is in the variable
 * FAKE_PMIX, words with blanks between them, which a thread does once all
 * clients are registered:
 *
 *     c1, f1          rank 1 calls PMIx_Init, PMIx_Finalize
 *     a1:42           it calls PMIx_Abort with 42
 *     s1              it calls PMIx_Spawn
 *     F:abc           all call PMIx_Fence; this node's data is "abc"
 *     S:abc           rank 0 and the last one only
 *     m2              someone wants what rank 2 has put: "of 2", rank 0 nothing
 *     p:n=v, l:n, u:n publishes, looks up, withdraws the name n; p:n= with NULL
 *     die             the server is killed
 *     w               waits until there is a "go" in the folder
 *
 * The server of rank 2 takes FAKE_PMIX_2 instead. Each answer is a line of the
 * file that FAKE_PMIX_OUT names. Other words are for the calls themselves:
 * "version=3.1", "init=-1" (what PMIx_server_init returns), "mute" (it never
 * does), "nspace=-1", "client=-1", "long" (too many variables).
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/mpi/pmix_abi.h"

#define DECLARE(symbol, type, arguments) type symbol arguments;
PMIXLIB_FUNCTIONS(DECLARE)
#undef DECLARE

static struct pmixlib_module module;
static struct pmixlib_proc last;
static char nspace[PMIXLIB_NSPACE_SIZE], told[3][256];
static int clients, registered;

/* What is behind `name` in FAKE_PMIX; NULL: it is not there. */
static const char *word(const char *name)
{
    const char *all = getenv("FAKE_PMIX");
    return all == NULL ? NULL : strstr(all, name);
}

static int number(const char *name)
{
    const char *at = word(name);
    return at == NULL ? 0 : atoi(at + strlen(name));
}

static void note(const char *what, int status, const char *data, size_t len)
{
    FILE *f = fopen(getenv("FAKE_PMIX_OUT"), "ae");
    if (f == NULL)
        abort();
    fprintf(f, "%s %d %.*s\n", what, status, (int)len, data);
    if (fclose(f) != 0)
        abort();
}

static void on_op(int status, void *data)
{
    note(data, status, "", 0);
}

static void on_bytes(int status,
                     const char *bytes,
                     size_t len,
                     void *data,
                     pmixlib_release_fn release,
                     void *release_data)
{
    note(data, status, bytes == NULL ? "" : bytes, len);
    if (release != NULL)
        release(release_data);
}

static void
on_found(int status, struct pmixlib_pdata *found, size_t n, void *data)
{
    const char *text = n == 1 ? found->value.data.string : "";
    note(data, status, text, strlen(text));
}

static struct pmixlib_proc proc_of(const char *digits)
{
    struct pmixlib_proc p = last;
    p.rank = (uint32_t)atoi(digits);
    return p;
}

static void fence(const struct pmixlib_proc *procs, size_t n, char *data)
{
    static char name[] = "fence";
    int rc =
        module.fence(procs, n, NULL, 0, data, strlen(data), on_bytes, name);
    if (rc != PMIXLIB_SUCCESS)
        note(name, rc, "", 0);
}

static void modex(const struct pmixlib_proc *proc)
{
    static char name[] = "modex";
    int rc = module.modex(proc, NULL, 0, on_bytes, name);
    if (rc != PMIXLIB_SUCCESS)
        note(name, rc, "", 0);
}

static void publish(char *pair)
{
    static char name[] = "publish";
    struct pmixlib_info info[2] = {{.key = "pmix.range"}};
    char *value = strchr(pair, '=');
    memcpy(info[1].key, pair, (size_t)(value - pair));
    info[1].value.type = PMIXLIB_STRING;
    info[1].value.data.string = value[1] == '\0' ? NULL : value + 1;
    int rc = module.publish(&last, info, 2, on_op, name);
    if (rc != PMIXLIB_SUCCESS)
        note(name, rc, "", 0);
}

static void act(char *w)
{
    static char lookup[] = "lookup", unpublish[] = "unpublish";
    struct pmixlib_proc p = proc_of(w + 1), all = proc_of("0");
    struct pmixlib_proc two[2] = {all, last};
    char *keys[2] = {w + 2, NULL};
    all.rank = PMIXLIB_ALL_RANKS;
    if (strcmp(w, "die") == 0)
        (void)raise(SIGKILL);
    else if (w[0] == 'w')
        while (access("go", F_OK) != 0)
            (void)usleep(1000);
    else if (w[0] == 'c')
        (void)module.client_connected(&p, NULL, NULL, NULL);
    else if (w[0] == 'f')
        (void)module.client_finalized(&p, NULL, NULL, NULL);
    else if (w[0] == 'a')
        (void)module.abort(&p, NULL, atoi(strchr(w, ':') + 1), NULL, NULL, 0,
                           NULL, NULL);
    else if (w[0] == 's')
        (void)module.spawn(&p, NULL, 0, NULL, 0, NULL, NULL);
    else if (w[0] == 'F')
        fence(&all, 1, w + 2);
    else if (w[0] == 'S')
        fence(two, 2, w + 2);
    else if (w[0] == 'm')
        modex(&p);
    else if (w[0] == 'p')
        publish(w + 2);
    else if (w[0] == 'l')
        (void)module.lookup(&last, keys, NULL, 0, on_found, lookup);
    else if (w[0] == 'u')
        (void)module.unpublish(&last, keys, NULL, 0, on_op, unpublish);
}

static void *run(void *arg)
{
    char *all = strdup(arg), *rest = NULL;
    for (char *w = strtok_r(all, " ", &rest); w != NULL;
         w = strtok_r(NULL, " ", &rest))
        if (strchr(w, '=') == NULL || w[1] == ':')
            act(w);
    free(all);
    return NULL;
}

const char *PMIx_Get_version(void)
{
    const char *at = word("version=");
    return at == NULL ? "Fake 4.2.0" : at + strlen("version=");
}

int PMIx_server_init(struct pmixlib_module *m,
                     struct pmixlib_info *info,
                     size_t n)
{
    module = *m;
    while (word("mute") != NULL)
        (void)pause();
    return n == 1 && strcmp(info[0].key, "pmix.hname") == 0 ? number("init=")
                                                            : -27;
}

int PMIx_server_register_nspace(const char *name,
                                int workers,
                                struct pmixlib_info *info,
                                size_t n,
                                pmixlib_op_fn done,
                                void *data)
{
    static const char *const keys[] = {"pmix.nmap", "pmix.pmap", "pmix.tmpdir"};
    (void)done;
    (void)data;
    clients = workers;
    memcpy(nspace, name, sizeof(nspace));
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            if (strcmp(info[i].key, keys[k]) == 0)
                (void)snprintf(told[k], sizeof(told[k]), "%s",
                               info[i].value.data.string);
    return number("nspace=");
}

int PMIx_server_register_client(const struct pmixlib_proc *proc,
                                uid_t uid,
                                gid_t gid,
                                void *object,
                                pmixlib_op_fn done,
                                void *data)
{
    (void)object;
    (void)done;
    (void)data;
    last = *proc;
    return uid == getuid() && gid == getgid() ? number("client=") : -27;
}

static void add(char **env, const char *name, const char *text)
{
    char line[20000];
    (void)snprintf(line, sizeof(line), "%s=%s", name, text);
    while (*env != NULL)
        env++;
    *env = strdup(line);
}

int PMIx_server_setup_fork(const struct pmixlib_proc *proc, char ***env)
{
    static char fill[18000];
    pthread_t thread;
    char rank[16];
    (void)snprintf(rank, sizeof(rank), "%u", (unsigned)proc->rank);
    if ((*env = calloc(8, sizeof(**env))) == NULL)
        return PMIXLIB_NOMEM;
    add(*env, "PMIX_RANK", rank);
    add(*env, "PMIX_NAMESPACE", proc->nspace);
    add(*env, "FAKE_NODES", told[0]);
    add(*env, "FAKE_RANKS", told[1]);
    add(*env, "FAKE_FOLDER", told[2]);
    if (word("long") != NULL)
        memset(fill, 'x', sizeof(fill) - 1);
    add(*env, "FAKE_FILL", fill);
    char *script = getenv(proc->rank == 2 ? "FAKE_PMIX_2" : "FAKE_PMIX");
    if (++registered == clients && script != NULL &&
        pthread_create(&thread, NULL, run, script) != 0)
        return -1;
    return 0;
}

int PMIx_server_dmodex_request(const struct pmixlib_proc *proc,
                               pmixlib_held_fn done,
                               void *data)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "of %u", (unsigned)proc->rank);
    if (proc->rank == 0 || strcmp(proc->nspace, nspace) != 0)
        return PMIXLIB_NOT_FOUND;
    done(PMIXLIB_SUCCESS, text, (size_t)n, data);
    return PMIXLIB_SUCCESS;
}
