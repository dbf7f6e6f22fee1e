/*
 * From parsed options to a struct conf that nothing changes any more.
 *
 * Each part below checks its options and fills its fields. The order matters in
 * three places: the number of nodes decides which options about the endpoint
 * are needed, the backend decides what a node rank and some keys of --rdzv_conf
 * mean, and the program is looked up last, so that a wrong option is reported
 * before a missing file.
 *
 * The first error ends it: conf_init() frees what was made and returns the
 * sentence for the user (the option, its value, what is allowed). An option
 * that has no effect in its combination is no error, since torchrun's job
 * scripts are full of them: it becomes a note, which is logged once.
 *
 * With --preflight a problem of this machine (no such program, no GPU) does not
 * end this node alone, where nobody would look for it: note_problem() keeps the
 * sentence, and the preflight reports it beside those of the other nodes.
 */
#include "launcher/conf/conf.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"
#include "launcher/proc/memory.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"

#define HANG_MOST_US   (86400 * MONO_S)
#define DEATH_GRACE_US (500 * MONO_MS)

/* -- nodes and workers ----------------------------------------------------- */

static int
check_nnodes(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_nnodes);
    const char *colon = strchr(text, ':');
    char min_text[16] = "";
    int64_t min = 0, max = 0;
    bool good = true;
    if (colon != NULL) {
        size_t len = (size_t)(colon - text);
        good = len < sizeof(min_text);
        memcpy(min_text, text, good ? len : 0);
        good = good && opts_read_int(min_text, 1, CONF_NNODES_MAX, &min);
    }
    good = good && opts_read_int(colon != NULL ? colon + 1 : text, 1,
                                 CONF_NNODES_MAX, &max);
    if (!good) {
        ddp_err_set(err, DDP_E_USAGE,
                    "must be N or MIN:MAX, whole numbers from 1 to %d",
                    CONF_NNODES_MAX);
        return conf_blame(o, OPTIONS_nnodes, err);
    }
    c->nnodes_max = (int)max;
    c->nnodes_min = (int)(colon != NULL ? min : max);
    if (c->nnodes_min > c->nnodes_max) {
        ddp_err_set(err, DDP_E_USAGE, "MIN must not be more than MAX");
        return conf_blame(o, OPTIONS_nnodes, err);
    }
    return 0;
}

/* -- names ----------------------------------------------------------------- */

/* Copies a name that will stand in logs and in the names of files. */
static int copy_name(const struct opts *o,
                     int id,
                     const char *forbidden,
                     char *out,
                     size_t cap,
                     struct ddp_err *err)
{
    const char *text = opts_text(o, id);
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)text[i];
        if (ch >= ' ' && ch != 0x7f && strchr(forbidden, ch) == NULL)
            continue;
        ddp_err_set(err, DDP_E_USAGE, "must have only printable characters%s%s",
                    forbidden[0] != '\0' ? ", and no " : "", forbidden);
        return conf_blame(o, id, err);
    }
    if (len >= cap) {
        ddp_err_set(err, DDP_E_USAGE, "must be at most %zu bytes long",
                    cap - 1);
        return conf_blame(o, id, err);
    }
    memcpy(out, text, len + 1);
    return 0;
}

static int
check_names(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (copy_name(o, OPTIONS_role, "", c->role, sizeof(c->role), err) < 0 ||
        copy_name(o, OPTIONS_rdzv_id, "/", c->run_id, sizeof(c->run_id), err) <
            0)
        return -1;
    bool alone = opts_number(o, OPTIONS_standalone) != 0;
    if (c->run_id[0] != '\0' && !(alone && !opts_given(o, OPTIONS_rdzv_id)))
        return 0;
    /* A random name in the form of a UUID, as torchrun makes one. */
    char id[RNG_ID_LEN + 1];
    rng_id(id);
    _Static_assert(RNG_ID_LEN == 32, "five parts of a UUID");
    (void)snprintf(c->run_id, sizeof(c->run_id), "%.8s-%.4s-%.4s-%.4s-%.12s",
                   id, id + 8, id + 12, id + 16, id + 20); /* 36 letters */
    if (!alone)
        conf_note(c, "--rdzv_id is empty: the run gets the name %s", c->run_id);
    return 0;
}

/* -- the rest of the options ----------------------------------------------- */

