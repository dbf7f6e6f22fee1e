/* ddpctl: asks a rendezvous what runs there, and gives it orders. */
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/ctl/command.h"
#include "rendezvous/ctl/document.h"
#include "rendezvous/ctl/fields.h"
#include "rendezvous/ctl/here.h"
#include "rendezvous/ctl/page.h"
#include "rendezvous/ctl/report.h"
#include "rendezvous/ctl/stacks.h"
#include "rendezvous/ctl/status.h"
#include "rendezvous/ctl/top.h"

#define DEFAULT_PORT 29400

/* go-on waits so long for a node of the run to be at this server, and looks so
 * often: without a server nodes try each address in turn. */
#define GO_ON_WAIT_US  (60 * MONO_S)
#define GO_ON_AGAIN_MS 500

#define OPTS_DEF "rendezvous/ctl/options.def"
#include "rendezvous/base/opts_rows.h"

/* The text of status is gone, too: check_status. */
static const struct opts_gone gone[] = {
    {"all", NULL,
     "`ddpctl top --once` shows every node; of many, those that are not "
     "well, and counts of the others"},
    {"watch", NULL,
     "`ddpctl top` draws it again each second; on a pipe `ddpctl top "
     "--delay=SECONDS` does"},
    {NULL, NULL, NULL},
};

static const struct opts_table table = {
    .program = "ddpctl",
    .synopsis =
        "[OPTION]... top [RUN] | status --json [RUN] | page | report FILE... | "
        "stacks RUN [RANK]... | drain NODE | end RUN | go-on RUN",
    .about =
        "Shows the runs of a rendezvous as a picture that is drawn again each "
        "second (top) or once (top --once), in a browser (page), or as JSON "
        "(status --json), makes a page of "
        "what happened to a run from the --events files of its nodes (report), "
        "shows where its workers stand while they run (stacks), "
        "takes a node out of its run "
        "so that the other nodes go on without it (drain), ends a run on all "
        "its nodes (end), or has the rest of a run go on if too many of its "
        "nodes died at once (go-on). NODE is a host name or the beginning of "
        "an agent's id; RUN is the run's --rdzv_id; RANK is a global rank, or "
        "some "
        "(0-7).",
    .version = DDPRUN_VERSION,
    .groups = groups,
    .groups_len = GROUP_COUNT,
    .rows = rows,
    .rows_len = OPTION_COUNT,
    .gone = gone,
};

/* -- the command line ------------------------------------------------------ */

struct ctl_words {
    struct opts o;
    const char **words; /* of argv; freed at the end of the process */
    int n_words;
};

/* Options may stand behind words here: each part of the line is read by itself,
 * and what a later one says counts. */
