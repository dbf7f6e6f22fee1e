/*
 * worker_rt/keeper/keeper_find: the snapshots that this rank holds, in the
 * memory of its node and in the folder, in the order in which they are loaded.
 *
 * Failure modes. The folder cannot be listed to its end: an error, since what
 * is missing may be the newest. A file goes while it is listed: it is left out.
 * A slot without a label, or with one that its sum does not fit, is empty.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdlib.h>

#include "worker_rt/snapshot/snapshot.h"

struct keeper_found {
    const struct ddp_keeper *k;
    struct keeper_candidate *list;
    size_t n;
};

/* Memory that this instance filled, the newest first. What another one left
 * there counts only if there is nothing else. */
static void list_memory(struct keeper_found *l, bool own)
{
    const struct ddp_keeper *k = l->k;
    size_t first = l->n;
    for (int i = 0; i < k->memory.count; i++) {
        struct keeper_candidate c = {.slot = i};
        if (!mem_slots_read(&k->memory, i, &c.label) ||
            (strcmp(c.label.instance, k->d->instance) == 0) != own)
            continue;
        size_t at = l->n++;
        for (; at > first; at--) {
            const struct slot_label *before = &l->list[at - 1].label;
            if (snapshot_dir_newer(k->d->instance, before->round, before->step,
                                   c.label.round, c.label.step) <= 0)
                break;
            l->list[at] = l->list[at - 1];
        }
        l->list[at] = c;
    }
}

/* Memory and files of one instance in one order: each file goes before the
 * first that is older. */
static void
merge(struct keeper_found *l, const struct snapshot_file *files, size_t n)
{
    const char *mine = l->k->d->instance;
    for (size_t i = 0; i < n; i++) {
        size_t at = l->n;
        if (strncmp(files[i].who, mine, SNAPSHOT_DIR_WHO) == 0)
            while (at > 0 && l->list[at - 1].slot >= 0 &&
                   snapshot_dir_newer(mine, l->list[at - 1].label.round,
                                      l->list[at - 1].label.step,
                                      files[i].round, files[i].step) > 0)
                at--;
        memmove(&l->list[at + 1], &l->list[at], (l->n - at) * sizeof(*l->list));
        l->list[at] = (struct keeper_candidate){.slot = -1, .file = files[i]};
        l->n++;
    }
}

int keeper_find(struct ddp_keeper *k,
                struct keeper_candidate **list,
                size_t *n,
                struct ddp_err *err)
{
    struct snapshot_file *files = NULL;
    size_t nfiles = 0;
    *list = NULL;
    *n = 0;
    if (k->disk != KEEPER_NO_DISK && k->disk != KEEPER_ADDS &&
        snapshot_dir_list(&k->dir, &files, &nfiles, err) != 0)
        return ddp_err_wrap(err, "folder '%.200s'", k->folder);
    struct keeper_found l = {.k = k};
    l.list = calloc(nfiles + 2 * MEM_SLOTS_MAX + 1, sizeof(*l.list));
    if (l.list == NULL) {
        free(files);
        return snapshot_no_memory(err);
    }
    list_memory(&l, true);
    merge(&l, files, nfiles);
    list_memory(&l, false);
    /* A slot counts twice at most: if another process wrote it meanwhile. */
    ddp_assert(l.n <= nfiles + 2 * (size_t)k->memory.count);
    free(files);
    *list = l.list;
    *n = l.n;
    return 0;
}

struct commit_label keeper_commit_label(const struct ddp_keeper *k,
                                        const struct slot_label *label)
{
    return (struct commit_label){
        .there = 1,
        .own = strcmp(label->instance, k->d->instance) == 0,
        .round = label->round,
        .save = label->save,
        .step = label->step,
        .who = XXH3_64bits(label->instance,
                           strnlen(label->instance, sizeof(label->instance))),
    };
}