static int
check_log_dir(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (!conf_said(o, OPTIONS_log_dir))
        return 0;
    const char *dir = opts_text(o, OPTIONS_log_dir);
    size_t len = strlen(dir);
    struct stat st;
    /* The names of run, attempt, rank and file are appended to it. */
    if (len >= sizeof(c->log_dir) - 512) {
        return ddp_err_set(err, DDP_E_USAGE,
                           "--log_dir: must be at most %zu bytes long",
                           sizeof(c->log_dir) - 513);
    }
    if (strcmp(dir, "/dev/null") != 0 && stat(dir, &st) == 0 &&
        !S_ISDIR(st.st_mode)) {
        ddp_err_set(err, DDP_E_USAGE, "must be a folder, and this is a file");
        return conf_blame(o, OPTIONS_log_dir, err);
    }
    memcpy(c->log_dir, dir, len + 1);
    return 0;
}

/* "90", "90s", "10m", "1.5h" or "7d" in microseconds. */
static bool read_window(const char *text, int64_t *us)
{
    static const char letters[] = "smhd";
    static const int64_t units[] = {1, 60, 3600, 86400};
    char number[32];
    size_t len = strlen(text);
    int64_t unit = 1;
    if (len == 0 || len >= sizeof(number))
        return false;
    const char *letter = strchr(letters, text[len - 1]);
    if (letter != NULL) {
        unit = units[letter - letters];
        len--;
    }
    memcpy(number, text, len);
    number[len] = '\0';
    if (!opts_read_seconds(number, MONO_MS, CONF_YEAR_US / unit, us))
        return false;
    *us *= unit;
    return true;
}

static int
check_max_restarts(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_max_restarts);
    const char *slash = strchr(text, '/');
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    char number[16] = "";
    int64_t n = 0;
    int64_t max = slash != NULL ? CONF_WINDOW_RESTARTS_MAX : 1000000;
    bool good =
        len < sizeof(number) && strlen(text) < sizeof(c->max_restarts_text);
    if (good) {
        memcpy(number, text, len);
        (void)snprintf(c->max_restarts_text, /* it was measured */
                       sizeof(c->max_restarts_text), "%s", text);
    }
    good = good && opts_read_int(number, 0, max, &n) &&
           (slash == NULL || read_window(slash + 1, &c->restart_window_us));
    c->max_restarts = (int)n;
    if (good)
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "must be a whole number from 0 to 1000000, or N/WINDOW such as "
                "3/1h, with N up to %d and a window in s, m, h or d",
                CONF_WINDOW_RESTARTS_MAX);
    return conf_blame(o, OPTIONS_max_restarts, err);
}

#define COOLDOWN_US (600 * MONO_S)

/* "3" or "3/30m". */
static int
check_strikes(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_node_strikes);
    size_t len = strcspn(text, "/");
    char number[16] = "";
    int64_t n = 0;
    c->cooldown_us = COOLDOWN_US;
    bool good = len < sizeof(number);
    if (good)
        memcpy(number, text, len);
    good = good && opts_read_int(number, 0, 1000000, &n) &&
           (text[len] == '\0' || read_window(text + len + 1, &c->cooldown_us));
    c->node_strikes = (int)n;
    if (good)
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "must be a whole number from 0 to 1000000, or K/COOLDOWN such "
                "as 3/30m, with a cool-down in s, m, h or d");
    return conf_blame(o, OPTIONS_node_strikes, err);
}

/* "0", "512M", "4G" or "20%" of the memory that there is, in bytes. */
static bool read_memory(const char *text, uint64_t *bytes)
{
    static const char letters[] = "KMGT%";
    char number[24];
    size_t len = strlen(text);
    int64_t n;
    if (len == 0 || len >= sizeof(number))
        return false;
    const char *letter = strchr(letters, text[len - 1]);
    len -= letter != NULL ? 1 : 0;
    memcpy(number, text, len);
    number[len] = '\0';
    bool part = letter != NULL && *letter == '%';
    int shift = letter == NULL || part ? 0 : 10 * (int)(letter - letters + 1);
    if (!opts_read_int(number, 0, part ? 90 : INT64_C(1) << (50 - shift), &n))
        return false;
    *bytes = part ? (uint64_t)memory_all() / 100 * (uint64_t)n
                  : (uint64_t)n << shift;
    return true;
}

static int
check_memory(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (read_memory(opts_text(o, OPTIONS_snapshot_memory), &c->snapshot_memory))
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "must be 0, a size such as 512M or 4G, or a part of the memory "
                "from 0%% to 90%%");
    return conf_blame(o, OPTIONS_snapshot_memory, err);
}