static int
read_line(struct ctl_words *l, int argc, char *argv[], struct ddp_err *err)
{
    struct opts part;
    l->n_words = 0;
    l->words = calloc((size_t)argc + 1, sizeof(l->words[0]));
    if (l->words == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the arguments");
    for (int at = 0;;) {
        if (opts_parse(&part, &table, argc - at, argv + at, err) != 0)
            return -1;
        if (at == 0)
            l->o = part;
        l->o.ask = part.ask;
        for (int i = 0; i < OPTION_COUNT; i++)
            if (part.value[i].source == OPTS_FROM_LINE)
                l->o.value[i] = part.value[i];
        at += part.rest;
        if (part.ask != OPTS_ASK_RUN || at >= argc)
            return 0;
        l->words[l->n_words++] = argv[at];
    }
}

/* Takes "host", "host:port", "[v6]" and "[v6]:port" apart; `port` is what is
 * behind the colon, or NULL. False: it is none of these. */
static bool take_apart(const char *text,
                       const char **host,
                       size_t *host_len,
                       const char **port)
{
    bool v6 = text[0] == '[';
    *host = text + v6;
    *host_len = strcspn(*host, v6 ? "]" : ":");
    const char *rest = *host + *host_len;
    if (v6 && *rest++ != ']')
        return false;
    *port = *rest == ':' ? rest + 1 : NULL;
    return *rest == '\0' || *rest == ':';
}

static int
split_endpoint(const char *text, struct ctl_peer *peer, struct ddp_err *err)
{
    const char *host, *port_text;
    size_t len;
    int64_t port = DEFAULT_PORT;
    bool right =
        take_apart(text, &host, &len, &port_text) && len < sizeof(peer->host);
    if (right && port_text != NULL)
        right = opts_read_int(port_text, 1, 65535, &port);
    if (!right)
        return ddp_err_set(err, DDP_E_USAGE,
                           "'%.100s' is not HOST or HOST:PORT (such as "
                           "head:29400 or [fe80::1]:29400)",
                           text);
    if (len == 0) {
        host = "localhost";
        len = strlen(host);
    }
    memcpy(peer->host, host, len);
    peer->host[len] = '\0';
    peer->port = (int)port;
    return 0;
}

static bool answers(struct ctl_peer *peer, int64_t timeout_us)
{
    struct ctl_line *l = NULL;
    if (ctl_resolve(peer, timeout_us, NULL) == 0)
        l = ctl_line_open(peer, mono_now_us() + timeout_us, NULL);
    ctl_line_close(l);
    return l != NULL;
}

/* Of a list, as --rdzv_endpoint takes it, the first that answers; else the
 * last. */
static int choose_endpoint(const char *list,
                           int64_t timeout_us,
                           struct ctl_peer *peer,
                           struct ddp_err *err)
{
    for (;; list++) {
        char one[300];
        size_t len = strcspn(list, ",");
        (void)snprintf(one, sizeof(one), "%.*s", (int)(len < 299 ? len : 299),
                       list);
        list += len;
        if (split_endpoint(one, peer, err) != 0)
            return -1;
        if (*list == '\0' || answers(peer, timeout_us))
            return 0;
    }
}

static int
find_peer(const struct opts *o, struct ctl_peer *peer, struct ddp_err *err)
{
    char name[64];
    const char *endpoint = opts_text(o, OPTION_endpoint);
    const char *token_file = opts_text(o, OPTION_token_file);
    /* An empty variable is none; an empty option is no file. */
    bool wanted = token_file != NULL &&
                  (token_file[0] != '\0' ||
                   o->value[OPTION_token_file].source == OPTS_FROM_LINE);
    if (wanted && tls_key_read(&peer->key, token_file, err) != 0)
        return -1;
    if (choose_endpoint(endpoint, opts_number(o, OPTION_timeout), peer, err) !=
        0)
        return ddp_err_wrap(err, "%s", opts_where(o, OPTION_endpoint, name));
    return 0;
}

/* -- verbs ----------------------------------------------------------------- */

struct ctl {
    struct ctl_words line;
    struct ctl_peer peer;
    struct ctl_style style;
    char where[300];
    int64_t timeout_us;
};

static int do_status(struct ctl *c)
{
    const struct ctl_status s = {
        .peer = &c->peer,
        .style = c->style,
        .where = c->where,
        .run = c->line.n_words > 1 ? c->line.words[1] : NULL,
        .terminal = isatty(STDOUT_FILENO) == 1,
        .timeout_us = c->timeout_us,
    };
    return ctl_status_run(&s);
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return term == NULL || strcmp(term, "dumb") == 0;
}

static int do_top(struct ctl *c)
{
    struct ctl_top t = {
        .peer = &c->peer,
        .style = c->style,
        .where = c->where,
        .run = c->line.n_words > 1 ? c->line.words[1] : NULL,
        .terminal = isatty(STDOUT_FILENO) == 1 && !is_dumb() &&
                    !opts_given(&c->line.o, OPTION_once),
        .timeout_us = c->timeout_us,
        .delay_us = opts_number(&c->line.o, OPTION_delay),
        .again = opts_given(&c->line.o, OPTION_delay),
    };
    return ctl_top_run(&t);
}

/* The page waits for a rendezvous and says why, but only in a browser. */
static void tell_if_away(const struct ctl *c)
{
    struct ctl_answer a;
    struct ddp_err err;
    if (ctl_status_ask(&c->peer, NULL, c->timeout_us, &a, &err) != 0)
        ctl_complain(&c->style, c->where, &err);
    free(a.body);
}

static int do_page(struct ctl *c)
{
    static struct ctl_page page;
    page = (struct ctl_page){
        .peer = &c->peer,
        .where = c->where,
        .timeout_us = c->timeout_us,
        .port = (int)opts_number(&c->line.o, OPTION_port),
    };
    tell_if_away(c);
    return ctl_page_run(&page);
}

static int do_report(struct ctl *c)
{
    const struct ctl_report r = {
        .style = &c->style,
        .files = c->line.words + 1,
        .n_files = c->line.n_words - 1,
        .run = opts_text(&c->line.o, OPTION_run),
        .json = opts_number(&c->line.o, OPTION_json) != 0,
    };
    return ctl_report_run(&r);
}

static int fail(const struct ctl *c, const struct ddp_err *err)
{
    ctl_complain(&c->style, c->where, err);
    return ddp_code_exit(err->code);
}

/* What the rendezvous answered, and `behind` it. */
static int show(const struct ctl *c, const char *text, const char *behind)
{
    char clean[512];
    ctl_clean(&c->style, text, clean, sizeof(clean));
    if (printf("%s%s", clean, behind) < 0 || fflush(stdout) != 0) {
        log_warn("cannot write to standard output");
        return ddp_code_exit(DDP_E_IO);
    }
    return 0;
}

static int give_order(struct ctl *c, const struct msg *order)
{
    struct ddp_err err;
    char text[512];
    if (ctl_order(&c->peer, order, mono_now_us() + c->timeout_us, text, &err) !=
        0)
        return fail(c, &err);
    return show(c, text, "\n");
}

static struct msg order_to(enum msg_verb verb, const char *run)
{
    struct msg m = {.kind = MSG_KIND_order,
                    .order = {.version = MSG_VERSION, .verb = verb}};
    msg_set(m.order.run, run);
    return m;
}

static int do_drain(struct ctl *c)
{
    const char *run = opts_text(&c->line.o, OPTION_run);
    struct msg m = order_to(MSG_ORDER_DRAIN, run != NULL ? run : "");
    m.order.sure = opts_number(&c->line.o, OPTION_force);
    msg_set(m.order.node, c->line.words[1]);
    return give_order(c, &m);
}

static int do_end(struct ctl *c)
{
    struct msg m = order_to(MSG_ORDER_END, c->line.words[1]);
    return give_order(c, &m);
}

/* Again as long as no node of the run is there. */
static int order_go_on(const struct ctl *c,
                       const struct msg *order,
                       char text[512],
                       struct ddp_err *err)
{
    int64_t end_us = mono_now_us() + GO_ON_WAIT_US;
    char clean[sizeof(err->text)];
    bool told = false;
    for (;;) {
        int64_t now_us = mono_now_us();
        int rc = ctl_order(&c->peer, order, now_us + c->timeout_us, text, err);
        if (rc == 0 || err->code != DDP_E_PEER || now_us >= end_us)
            return rc;
        ctl_clean(&c->style, err->text, clean, sizeof(clean));
        if (!told)
            log_warnx("%s: %s; it may be trying other addresses; still trying "
                      "for %d s",
                      c->where, clean, (int)(GO_ON_WAIT_US / MONO_S));
        told = true;
        (void)poll(NULL, 0, GO_ON_AGAIN_MS);
    }
}

/* Whether the operator, who has read what it risks, wants it. */
static bool is_wanted(void)
{
    char line[16];
    return fgets(line, sizeof(line), stdin) != NULL &&
           (line[0] == 'y' || line[0] == 'Y');
}

static int do_go_on(struct ctl *c)
{
    struct msg m = order_to(MSG_ORDER_GO_ON, c->line.words[1]);
    struct ddp_err err;
    char text[512];
    m.order.sure = opts_number(&c->line.o, OPTION_yes);
    if (order_go_on(c, &m, text, &err) != 0)
        return fail(c, &err);
    if (m.order.sure)
        return show(c, text, "\n");
    int rc = show(c, text, ".\nGo on without them? [y/N] ");
    if (rc != 0)
        return rc;
    if (!is_wanted()) {
        log_warnx("nothing was changed");
        return ddp_code_exit(DDP_E_ABORTED);
    }
    m.order.sure = 1;
    if (order_go_on(c, &m, text, &err) != 0)
        return fail(c, &err);
    return show(c, text, "\n");
}

static int do_stacks(struct ctl *c)
{
    const struct ctl_stacks s = {
        .peer = &c->peer,
        .style = &c->style,
        .where = c->where,
        .timeout_us = c->timeout_us,
        .run = c->line.words[1],
        .ranks = c->line.words + 2,
        .n_ranks = c->line.n_words - 2,
    };
    return ctl_stacks_run(&s);
}

static const struct verb {
    const char *name;
    int least, most; /* words behind it ... */
    size_t longest;  /* ... and their bytes (messages.def) */
    const char *what;
    int group;
    int (*run)(struct ctl *c);
} verbs[] = {
    {"status", 0, 1, 128, "RUN", GROUP_STATUS, do_status},
    {"top", 0, 1, 128, "RUN", GROUP_TOP, do_top},
    {"page", 0, 0, 0, "", GROUP_PAGE, do_page},
    {"report", 1, INT_MAX, PATH_MAX, "FILE", GROUP_COUNT, do_report},
    {"stacks", 1, INT_MAX, 128, "RUN", GROUP_COUNT, do_stacks},
    {"drain", 1, 1, 64, "NODE", GROUP_ORDERS, do_drain},
    {"end", 1, 1, 128, "RUN", GROUP_ORDERS, do_end},
    {"go-on", 1, 1, 128, "RUN", GROUP_ORDERS, do_go_on},
};
#define VERBS (int)(sizeof(verbs) / sizeof(verbs[0]))

static int check_words(const struct ctl_words *l,
                       const struct verb *v,
                       struct ddp_err *err)
{
    int n = l->n_words - 1;
    if (n < v->least)
        return ddp_err_set(err, DDP_E_USAGE, "%s needs a %s: ddpctl %s %s",
                           v->name, v->what, v->name, v->what);
    if (n > v->most)
        return ddp_err_set(err, DDP_E_USAGE, "'%.60s' is one argument too many",
                           l->words[v->most + 1]);
    for (int i = 1; i <= n; i++)
        if (l->words[i][0] == '\0' || strlen(l->words[i]) > v->longest)
            return ddp_err_set(err, DDP_E_USAGE,
                               "the %s must have 1 to %zu bytes", v->what,
                               v->longest);
    return 0;
}

/* "status, ..., end and go-on" */
static void list_verbs(char text[100])
{
    size_t len = 0;
    for (int i = 0; i < VERBS; i++) {
        const char *gap = i == 0 ? "" : i + 1 < VERBS ? ", " : " and ";
        len += (size_t)snprintf(text + len, 100 - len, /* fits */
                                "%s%s", gap, verbs[i].name);
    }
}

static const struct verb *find_verb(const struct ctl_words *l,
                                    struct ddp_err *err)
{
    const char *names[VERBS];
    char all[100];
    list_verbs(all);
    if (l->n_words == 0) {
        ddp_err_set(err, DDP_E_USAGE,
                    "a command is missing: the commands are %s", all);
        return NULL;
    }
    for (int i = 0; i < VERBS; i++) {
        names[i] = verbs[i].name;
        if (strcmp(verbs[i].name, l->words[0]) == 0)
            return &verbs[i];
    }
    const char *near = opts_nearest(l->words[0], names, VERBS);
    ddp_err_set(err, DDP_E_USAGE,
                "unknown command '%.60s'%s%s%s: the commands are %s",
                l->words[0], near != NULL ? " (did you mean '" : "",
                near != NULL ? near : "", near != NULL ? "'?)" : "", all);
    return NULL;
}

static bool takes_option(const struct verb *v, int option)
{
    if (v->run == do_report && (option == OPTION_json || option == OPTION_run))
        return true;
    return rows[option].group == GROUP_WHERE || rows[option].group == v->group;
}

/* Options of other verbs say that another one was meant. */
static int check_options(const struct ctl_words *l,
                         const struct verb *v,
                         struct ddp_err *err)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (l->o.value[i].source == OPTS_FROM_LINE && !takes_option(v, i))
            return ddp_err_set(err, DDP_E_USAGE, "--%s cannot be used with %s",
                               rows[i].name, l->words[0]);
    return 0;
}

