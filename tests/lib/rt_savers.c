/* links: tests/lib/{rt_keeper,rt_world,rt_comm} */
#include "tests/lib/rt_savers.h"

#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "worker_rt/keeper/keeper.h"

/* -- where a rank dies ----------------------------------------------------- */

static const struct story *told; /* in a rank */
static int my_rank;
static atomic_int now; /* the step that is saved */
static int *surveys;   /* shared: how often ranks compared what they have */

static void die_at(enum point point, int64_t step)
{
    if (told != NULL && told->point == point && told->at == step &&
        told->dies == my_rank)
        (void)raise(SIGKILL);
}

struct commit_words __real_commit_say(const struct commit *c,
                                      int64_t step,
                                      bool disk,
                                      int sealed,
                                      int64_t written);
struct commit_words __wrap_commit_say(const struct commit *c,
                                      int64_t step,
                                      bool disk,
                                      int sealed,
                                      int64_t written);
struct commit_words __wrap_commit_say(const struct commit *c,
                                      int64_t step,
                                      bool disk,
                                      int sealed,
                                      int64_t written)
{
    die_at(BEFORE_WORDS, now);
    return __real_commit_say(c, step, disk, sealed, written);
}

enum commit_verdict __real_commit_hear(struct commit *c,
                                       const struct commit_words *all);
enum commit_verdict __wrap_commit_hear(struct commit *c,
                                       const struct commit_words *all);
enum commit_verdict __wrap_commit_hear(struct commit *c,
                                       const struct commit_words *all)
{
    die_at(AFTER_WORDS, now);
    return __real_commit_hear(c, all);
}

void __real_image_hash_begin(struct image *m);
void __wrap_image_hash_begin(struct image *m);
void __wrap_image_hash_begin(struct image *m)
{
    die_at(IN_COPY, now);
    __real_image_hash_begin(m);
}

void __real_mem_slots_label(struct mem_slots *s,
                            int i,
                            const struct slot_label *label);
void __wrap_mem_slots_label(struct mem_slots *s,
                            int i,
                            const struct slot_label *label);
void __wrap_mem_slots_label(struct mem_slots *s,
                            int i,
                            const struct slot_label *label)
{
    die_at(BEFORE_LABEL, label->step);
    __real_mem_slots_label(s, i, label);
    die_at(AFTER_LABEL, label->step);
}

int __real_pieces_survey(const struct piece_key *keys,
                         size_t n,
                         size_t *bad,
                         uint64_t *names,
                         struct ddp_err *err);
int __wrap_pieces_survey(const struct piece_key *keys,
                         size_t n,
                         size_t *bad,
                         uint64_t *names,
                         struct ddp_err *err);
int __wrap_pieces_survey(const struct piece_key *keys,
                         size_t n,
                         size_t *bad,
                         uint64_t *names,
                         struct ddp_err *err)
{
    if (my_rank == 0)
        (*surveys)++;
    return __real_pieces_survey(keys, n, bad, names, err);
}

int pieces_surveys(void)
{
    return *surveys;
}

/* -- a rank ---------------------------------------------------------------- */

static float value(int step, char name, uint64_t at)
{
    return (float)(step * 10000 + name) + (float)at / 1024;
}

/* `which`: the rank whose shard it is, else. */
void rank_fill(struct rank *r, int step, int which)
{
    uint64_t w = (uint64_t)which;
    for (uint64_t i = 0; i < ROWS * COLS; i++)
        r->shard[i] = value(step, 's', w * ROWS * COLS + i);
    for (uint64_t i = 0; i < COLS; i++) {
        r->ends[0][i] = value(step, 'e', w * COLS + i);
        r->ends[1][i] = value(step, 'e', (w + RANKS) * COLS + i);
    }
    for (uint64_t i = 0; i < COPY; i++)
        r->copy[i] = value(step, 'c', i);
    r->pieces[0].offset[0] = w * ROWS;
    r->pieces[1].offset[0] = w;
    r->pieces[2].offset[0] = w + RANKS;
}

static void describe(struct rank *r)
{
    r->pieces[0] =
        (struct ddp_piece){{"shard", DDP_F32, 2, {ROWS, COLS}, r->shard},
                           {RANKS * ROWS, COLS},
                           {0}};
    for (int i = 0; i < 2; i++)
        r->pieces[1 + i] =
            (struct ddp_piece){{"ends", DDP_F32, 2, {1, COLS}, r->ends[i]},
                               {2 * RANKS, COLS},
                               {0}};
    r->pieces[3] =
        (struct ddp_piece){{"copy", DDP_F32, 1, {COPY}, r->copy}, {COPY}, {0}};
}

