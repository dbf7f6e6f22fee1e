/*
 * ddprdzvd: the rendezvous daemon by itself, for many runs.
 *
 * Happy path: options, token, listener (systemd's or its own), READY=1, and the
 * loop until SIGTERM or SIGINT. The runs go on, each served by one of its
 * nodes.
 *
 * Failure modes: a wrong option, a token file that is missing or readable by
 * others, an address in use: one line with advice, and the error's status.
 * Without systemd's notifications it serves on.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/open_files.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/daemon/sd.h"
#include "rendezvous/daemon/server.h"
#include "rendezvous/daemon/store_supervisor.h"
#include "rendezvous/http/http_hosts.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/tls.h"

#define OPTS_DEF "rendezvous/daemon/options.def"
#include "rendezvous/base/opts_rows.h"

static const struct opts_gone gone[] = {
    {"max_share", NULL,
     "without a token (--token_file) whoever comes first can have "
     "all of --max_runs and --max_nodes"},
    {NULL, NULL, NULL},
};

static const struct opts_table table = {
    .program = "ddprdzvd",
    .synopsis = "[--listen=ADDRESS:PORT] [OPTION]...",
    .about =
        "The rendezvous daemon, at which the ddprun launchers of many runs "
        "meet. It keeps nothing on disk. If it is gone, workers run on while "
        "their leases last; once it is back at the same address, the "
        "launchers tell it the state of their runs.",
    .version = DDPRUN_VERSION,
    .groups = groups,
    .groups_len = GROUP_COUNT,
    .rows = rows,
    .rows_len = OPTION_COUNT,
    .gone = gone,
};

/* "ADDRESS:PORT", "[v6]:PORT" and ":PORT" into host and port. */
static int
split_listen(const char *text, char host[256], int *port, struct ddp_err *err)
{
    const char *colon = strrchr(text, ':');
    const char *digits = colon != NULL ? colon + 1 : "";
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    const char *name = text;
    bool brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    if (brackets) {
        name++;
        len -= 2;
    }
    int64_t number;
    if (len >= 256 || (!brackets && memchr(name, ':', len) != NULL) ||
        !opts_read_int(digits, 0, 65535, &number))
        return ddp_err_set(err, DDP_E_USAGE,
                           "--listen: '%.200s' is not ADDRESS:PORT (such as "
                           "10.0.0.1:29400, or [::]:29400 for all addresses)",
                           text);
    memcpy(host, name, len);
    host[len] = '\0';
    *port = (int)number;
    return 0;
}

/* A socket that systemd passed goes before --listen. */
static int open_listener(const char *text, int *fd, struct ddp_err *err)
{
    if (sd_listener(fd, err) != 0)
        return -1;
    if (*fd >= 0)
        return 0;
    char host[256];
    int port = 0;
    struct addr_list list;
    if (split_listen(text, host, &port, err) != 0)
        return -1;
    if (host[0] == '\0' || strcmp(host, "::") == 0)
        return addr_listen_any(port, fd, err);
    if (addr_resolve(host, port, &list, err) != 0)
        return -1;
    return addr_listen((const struct sockaddr *)&list.at[0], fd, err);
}

/* -- a life under systemd, or not ------------------------------------------ */

#define STATUS_US (5 * MONO_S) /* how often it is told, if it changed */

static struct {
    struct sd sd;
    uv_timer_t timer;
    struct server *server;
    char said[96]; /* the last STATUS= */
} life;

/* That this is called shows that the loop runs: the watchdog asks no more. */
static void on_life(uv_timer_t *timer)
{
    char line[sizeof(life.said)];
    char lines[sizeof(line) + 40];
    (void)timer;
    server_describe(life.server, line, sizeof(line));
    bool news = strcmp(line, life.said) != 0;
    (void)snprintf(lines, /* fits */ sizeof(lines), "WATCHDOG=1%s%s",
                   news ? "\nSTATUS=" : "", news ? line : "");
    memcpy(life.said, line, sizeof(line));
    sd_tell(&life.sd, lines);
}

static void begin_life(uv_loop_t *loop, struct server *s)
{
    int64_t every_us = STATUS_US;
    if (life.sd.watchdog_us > 0)
        every_us = mono_min(every_us, life.sd.watchdog_us / 3);
    uint64_t every_ms = (uint64_t)(every_us / MONO_MS);
    life.server = s;
    (void)uv_timer_init(loop, &life.timer); /* neither can fail */
    if (life.sd.fd >= 0)
        (void)uv_timer_start(&life.timer, on_life, 0,
                             every_ms > 0 ? every_ms : 1);
    sd_tell(&life.sd, "READY=1");
}