/* Options of other orders say that another one was meant. */
static int check_order(const struct ctl_words *l,
                       const struct verb *v,
                       struct ddp_err *err)
{
    bool yes = opts_number(&l->o, OPTION_yes) != 0;
    bool of_drain = opts_text(&l->o, OPTION_run) != NULL ||
                    opts_number(&l->o, OPTION_force) != 0;
    if ((v->run == do_end || v->run == do_go_on) && of_drain)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--run and --force are for drain only: ddpctl %s "
                           "RUN",
                           v->name);
    if (v->run != do_go_on && yes)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--yes is for go-on only: ddpctl go-on RUN");
    if (v->run == do_go_on && !yes && isatty(STDIN_FILENO) != 1)
        return ddp_err_set(err, DDP_E_USAGE,
                           "go-on asks before it gives nodes up, and standard "
                           "input is no terminal: run it on one, or give "
                           "--yes");
    return 0;
}

/* Programs read the JSON; people have the picture. */
static int check_status(const struct ctl_words *l,
                        const struct verb *v,
                        struct ddp_err *err)
{
    if (v->run != do_status || opts_number(&l->o, OPTION_json) != 0)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "the text of status is gone: `ddpctl top --once` shows "
                       "the same for people, `ddpctl status --json` for "
                       "programs");
}

