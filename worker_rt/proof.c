/*
 * worker_rt/proof: tickets, marks and what is known of them.
 *
 * Happy path: draw, mark, done, and the mark is sound. A collective that
 * returns when it is done draws no ticket: after it nothing is open.
 *
 * Failure modes. A communicator fails: its open tickets are never proven, and
 * `broken` is the first of them. If none was open, the program was told by the
 * call that failed, and what was saved before is as good as it was: the part's
 * `broken` is then a ticket that nobody has, so that every later mark lies
 * behind it, until the program frees that communicator. A mark that is sound
 * stays sound: every later failure is of a ticket behind it.
 */
#include "worker_rt/proof.h"

#include <string.h>

void proof_init(struct proof *p)
{
    *p = (struct proof){0};
    (void)pthread_mutex_init(&p->lock, NULL); /* these cannot fail here */
    (void)pthread_cond_init(&p->changed, NULL);
}

void proof_free(struct proof *p)
{
    ddp_assert(p->parts == NULL); /* communicators are freed before */
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
}

void proof_join(struct proof *p, struct proof_part *part)
{
    ddp_assert(part->of == NULL && part->oldest == 0);
    (void)pthread_mutex_lock(&p->lock);
    part->of = p;
    part->next = p->parts;
    p->parts = part;
    (void)pthread_mutex_unlock(&p->lock);
}

/* Under the lock. */
static void note_failure(struct proof_part *part,
                         const struct ddp_err *why,
                         const uint32_t blame[2])
{
    struct proof *p = part->of;
    if (p->why.code == DDP_E_OK)
        p->why = *why;
    if (part->oldest == 0) {
        if (part->broken == 0)
            part->broken = ++p->tickets;
    } else if (p->broken == 0) {
        p->why = *why;
        memcpy(p->blame, blame, sizeof(p->blame));
        p->broken = part->oldest;
    } else if (part->oldest < p->broken) {
        p->broken = part->oldest;
    }
    part->oldest = 0; /* never to be proven */
    (void)pthread_cond_broadcast(&p->changed);
}

void proof_leave(struct proof_part *part)
{
    static const uint32_t nobody[2];
    struct proof *p = part->of;
    struct ddp_err why;
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    if (part->oldest != 0) {
        (void)ddp_err_set(&why, DDP_E_ABORTED,
                          "a communicator was freed before its collectives "
                          "were done");
        note_failure(part, &why, nobody);
    }
    struct proof_part **at = &p->parts;
    while (*at != part)
        at = &(*at)->next;
    *at = part->next;
    part->of = NULL;
    (void)pthread_mutex_unlock(&p->lock);
}

void proof_draw(struct proof_part *part)
{
    struct proof *p = part->of;
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    part->newest = ++p->tickets;
    if (part->oldest == 0)
        part->oldest = part->newest;
    (void)pthread_mutex_unlock(&p->lock);
}

void proof_done(struct proof_part *part, uint64_t upto)
{
    struct proof *p = part->of;
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    if (part->newest <= upto)
        part->oldest = 0;
    else if (part->oldest != 0 && part->oldest <= upto)
        part->oldest = upto + 1;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

void proof_failed(struct proof_part *part,
                  const struct ddp_err *why,
                  const uint32_t blame[2])
{
    struct proof *p = part->of;
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    note_failure(part, why, blame);
    (void)pthread_mutex_unlock(&p->lock);
}

int proof_stopped(const struct proof_part *part,
                  uint32_t blame[2],
                  struct ddp_err *err)
{
    struct proof *p = part->of;
    if (p == NULL)
        return 0;
    (void)pthread_mutex_lock(&p->lock);
    int rc = p->broken != 0 ? -1 : 0;
    if (rc != 0) {
        memcpy(blame, p->blame, sizeof(p->blame));
        *err = p->why;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return rc;
}

/* Parts come and go in the thread that saves, or while it does something else:
 * see ddp.h, threads. So the list is walked without the lock. */
uint64_t proof_mark(struct proof *p)
{
    (void)pthread_mutex_lock(&p->lock);
    uint64_t mark = p->tickets;
    (void)pthread_mutex_unlock(&p->lock);
    for (struct proof_part *t = p->parts; t != NULL; t = t->next)
        if (t->oldest != 0 && t->mark != NULL)
            t->mark(t, mark);
    return mark;
}

void proof_prove(struct proof *p, uint64_t mark)
{
    for (struct proof_part *t = p->parts; t != NULL; t = t->next)
        if (t->oldest != 0 && t->oldest <= mark && t->prove != NULL)
            t->prove(t, mark);
}

/* Under the lock. */
static enum proof_state
state_of(const struct proof *p, uint64_t mark, struct ddp_err *err)
{
    bool broken = p->broken != 0 && mark >= p->broken, open = false;
    for (const struct proof_part *t = p->parts; t != NULL; t = t->next) {
        broken = broken || (t->broken != 0 && mark >= t->broken);
        open = open || (t->oldest != 0 && t->oldest <= mark);
    }
    if (!broken)
        return open ? PROOF_OPEN : PROOF_SOUND;
    *err = p->why;
    (void)ddp_err_wrap(err, "a collective that it rests on failed");
    return PROOF_BROKEN;
}

enum proof_state proof_wait(struct proof *p,
                            uint64_t mark,
                            const atomic_bool *quit,
                            struct ddp_err *err)
{
    enum proof_state state;
    (void)pthread_mutex_lock(&p->lock);
    while ((state = state_of(p, mark, err)) == PROOF_OPEN && !atomic_load(quit))
        (void)pthread_cond_wait(&p->changed, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
    return state;
}

enum proof_state proof_look(struct proof *p, uint64_t mark, struct ddp_err *err)
{
    static const atomic_bool now = true;
    return proof_wait(p, mark, &now, err);
}

void proof_wake(struct proof *p)
{
    (void)pthread_mutex_lock(&p->lock);
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

int proof_settle(struct proof *p, struct ddp_err *err)
{
    static const atomic_bool never;
    uint64_t mark = proof_mark(p);
    proof_prove(p, mark);
    return proof_wait(p, mark, &never, err) == PROOF_SOUND ? 0 : -1;
}
