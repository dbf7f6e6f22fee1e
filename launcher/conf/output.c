/*
 * Options about output: -r and -t, --stdout, filters, rotation, the prefix,
 * --report and --events. What they say about one stream of one worker becomes a
 * struct conf_plan, which is all that the code that makes the pipes looks at.
 */
#include "launcher/conf/output.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"

#define TEMPLATE_NORMAL "[${role_name}${local_rank}]:"
#define ROTATE_MIN      1024
#define ROTATE_MAX      (INT64_C(1) << 50)
#define KEEP_NORMAL     5
#define KEEP_MAX        1000

/* Reads a whole number at *p and moves *p behind it. -1: there is none, or it
 * is more than `max`. */
static int read_number(const char **p, int max)
{
    long n = 0;
    if (!isdigit((unsigned char)**p))
        return -1;
    for (; isdigit((unsigned char)**p); ++*p) {
        n = n * 10 + (**p - '0');
        if (n > max)
            return -1;
    }
    return (int)n;
}

/* -- which streams --------------------------------------------------------- */

/* "0".."3" for all ranks, or "RANK:0..3,..." for some (torchrun: Std). A rank
 * that this node does not have is no error, since all nodes of a job are
 * started with the same line. */
static bool read_streams(const char *text, int nproc, uint8_t *streams)
{
    const char *p = text;
    int what = read_number(&p, 3);
    if (what >= 0 && *p == '\0') {
        memset(streams, what, (size_t)nproc);
        return true;
    }
    for (p = text;; p++) {
        int rank = read_number(&p, 1000000);
        if (rank < 0 || *p++ != ':')
            return false;
        what = read_number(&p, 3);
        if (what < 0 || (*p != '\0' && *p != ','))
            return false;
        if (rank < nproc)
            streams[rank] = (uint8_t)what;
        if (*p == '\0')
            return true;
    }
}

static int check_streams(const struct opts *o,
                         int id,
                         int nproc,
                         uint8_t *streams,
                         struct ddp_err *err)
{
    const char *text = opts_text(o, id);
    if (text[0] == '\0' || read_streams(text, nproc, streams))
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or a "
                "list for some local ranks, such as 0:3,1:2");
    return conf_blame(o, id, err);
}

static int check_shown(struct conf_output *c,
                       const struct opts *o,
                       int nproc,
                       struct ddp_err *err)
{
    const char *p = opts_text(o, OPTIONS_local_ranks_filter);
    c->some_ranks = p[0] != '\0';
    for (; c->some_ranks; p++) {
        while (*p == ' ')
            p++;
        int rank = read_number(&p, 1000000);
        if (rank >= 0 && rank < nproc)
            c->shown[rank] = true;
        if (rank < 0 || (*p != '\0' && *p != ',')) {
            ddp_err_set(err, DDP_E_USAGE,
                        "must be a list of local ranks, such as 0,1");
            return conf_blame(o, OPTIONS_local_ranks_filter, err);
        }
        if (*p == '\0')
            break;
    }
    return 0;
}

static int
check_stdout(struct conf_output *c, const struct opts *o, struct ddp_err *err)
{
    static const char *const words[] = {"lines", "inherit", NULL};
    const char *text = opts_text(o, OPTIONS_stdout);
    if (!conf_one_of(text, words)) {
        ddp_err_set(err, DDP_E_USAGE, "must be lines or inherit");
        return conf_blame(o, OPTIONS_stdout, err);
    }
    c->inherits = strcasecmp(text, "inherit") == 0;
    return 0;
}

/* -- filters --------------------------------------------------------------- */

static bool add_filter(struct conf_filters *f, const char *text, size_t len)
{
    if (len == 0)
        return true;
    f->text[f->len] = strndup(text, len);
    if (f->text[f->len] == NULL)
        return false;
    f->len++;
    return true;
}