struct ctl_seen {
    int live;     /* runs that have not ended; -1: it does not say */
    char who[80]; /* which server answers */
};

static void
look_at(struct ctl *c, const struct ctl_place *p, struct ctl_seen *l)
{
    struct ctl_peer peer = {.port = p->port, .key = c->peer.key};
    struct ctl_answer a = {.body = NULL};
    struct ddp_err err;
    const cJSON *run;
    cJSON *status = NULL;
    *l = (struct ctl_seen){.live = -1};
    (void)snprintf(peer.host, sizeof(peer.host), "%s", p->host); /* fits */
    if (ctl_resolve(&peer, c->timeout_us, &err) == 0 &&
        ctl_status_ask(&peer, NULL, c->timeout_us, &a, &err) == 0)
        status = ctl_document_parse(a.body, a.len, &err);
    free(a.body);
    if (status == NULL && err.code == DDP_E_CONFIG) { /* it wants a token */
        l->live = 1;
        (void)snprintf(l->who, sizeof(l->who), /* may be cut */
                       "%.63s:%d", p->host, p->port);
    }
    if (status == NULL)
        return;
    l->live = 0;
    (void)snprintf(l->who, sizeof(l->who), "%s", /* may be cut */
                   field_text(status, "incarnation"));
    cJSON_ArrayForEach(run, field_of(status, "runs")) l->live +=
        !field_is(run, "state", "ended");
    cJSON_Delete(status);
}