/* The second node's memory. */
int other_memory = -1;

static void set(const char *name, long long n)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", n); /* fits */
    RT_CHECK(setenv(name, text, 1) == 0);
}

static void take_place(const struct story *s, int rank)
{
    char path[48];
    if (!s->nodes)
        return;
    set("LOCAL_RANK", rank % 2);
    set("LOCAL_WORLD_SIZE", 2);
    set("GROUP_RANK", rank / 2);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getppid(),
                   rank < 2 ? memory_fd : other_memory); /* fits */
    RT_CHECK(setenv("DDP_SNAPSHOT_MEMORY", path, 1) == 0);
    if (s->apart)
        RT_CHECK(chdir(rank < 2 ? "node0" : "node1") == 0);
}

struct rank *rank_start(const struct story *s, int rank)
{
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .folder = s->folder,
                                         .keep = s->keep,
                                         .later = s->later,
                                         .rank_state_max = s->states ? 8 : 0};
    struct rank *r = calloc(1, sizeof(*r));
    RT_CHECK(r != NULL);
    told = s;
    my_rank = rank;
    take_place(s, rank);
    describe(r);
    r->d = rt_init();
    r->comm = rt_join(r->d, 0);
    r->k = ddp_keeper_new(r->d, r->comm, &conf, &r->e);
    RT_OK(r->k == NULL ? -1 : 0, r->e);
    return r;
}

void rank_stop(struct rank *r)
{
    ddp_keeper_free(r->k);
    ddp_comm_free(r->comm);
    ddp_free(r->d);
    free(r);
}

int rank_save(struct rank *r, int step, bool disk)
{
    now = step;
    return ddp_keeper_save_pieces(r->k, step, r->pieces, 4, NULL, 0, disk,
                                  &r->e);
}

void rank_refused(struct rank *r, int rc, int code, const char *text)
{
    if (rc == 0 || r->e.code != code || strstr(r->e.text, text) == NULL)
        rt_wrong(__FILE__, __LINE__, text,
                 rc == 0 ? "it went well" : r->e.text);
}

int rank_train(int rank, void *arg)
{
    const struct story *s = arg;
    struct rank *r = rank_start(s, rank);
    for (int step = s->first; step <= s->last; step++) {
        if (s->later || s->point == IN_COPY)
            ddp_keeper_settle(r->k); /* before the state, and `now`, change */
        rank_fill(r, step, s->swaps && step >= 3 ? RANKS - 1 - rank : rank);
        if (s->states)
            RT_OK(ddp_keeper_set_rank_state(r->k, &step, sizeof(step), &r->e),
                  r->e);
        bool disk = s->disk_every > 0 && step % s->disk_every == 0;
        int rc = rank_save(r, step, disk);
        if (rc == 0 && s->disk_every > 1)
            rc = ddp_keeper_wait(r->k, &r->e); /* so the next save knows */
        if (rc == 0)
            continue;
        RT_CHECK(s->point != NOWHERE && step >= s->at);
        RT_CHECK(r->e.code == DDP_ERR_PEER);
        break;
    }
    if (s->point == NOWHERE)
        RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
    ddp_keeper_settle(r->k);
    rank_stop(r);
    return 0;
}

void pieces_run(rt_rank_fn *fn, const struct story *s, int round)
{
    uint16_t port;
    pid_t pids[RANKS], store = rt_store_start(&port);
    struct story copy = *s;
    for (int i = 0; i < RANKS; i++)
        pids[i] = rt_rank_start(i, RANKS, port, round, fn, &copy);
    for (int i = 0; i < RANKS; i++) {
        bool dies = s->point != NOWHERE && i == s->dies;
        ck_assert_int_eq(rt_wait(pids[i], 20000), dies ? 128 + SIGKILL : 0);
    }
    rt_kill(store);
}

/* -- what is there --------------------------------------------------------- */

