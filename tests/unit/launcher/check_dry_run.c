/* links: launcher/dry_run launcher/worker/{env,mailbox} launcher/proc/procfs */
/* links: tests/lib/{conf_line,scratch} */
/* links: rendezvous/base/{mono,json,buf,siphash} rendezvous/proto/{msg,term} */
/* libs: -lcjson -ldl */
/*
 * What --dry_run prints, and that it says so if it could not.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/dry_run.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static char printed[1 << 16];

/* A file of which one write(2) fails. */
struct paper {
    size_t len;
    int writes;
    int fails; /* the write that fails, counted from 1; 0: none */
};

static ssize_t put(void *cookie, const char *data, size_t len)
{
    struct paper *p = cookie;
    if (++p->writes == p->fails) {
        errno = ENOSPC;
        return 0;
    }
    ck_assert_uint_lt(p->len + len, sizeof(printed));
    memcpy(printed + p->len, data, len);
    p->len += len;
    printed[p->len] = '\0';
    return (ssize_t)len;
}

/* Its exit status. */
static int print(const char *line, struct paper *p)
{
    static struct conf conf;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(conf_line_conf(&conf, "", line, &err) == 0, "%s", err.text);
    p->len = 0;
    printed[0] = '\0';
    FILE *f = fopencookie(p, "w", (cookie_io_functions_t){.write = put});
    ck_assert_ptr_nonnull(f);
    int status = dry_run(&conf, f);
    (void)fclose(f);
    conf_free(&conf);
    return status;
}

/* -- what it says ---------------------------------------------------------- */

static void has(const char *text)
{
    ck_assert_msg(strstr(printed, text) != NULL, "'%s' is not in\n%s", text,
                  printed);
}

TEST(test_dry_run_of_one_node_knows_the_ranks)
{
    struct paper p = {.fails = 0};
    ck_assert_int_eq(print("--nproc_per_node=2 prog a b", &p), 0);
    has("\nnodes       1\n");
    has("\nrank 1 (local rank 1)\n");
    has("    RANK=1\n");
    has("    WORLD_SIZE=2\n");
    has("    MASTER_PORT=<a free port>\n");
}

TEST(test_dry_run_of_several_nodes_says_what_is_told_later)
{
    struct paper p = {.fails = 0};
    ck_assert_int_eq(
        print("--nnodes=2 --nproc_per_node=2 --rdzv_endpoint=h:1 prog 'a", &p),
        0);
    has("\nnodes       2\n");
    has("\nrendezvous  at h port 1, c10d\n");
    has("\nrank base+1 (local rank 1)\n");
    has("    WORLD_SIZE=<told by the rendezvous>\n");
    has("    RANK=<base+0>\n");
    has(" ''\\''a'\n"); /* as a shell takes it */
}

TEST(test_dry_run_names_each_endpoint_of_a_list)
{
    struct paper p = {.fails = 0};
    ck_assert_int_eq(print("--nnodes=2 --rdzv_endpoint=h:1,g:2 prog", &p), 0);
    has("\nrendezvous  at h port 1, g port 2, c10d\n");
}

/* -- what fails ------------------------------------------------------------ */

/* Whichever write it is: the status says that something is missing. */
TEST(test_dry_run_that_is_not_printed_whole_fails)
{
    struct paper p = {.fails = 0};
    static const char line[] = "--nproc_per_node=128 prog";
    ck_assert_int_eq(print(line, &p), 0);
    int all = p.writes;
    ck_assert_int_gt(all, 2);
    for (int i = 1; i <= all; i++) {
        p = (struct paper){.fails = i};
        ck_assert_msg(print(line, &p) == ddp_code_exit(DDP_E_IO),
                      "write %d of %d", i, all);
    }
}

SUITE("dry_run", "fast", FIXTURE_ONCE(conf_line_setup, scratch_leave))