/* Leaves those out at which nothing runs, and all but one of one server's. */
static int choose_places(struct ctl *c, struct ctl_place *at, int n)
{
    static struct ctl_seen seen[CTL_HERE_MAX];
    int kept = 0;
    for (int i = 0; i < n; i++) {
        bool known = false;
        look_at(c, &at[i], &seen[kept]);
        for (int k = 0; k < kept; k++)
            known |= strcmp(seen[k].who, seen[kept].who) == 0;
        if (seen[kept].live > 0 && !known)
            at[kept++] = at[i];
    }
    return kept;
}

/*
 * Without --endpoint, and if nothing runs at the default one: where the jobs of
 * this user are served that have a launcher on this host, be it elsewhere.
 * Returns how many; 0: there is an endpoint to ask; -1: nothing is anywhere.
 */
static int look_here(struct ctl *c, struct ctl_place at[CTL_HERE_MAX])
{
    static const struct ctl_place home = {.host = "localhost",
                                          .port = DEFAULT_PORT};
    struct ctl_seen seen = {.live = 0};
    if (c->line.o.value[OPTION_endpoint].source != OPTS_FROM_DEFAULT)
        return 0;
    bool answers =
        ctl_here_answers(DEFAULT_PORT, mono_now_us() + c->timeout_us);
    if (answers)
        look_at(c, &home, &seen);
    if (seen.live != 0)
        return 0;
    int n = ctl_here_find(at);
    if (n > 1 || answers)
        n = choose_places(c, at, n);
    return n > 0 ? n : answers ? 0 : -1;
}

