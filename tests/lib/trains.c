/*
 * A program on libddp that trains nothing, as tests/ci/hangs wants it: steps of
 * which each rank has a part, and then all meet. It beats, or writes a line for
 * each step; rank 0 saves and evaluates now and then while the others wait; and
 * one rank may hang.
 *
 * usage: trains KEY=VALUE...
 *     steps=N               ends with 0 after so many
 *     step_ms=N             a rank's part of a step
 *     start_ms=N            before the first one
 *     save_every=N save_ms=N    rank 0 writes to a disk
 *     eval_every=N eval_ms=N    rank 0 computes
 *     line=N                writes lines of N bytes, and does not beat
 *     fail_at=N             the last rank ends with 1 in that step, once
 *     hang=HOW rank=N at=N  that rank hangs in that step, once the file `hung`
 *                           has the time, and stays so:
 *         stop    SIGSTOP
 *         lock    waits for a lock that it has
 *         skip    goes on to another collective than the others
 *         loader  waits for a child that delivers nothing
 *         fifo    opens a FIFO that has no writer (a dead file system)
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "worker_rt/ddp.h"

struct plan {
    long steps, step_ms, start_ms;
    long save_every, save_ms, eval_every, eval_ms;
    long line, fail_at;
    long rank, at;
    const char *hang; /* NULL: none does */
};

struct job {
    struct plan plan;
    struct ddp *ddp;
    struct ddp_comm *comm, *other;
    struct ddp_error err;
};

/* -- what it is to do ------------------------------------------------------ */

static bool read_word(struct plan *p, const char *word)
{
    const struct {
        const char *key;
        long *value;
    } keys[] = {
        {"steps=", &p->steps},
        {"step_ms=", &p->step_ms},
        {"start_ms=", &p->start_ms},
        {"save_every=", &p->save_every},
        {"save_ms=", &p->save_ms},
        {"eval_every=", &p->eval_every},
        {"eval_ms=", &p->eval_ms},
        {"line=", &p->line},
        {"fail_at=", &p->fail_at},
        {"rank=", &p->rank},
        {"at=", &p->at},
    };
    if (strncmp(word, "hang=", 5) == 0) {
        p->hang = word + 5;
        return true;
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t len = strlen(keys[i].key);
        char *end = NULL;
        if (strncmp(word, keys[i].key, len) != 0)
            continue;
        *keys[i].value = strtol(word + len, &end, 10);
        return end != word + len && *end == '\0';
    }
    return false;
}

/* -- what takes time ------------------------------------------------------- */

static long now_ms(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    const struct timespec t = {.tv_sec = ms / 1000,
                               .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

static void compute(long ms)
{
    long until = now_ms(CLOCK_MONOTONIC) + ms;
    for (volatile long n = 0; n % 4096 != 0 || now_ms(CLOCK_MONOTONIC) < until;)
        n = n + 1;
}

/* As one writes a checkpoint to a slow disk. */
static void save(long ms)
{
    static char block[256 * 1024];
    long until = now_ms(CLOCK_MONOTONIC) + ms;
    FILE *f = tmpfile();
    while (f != NULL && now_ms(CLOCK_MONOTONIC) < until) {
        (void)!fwrite(block, sizeof(block), 1, f);
        (void)fflush(f);
        (void)fseek(f, 0, SEEK_SET);
        sleep_ms(50);
    }
    if (f != NULL)
        (void)fclose(f); /* nobody reads it */
}

/* -- how it hangs ---------------------------------------------------------- */

static void note_time(void)
{
    FILE *f = fopen("hung", "w");
    if (f == NULL || fprintf(f, "%ld\n", now_ms(CLOCK_REALTIME)) < 0 ||
        fclose(f) != 0)
        exit(2);
}

static void wait_for_lock(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&lock);
    (void)pthread_mutex_lock(&lock);
}

static void wait_for_loader(void)
{
    int pipes[2];
    char byte;
    if (pipe(pipes) != 0)
        exit(2);
    if (fork() == 0)
        for (;;)
            (void)pause();
    (void)!read(pipes[0], &byte, 1);
}

static void open_fifo(void)
{
    if (mkfifo("fifo", 0600) != 0)
        exit(2);
    (void)open("fifo", O_RDONLY);
}

static void hang(struct job *j)
{
    const char *how = j->plan.hang;
    note_time();
    if (strcmp(how, "stop") == 0)
        (void)raise(SIGSTOP);
    else if (strcmp(how, "lock") == 0)
        wait_for_lock();
    else if (strcmp(how, "skip") == 0)
        (void)ddp_comm_barrier(j->other, &j->err);
    else if (strcmp(how, "loader") == 0)
        wait_for_loader();
    else
        open_fifo();
    exit(3); /* it did not hang */
}

/* -- a step ---------------------------------------------------------------- */

static void tell(const struct plan *p, struct ddp *d, long step)
{
    if (p->line == 0) {
        ddp_beat(d, step);
        return;
    }
    for (long i = 1; i < p->line; i++)
        (void)putchar('a' + (int)(step % 26));
    (void)putchar('\n');
    (void)fflush(stdout);
}

static bool is_due(long step, long every)
{
    return every > 0 && step > 0 && step % every == 0;
}

static int do_step(struct job *j, long step)
{
    const struct plan *p = &j->plan;
    long rank = ddp_rank(j->ddp);
    float sum = 1;
    sleep_ms(p->step_ms);
    if (p->hang != NULL && rank == p->rank && step == p->at)
        hang(j);
    if (step == p->fail_at && rank == ddp_world(j->ddp) - 1 &&
        strcmp(getenv("TORCHELASTIC_RESTART_COUNT"), "0") == 0)
        exit(1);
    if (rank == 0 && is_due(step, p->save_every))
        save(p->save_ms);
    if (rank == 0 && is_due(step, p->eval_every))
        compute(p->eval_ms);
    int rc = ddp_comm_allreduce(j->comm, &sum, 1, DDP_F32, &j->err);
    tell(p, j->ddp, step);
    return rc;
}

int main(int argc, char **argv)
{
    static struct job j = {.plan = {.steps = 100, .fail_at = -1}};
    for (int i = 1; i < argc; i++)
        if (!read_word(&j.plan, argv[i]))
            return 2;
    sleep_ms(j.plan.start_ms);
    j.ddp = ddp_init(&j.err);
    if (j.ddp != NULL)
        j.comm = ddp_comm_new(j.ddp, NULL, &j.err);
    if (j.comm != NULL)
        j.other = ddp_comm_new(j.ddp, NULL, &j.err);
    if (j.other == NULL) {
        (void)fprintf(stderr, "trains: %s\n", j.err.text);
        return 1;
    }
    for (long step = 0; step < j.plan.steps; step++)
        if (do_step(&j, step) != 0) {
            (void)fprintf(stderr, "trains: %s\n", j.err.text);
            return j.err.code;
        }
    return 0;
}