/* An empty value means no token only if it comes from the environment. On the
 * command line it is an error, such as an unset variable in a job script:
 * taking it for "no token" would open the port to anybody. */
static int
check_token(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *path = opts_text(o, OPTIONS_rdzv_token_file);
    if (path == NULL ||
        (path[0] == '\0' &&
         o->value[OPTIONS_rdzv_token_file].source == OPTS_FROM_ENV))
        return 0;
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(c->token_file)) {
        ddp_err_set(err, DDP_E_USAGE, "must be the name of a file");
        return conf_blame(o, OPTIONS_rdzv_token_file, err);
    }
    memcpy(c->token_file, path, len + 1);
    return 0;
}

/* Unknown names are ignored, as torchrun does. */
static int
check_signals(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_signals_to_handle);
    char odd[120], name[64];
    c->signals = signals_read(text, odd, sizeof(odd));
    if (c->signals == 0 || strlen(text) >= sizeof(c->signals_text)) {
        ddp_err_set(err, DDP_E_USAGE,
                    "must be a list of signals that can be handled, such as "
                    "SIGTERM,SIGINT,SIGUSR1");
        return conf_blame(o, OPTIONS_signals_to_handle, err);
    }
    if (odd[0] != '\0')
        conf_note(c, "%s: ignoring %s, which cannot be handled",
                  opts_where(o, OPTIONS_signals_to_handle, name), odd);
    memcpy(c->signals_text, text, strlen(text) + 1);
    return 0;
}

/* "SECONDS[,BEAT]"; 0 is off. */
static bool read_limits(const char *text, struct hang_limits *l)
{
    char first[32] = "";
    size_t len = strcspn(text, ",");
    const char *beat = text[len] == ',' ? text + len + 1 : "0";
    if (len >= sizeof(first))
        return false;
    memcpy(first, text, len);
    if (!opts_read_seconds(first, 0, HANG_MOST_US, &l->idle_us) ||
        !opts_read_seconds(beat, 0, HANG_MOST_US, &l->beat_us))
        return false;
    l->how = l->idle_us > 0 || l->beat_us > 0 ? CONF_HANG_FIXED : CONF_HANG_OFF;
    l->idle_us = l->idle_us > 0 ? l->idle_us : MONO_NEVER;
    l->beat_us = l->beat_us > 0 ? l->beat_us : MONO_NEVER;
    return true;
}

/* torch 2.15 ends the job, without a restart, if a worker is in state D for
 * this time (local_elastic_agent.py). Values of 0 or less are off there. */
static void read_unkilled(struct conf *c)
{
    static const char name[] = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT";
    const char *text = getenv(name);
    int64_t us = 0;
    if (text != NULL &&
        !opts_read_seconds(text, -HANG_MOST_US, HANG_MOST_US, &us))
        conf_note(c, "%s=%.40s is ignored: it is no number of seconds", name,
                  text);
    c->unkilled_us = us > 0 ? us : MONO_NEVER;
}

static int check_hang(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_hang_timeout);
    read_unkilled(c);
    c->hang = (struct hang_limits){
        .how = CONF_HANG_TELL, .idle_us = MONO_NEVER, .beat_us = MONO_NEVER};
    if (strcmp(text, "tell") == 0)
        return 0;
    c->hang.how = CONF_HANG_AUTO;
    if (strcmp(text, "auto") == 0 || read_limits(text, &c->hang))
        return 0;
    (void)ddp_err_set(err, DDP_E_USAGE,
                      "must be tell, auto, a number of seconds from 0 to "
                      "86400, or two: without progress, and without a beat "
                      "(300,60)");
    return conf_blame(o, OPTIONS_hang_timeout, err);
}

/* "gpu", "gpu,COMMAND" or "COMMAND". */
static int
check_health(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    char *text = c->health_check;
    if (conf_command(o, OPTIONS_health_check, text, sizeof(c->health_check),
                     &c->health_timeout_us, err) < 0)
        return -1;
    size_t word = strcspn(text, ",");
    c->gpu_health_check = word == 3 && strncmp(text, "gpu", word) == 0;
    if (c->gpu_health_check) {
        word += text[word] == ',';
        memmove(text, text + word, strlen(text + word) + 1);
    }
    return 0;
}