static int complain_of_none(void)
{
    log_warnx("no rendezvous at localhost:%d, and no job of yours is on this "
              "host: give --endpoint=HOST[:PORT], the --rdzv_endpoint of the "
              "job",
              DEFAULT_PORT);
    return ddp_code_exit(DDP_E_UNREACHABLE);
}

/* `ddpctl top HOST:PORT` asks the rendezvous at the default endpoint for a
 * run of that name, which may be one. */
static void suggest_endpoint(const struct ctl_words *l, const struct verb *v)
{
    const char *host, *port_text;
    const char *word = l->n_words > 1 ? l->words[1] : "";
    size_t len;
    int64_t port;
    if (strcmp(v->what, "RUN") != 0 ||
        l->o.value[OPTION_endpoint].source == OPTS_FROM_LINE ||
        !take_apart(word, &host, &len, &port_text) || len == 0 ||
        port_text == NULL || !opts_read_int(port_text, 1, 65535, &port))
        return;
    log_warnx("'%s' was read as the name of a run: did you mean ddpctl "
              "--endpoint=%s %s?",
              word, word, v->name);
}

/* Only one picture is told of several. */
static bool is_for_all(const struct ctl *c, const struct verb *v)
{
    return v->run == do_top && opts_given(&c->line.o, OPTION_once);
}

static int complain_of_several(const struct ctl_place *at, int n)
{
    char list[CTL_HERE_MAX * 80], one[80];
    size_t len = 0;
    for (int i = 0; i < n; i++) {
        bool v6 = strchr(at[i].host, ':') != NULL;
        (void)snprintf(one, sizeof(one), " %s%.60s%s:%d",
                       v6 ? "[" : "", /* fits */
                       at[i].host, v6 ? "]" : "", at[i].port);
        memcpy(list + len, one, strlen(one) + 1);
        len += strlen(one);
    }
    log_warnx("jobs of yours on this host have %d rendezvous servers: choose "
              "one by --endpoint=HOST:PORT; they are%s",
              n, list);
    return ddp_code_exit(DDP_E_USAGE);
}

static int run_verb(struct ctl *c, const struct verb *v)
{
    bool v6 = strchr(c->peer.host, ':') != NULL;
    char where[300];
    struct ddp_err err;
    (void)snprintf(where, sizeof(where), /* fits */
                   "%s%s%s:%d", v6 ? "[" : "", c->peer.host, v6 ? "]" : "",
                   c->peer.port);
    ctl_clean(&c->style, where, c->where, sizeof(c->where));
    if (v->run != do_report && ctl_resolve(&c->peer, c->timeout_us, &err) != 0)
        return fail(c, &err);
    return v->run(c);
}

