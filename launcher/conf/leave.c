/*
 * How this node leaves a run that is not over: a notice, and what follows it.
 *
 * A scheduler tells some time before the end that it takes the nodes away
 * (sbatch --signal=B:USR1@120). The workers are then asked to leave at a step,
 * as if a node were drained. With --requeue the job runs again after that. An
 * operator who drains this node alone is asked for
 * (launcher/health/drain_check).
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/mono.h"

#define LIMIT_US (30 * MONO_S) /* of a drain check */

static int
check_notice(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    char odd[120];
    const char *text = opts_text(o, OPTIONS_notice_signal);
    if (!conf_said(o, OPTIONS_notice_signal))
        text = c->requeue ? "SIGUSR1" : "none";
    if (strcasecmp(text, "none") == 0)
        return 0;
    c->notices = signals_read(text, odd, sizeof(odd));
    if (c->notices == 0 || odd[0] != '\0' || strchr(text, ',') != NULL ||
        (c->notices & SIGNALS_USUAL) != 0) {
        ddp_err_set(err, DDP_E_USAGE,
                    "must be none, or a signal that can be handled and ends "
                    "nothing by itself, such as SIGUSR1");
        return conf_blame(o, OPTIONS_notice_signal, err);
    }
    c->signals |= c->notices;
    return 0;
}

/* Without a job it would do nothing, and nobody would notice before the day on
 * which it matters. */
static int
check_requeue(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    const char *job = getenv("SLURM_JOB_ID");
    c->requeue = opts_number(o, OPTIONS_requeue) != 0;
    if (!c->requeue)
        return 0;
    if (c->front.kind == CONF_FRONT_HOSTS)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--requeue cannot be used with a list of hosts: "
                           "their launchers are no part of the Slurm job");
    if (job == NULL || job[0] == '\0')
        return ddp_err_set(err, DDP_E_USAGE,
                           "--requeue: this is no Slurm job, SLURM_JOB_ID is "
                           "not set");
    return 0;
}

/* %T is draining while jobs run on the node, else drained. */
static const char of_slurm[] =
    "state=$(sinfo -h -n \"${SLURMD_NODENAME:-$(hostname -s)}\" "
    "-o '%T: %E') || { echo \"$state\"; exit 2; }\n"
    "case $state in drain*) echo \"Slurm says $state\"; exit 1 ;; esac\n";

static int
check_drain(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    c->drain_timeout_us = LIMIT_US;
    if (conf_command(o, OPTIONS_drain_check, c->drain_check,
                     sizeof(c->drain_check), &c->drain_interval_us, err) < 0)
        return -1;
    _Static_assert(sizeof(of_slurm) <= sizeof(c->drain_check), "it fits");
    if (strcmp(c->drain_check, "slurm") == 0)
        memcpy(c->drain_check, of_slurm, sizeof(of_slurm));
    return 0;
}

int conf_leave(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (check_requeue(c, o, err) < 0 || check_notice(c, o, err) < 0)
        return -1;
    return check_drain(c, o, err);
}