static int check_word(const struct opts *o,
                      int id,
                      const char *allowed,
                      const char *const words[],
                      struct ddp_err *err)
{
    if (conf_one_of(opts_text(o, id), words))
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "must be %s", allowed);
    return conf_blame(o, id, err);
}

/* What is in it is checked by main (http/http_hosts). */
static int
check_http_hosts(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_http_hosts);
    if (text == NULL)
        return 0;
    if (text[0] == '\0' || strlen(text) >= sizeof(c->http_hosts)) {
        ddp_err_set(err, DDP_E_USAGE, "must be a list of host names");
        return conf_blame(o, OPTIONS_http_hosts, err);
    }
    memcpy(c->http_hosts, text, strlen(text) + 1);
    return 0;
}

static int
check_store_allow(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_worker_store_allow);
    if (text == NULL)
        return 0;
    if (text[0] == '\0' || strlen(text) >= sizeof(c->store_allow)) {
        ddp_err_set(
            err, DDP_E_USAGE,
            "must be nodes, networks such as 10.1.0.0/16, or a list of both");
        return conf_blame(o, OPTIONS_worker_store_allow, err);
    }
    if (!c->worker_store)
        conf_note(c, "--worker_store_allow is ignored: with "
                     "--worker_store=none ddprun serves no store");
    else
        memcpy(c->store_allow, text, strlen(text) + 1);
    return 0;
}

static void check_graces(struct conf *c, const struct opts *o)
{
    char name[64];
    c->shutdown_timeout_us = opts_number(o, OPTIONS_shutdown_timeout);
    c->failure_grace_us = c->death_grace_us =
        opts_number(o, OPTIONS_failure_grace);
    if (!opts_given(o, OPTIONS_failure_grace))
        c->death_grace_us = DEATH_GRACE_US;
    if (opts_given(o, OPTIONS_failure_grace) &&
        c->failure_grace_us > c->shutdown_timeout_us)
        conf_note(c,
                  "%s=%.12g: it cannot be longer than --shutdown_timeout, so "
                  "that workers get %.12g s after a failure",
                  opts_where(o, OPTIONS_failure_grace, name),
                  (double)c->failure_grace_us / MONO_S,
                  (double)c->shutdown_timeout_us / MONO_S);
}

/* NAME.NAME,NAME: what Python can import by its name. */
static bool is_module_list(const char *text)
{
    bool begins = true;
    for (; *text != '\0'; text++) {
        bool letter = isalpha((unsigned char)*text) || *text == '_';
        if (*text == '.' || *text == ',') {
            if (begins)
                return false;
            begins = true;
        } else if (letter || (!begins && isdigit((unsigned char)*text))) {
            begins = false;
        } else {
            return false;
        }
    }
    return !begins;
}

static int
check_standby(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *text = opts_text(o, OPTIONS_standby);
    c->standby[0] = '\0';
    /* Without a restart there is nothing to save. */
    bool restarts = c->max_restarts > 0 || c->nnodes_min < c->nnodes_max;
    if (strcasecmp(text, "none") == 0)
        return 0;
    if (strcasecmp(text, "auto") == 0) {
        (void)strcpy(c->standby, restarts ? "auto" : ""); /* fits */
        return 0;
    }
    if (!is_module_list(text) || strlen(text) >= sizeof(c->standby)) {
        ddp_err_set(err, DDP_E_USAGE,
                    "must be auto, none or names of modules, such as "
                    "numpy,torch.nn");
        return conf_blame(o, OPTIONS_standby, err);
    }
    memcpy(c->standby, text, strlen(text) + 1);
    return 0;
}

/* After the number of nodes, the workers' store and the standbys. A preflight's
 * probes are no MPI programs. */
static int check_mpi(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    static const char *const kinds[] = {[CONF_MPI_NONE] = "none",
                                        [CONF_MPI_PMI1] = "pmi1",
                                        [CONF_MPI_PMIX] = "pmix",
                                        [CONF_MPI_AUTO] = "auto",
                                        NULL};
    if (check_word(o, OPTIONS_mpi, "none, pmi1, pmix or auto", kinds, err) < 0)
        return -1;
    int kind = CONF_MPI_NONE;
    while (strcasecmp(opts_text(o, OPTIONS_mpi), kinds[kind]) != 0)
        kind++;
    bool wanted = kind != CONF_MPI_NONE;
    if (wanted && c->nnodes_max > 1 && !c->worker_store) {
        ddp_err_set(err, DDP_E_USAGE,
                    "needs the workers' store on several nodes: leave out "
                    "--worker_store=none");
        return conf_blame(o, OPTIONS_mpi, err);
    }
    if (wanted && c->standby[0] != '\0')
        conf_note(c, "--standby has no effect with --mpi: each worker is "
                     "started as usual");
    bool probes = opts_number(o, OPTIONS_preflight) != 0;
    c->mpi = probes ? CONF_MPI_NONE : (enum conf_mpi)kind;
    if (wanted)
        c->standby[0] = '\0';
    return 0;
}

