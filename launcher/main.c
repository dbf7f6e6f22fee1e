/* ddprun: parses, checks, splits into guard and agent, runs. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/conf.h"
#include "launcher/drive.h"
#include "launcher/guard.h"
#include "launcher/options.h"
#include "launcher/spawn.h"
#include "launcher/store_host.h"
#include "rendezvous/base/log.h"
#include "rendezvous/net/allow.h"
#include "rendezvous/net/tls.h"

__attribute__((noreturn)) static void refuse(const struct ddp_err *err)
{
    log_warnx("%s", err->text);
    if (err->code == DDP_E_USAGE)
        opts_usage(&options_table, stderr);
    exit(ddp_code_exit(err->code));
}

int main(int argc, char *argv[])
{
    struct opts o;
    static struct conf conf;
    struct ddp_err err;
    log_init("ddprun");
    if (opts_parse(&o, &options_table, argc, argv, &err) != 0)
        refuse(&err);
    if (o.ask != OPTS_ASK_RUN)
        return opts_answer(&o, stdout);
    if (conf_init(&conf, &o, argv + o.rest, &err) != 0)
        refuse(&err);
    if (conf.token_file[0] != '\0' &&
        tls_key_read(&conf.token, conf.token_file, &err) != 0)
        refuse(&err);
    if (conf.store_allow[0] != '\0' && store_host_allow(&conf, &err) != 0)
        refuse(&err);
    for (int i = 0; i < conf.notes_len; i++)
        log_info("%s", conf.notes[i]);
    struct spawn_origin origin;
    spawn_remember(&origin);
    int guard_fd = guard_split();
    int status = drive_run(&conf, &origin, guard_fd);
    tls_key_free(conf.token);
    allow_free(conf.store_nets);
    conf_free(&conf);
    _exit(status); /* libuv's destructor would wait for a resolver that hangs */
}
