/*
 * Machines: what their clocks show, and which of them reach each other.
 *
 * A clock that is fast by `ppm` shows that many microseconds more in a second.
 * All clocks showed 0 when the world began. What a machine sends to itself
 * always arrives.
 */
#include <stdio.h>

#include "tests/sim/world.h"

#define PPM 1000000

int64_t clock_of(const struct sim *s, int machine, int64_t at_us)
{
    int ppm = s->machines[machine].ppm;
    return at_us == MONO_NEVER ? MONO_NEVER : at_us + at_us * ppm / PPM;
}

int64_t clock_when(const struct sim *s, int machine, int64_t shown_us)
{
    int ppm = s->machines[machine].ppm;
    if (ppm == 0 || shown_us == MONO_NEVER)
        return shown_us;
    int64_t at_us = shown_us * PPM / (PPM + ppm);
    while (clock_of(s, machine, at_us) < shown_us)
        at_us++;
    return at_us;
}

bool machine_is_rejected(const struct sim *s, int from, int to)
{
    return from != to && (s->machines[from].rejects || s->machines[to].rejects);
}

bool machine_reaches(const struct sim *s, int from, int to)
{
    const struct machine *a = &s->machines[from];
    const struct machine *b = &s->machines[to];
    if (from == to)
        return true;
    if (a->cut[UP] || b->cut[DOWN] || a->rejects || b->rejects)
        return false;
    return a->side == b->side || !s->wall[a->side];
}

/* -- what can be done to them ---------------------------------------------- */

void sim_drifts(struct sim *s, int machine, int ppm)
{
    ddp_assert(s->now_us == 0 && ppm > -PPM / 2 && ppm < PPM / 2);
    s->machines[machine].ppm = ppm;
    s->count[SIM_DRIFTED] |= ppm != 0;
}

static const char *machine_name(int machine, char text[16])
{
    (void)snprintf(text, 16, machine < OUTSIDE ? "n%d" : "s%d",
                   machine < OUTSIDE ? machine : machine - OUTSIDE);
    return text;
}

void sim_cut_machine(struct sim *s, int machine, bool up, bool down)
{
    struct machine *m = &s->machines[machine];
    char name[16];
    if (m->cut[UP] || m->cut[DOWN])
        return;
    s->count[up && down ? SIM_CUT : up ? SIM_CUT_UP : SIM_CUT_DOWN]++;
    sim_tell(s, "fault", "%s is cut off%s", machine_name(machine, name),
             up && down ? ""
             : up       ? ": it is not heard"
                        : ": it hears nothing");
    m->cut[UP] = up;
    m->cut[DOWN] = down;
    net_await_timeouts(s);
}

void sim_heal_machine(struct sim *s, int machine)
{
    struct machine *m = &s->machines[machine];
    char name[16];
    if (!m->cut[UP] && !m->cut[DOWN] && !m->rejects)
        return;
    s->count[SIM_HEALED]++;
    sim_tell(s, "fault", "%s is reached again", machine_name(machine, name));
    m->cut[UP] = m->cut[DOWN] = m->rejects = false;
    net_pump_all(s);
}

/* What it sends out is answered by resets; who sends to it gets them too. */
void sim_reject(struct sim *s, int machine)
{
    struct machine *m = &s->machines[machine];
    char name[16];
    if (m->rejects)
        return;
    s->count[SIM_REJECTS]++;
    sim_tell(s, "fault", "a firewall of %s rejects all",
             machine_name(machine, name));
    m->rejects = true;
    net_reject(s, machine);
    net_await_timeouts(s);
}

void sim_partition(struct sim *s, uint64_t side_1, bool from_0, bool from_1)
{
    s->count[from_0 && from_1 ? SIM_PARTITION : SIM_PARTITION_ONE_WAY]++;
    sim_tell(s, "fault", "a partition%s",
             from_0 && from_1 ? "" : " of one direction");
    for (int i = 0; i < MACHINES_MAX; i++) {
        int bit = i < OUTSIDE ? i % 48 : 48 + i - OUTSIDE;
        s->machines[i].side = (int)(side_1 >> bit & 1);
    }
    s->wall[0] = from_0;
    s->wall[1] = from_1;
    net_await_timeouts(s);
}

void sim_unite(struct sim *s)
{
    if (!s->wall[0] && !s->wall[1])
        return;
    sim_tell(s, "fault", "the partition is over");
    s->wall[0] = s->wall[1] = false;
    net_pump_all(s);
}

int sim_machine(const struct sim *s, int i)
{
    return s->nodes[i].machine;
}

int sim_tenant(const struct sim *s, int machine)
{
    return s->machines[machine].tenant;
}