static int check_rest(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    static const char *const stores[] = {"agent", "none", NULL};
    static const char *const cgroups[] = {"auto", "none", NULL};
    static const char *const methods[] = {"spawn", "fork", "forkserver", NULL};
    static const int idle[] = {OPTIONS_start_method, OPTIONS_event_log_handler,
                               OPTIONS_logs_specs};
    c->crash_loop = (int)opts_number(o, OPTIONS_crash_loop);
    c->scale_interval_us = opts_number(o, OPTIONS_scale_interval);
    check_graces(c, o);
    if (check_max_restarts(c, o, err) < 0 || check_strikes(c, o, err) < 0 ||
        check_log_dir(c, o, err) < 0 || check_token(c, o, err) < 0 ||
        check_signals(c, o, err) < 0 || conf_leave(c, o, err) < 0 ||
        check_memory(c, o, err) < 0 || check_health(c, o, err) < 0 ||
        check_hang(c, o, err) < 0 || check_standby(c, o, err) < 0 ||
        check_word(o, OPTIONS_worker_store, "agent or none", stores, err) < 0 ||
        check_word(o, OPTIONS_cgroup, "auto or none", cgroups, err) < 0 ||
        check_word(o, OPTIONS_start_method, "spawn, fork or forkserver",
                   methods, err) < 0)
        return -1;
    c->cgroup = strcasecmp(opts_text(o, OPTIONS_cgroup), "auto") == 0;
    c->worker_store =
        strcasecmp(opts_text(o, OPTIONS_worker_store), "agent") == 0;
    if (check_mpi(c, o, err) < 0)
        return -1;
    if (check_store_allow(c, o, err) < 0 || check_http_hosts(c, o, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
        char name[64];
        if (opts_given(o, idle[i]))
            conf_note(c, "%s is ignored: it has a meaning in Python only",
                      opts_where(o, idle[i], name));
    }
    return 0;
}

/* -- preflight ------------------------------------------------------------- */

/* With --preflight, errors of this machine are kept, and reported together with
 * those of the other nodes. A front end does not run the program itself. */
static int note_problem(struct conf *c, int rc, struct ddp_err *err)
{
    if (rc == 0 || (!c->preflight && c->front.kind == CONF_FRONT_NONE) ||
        (err->code != DDP_E_CONFIG && err->code != DDP_E_NOTFOUND &&
         err->code != DDP_E_NOTEXEC && err->code != DDP_E_NOINPUT))
        return rc;
    if (c->preflight_problem[0] == '\0')
        (void)snprintf(c->preflight_problem, sizeof(c->preflight_problem),
                       "%.300s", err->text);
    if (c->nproc == 0)
        c->nproc = 1; /* how many there will be is not known here */
    return 0;
}

static int
become_preflight(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (opts_number(o, OPTIONS_dry_run) != 0)
        return ddp_err_set(
            err, DDP_E_USAGE,
            "--preflight cannot be used with --dry_run: a preflight "
            "connects to the other nodes, a dry run to none");
    /* A name of its own, so that its nodes never join the real run. A long name
     * is cut; names that differ only behind the cut give the same preflight. */
    static const char suffix[] = PREFLIGHT_SUFFIX;
    size_t len = strnlen(c->run_id, sizeof(c->run_id) - sizeof(suffix));
    memcpy(c->run_id + len, suffix, sizeof(suffix));
    c->nproc = 1;
    c->gpus[0] = '\0';
    c->hip = false;
    c->virtual_local_rank = false;
    c->numa_binding = TOPOLOGY_NONE;
    c->endpoints_len = 1;
    c->max_restarts = 1; /* launcher/preflight/preflight.h says why */
    c->crash_loop = 0;
    c->restart_window_us = 0;
    (void)snprintf(c->max_restarts_text, sizeof(c->max_restarts_text), "1");
    c->worker_store = true;
    c->hang.how = CONF_HANG_OFF;  /* it has own limits */
    conf_output_free(&c->output); /* its tables go to our own stdout */
    memset(&c->output, 0, sizeof(c->output));
    return conf_probe(c, err);
}

/* -- what is allowed, and probably a mistake ------------------------------- */

static void note_streams(struct conf *c, const struct opts *o, int id)
{
    char name[64];
    if (!conf_output_is_for(opts_text(o, id), c->nproc))
        conf_note(c,
                  "%s=%.60s has no effect here: the local ranks of this node "
                  "are 0 to %d",
                  opts_where(o, id, name), opts_text(o, id), c->nproc - 1);
}

static void note_prefix(struct conf *c, const struct opts *o)
{
    const char *at;
    char name[64] = CONF_PREFIX_VARIABLE;
    size_t len = conf_output_odd_name(c->output.prefix, &at);
#define NAME(name) " ${" #name "}"
    if (len > 0)
        conf_note(c, "%s: %.*s stays as it is; these are replaced:%s",
                  conf_said(o, OPTIONS_log_line_prefix_template)
                      ? opts_where(o, OPTIONS_log_line_prefix_template, name)
                      : name,
                  (int)(len < 60 ? len : 60), at, CONF_PREFIX_NAMES(NAME));
#undef NAME
}

/* Of Python's logging; ddprun knows debug only. */
static void note_level(struct conf *c)
{
    static const char *const levels[] = {"critical", "fatal",  "error",
                                         "warning",  "warn",   "info",
                                         "debug",    "notset", NULL};
    const char *level = getenv("LOGLEVEL");
    if (level != NULL && level[strspn(level, "0123456789")] != '\0' &&
        !conf_one_of(level, levels))
        conf_note(c,
                  "LOGLEVEL=%.60s is no level and is ignored; debug shows what "
                  "ddprun does, step by step",
                  level);
}

static void note_output(struct conf *c, const struct opts *o)
{
    const struct conf_output *out = &c->output;
    bool shown = !out->some_ranks;
    for (int i = 0; i < c->nproc; i++)
        shown |= out->shown[i];
    if (!shown)
        conf_note(c,
                  "--local_ranks_filter=%.60s shows nothing here: the local "
                  "ranks of this node are 0 to %d",
                  opts_text(o, OPTIONS_local_ranks_filter), c->nproc - 1);
    if (out->rotate_size > 0 && !out->files)
        conf_note(c, "--log_rotate has no effect: no output goes to a file "
                     "(see --redirects and --tee)");
    note_streams(c, o, OPTIONS_redirects);
    note_streams(c, o, OPTIONS_tee);
    note_prefix(c, o);
}

/* -- all of it ------------------------------------------------------------- */

int conf_init(struct conf *c,
              const struct opts *said,
              char *const program[],
              struct ddp_err *err)
{
    struct opts with = *said, *o = &with;
    ddp_assert(o->ask == OPTS_ASK_RUN && o->table == &options_table);
    memset(c, 0, sizeof(*c));
    c->preflight = opts_number(o, OPTIONS_preflight) != 0;
    bool programless = c->preflight && program[0] == NULL;
    if (conf_cluster(c, o, err) < 0 || check_nnodes(c, o, err) < 0 ||
        note_problem(c, conf_place(c, o, err), err) < 0 ||
        check_names(c, o, err) < 0 || conf_check_rdzv_conf(o, err) < 0 ||
        conf_meeting(c, o, err) < 0 || conf_rdzv_conf(c, o, err) < 0 ||
        check_rest(c, o, err) < 0 ||
        conf_output_init(&c->output, o, c->nproc, err) < 0 ||
        (!programless &&
         note_problem(c, conf_program(c, o, program, err), err) < 0) ||
        (c->preflight && become_preflight(c, o, err) < 0)) {
        conf_free(c);
        return -1;
    }
    note_level(c);
    if (!c->preflight)
        note_output(c, o);
    return 0;
}

void conf_free(struct conf *c)
{
    conf_free_program(c);
    free(c->seats);
    hostfile_free(&c->front.hosts);
    conf_output_free(&c->output);
    memset(c, 0, sizeof(*c));
}

bool conf_shares_port(const struct conf *c)
{
    if (!c->worker_store || c->is_host == 0)
        return false;
    return c->store_port == 0 ? c->backend == CONF_STATIC
                              : c->store_port == c->endpoints[0].port;
}
