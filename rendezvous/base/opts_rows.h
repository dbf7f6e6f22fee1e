/*
 * base/opts_rows: what a program makes of its table of options (opts.h
 * explains the columns). OPTS_DEF names the table:
 *
 *     #define OPTS_DEF "rendezvous/daemon/options.def"
 *     #include "rendezvous/base/opts_rows.h"
 *
 * There are then, in that order: OPTION_name for each row and OPTION_COUNT;
 * GROUP_ident for each group and GROUP_COUNT; the groups' titles (`groups`);
 * and the rows (`rows`). For one .c file, and so without a guard.
 */
#include "rendezvous/base/opts.h"

enum option_id {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    OPTION_##name,
#include OPTS_DEF
#undef OPT
#undef OPT_GROUP
    OPTION_COUNT
};

enum group_id {
#define OPT_GROUP(ident, title) GROUP_##ident,
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)
#include OPTS_DEF
#undef OPT_GROUP
    GROUP_COUNT
};

static const char *const groups[] = {
#define OPT_GROUP(ident, title) title,
#include OPTS_DEF
#undef OPT
#undef OPT_GROUP
};

/* clang-format off */
static const struct opts_row rows[] = {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help) \
    {#name, letter, OPTS_##kind, env, init, min, max, metavar, GROUP_##group, help},
#include OPTS_DEF
#undef OPT
#undef OPT_GROUP
};
/* clang-format on */
_Static_assert(OPTION_COUNT == sizeof(rows) / sizeof(rows[0]), "one id a row");
_Static_assert(GROUP_COUNT == sizeof(groups) / sizeof(groups[0]),
               "one title a group");