static int count_values(const uint8_t *image,
                        const struct snapshot_header *h,
                        const struct safetensor *t,
                        int step)
{
    char key[300];
    uint64_t rows, cols, row = 0, col = 0;
    (void)snprintf(key, sizeof(key), "ddp.whole.%s", t->name); /* fits */
    const char *whole = safetensors_value(&h->parsed, key);
    ck_assert(whole != NULL || strcmp(t->name, "copy") == 0);
    if (whole != NULL)
        ck_assert_int_eq(
            sscanf(whole, "%lu,%lu@%lu,%lu", &rows, &cols, &row, &col), 4);
    const float *data = (const void *)(image + h->len + t->begin);
    size_t n = (t->end - t->begin) / sizeof(*data);
    for (size_t i = 0; i < n; i++) {
        float right = value(step, t->name[0], row * COLS + i);
        ck_assert(memcmp(&data[i], &right, sizeof(right)) == 0);
    }
    return (int)n;
}

static void look_into(const struct mem_slots *m,
                      int slot,
                      const struct slot_label *label,
                      struct found *f)
{
    uint8_t *image = mem_slots_image(m, slot);
    struct snapshot_opened o;
    struct snapshot_header h;
    struct snapshot_fence fence;
    struct ddp_err why;
    char text[24];
    snapshot_open_memory(&o, image, label->len);
    ck_assert_int_eq(snapshot_read(&o.from, &fence, &why), 0);
    ck_assert_int_eq(fence.step, label->step);
    ck_assert_int_eq(snapshot_header_read(&h, &o.from, &why), 0);
    (void)snprintf(text, sizeof(text), "%d/%d", (int)label->rank, RANKS);
    ck_assert_str_eq(safetensors_value(&h.parsed, "ddp.rank"), text);
    (void)snprintf(text, sizeof(text), "%lld", (long long)label->save);
    ck_assert_str_eq(safetensors_value(&h.parsed, "ddp.save"), text);
    for (size_t i = 0; i < h.parsed.ntensors; i++) {
        const struct safetensor *t = &h.parsed.tensors[i];
        if (strcmp(t->name, "ddp.ranks") == 0) {
            f->states++;
            continue;
        }
        int n = count_values(image, &h, t, (int)label->step);
        f->shard += t->name[0] == 's' ? n : 0;
        f->ends += t->name[0] == 'e' ? n : 0;
        f->copy += t->name[0] == 'c' ? n : 0;
    }
    snapshot_header_free(&h);
}

/* Those with that label in a part; false: there is none. */
bool pieces_find(
    int fd, int part, int parts, int round, int step, struct found *f)
{
    struct mem_slots m;
    struct ddp_err why;
    struct slot_label label;
    bool there = false;
    ck_assert_int_eq(mem_slots_open(&m, fd, part, parts, &why), 0);
    for (int i = 0; i < m.count && !there; i++) {
        if (!mem_slots_read(&m, i, &label) || label.step != step ||
            label.round != round)
            continue;
        there = true;
        if (f != NULL)
            look_into(&m, i, &label, f);
    }
    mem_slots_close(&m);
    return there;
}

/* The newest step of the round that is in the memory of all ranks; 0: none. All
 * of it is right, and there. */
int pieces_newest(int round)
{
    struct found f = {0};
    int step = 50;
    for (bool all = false; step > 0 && !all; step -= all ? 0 : 1) {
        all = true;
        for (int r = 0; r < RANKS; r++)
            all = all && pieces_find(memory_fd, r, RANKS, round, step, NULL);
    }
    for (int r = 0; step > 0 && r < RANKS; r++)
        ck_assert(pieces_find(memory_fd, r, RANKS, round, step, &f));
    if (step > 0) {
        ck_assert_int_eq(f.shard, RANKS * ROWS * COLS);
        ck_assert_int_eq(f.ends, 2 * RANKS * COLS);
        ck_assert_int_eq(f.copy, COPY);
    }
    return step;
}

static void shared_counter(void)
{
    if (surveys == NULL)
        surveys = mmap(NULL, sizeof(*surveys), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(surveys != MAP_FAILED);
    *surveys = 0;
}

void pieces_place(void)
{
    keeper_place();
    shared_counter();
    other_memory = memfd_create(MEMFD_SNAPSHOTS, 0);
    ck_assert_int_ge(other_memory, 0);
    ck_assert_int_eq(ftruncate(other_memory, MEMORY), 0);
    with_memory(true);
}

void pieces_leave(void)
{
    ck_assert_int_eq(close(other_memory), 0);
    keeper_leave();
}
