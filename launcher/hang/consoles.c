#include "launcher/hang/consoles.h"

#include <unistd.h>

#include "launcher/worker/pipe_probe.h"

/* A stream with a log file never waits for the console
 * (launcher/output/stream). */
static bool may_wait(const struct conf *conf, enum conf_stream which)
{
    for (int i = 0; i < conf->nproc; i++) {
        struct conf_plan p = conf_output_plan(&conf->output, i, which);
        if (p.piped ? p.console && !p.file : !p.null)
            return true;
    }
    return false;
}

void consoles_init(struct consoles *c,
                   const struct conf *conf,
                   const struct workers *workers)
{
    *c = (struct consoles){.workers = workers, .nproc = conf->nproc};
    for (int i = 0; i < 2; i++)
        c->looks[i] = (struct console_look){
            .blocks = may_wait(conf, (enum conf_stream)(i + 1)), .waiting = -1};
}

static int64_t output_of_all(const struct consoles *c)
{
    struct hang_sample sample;
    int64_t sum = 0;
    for (int i = 0; i < c->nproc; i++)
        if (workers_look(c->workers, i, &sample))
            sum += sample.output;
    return sum;
}

/* A full console has taken something if its number has changed, or if the
 * relay has taken output of a worker: a terminal's number never changes. */
static enum hang_pace
pace_of(const struct consoles *all, struct console_look *c, int fd)
{
    struct console_look before = *c;
    if (!c->blocks)
        return HANG_RUNS;
    c->waiting = pipe_probe(fd);
    if (c->waiting < 0)
        return HANG_RUNS;
    c->output = output_of_all(all);
    bool took = c->waiting != before.waiting || c->output != before.output;
    return took ? HANG_SLOW : HANG_STANDS;
}

enum hang_pace consoles_look(struct consoles *c)
{
    enum hang_pace slowest = HANG_RUNS;
    for (int i = 0; i < 2; i++) {
        enum hang_pace pace = pace_of(c, &c->looks[i], STDOUT_FILENO + i);
        slowest = pace > slowest ? pace : slowest;
    }
    return slowest;
}
