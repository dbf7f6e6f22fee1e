/*
 * What this node knows of the run's end, and how it ends without knowing.
 *
 * Happy path: `end` with hold; the workers are stopped; bye; the final `end`,
 * and the launcher ends with the run's status.
 *
 * Failure modes:
 *   - The server is lost before the end is final. The next one hears of it from
 *     this node (join, voted), and says it again.
 *   - No server is found. The others may have gone on, and fail or succeed in
 *     another way: what it was told is no end then, and it gives up as a node
 *     does that lost the rendezvous (doubt_end in work.c).
 *   - The others did go on. A leader refuses this node, or has it
 *     accept a later round: the end is void, and so is this node's part.
 *   - The rendezvous stays away, and no end was told: agent_lose_patience.
 */
#include "launcher/agent/agent_priv.h"

#include <signal.h>
#include <stdio.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

/* -- it is told ------------------------------------------------------------ */

/* The instance of newcomers gave way to an older one (moved.c in
 * rendezvous/core), whose success is not theirs. A spare of the older instance
 * has a part in it. */
static bool has_no_part(const struct agent *a, const struct msg_end *end)
{
    return agent_is_member(a) && end->instance[0] != '\0' &&
           !msg_same_instance(a->round.world.instance, end->instance);
}

void agent_on_end(struct step *s, const struct msg_end *end)
{
    struct agent *a = s->a;
    if (end->status == 0 && has_no_part(a, end)) {
        agent_give_up(s, DDP_E_CONFLICT,
                      "run '%s' was running on other nodes already, and has "
                      "succeeded there; the workers of this node were a second "
                      "start of it, and were stopped",
                      a->conf.join.run);
        return;
    }
    if (a->work == AGENT_RUNNING && end->text[0] != '\0')
        agent_note(s, NOTE_ended,
                   "%s; stopping the workers, in at most %.12g s "
                   "(--shutdown_timeout)",
                   end->text, (double)a->conf.shutdown_us / MONO_S);
    a->verdict.ended = true;
    a->verdict.end = *end;
    a->verdict.heard_us = s->now_us;
    a->vote.ended = a->vote.promised;
    if (end->hold &&
        a->known != AGENT_END_HELD) /* not anew if it comes again */
        a->farewell_at_us =
            mono_after(s->now_us, a->conf.join.reconnect_ms * MONO_MS);
    a->known = end->hold ? AGENT_END_HELD : AGENT_END_FINAL;
    agent_decide(a, AGENT_ENDED, (int)end->status);
    if (a->exit == AGENT_ENDED) { /* perhaps it had given up */
        a->verdict.status = (int)end->status;
        a->verdict.text[0] = '\0';
    }
    if (a->known == AGENT_END_HELD)
        agent_send_bye(s);
    agent_go(s, AGENT_ENDED, (int)end->status, SIGTERM);
}

/* -- it was not final ------------------------------------------------------ */

void agent_drop_end(struct step *s)
{
    struct agent *a = s->a;
    if (a->known != AGENT_END_HELD || !agent_forget_end(a))
        return;
    (void)snprintf(a->verdict.text, sizeof(a->verdict.text),
                   "this node was told that the run is over (status %lld), and "
                   "stopped its workers; but its server was lost then, and the "
                   "other nodes went on",
                   (long long)a->verdict.end.status);
    if (a->alive == 0)
        agent_finish(s);
}

bool agent_lets_go(struct step *s)
{
    if (s->a->known != AGENT_END_HELD)
        return false;
    agent_drop_end(s);
    return true;
}

/* -- none was told --------------------------------------------------------- */

void agent_lose_patience(struct step *s)
{
    struct agent *a = s->a;
    int64_t for_s = (s->now_us - a->session.down_since_us) / MONO_S;
    if (a->work == AGENT_DONE) {
        (void)snprintf(a->verdict.text, sizeof(a->verdict.text),
                       "this node's workers all succeeded; the rendezvous was "
                       "lost (%s), so nothing is known of the other nodes",
                       a->session.down_text);
        agent_go(s, AGENT_GAVE_UP, 0, SIGTERM);
    } else if (a->round.outcome == AGENT_FAILED) {
        const struct msg_failed *f = &a->round.failed;
        (void)snprintf(a->verdict.text, sizeof(a->verdict.text),
                       "a worker failed and the rendezvous did not come back "
                       "in %lld s: %s",
                       (long long)for_s, a->session.down_text);
        agent_go(s, AGENT_GAVE_UP,
                 (int)(f->signal != 0 ? 128 + f->signal : f->code), SIGTERM);
    } else if (agent_was_heard(a)) {
        agent_give_up(
            s, DDP_E_LOST,
            "the rendezvous%s was lost and did not come back in %lld s: %s",
            a->conf.endpoint, (long long)for_s, a->session.down_text);
    } else {
        agent_give_up(s, DDP_E_UNREACHABLE,
                      "the rendezvous%s was not reached in %lld s: %s",
                      a->conf.endpoint, (long long)for_s, a->session.down_text);
    }
}