static void end_life(void)
{
    uv_close((uv_handle_t *)&life.timer, NULL);
    sd_tell(&life.sd, "STOPPING=1\nSTATUS=ending; runs go on");
    sd_close(&life.sd);
}

static void on_stop(uv_signal_t *handle, int signo)
{
    log_info("signal %d (%s): ending; runs go on, served by one of their nodes",
             signo, signals_name(signo));
    uv_stop(handle->loop);
}

/* -- SIGHUP ---------------------------------------------------------------- */

static struct {
    uv_signal_t signal; /* open only if there is a token */
    struct tls_key *key;
    const char *file;
} token;

/* Agents that are connected stay so: they have proved what was true then. */
static void on_hup(uv_signal_t *handle, int signo)
{
    struct ddp_err err;
    (void)handle;
    (void)signo;
    if (tls_key_reread(token.key, token.file, &err) != 0) {
        log_warnx("%s; the token as it was read before stays in use", err.text);
        return;
    }
    int n = tls_key_tokens(token.key);
    log_info("the token file %s was read again: %d token%s accepted",
             token.file, n, n == 1 ? " is" : "s are");
}

static int watch_hup(uv_loop_t *loop, const struct opts *o, struct tls_key *key)
{
    token.key = key;
    token.file = opts_text(o, OPTION_token_file);
    if (key == NULL)
        return 0;
    (void)uv_signal_init(loop, &token.signal);
    return uv_signal_start(&token.signal, on_hup, SIGHUP);
}

static int
read_orders(const char *text, enum server_orders *out, struct ddp_err *err)
{
    static const char *const words[] = {
        [SERVER_ORDERS_DEFAULT] = "",
        [SERVER_ORDERS_ANY] = "any",
        [SERVER_ORDERS_LOCAL] = "local",
        [SERVER_ORDERS_NONE] = "none",
    };
    *out = SERVER_ORDERS_DEFAULT;
    if (text == NULL)
        return 0;
    for (int i = SERVER_ORDERS_ANY; i <= SERVER_ORDERS_NONE; i++)
        if (strcmp(words[i], text) == 0)
            *out = (enum server_orders)i;
    if (*out != SERVER_ORDERS_DEFAULT)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "--orders=%.80s: must be any, local or none", text);
}

/* -- serving --------------------------------------------------------------- */

/* The name in --listen, and those of --http_hosts. */
static void names_of(const struct opts *o, char names[HTTP_HOSTS_ROOM])
{
    const char *more = opts_text(o, OPTION_http_hosts);
    char host[256] = "";
    int port;
    struct ddp_err err;
    (void)split_listen(opts_text(o, OPTION_listen), host, &port, &err);
    (void)snprintf(names, /* fits */ HTTP_HOSTS_ROOM, "%s,%s", host,
                   more != NULL ? more : "");
}

static struct server_conf
conf_of(const struct opts *o, enum server_orders orders, struct tls_key *key)
{
    return (struct server_conf){
        .limits = {.runs_max = (int)opts_number(o, OPTION_max_runs),
                   .nodes_max = (int)opts_number(o, OPTION_max_nodes),
                   .conns_max = (int)opts_number(o, OPTION_max_connections),
                   .http_max = (int)opts_number(o, OPTION_max_http)},
        .frame_max = (int)opts_number(o, OPTION_max_frame),
        .open_metrics = opts_number(o, OPTION_open_metrics) != 0,
        .debug = opts_number(o, OPTION_debug) != 0,
        .orders = orders,
        .key = key,
    };
}

/* Where it listens; systemd may have chosen that. */
static const char *address_of(int fd, char text[ADDR_TEXT_MAX])
{
    struct sockaddr_storage ss = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(ss);
    (void)getsockname(fd, (struct sockaddr *)&ss, &len); /* it listens */
    addr_text((const struct sockaddr *)&ss, text);
    bool any = strcmp(text, "::") == 0 || strcmp(text, "0.0.0.0") == 0;
    return any ? "every address" : text;
}

