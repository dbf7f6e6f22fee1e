/*
 * Happy path: a sample of each worker, a pause, another sample. A worker that
 * can run at both moments, or used a fifth of a CPU between them, computes.
 *
 * Failure modes:
 * - /proc is another namespace's, or has no such process: RANK_UNSEEN.
 * - The worker may not be looked into (ptrace(2)): its state and its CPU time
 *   are shown all the same, and where it waits is not: RANK_WAITS.
 * - Its libraries wait by polling (CUDA, MPI): CPU time is no sign that it
 *   computes, and RANK_WAITS is all that can be said without a stack.
 * - The kernel keeps no account of reads and writes (/proc/PID/io), or does not
 *   show it: CPU time and page faults tell whether a worker works.
 */
#include "launcher/hang/rank_look.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/proc/procfs.h"
#include "rendezvous/base/err.h"

#define COMPUTES_PERCENT 20
#define WORKS_PERCENT    20           /* of a CPU */
#define WORKS_BYTES      (256 * 1024) /* between the samples */
#define WORKS_FAULTS     100

/* -- /proc ----------------------------------------------------------------- */

struct stat_line {
    char state;
    int group, session;
    unsigned long long faults, user, kernel;
};

/* Fields 3, 5, 6, 10, 14 and 15 of proc(5). */
static bool read_stat(pid_t pid, struct stat_line *s)
{
    char text[1024];
    if (!procfs_read_text(pid, "stat", text, sizeof(text)))
        return false;
    const char *rest = strrchr(text, ')');
    return rest != NULL &&
           sscanf(rest, ") %c %*s %d %d %*s %*s %*s %llu %*s %*s %*s %llu %llu",
                  &s->state, &s->group, &s->session, &s->faults, &s->user,
                  &s->kernel) == 6;
}

static bool sleeps(pid_t pid)
{
    char text[256];
    if (procfs_read_text(pid, "wchan", text, sizeof(text)) &&
        strstr(text, "nanosleep") != NULL)
        return true;
    if (!procfs_read_text(pid, "syscall", text, sizeof(text)))
        return false;
    char *end;
    long number = strtol(text, &end, 10);
#ifdef SYS_nanosleep
    if (end != text && number == SYS_nanosleep)
        return true;
#endif
    return end != text && number == SYS_clock_nanosleep;
}

static void take_sample(pid_t pid, struct rank_sample *s)
{
    struct stat_line line;
    *s = (struct rank_sample){.state = '?'};
    if (!read_stat(pid, &line))
        return;
    s->state = line.state;
    s->cpu_ticks = (int64_t)(line.user + line.kernel);
    s->sleeps = sleeps(pid);
}

/* Whether the worker has a library whose waits use a CPU. */
static bool may_spin(pid_t pid)
{
    static const char *const libraries[] = {"/libcuda.so", "/libamdhip64.so",
                                            "/libmpi"};
    return procfs_has_mapped(pid, libraries, 3);
}

/* -- what they show -------------------------------------------------------- */

enum rank_doing rank_look_judge(const struct rank_sample *before,
                                const struct rank_sample *after,
                                bool spins)
{
    int64_t ms =
        (after->cpu_ticks - before->cpu_ticks) * 1000 / sysconf(_SC_CLK_TCK);
    bool runs = before->state == 'R' && after->state == 'R';
    switch (after->state) {
    case '?':
        return RANK_UNSEEN;
    case 'T':
    case 't':
        return RANK_STOPPED;
    case 'Z':
    case 'X':
        return RANK_DEFUNCT;
    default:
        break;
    }
    if (before->state == 'D' && after->state == 'D')
        return RANK_IN_KERNEL;
    if (runs || ms * 100 >= COMPUTES_PERCENT * RANK_LOOK_APART_MS)
        return spins ? RANK_WAITS : RANK_COMPUTES;
    return before->sleeps && after->sleeps ? RANK_SLEEPS : RANK_WAITS;
}

void rank_look_all(const pid_t *pids, struct rank_look *looks, int n)
{
    struct rank_sample before[RANK_LOOKS_MAX], after;
    ddp_assert(n >= 0 && n <= RANK_LOOKS_MAX);
    bool ours = procfs_is_ours();
    for (int i = 0; ours && i < n; i++)
        take_sample(pids[i], &before[i]);
    if (ours)
        (void)usleep(RANK_LOOK_APART_MS * 1000);
    for (int i = 0; i < n; i++) {
        looks[i].doing = RANK_UNSEEN;
        if (!ours)
            continue;
        take_sample(pids[i], &after);
        looks[i].doing = rank_look_judge(&before[i], &after, may_spin(pids[i]));
    }
}

