/* links: RT */
#include "tests/lib/rt_keeper.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/scratch.h"

int memory_fd;

/* -- a place --------------------------------------------------------------- */

void keeper_place(void)
{
    scratch_enter();
    rt_place(0, 1, 1, 1);
    memory_fd = memfd_create(MEMFD_SNAPSHOTS, 0);
    ck_assert_int_ge(memory_fd, 0);
    ck_assert_int_eq(ftruncate(memory_fd, MEMORY), 0);
}

void keeper_leave(void)
{
    scratch_leave();
    ck_assert_int_eq(close(memory_fd), 0);
}

void with_memory(bool with)
{
    char path[48] = "";
    if (with) /* fits */
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(),
                       memory_fd);
    ck_assert_int_eq(setenv("DDP_SNAPSHOT_MEMORY", path, 1), 0);
}

void in_round(const char *instance, int round)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", round); /* fits */
    ck_assert_int_eq(setenv("DDP_INSTANCE", instance, 1), 0);
    ck_assert_int_eq(setenv("DDP_ROUND", text, 1), 0);
}

/* -- a worker -------------------------------------------------------------- */

static void worker_shape(struct worker *w)
{
    w->t[0] = (struct ddp_tensor){"big", DDP_F32, 2, {ELEMS / 2, 2}, w->big};
    w->t[1] = (struct ddp_tensor){"small", DDP_I64, 1, {SMALL}, w->small};
    w->kv.key = "step";
}

void worker_fill(struct worker *w, int64_t step)
{
    for (int i = 0; i < ELEMS; i++)
        w->big[i] = (float)(step * 7 + i);
    for (int i = 0; i < SMALL; i++)
        w->small[i] = step * 1000 + i;
    ddp_kv_set_i64(&w->kv, "step", step);
}

struct worker *worker_start(const struct ddp_keeper_conf *conf)
{
    struct worker *w = calloc(1, sizeof(*w));
    RT_CHECK(w != NULL);
    worker_shape(w);
    w->later = conf->later;
    w->d = rt_init();
    w->comm = rt_join(w->d, 0);
    w->k = ddp_keeper_new(w->d, w->comm, conf, &w->e);
    RT_OK(w->k == NULL ? -1 : 0, w->e);
    return w;
}

void worker_stop(struct worker *w)
{
    ddp_keeper_free(w->k);
    ddp_comm_free(w->comm);
    ddp_free(w->d);
    free(w);
}

int worker_save(struct worker *w, int64_t step, bool disk)
{
    worker_fill(w, step);
    int rc = ddp_keeper_save(w->k, step, w->t, 2, &w->kv, 1, disk, &w->e);
    if (w->later)
        ddp_keeper_settle(w->k);
    worker_fill(w, step + 100000); /* the copy has been made */
    return rc;
}

int64_t worker_load(struct worker *w)
{
    int64_t step;
    memset(w->big, 0, sizeof(w->big));
    if (ddp_keeper_load(w->k, w->t, 2, &w->kv, 1, &w->info, &w->e) != 0)
        return -1;
    RT_OK(ddp_kv_get_i64(&w->kv, &step, &w->e), w->e);
    RT_CHECK(step == w->info.step);
    for (int i = 0; i < ELEMS; i++)
        RT_CHECK((int64_t)w->big[i] == step * 7 + i);
    for (int i = 0; i < SMALL; i++)
        RT_CHECK(w->small[i] == step * 1000 + i);
    return step;
}

int64_t worker_load_once(const struct ddp_keeper_conf *conf)
{
    struct worker *w = worker_start(conf);
    int64_t step = worker_load(w);
    worker_stop(w);
    return step;
}

const struct ddp_keeper_conf on_disk = {.folder = "s"};
const struct ddp_keeper_conf in_memory = {.folder = NULL};

int count_snapshots(const char *folder)
{
    int n = 0;
    char pattern[128];
    glob_t torn;
    DIR *list = opendir(folder);
    if (list == NULL)
        return 0;
    for (const struct dirent *e; (e = readdir(list)) != NULL;)
        n += strncmp(e->d_name, "step-", 5) == 0 ||
             strstr(e->d_name, ".tmp.") != NULL;
    ck_assert_int_eq(closedir(list), 0);
    (void)snprintf(pattern, sizeof(pattern), "%s/step-*/*.tmp.*", folder);
    if (glob(pattern, 0, NULL, &torn) == 0)
        n += (int)torn.gl_pathc;
    globfree(&torn);
    return n;
}

void name_of(char out[96], long long step, int round, const char *who)
{
    (void)snprintf(out, 96,
                   "s/step-%012lld.r%d.%.8s/shard-00001-of-00001.safetensors",
                   step, round, who); /* fits */
}

bool is_there(long long step, int round, const char *who)
{
    char name[96];
    name_of(name, step, round, who);
    return access(name, F_OK) == 0;
}

void damage_file(const char *path, off_t at)
{
    char c;
    int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c = (char)(c ^ 1);
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    ck_assert_int_eq(close(fd), 0);
}