static void run(const struct opts *o,
                int fd,
                enum server_orders orders,
                struct tls_key *key)
{
    static struct store_supervisor store;
    uv_loop_t loop;
    struct server *s;
    struct ddp_err err;
    struct server_conf conf = conf_of(o, orders, key);
    char names[HTTP_HOSTS_ROOM];
    names_of(o, names);
    conf.http_hosts = names;
    bool c10d = opts_number(o, OPTION_c10d) != 0;
    int rc = open_files_room(OPEN_FILES_OF_A_LOOP) == 0
                 ? uv_loop_init(&loop)
                 : uv_translate_sys_error(errno);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM),
               "cannot start the daemon: no event loop: %s (ulimit -n)",
               uv_strerror(rc));
    if ((c10d &&
         store_supervisor_open(&store, &loop, &conf.store_chan, &err) != 0) ||
        server_open(&s, &loop, fd, &conf, &err) != 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    uv_signal_t term, intr;
    if (uv_signal_init(&loop, &term) != 0 ||
        uv_signal_init(&loop, &intr) != 0 ||
        uv_signal_start(&term, on_stop, SIGTERM) != 0 ||
        uv_signal_start(&intr, on_stop, SIGINT) != 0 ||
        watch_hup(&loop, o, key) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM),
               "cannot start the daemon: no signal handlers");
    char where[ADDR_TEXT_MAX];
    log_info("serving on port %d of %s%s, %s", addr_fd_port(fd),
             address_of(fd, where), c10d ? ", with a c10d store" : "",
             key != NULL ? "token required" : "open to all who can connect");
    begin_life(&loop, s);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    end_life();
    server_close(s);
    if (c10d)
        store_supervisor_close(&store);
    uv_close((uv_handle_t *)&term, NULL);
    uv_close((uv_handle_t *)&intr, NULL);
    if (key != NULL)
        uv_close((uv_handle_t *)&token.signal, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop); /* the process ends anyway */
}

/* The token, if one is asked for. An empty variable is none; an empty option is
 * an error. */
static int
read_token(const struct opts *o, struct tls_key **key, struct ddp_err *err)
{
    const char *file = opts_text(o, OPTION_token_file);
    if (file == NULL || (file[0] == '\0' &&
                         o->value[OPTION_token_file].source != OPTS_FROM_LINE))
        return 0;
    if (opts_number(o, OPTION_c10d) != 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--c10d cannot be used with a token: the store's "
                           "protocol has none, and everybody who reaches the "
                           "port could use the store; start a second daemon "
                           "for it on another port");
    return tls_key_read(key, file, err);
}

static int check_names(const struct opts *o, struct ddp_err *err)
{
    const char *list = opts_text(o, OPTION_http_hosts);
    return list == NULL ? 0 : http_hosts_check(list, err);
}

/* What a person may do if the daemon cannot listen there. */
static const char *advice(const struct ddp_err *err)
{
    switch (err->sys_errno) {
    case EADDRINUSE:
        return "; a launcher (ddprun) that serves its own job, another "
               "ddprdzvd or another program has that port (ss -ltnp shows "
               "which): end it, or choose another port with --listen";
    case EADDRNOTAVAIL:
        return "; no interface of this machine has that address; [::] listens "
               "on all of them";
    case EACCES:
        return "; ports below 1024 are for root only";
    default:
        return "";
    }
}

static int serve(const struct opts *o)
{
    struct ddp_err err;
    struct tls_key *key = NULL;
    enum server_orders orders;
    int fd;
    if (check_names(o, &err) != 0 || read_token(o, &key, &err) != 0 ||
        read_orders(opts_text(o, OPTION_orders), &orders, &err) != 0 ||
        open_listener(opts_text(o, OPTION_listen), &fd, &err) != 0) {
        log_warnx("%s%s", err.text, advice(&err));
        if (err.code == DDP_E_USAGE)
            opts_usage(&table, stderr);
        return ddp_code_exit(err.code);
    }
    if (sd_open(&life.sd, &err) != 0)
        log_warnx("%s; going on without systemd's notifications", err.text);
    run(o, fd, orders, key);
    tls_key_free(key);
    return 0;
}

int main(int argc, char *argv[])
{
    struct opts o;
    struct ddp_err err;
    log_init("ddprdzvd");
    if (opts_parse(&o, &table, argc, argv, &err) != 0) {
        log_warnx("%s", err.text);
        opts_usage(&table, stderr);
        return ddp_code_exit(DDP_E_USAGE);
    }
    if (o.ask != OPTS_ASK_RUN)
        return opts_answer(&o, stdout);
    if (o.rest < argc) {
        log_warnx("'%s' is not an option, and ddprdzvd takes no arguments",
                  argv[o.rest]);
        opts_usage(&table, stderr);
        return ddp_code_exit(DDP_E_USAGE);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a log file at its limit: ulimit -f */
    (void)signal(SIGTTOU, SIG_IGN); /* stty tostop: a line stops no job */
    return serve(&o);
}
