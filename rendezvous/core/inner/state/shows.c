/*
 * Happy path: an order was answered in words, and its connection stays; the
 * node says what it finds, part by part; with the last one the connection is
 * dropped.
 *
 * Failure modes: the operator goes first: what comes then is for nobody. The
 * node is lost, or its workers are stopped: what the operator has is all there
 * is; ddpctl waits no longer than its --timeout allows.
 */
#include "rendezvous/core/inner/state/shows.h"

#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

static struct show *show_of(struct rdzv *r, int64_t number)
{
    for (int i = 0; i < SHOWS_MAX; i++)
        if (r->shows[i].number == number)
            return &r->shows[i];
    return NULL;
}

bool shows_begin(struct rdzv *r, int conn, const struct node *n, int local_rank)
{
    struct show *show = show_of(r, 0);
    if (show == NULL)
        return false;
    *show = (struct show){
        .number = ++r->show_last, .conn = conn, .node = (int)(n - r->nodes)};
    const struct msg m = {.kind = MSG_KIND_look,
                          .look = {.number = show->number,
                                   .round = r->runs[n->run].round.number,
                                   .local_rank = local_rank}};
    reply_node(r, n, &m);
    return true;
}

void shows_answered(struct rdzv *r,
                    const struct node *n,
                    const struct msg_answered *part)
{
    struct show *show = show_of(r, part->number);
    static struct msg m; /* large */
    m = (struct msg){.kind = MSG_KIND_answered, .answered.more = part->more};
    ddp_assert(part->number > 0);
    if (show == NULL || show->node != (int)(n - r->nodes))
        return; /* the operator has gone */
    msg_set(m.answered.text, part->text);
    reply_send(r, show->conn, &m);
    if (part->more)
        return;
    reply_drop(r, show->conn);
    *show = (struct show){.number = 0};
}

bool shows_closed(struct rdzv *r, int conn)
{
    for (int i = 0; i < SHOWS_MAX; i++)
        if (r->shows[i].number != 0 && r->shows[i].conn == conn) {
            r->shows[i] = (struct show){.number = 0};
            return true;
        }
    return false;
}
