/* links: launcher/conf/{words,rdzv,conf,output,meet,argv,options,program} */
/* links: launcher/conf/place launcher/hw/{cpus,topology,nvml,gpus,kfd} */
/* links: launcher/proc/signals rendezvous/base/{signals_name,opts_complete} */
/* libs: -lcjson -ldl */
/* links: rendezvous/base/{opts_help,opts,err,rng,log,utf8,mono} */
/* links: launcher/conf/{from_cluster,front,leave,linked} CLUSTER */
/* links: launcher/proc/{procfs,memory,oom} */
/*
 * A command line, a word a line; a line that begins with '@' is a variable of
 * the environment. What conf_init lets pass must be what conf.h promises; what
 * it does not must be told. It looks for the program and for GPUs and
 * CPUs (stat, access, readdir, /sys). It makes no file that the input names,
 * and opens only a list of hosts (PBS_NODEFILE, PE_HOSTFILE) and the program.
 */
#include <ctype.h>
#include <unistd.h>

#include "launcher/conf/conf.h"
#include "launcher/conf/options.h"
#include "tests/fuzz/fuzz.h"

#define WORDS_MAX 60
#define INPUT_MAX 4096u

static void check_values(const struct opts *o)
{
    for (int i = 0; i < OPTIONS_COUNT; i++) {
        const struct opts_row *row = &options_table.rows[i];
        char name[64];
        ddp_assert(opts_where(o, i, name)[0] != '\0');
        int64_t n = opts_number(o, i);
        if (row->kind == OPTS_INT && opts_given(o, i))
            ddp_assert(n >= row->min && n <= row->max);
        if (row->kind == OPTS_SECONDS && opts_given(o, i))
            ddp_assert(n >= row->min * 1000 && n <= row->max * 1000);
        if (row->kind == OPTS_FLAG)
            ddp_assert(n == 0 || n == 1);
    }
}

static void check_conf(const struct conf *c)
{
    ddp_assert(c->nnodes_min >= 1 && c->nnodes_min <= c->nnodes_max &&
               c->nnodes_max <= CONF_NNODES_MAX);
    ddp_assert(c->nproc >= 1 && c->nproc <= CONF_NPROC_MAX);
    ddp_assert(c->run_id[0] != '\0');
    for (const char *p = c->run_id; *p != '\0'; p++)
        ddp_assert(*p != '/' && !iscntrl((unsigned char)*p));
    ddp_assert(c->endpoints_len >= 1 && c->endpoints_len <= CONF_ENDPOINTS_MAX);
    ddp_assert(c->endpoints_len == 1 || c->backend == CONF_C10D);
    for (int i = 0; i < c->endpoints_len; i++) {
        const struct conf_endpoint *e = &c->endpoints[i];
        ddp_assert(e->host[0] != '\0' && e->port >= 0 && e->port <= 65535);
        ddp_assert(e->port > 0 || c->nnodes_max == 1);
    }
    ddp_assert(c->is_host >= -1 && c->is_host <= 1);
    ddp_assert(c->node_rank >= -1 && c->node_rank < c->nnodes_max);
    if (c->backend == CONF_STATIC)
        ddp_assert(c->node_rank >= 0 && c->master_addr[0] != '\0');
    else
        ddp_assert(c->master_addr[0] == '\0' && c->master_port == 0);
    ddp_assert(c->signals != 0 && c->signals_text[0] != '\0');
    ddp_assert(c->seats != NULL);
    for (int i = 0; i < c->nproc; i++) {
        const struct conf_seat *seat = &c->seats[i];
        ddp_assert(!c->virtual_local_rank || seat->gpu[0] != '\0');
        ddp_assert(c->numa_binding == TOPOLOGY_NONE ||
                   (seat->numa_node >= 0 && cpus_count(&seat->cpus) > 0));
    }
    ddp_assert(c->max_restarts >= 0 && c->shutdown_timeout_us >= 0);
    ddp_assert(c->join_timeout_us > 0 && c->last_call_timeout_us >= 0 &&
               c->close_timeout_us > 0 && c->read_timeout_us > 0);
    ddp_assert(c->heartbeat_timeout_us >= 300000 &&
               c->reconnect_timeout_us > 0);
    ddp_assert(c->exec_path != NULL && strchr(c->exec_path, '/') != NULL);
    ddp_assert(c->argv != NULL && c->argv[0] != NULL && c->prog_name != NULL);
    for (int i = 0; i < c->notes_len; i++)
        ddp_assert(c->notes[i][0] != '\0');
}

static void check_told(const struct ddp_err *err)
{
    ddp_assert(err->code > 0 && err->code < DDP_E_COUNT &&
               err->text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[INPUT_MAX + 1];
    static char path[] = "PATH=/bin";
    char *words[WORDS_MAX + 2] = {
        path}; /* replaced below; a name comes first */
    char *env[WORDS_MAX + 2] = {path};
    char program[] = "ddprun";
    int n_words = 1, n_env = 1;
    if (size > INPUT_MAX)
        return 0;
    words[0] = program;
    memcpy(text, data, size);
    text[size] = '\0';
    /* What is behind a NUL is not seen: a word cannot have one. */
    for (char *next = text; next != NULL && n_words + n_env < WORDS_MAX;) {
        char *line = strsep(&next, "\n");
        if (line[0] == '@' && strchr(line, '=') != NULL)
            env[n_env++] = line + 1;
        else
            words[n_words++] = line;
    }
    environ = env;
    struct opts o;
    struct conf c;
    struct ddp_err err = {0};
    if (opts_parse(&o, &options_table, n_words, words, &err) != 0) {
        ddp_assert(err.code == DDP_E_USAGE && err.text[0] != '\0');
        return 0;
    }
    ddp_assert(o.rest >= 1 && o.rest <= n_words);
    if (o.ask != OPTS_ASK_RUN)
        return 0;
    check_values(&o);
    if (conf_init(&c, &o, words + o.rest, &err) != 0) {
        check_told(&err);
        return 0;
    }
    check_conf(&c);
    conf_free(&c);
    return 0;
}
