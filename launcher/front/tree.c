/*
 * Happy path: ssh executes a hub (launcher/front/hub) on the first host of
 * a branch. It says hello, is told what to execute for each member, and carries
 * bytes: for their stdins, and from their stdouts and stderrs. Those come by
 * its own stdout and stderr: if one console is full, the other goes on.
 *
 * Failure modes:
 * - The hub cannot be reached, is killed, or its host is lost: ssh ends, and
 *   all members end with LINK_BROKEN.
 * - The hub does not do what it is told (it is stopped): KILL_US after a
 *   member was killed in vain the link is cut.
 * - A member ends before its output is read: its stdout is over when the hub
 *   says so there, its stderr with its end.
 */
#include "launcher/front/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/front/frames.h"
#include "launcher/front/hub.h"
#include "rendezvous/base/mono.h"

#define KILL_US (5 * MONO_S)

void front_link_init(struct front_link *l,
                     struct front_child *member,
                     int len,
                     const char *mark)
{
    *l = (struct front_link){.member = member, .len = len, .mark = mark};
    front_child_init(&l->via, member[0].name);
    for (int i = 0; i < 2; i++)
        buf_init(&l->in[i], 2 * FRAMES_MAX);
    for (int i = 0; i < len; i++) {
        member[i].link = l;
        member[i].number = i;
    }
}

/* -- what it is told ------------------------------------------------------- */

static bool put(struct front_link *l,
                enum frame_kind kind,
                int number,
                const void *data,
                size_t len)
{
    char head[FRAMES_HEAD_MAX];
    size_t n = frames_head(head, l->mark, kind, number, len);
    uint8_t *room = buf_reserve(&l->via.orders, n + len);
    if (room == NULL)
        return false;
    memcpy(room, head, n);
    if (len > 0)
        memcpy(room + n, data, len);
    buf_commit(&l->via.orders, n + len);
    front_child_write(&l->via);
    return true;
}

int front_link_start(struct front_link *l,
                     const struct command *w,
                     const char *folder,
                     const sigset_t *mask,
                     struct console *out,
                     struct console *err_to,
                     struct ddp_err *err)
{
    char line[HUB_LINE_MAX];
    ddp_assert(l->state == LINK_WAITS);
    int n = snprintf(line, sizeof(line), HUB_FORMAT, l->mark, folder);
    if (n < 0 || (size_t)n >= sizeof(line) || strchr(folder, '\n') != NULL)
        return ddp_err_set(err, DDP_E_USAGE, "this folder has an odd name");
    if (buf_put(&l->via.orders, line, (size_t)n) < 0)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a connection");
    if (front_child_start(&l->via, w, true, mask, out, err_to, 1, err) < 0)
        return -1;
    l->state = LINK_STARTING;
    front_child_write(&l->via);
    return 0;
}

int front_link_execute(struct front_link *l,
                       struct front_child *k,
                       const struct command *w,
                       struct console *out,
                       struct console *err_to,
                       uint64_t id,
                       struct ddp_err *err)
{
    char words[FRAMES_DATA_MAX];
    size_t n = 0;
    ddp_assert(l->state == LINK_UP && k->link == l);
    for (int i = 0; i < w->n; i++) {
        size_t len = strlen(w->word[i]) + 1;
        if (len > sizeof(words) - n)
            return ddp_err_set(err, DDP_E_USAGE,
                               "the command to be executed is too long");
        memcpy(words + n, w->word[i], len);
        n += len;
    }
    if (w->failed || !put(l, FRAME_START, k->number, words, n))
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a command line");
    front_child_start_there(k, out, err_to, id);
    return 0;
}

void front_tree_write(struct front_child *k)
{
    if (k->link == NULL) {
        front_child_write(k);
        return;
    }
    while (k->link->state == LINK_UP && buf_len(&k->orders) > 0) {
        size_t len = buf_len(&k->orders);
        len = len < FRAMES_DATA_MAX ? len : FRAMES_DATA_MAX;
        if (!put(k->link, FRAME_INPUT, k->number, buf_head(&k->orders), len))
            return; /* full for now: front_link_look tries again */
        buf_take(&k->orders, len);
    }
}