/* The status of the first that did not go well. */
static int run_at_each(struct ctl *c,
                       const struct verb *v,
                       const struct ctl_place *at,
                       int n)
{
    int status = 0;
    for (int i = 0; i < n; i++) {
        c->peer.port = at[i].port;
        (void)snprintf(c->peer.host, sizeof(c->peer.host), "%.63s", at[i].host);
        if (i > 0)
            (void)putchar('\n');
        (void)fflush(stdout); /* if that fails, what comes next says so */
        int rc = run_verb(c, v);
        status = status != 0 ? status : rc;
    }
    return status;
}

static int check_color(const struct ctl_words *l, struct ddp_err *err)
{
    static const char *const words[] = {"auto", "always", "never"};
    const char *when = opts_text(&l->o, OPTION_color);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(when, words[i]) == 0)
            return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "--color: '%.60s' is not auto, always or never", when);
}

/* What can be wrong with the line. */
static const struct verb *check_line(struct ctl *c, struct ddp_err *err)
{
    const struct verb *v = find_verb(&c->line, err);
    if (v == NULL || check_options(&c->line, v, err) != 0 ||
        check_words(&c->line, v, err) != 0)
        return NULL;
    const char *run = opts_text(&c->line.o, OPTION_run);
    if (run != NULL && (run[0] == '\0' || strlen(run) > 128)) {
        ddp_err_set(err, DDP_E_USAGE, "--run: an id must have 1 to 128 bytes");
        return NULL;
    }
    if (check_status(&c->line, v, err) != 0 ||
        check_order(&c->line, v, err) != 0 || check_color(&c->line, err) != 0)
        return NULL;
    if (v->run == do_report) /* asks nobody */
        return v;
    return find_peer(&c->line.o, &c->peer, err) == 0 ? v : NULL;
}

/* no-color.org: if it is set and not empty. */
static bool has_color(const char *when)
{
    const char *no = getenv("NO_COLOR");
    if (strcmp(when, "auto") != 0)
        return strcmp(when, "always") == 0;
    return isatty(STDOUT_FILENO) == 1 && !is_dumb() &&
           (no == NULL || no[0] == '\0');
}

static void find_style(const struct opts *o, struct ctl_style *style)
{
    bool utf8 = setlocale(LC_CTYPE, "") != NULL &&
                strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    *style = (struct ctl_style){
        .utf8 = utf8,
        .color = has_color(opts_text(o, OPTION_color)),
        .width = CTL_WIDTH,
    };
}

int main(int argc, char *argv[])
{
    static struct ctl c;
    struct ddp_err err;
    static struct ctl_place at[CTL_HERE_MAX];
    log_init("ddpctl");
    (void)signal(SIGPIPE, SIG_IGN);
    if (read_line(&c.line, argc, argv, &err) != 0) {
        log_warnx("%s", err.text);
        opts_usage(&table, stderr);
        return ddp_code_exit(DDP_E_USAGE);
    }
    if (c.line.o.ask != OPTS_ASK_RUN)
        return opts_answer(&c.line.o, stdout);
    find_style(&c.line.o, &c.style);
    const struct verb *v = check_line(&c, &err);
    if (v == NULL) {
        log_warnx("%s", err.text);
        if (err.code == DDP_E_USAGE)
            opts_usage(&table, stderr);
        return ddp_code_exit(err.code);
    }
    c.timeout_us = opts_number(&c.line.o, OPTION_timeout);
    int n = v->run == do_report ? 0 : look_here(&c, at);
    int status = 0;
    if (n > 1 && !is_for_all(&c, v))
        status = complain_of_several(at, n);
    else if (n > 0)
        status = run_at_each(&c, v, at, n);
    else if (n < 0 && v->run != do_page) /* which waits for one */
        status = complain_of_none();
    else
        status = run_verb(&c, v);
    if (status != 0)
        suggest_endpoint(&c.line, v);
    tls_key_free(c.peer.key);
    return status;
}
