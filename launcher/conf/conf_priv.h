/*
 * launcher/conf/conf_priv: what the files of this folder share. Each part
 * checks its options and fills its fields of `c`. On an error it returns -1,
 * with the option, the value and what is allowed in `err` (launcher/conf/conf.h
 * lists the codes).
 */
#ifndef LAUNCHER_CONF_CONF_PRIV_H
#define LAUNCHER_CONF_CONF_PRIV_H

#include "launcher/cluster/cluster.h"
#include "launcher/conf/conf.h"

#define CONF_YEAR_US (INT64_C(31536000) * INT64_C(1000000))

/*
 * Adds to `o` what the scheduler tells and nobody said; the texts are in `c`.
 * Refuses two launchers of one run on one host. First of all parts.
 */
int conf_cluster(struct conf *c, struct opts *o, struct ddp_err *err);

/* Whether hosts are listed; DDP_E_USAGE if the list is empty; if there is none,
 * and an option needs one; and what a list fills in, as conf_cluster does. */
bool conf_has_hosts(const struct opts *o);
int conf_check_hosts(const struct opts *o, struct ddp_err *err);
int conf_check_unlisted(const struct conf *c,
                        const struct opts *o,
                        struct ddp_err *err);
int conf_hosts(struct conf *c, struct opts *o, struct ddp_err *err);

/* Becomes the front end of the job script of Slurm that was found, or of one
 * with a list of hosts, "a,b,c", on which `with` starts a program. What all
 * launchers must be told is filled in. DDP_E_USAGE: the options want more
 * nodes. */
int conf_script(struct conf *c,
                struct opts *o,
                const struct cluster *f,
                struct ddp_err *err);
int conf_list_script(struct conf *c,
                     struct opts *o,
                     const struct cluster *f,
                     const char *hosts,
                     const char *with,
                     struct ddp_err *err);

/* Takes the CPUs that the step has if the scheduler bound this process to one
 * core, and notes it. Returns how many CPUs the step has here if those are one
 * core only, else 0. */
int conf_widen(struct conf *c, const struct opts *o);

/* Notes that nproc workers share so few; nothing if `cpus` is 0. */
void conf_note_few_cpus(struct conf *c, int cpus);

/* The number of workers, their GPUs and their CPUs. */
int conf_place(struct conf *c, const struct opts *o, struct ddp_err *err);

/* Where the nodes meet; needs the number of nodes. */
int conf_meeting(struct conf *c, const struct opts *o, struct ddp_err *err);

/* --rdzv_conf: whether it can be read, which is told before what an endpoint
 * lacks (store_type=file has a path there); and what it says, after
 * conf_meeting, since the backend decides what some keys mean. */
int conf_check_rdzv_conf(const struct opts *o, struct ddp_err *err);
int conf_rdzv_conf(struct conf *c, const struct opts *o, struct ddp_err *err);

/* How this node leaves before the end: --notice_signal, --requeue,
 * --drain_check. After --signals_to_handle. */
int conf_leave(struct conf *c, const struct opts *o, struct ddp_err *err);

/* What to execute; looks it up. */
int conf_program(struct conf *c,
                 const struct opts *o,
                 char *const program[],
                 struct ddp_err *err);

/* Frees argv and exec_path; does nothing if there are none. */
void conf_free_program(struct conf *c);

/* Puts ddprun itself, as the probe of a preflight, in place of the program. */
int conf_probe(struct conf *c, struct ddp_err *err);

/* An option "COMMAND[@SECONDS]": the command goes to `text`, "" if there is
 * none, and the seconds to *us, the default if there are none. What stands
 * behind an @ and is no number belongs to the command. */
int conf_command(const struct opts *o,
                 int id,
                 char *text,
                 size_t size,
                 int64_t *us,
                 struct ddp_err *err);

/* Adds a sentence for the user; a long one is cut. */
__attribute__((format(printf, 2, 3))) void
conf_note(struct conf *c, const char *fmt, ...);

/* Whether it was given, and not as an empty text, which job files use for "not
 * set". */
bool conf_said(const struct opts *o, int id);

/* "--name=value: " before the text of `err`, as the user wrote it; -1. */
int conf_blame(const struct opts *o, int id, struct ddp_err *err);

/* Whether `text` is one of the words, which end with NULL. Case is ignored. */
bool conf_one_of(const char *text, const char *const words[]);

#endif