void front_tree_kill(struct front_child *k)
{
    struct front_link *l = k->link;
    if (l == NULL) {
        front_child_kill(k, SIGKILL);
        return;
    }
    if (l->state != LINK_UP || !front_child_lives(k))
        return;
    if (l->killed_us == 0)
        l->killed_us = mono_now_us();
    (void)put(l, FRAME_KILL, k->number, NULL, 0);
}

/* -- what it says ---------------------------------------------------------- */

static void feed(struct front_stream *s, const struct frame *f, int64_t now_us)
{
    for (size_t at = 0; at < f->len; at += STREAMS_FEED_MAX) {
        size_t left = f->len - at;
        front_stream_feed(s, f->data + at,
                          left < STREAMS_FEED_MAX ? left : STREAMS_FEED_MAX,
                          now_us);
    }
    if (f->len == 0)
        front_stream_end(s);
}

static void
hear_end(struct front_child *k, const struct frame *f, int64_t now_us)
{
    char digits[8] = "";
    memcpy(digits, f->data, f->len < 7 ? f->len : 7);
    front_stream_end(&k->err);
    front_child_end_there(k, (int)(strtol(digits, NULL, 10) & 255), now_us);
}

static void
hear(struct front_link *l, int which, const struct frame *f, int64_t now_us)
{
    if (f->kind == FRAME_HELLO && l->state == LINK_STARTING)
        l->state = LINK_UP;
    if (f->kind == FRAME_END)
        l->killed_us = 0;
    if (f->number >= l->len || l->member[f->number].link != l)
        return; /* of one that was taken from it */
    struct front_child *k = &l->member[f->number];
    if (f->kind == FRAME_BYTES)
        feed(which == 0 ? &k->out : &k->err, f, now_us);
    else if (f->kind == FRAME_END)
        hear_end(k, f, now_us);
}

/* Text between frames is ssh's: what matters of it, its end tells. */
static void hear_frames(struct front_link *l, int which, int64_t now_us)
{
    struct frame f;
    struct buf *b = &l->in[which];
    while (frames_find((const char *)buf_head(b), buf_len(b), l->mark, &f)) {
        hear(l, which, &f, now_us);
        buf_take(b, f.plain + f.used);
    }
    buf_take(b, f.plain);
}

void front_link_read(struct front_link *l, int which, int64_t now_us)
{
    struct front_stream *s = which == 0 ? &l->via.out : &l->via.err;
    if (s->fd < 0 || !front_stream_wants(s))
        return;
    uint8_t *room = buf_reserve(&l->in[which], STREAMS_FEED_MAX);
    if (room == NULL)
        return; /* no memory now: it waits in its pipe */
    ssize_t n = read(s->fd, room, STREAMS_FEED_MAX);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    s->last_us = now_us;
    if (n <= 0) {
        front_stream_close(s);
        return;
    }
    buf_commit(&l->in[which], (size_t)n);
    hear_frames(l, which, now_us);
}

/* -- its end --------------------------------------------------------------- */

static void end_members(struct front_link *l, int64_t now_us)
{
    for (int i = 0; i < l->len; i++) {
        struct front_child *k = &l->member[i];
        if (k->link != l)
            continue;
        front_child_end_there(k, LINK_BROKEN, now_us);
        front_stream_end(&k->out);
        front_stream_end(&k->err);
    }
}

void front_link_look(struct front_link *l, int64_t now_us)
{
    if (l->state == LINK_WAITS || l->state == LINK_BROKE)
        return;
    for (int i = 0; i < l->len; i++)
        if (l->member[i].link == l)
            front_tree_write(&l->member[i]);
    if (l->killed_us != 0 && now_us >= l->killed_us + KILL_US)
        front_child_kill(&l->via, SIGKILL);
    (void)front_child_reap(&l->via, now_us);
    (void)front_stream_look(&l->via.out, now_us); /* whether it is read */
    (void)front_stream_look(&l->via.err, now_us);
    if (!front_child_is_over(&l->via, now_us))
        return;
    l->state = LINK_BROKE;
    end_members(l, now_us);
}

void front_link_cut(struct front_link *l)
{
    if (l->state == LINK_WAITS)
        l->state = LINK_BROKE;
    front_child_kill(&l->via, SIGKILL);
}

void front_link_free(struct front_link *l)
{
    front_child_free(&l->via);
    for (int i = 0; i < 2; i++)
        buf_free(&l->in[i]);
}
