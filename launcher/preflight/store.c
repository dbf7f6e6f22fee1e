#include "launcher/preflight/store.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/preflight/io.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/proto/c10d.h"

#define BUF_MAX    (C10D_VALUE_MAX + C10D_KEY_MAX + 64)
#define READ_SIZE  4096u
#define TRY_MAX_US (3 * MONO_S) /* one connect: three SYNs */
#define PAUSE_US   (200 * MONO_MS)

void preflight_store_init(struct preflight_store *s, const char *host, int port)
{
    *s = (struct preflight_store){.host = host, .port = port, .fd = -1};
    buf_init(&s->in, BUF_MAX);
    buf_init(&s->out, BUF_MAX);
}

void preflight_store_free(struct preflight_store *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* nothing of it is wanted any more */
    s->fd = -1;
    buf_free(&s->in);
    buf_free(&s->out);
}

int preflight_store_connect(struct preflight_store *s,
                            int64_t deadline_us,
                            struct ddp_err *err)
{
    while (s->fd < 0) {
        int64_t try_us = mono_min(mono_now_us() + TRY_MAX_US, deadline_us);
        if (preflight_io_dial(s->host, s->port, try_us, &s->fd, err) == 0)
            return c10d_put_hello(&s->out, err);
        if (mono_now_us() + PAUSE_US >= deadline_us ||
            (err != NULL && err->code == DDP_E_ABORTED))
            return -1;
        (void)preflight_io_wait(-1, 0, mono_now_us() + PAUSE_US, NULL);
    }
    return 0;
}

/* -- one request, one reply ------------------------------------------------ */

enum reply {
    REPLY_NONE,
    REPLY_BYTE,
    REPLY_VALUE,
};

struct request {
    enum reply reply;
    uint8_t byte;
    struct c10d_slice value; /* borrowed from s->in */
    size_t used;
};

static enum c10d_status
look(struct preflight_store *s, struct request *r, struct ddp_err *err)
{
    const uint8_t *data = buf_head(&s->in);
    size_t len = buf_len(&s->in);
    if (len == 0)
        return C10D_MORE;
    if (r->reply == REPLY_BYTE)
        return c10d_reply_byte(data, len, &r->byte, &r->used, err);
    return c10d_reply_value(data, len, &r->value, &r->used, err);
}

static int
read_more(struct preflight_store *s, int64_t deadline_us, struct ddp_err *err)
{
    if (preflight_io_wait(s->fd, POLLIN, deadline_us, err) != 0)
        return -1;
    uint8_t *room = buf_reserve(&s->in, READ_SIZE);
    if (room == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a reply");
    ssize_t n = recv(s->fd, room, READ_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return ddp_err_set(err, DDP_E_LOST, "the store closed the connection");
    buf_commit(&s->in, (size_t)n);
    return 0;
}

static int talk(struct preflight_store *s,
                struct request *r,
                int64_t deadline_us,
                struct ddp_err *err)
{
    size_t len = buf_len(&s->out);
    if (preflight_io_send(s->fd, buf_head(&s->out), len, deadline_us, err) != 0)
        return -1;
    buf_take(&s->out, len);
    while (r->reply != REPLY_NONE) {
        enum c10d_status status = look(s, r, err);
        if (status == C10D_DONE)
            return 0;
        if (status == C10D_BAD || read_more(s, deadline_us, err) != 0)
            return -1;
    }
    return 0;
}

static struct c10d_slice slice(const char *text)
{
    return (struct c10d_slice){.data = (const uint8_t *)text,
                               .len = strlen(text)};
}

/* A failure leaves a connection of which nobody knows what is under way. */
static int failed(struct preflight_store *s)
{
    preflight_store_free(s);
    return -1;
}

int preflight_store_set(struct preflight_store *s,
                        const char *key,
                        const char *text,
                        int64_t deadline_us,
                        struct ddp_err *err)
{
    struct request r = {.reply = REPLY_NONE};
    if (preflight_store_connect(s, deadline_us, err) != 0 ||
        c10d_put_set(&s->out, slice(key), slice(text), err) != 0 ||
        talk(s, &r, deadline_us, err) != 0)
        return failed(s);
    return 0;
}

/* Waits for the key, or asks for it. */
static int ask(struct preflight_store *s,
               const char *key,
               bool wait,
               uint8_t *byte,
               int64_t deadline_us,
               struct ddp_err *err)
{
    struct request r = {.reply = REPLY_BYTE};
    struct c10d_slice name = slice(key);
    if (preflight_store_connect(s, deadline_us, err) != 0)
        return failed(s);
    int rc = wait ? c10d_put_wait(&s->out, &name, 1, err)
                  : c10d_put_check(&s->out, &name, 1, err);
    if (rc != 0 || talk(s, &r, deadline_us, err) != 0)
        return failed(s);
    buf_take(&s->in, r.used);
    *byte = r.byte;
    return 0;
}

int preflight_store_has(struct preflight_store *s,
                        const char *key,
                        bool *there,
                        int64_t deadline_us,
                        struct ddp_err *err)
{
    uint8_t byte = C10D_NOT_READY;
    int rc = ask(s, key, false, &byte, deadline_us, err);
    *there = rc == 0 && byte == C10D_READY;
    return rc;
}

int preflight_store_get(struct preflight_store *s,
                        const char *key,
                        char **text,
                        int64_t deadline_us,
                        struct ddp_err *err)
{
    uint8_t byte = C10D_WAIT_CANCELED;
    if (ask(s, key, true, &byte, deadline_us, err) != 0)
        return -1;
    if (byte != C10D_STOP_WAITING) {
        ddp_err_set(err, DDP_E_PROTO, "the store cancelled a wait");
        return failed(s);
    }
    if (text == NULL)
        return 0;
    struct request r = {.reply = REPLY_VALUE};
    if (c10d_put_get(&s->out, slice(key), err) != 0 ||
        talk(s, &r, deadline_us, err) != 0)
        return failed(s);
    *text = calloc(r.value.len + 1, 1);
    if (*text != NULL && r.value.len > 0)
        memcpy(*text, r.value.data, r.value.len);
    buf_take(&s->in, r.used);
    return *text != NULL ? 0 : ddp_err_set(err, DDP_E_NOMEM, "no memory");
}
