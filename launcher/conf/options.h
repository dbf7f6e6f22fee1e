/*
 * launcher/conf/options: ddprun's options, from the table options.def. The row
 * of `nnodes` is OPTIONS_nnodes, for opts_text() and its kin.
 */
#ifndef LAUNCHER_CONF_OPTIONS_H
#define LAUNCHER_CONF_OPTIONS_H

#include "rendezvous/base/opts.h"

enum options_id {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    OPTIONS_##name,
#include "launcher/conf/options.def"
#undef OPT
#undef OPT_GROUP
    OPTIONS_COUNT
};

/* Those that make a process a front end (launcher/front) or have no effect
 * without one; then -1. */
extern const int options_of_front[];

/* For opts_parse, opts_help and opts_usage. */
extern const struct opts_table options_table;

#endif