/* Commas between; two commas are one that belongs to the text. */
static int check_filters(struct conf_filters *f,
                         const struct opts *o,
                         int id,
                         struct ddp_err *err)
{
    const char *p = opts_text(o, id);
    char text[1024];
    size_t len = 0;
    for (;; p++) {
        bool comma = p[0] == ',' && p[1] == ',';
        if (comma || (*p != ',' && *p != '\0')) {
            if (len == sizeof(text))
                break;
            text[len++] = *p;
            p += comma;
            continue;
        }
        if (f->len == CONF_OUTPUT_FILTERS)
            break;
        if (!add_filter(f, text, len))
            return ddp_err_set(err, DDP_E_NOMEM, "no memory for a filter");
        len = 0;
        if (*p == '\0')
            return 0;
    }
    ddp_err_set(
        err, DDP_E_USAGE,
        "must be at most %d texts of at most %zu bytes, with commas between",
        CONF_OUTPUT_FILTERS, sizeof(text));
    return conf_blame(o, id, err);
}

/* -- files ----------------------------------------------------------------- */

static bool read_size(const char **p, int64_t *size)
{
    static const char units[] = "KMGT";
    int64_t n = 0;
    if (!isdigit((unsigned char)**p))
        return false;
    for (; isdigit((unsigned char)**p) && n < ROTATE_MAX; ++*p)
        n = n * 10 + (**p - '0');
    const char *unit =
        **p != '\0' ? strchr(units, toupper((unsigned char)**p)) : NULL;
    for (const char *u = units; unit != NULL && u <= unit && n < ROTATE_MAX;
         u++)
        n *= 1024;
    *p += unit != NULL;
    *size = n;
    return n >= ROTATE_MIN && n <= ROTATE_MAX;
}

static int
check_rotate(struct conf_output *c, const struct opts *o, struct ddp_err *err)
{
    const char *p = opts_text(o, OPTIONS_log_rotate);
    if (p == NULL || p[0] == '\0')
        return 0;
    bool good = read_size(&p, &c->rotate_size);
    c->rotate_keep = KEEP_NORMAL;
    if (good && *p == ',') {
        p++;
        c->rotate_keep = read_number(&p, KEEP_MAX);
        good = c->rotate_keep > 0;
    }
    if (good && *p == '\0')
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "must be SIZE or SIZE,KEEP, such as 100M or 1G,3; SIZE is at "
                "least %d bytes, KEEP is 1 to %d",
                ROTATE_MIN, KEEP_MAX);
    return conf_blame(o, OPTIONS_log_rotate, err);
}

static int check_path(
    const struct opts *o, int id, char *path, size_t size, struct ddp_err *err)
{
    const char *text = opts_text(o, id);
    if (text == NULL || text[0] == '\0')
        return 0;
    if (snprintf(path, size, "%s", text) < (int)size)
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "must be at most %zu bytes long", size - 1);
    return conf_blame(o, id, err);
}

/* -- all of it ------------------------------------------------------------- */

/* An empty template counts as none, in the option and in the variable, as under
 * torchrun. */
static int
check_prefix(struct conf_output *c, const struct opts *o, struct ddp_err *err)
{
    const char *option = opts_text(o, OPTIONS_log_line_prefix_template);
    const char *text =
        option[0] != '\0' ? option : getenv(CONF_PREFIX_VARIABLE);
    if (text == NULL || text[0] == '\0')
        text = TEMPLATE_NORMAL;
    if (snprintf(c->prefix, sizeof(c->prefix), "%s", text) <
        (int)sizeof(c->prefix))
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "must be at most %zu bytes long",
                sizeof(c->prefix) - 1);
    return text == option ? conf_blame(o, OPTIONS_log_line_prefix_template, err)
                          : ddp_err_wrap(err, CONF_PREFIX_VARIABLE);
}