/* The kernel's word for a stopped thread stays, whatever its stack shows. */
void rank_look_place(struct rank_look *look, const struct stack_place *place)
{
    if (place->where[0] == '\0')
        return;
    (void)snprintf(look->where, sizeof(look->where), "%s", place->where);
    if (look->doing <= RANK_AWAY)
        return;
    if (place->collective)
        look->doing = RANK_IN_COLLECTIVE;
    else if (place->device)
        look->doing = RANK_WAITS;
    else if (look->doing == RANK_WAITS || look->doing == RANK_UNSEEN)
        look->doing = RANK_ELSEWHERE;
}

/* -- whether they work ----------------------------------------------------- */

static bool uses_cpu(int64_t ticks)
{
    return ticks * 1000 / sysconf(_SC_CLK_TCK) * 100 >=
           WORKS_PERCENT * RANK_WORK_APART_MS;
}

static enum pauses_look judge_one(const struct rank_work *before,
                                  const struct rank_work *after)
{
    bool starves = before->state == 'R' && after->state == 'R';
    bool busy = starves || uses_cpu(after->cpu_ticks - before->cpu_ticks);
    bool faults = after->faults - before->faults >= WORKS_FAULTS;
    if (after->state == '?' || after->bytes - before->bytes >= WORKS_BYTES ||
        uses_cpu(after->children_ticks - before->children_ticks) ||
        (before->child_runs && after->child_runs) ||
        (busy && (faults || !after->spins)))
        return PAUSES_WORKS;
    return busy ? PAUSES_SPINS : PAUSES_STILL;
}

enum pauses_look rank_look_judge_work(const struct rank_work *before,
                                      const struct rank_work *after,
                                      int n)
{
    enum pauses_look all = PAUSES_STILL;
    int stopped = 0, defunct = 0;
    for (int i = 0; i < n; i++) {
        enum pauses_look one = judge_one(&before[i], &after[i]);
        if (after[i].state == 't')
            return PAUSES_TRACED;
        stopped += after[i].state == 'T';
        defunct += after[i].state == 'Z' || after[i].state == 'X';
        all = one < all ? one : all;
    }
    if (stopped == n)
        return PAUSES_HELD;
    return stopped + defunct > 0 ? PAUSES_ODD : all;
}

static int64_t number_behind(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static void take_one(pid_t pid, struct rank_work *w)
{
    char text[512];
    struct stat_line s;
    *w = (struct rank_work){.state = '?'};
    if (!read_stat(pid, &s))
        return;
    w->state = s.state;
    w->cpu_ticks = (int64_t)(s.user + s.kernel);
    w->faults = (int64_t)s.faults;
    if (procfs_read_text(pid, "io", text, sizeof(text)))
        w->bytes =
            number_behind(text, "rchar: ") + number_behind(text, "wchar: ");
}

static void
add_process(pid_t pid, const pid_t *pids, struct rank_work *works, int n)
{
    struct stat_line s;
    if (!read_stat(pid, &s))
        return;
    for (int i = 0; i < n; i++)
        if (pid != pids[i] && (s.session == pids[i] || s.group == pids[i])) {
            works[i].children_ticks += (int64_t)(s.user + s.kernel);
            works[i].child_runs |= s.state == 'R';
        }
}

static void take(const pid_t *pids, struct rank_work *works, int n)
{
    for (int i = 0; i < n; i++)
        take_one(pids[i], &works[i]);
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0')
            add_process((pid_t)pid, pids, works, n);
    }
    if (proc != NULL)
        (void)closedir(proc); /* only read */
}

enum pauses_look rank_look_work(const pid_t *pids, int n)
{
    ddp_assert(n >= 1);
    struct rank_work *before = calloc(2 * (size_t)n, sizeof(*before));
    if (before == NULL || !procfs_is_ours()) {
        free(before);
        return PAUSES_WORKS;
    }
    struct rank_work *after = before + n;
    take(pids, before, n);
    (void)usleep(RANK_WORK_APART_MS * 1000);
    take(pids, after, n);
    for (int i = 0; i < n; i++)
        after[i].spins = may_spin(pids[i]);
    enum pauses_look look = rank_look_judge_work(before, after, n);
    free(before);
    return look;
}
