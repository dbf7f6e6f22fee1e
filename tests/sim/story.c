#include "tests/sim/story.h"

#include <stdarg.h>
#include <stdio.h>

#include "rendezvous/base/mono.h"

struct sim_conf story_conf(int min, int max, int restarts)
{
    return (struct sim_conf){
        .seed = 1,
        .nodes_min = min,
        .nodes_max = max,
        .nproc = 2,
        .max_restarts = restarts,
        .heartbeat_ms = 1000,
        .reconnect_ms = 10000,
        .join_ms = 30000,
        .last_call_ms = 500,
        .grace_ms = 1000,
        .failure_ms = 300,
        .delay_us = 1000,
        .endpoints = 1,
        .endpoint = {SIM_OUTSIDE},
        .trace = true,
    };
}

struct sim *story_new(const struct sim_conf *conf, int nodes)
{
    struct sim *s = sim_new(conf);
    sim_server_start(s);
    for (int i = 0; i < nodes; i++)
        (void)sim_launch(s);
    return s;
}

void story_until(struct sim *s, int64_t at_ms)
{
    sim_run_until(s, at_ms * MONO_MS);
}

bool story_kill_at(struct sim *s, int deed, int64_t from_ms, int64_t away_ms)
{
    int64_t at_ms = from_ms;
    sim_server_kill_at(s, deed);
    while (!sim_server_was_killed(s)) {
        if (++at_ms > from_ms + 2000)
            return false;
        story_until(s, at_ms);
    }
    story_until(s, at_ms + away_ms);
    sim_server_start(s);
    return true;
}

void story_check(struct sim *s, bool good, const char *fmt, ...)
{
    if (good && sim_broken(s) == NULL)
        return;
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    printf("%s", sim_trace(s));
    (void)fflush(stdout); /* a failed check leaves without it */
    ck_abort_msg("%s: %s", what,
                 sim_broken(s) != NULL ? sim_broken(s) : "not as wanted");
}