int conf_output_init(struct conf_output *c,
                     const struct opts *o,
                     int nproc,
                     struct ddp_err *err)
{
    ddp_assert(nproc > 0 && nproc <= CONF_OUTPUT_RANKS);
    ddp_assert(c->filters[0].len == 0 && c->filters[1].len == 0); /* fresh */
    if (check_streams(o, OPTIONS_redirects, nproc, c->redirects, err) < 0 ||
        check_streams(o, OPTIONS_tee, nproc, c->tee, err) < 0 ||
        check_shown(c, o, nproc, err) < 0 || check_stdout(c, o, err) < 0 ||
        check_filters(&c->filters[0], o, OPTIONS_duplicate_stdout_filters,
                      err) < 0 ||
        check_filters(&c->filters[1], o, OPTIONS_duplicate_stderr_filters,
                      err) < 0 ||
        check_rotate(c, o, err) < 0 || check_prefix(c, o, err) < 0 ||
        check_path(o, OPTIONS_report, c->report, sizeof(c->report), err) < 0 ||
        check_path(o, OPTIONS_events, c->events, sizeof(c->events), err) < 0)
        return -1;
    c->timestamps = opts_number(o, OPTIONS_log_timestamps) != 0;
    c->files = c->filters[0].len > 0 || c->filters[1].len > 0;
    for (int i = 0; i < nproc; i++)
        c->files |= c->redirects[i] != 0 || c->tee[i] != 0;
    return 0;
}

bool conf_output_is_for(const char *text, int nproc)
{
    if (strchr(text, ':') == NULL)
        return true;
    for (const char *p = text; p != NULL;) {
        if (strtol(p, NULL, 10) < nproc)
            return true;
        p = strchr(p, ',');
        p += p != NULL;
    }
    return false;
}

/* Bytes of a name as Python's string.Template has it. */
static size_t name_len(const char *text)
{
    size_t n = 0;
    if (isdigit((unsigned char)text[0]))
        return 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    return n;
}

static bool is_prefix_name(const char *name, size_t len)
{
#define NAME(name) #name,
    static const char *const names[] = {CONF_PREFIX_NAMES(NAME)};
#undef NAME
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == len && strncmp(names[i], name, len) == 0)
            return true;
    return false;
}

size_t conf_output_odd_name(const char *prefix, const char **at)
{
    for (const char *p = strchr(prefix, '$'); p != NULL; p = strchr(p, '$')) {
        bool braced = p[1] == '{';
        const char *name = p + 1 + braced;
        size_t len = name_len(name);
        bool whole = len > 0 && (!braced || name[len] == '}');
        *at = p;
        if (whole && !is_prefix_name(name, len))
            return (size_t)(name - p) + len + braced;
        p += p[1] == '$' ? 2 : 1; /* $$ is a dollar */
    }
    return 0;
}

void conf_output_free(struct conf_output *c)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < c->filters[k].len; i++)
            free(c->filters[k].text[i]);
}

struct conf_plan conf_output_plan(const struct conf_output *c,
                                  int local_rank,
                                  enum conf_stream stream)
{
    ddp_assert(local_rank >= 0 && local_rank < CONF_OUTPUT_RANKS);
    ddp_assert(stream == CONF_STDOUT || stream == CONF_STDERR);
    unsigned bit = (unsigned)stream;
    bool tee = (c->tee[local_rank] & bit) != 0;
    bool redirected = !tee && (c->redirects[local_rank] & bit) != 0;
    bool shown = !c->some_ranks || c->shown[local_rank];
    struct conf_plan p = {
        .file = tee || redirected,
        .console = !redirected && shown,
        .shown = shown,
        .prefix = tee,
    };
    /* stderr always, for its last lines. */
    p.piped = p.file || stream == CONF_STDERR ||
              c->filters[stream - CONF_STDOUT].len > 0 ||
              (shown && !c->inherits);
    p.null = !p.piped && !shown;
    ddp_assert(p.piped || !p.file); /* a log file is written by us */
    return p;
}
