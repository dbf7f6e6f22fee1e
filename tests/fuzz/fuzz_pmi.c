/* links: launcher/mpi/{space,kvs,mapping} rendezvous/proto/pmi */
/* links: rendezvous/base/{err,buf} */
/* libs: -lm */
/*
 * What workers say on their PMI sockets, in pieces, and what other nodes bring:
 * the first byte of each piece says who, how many bytes, or that it is from the
 * nodes, or where the topology is. Whatever it is, answers are one line each of
 * a length that can be printed, at most one worker fails, and a line that is
 * complete is never asked for again.
 */
#include <stdlib.h>

#include "launcher/mpi/space.h"
#include "tests/fuzz/fuzz.h"

#define WORKERS 3

static struct space s;
static struct buf in[WORKERS];
static struct pmi_decoder decoders[WORKERS];
static int failures;
static bool fencing, looking;

static void say(void *ctx, int local_rank, const struct pmi_answer *a)
{
    (void)ctx;
    ddp_assert(local_rank >= 0 && local_rank < WORKERS);
    ddp_assert(a->len >= 5 && a->len < PMI_LINE_MAX);
    ddp_assert(memcmp(a->line, "cmd=", 4) == 0);
    ddp_assert(strlen(a->line) == a->len);
    ddp_assert(strchr(a->line, '\n') == a->line + a->len - 1);
}

static void fail(void *ctx, int local_rank, int code, const char *why)
{
    (void)ctx;
    ddp_assert(local_rank >= 0 && local_rank < WORKERS);
    ddp_assert(code >= 1 && code <= 255 && why[0] != '\0');
    ddp_assert(++failures == 1);
}

static void warn(void *ctx, int local_rank, const char *why)
{
    (void)ctx;
    ddp_assert(local_rank >= 0 && local_rank < WORKERS);
    ddp_assert(why[0] != '\0');
}

static void fence(void *ctx, const void *fresh, size_t len)
{
    (void)ctx;
    ddp_assert(len == 0 || fresh != NULL);
    fencing = true;
}

static void name(void *ctx,
                 int local_rank,
                 enum pmi_op op,
                 struct pmi_text key,
                 struct pmi_text value)
{
    (void)ctx, (void)op, (void)value;
    ddp_assert(key.len > 0 && local_rank < WORKERS);
}

static void look(void *ctx)
{
    (void)ctx;
    looking = true;
}

static const struct space_handler handler = {.say = say,
                                             .fail = fail,
                                             .warn = warn,
                                             .fence = fence,
                                             .name = name,
                                             .look = look};

/* The topology's file is found, or there is none. */
static void tell_topology(size_t found)
{
    looking = false;
    space_told_topology(&s, found > 0 ? "/proc/1/fd/7" : "");
}

static void worker_says(int rank, const uint8_t *data, size_t len)
{
    struct pmi_request req;
    struct ddp_err err = {.text = ""};
    size_t used;
    enum pmi_status status = PMI_DONE;
    if (space_is_lost(&s, rank) || buf_put(&in[rank], data, len) != 0)
        return;
    while (status == PMI_DONE && !space_is_lost(&s, rank)) {
        size_t before = buf_len(&in[rank]);
        status = pmi_decode(&decoders[rank], (const char *)buf_head(&in[rank]),
                            before, &req, &used, &err);
        ddp_assert(used <= before && (status != PMI_DONE || used > 0));
        ddp_assert(status != PMI_MORE || before < PMI_LINE_MAX || used > 0);
        if (status == PMI_DONE)
            space_request(&s, rank, &req);
        else if (status == PMI_BAD)
            space_broke(&s, rank, err.text);
        buf_take(&in[rank], used);
    }
}

static void nodes_say(uint8_t what, const uint8_t *data, size_t len)
{
    struct pmi_text text = {(const char *)data, len};
    if (what % 4 == 0 && fencing && s.fencing) {
        fencing = false;
        space_fenced(&s, text.at, len);
    } else if (what % 4 == 1 && !s.mapped) {
        space_told_nodes(&s, text.at, len);
    } else if (what % 4 == 2) {
        struct pmi_text none = {"", 0};
        space_named(&s, what / 4 % WORKERS, what > 99, none);
    } else if (what % 4 == 3 && what >= 128) {
        if (looking)
            tell_topology(len);
    } else if (what % 4 == 3) {
        (void)space_ended(&s, what / 4 % WORKERS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in f = {data, size};
    size_t got;
    int64_t nodes = 1 + fuzz_u8(&f) % 2;
    ddp_assert(space_init(&s, WORKERS, &handler, NULL) == 0);
    space_begin(&s, "0123456789abcdef", 1, nodes, nodes * WORKERS);
    failures = 0;
    fencing = looking = false;
    for (int i = 0; i < WORKERS; i++) {
        buf_init(&in[i], PMI_LINE_MAX);
        decoders[i] = (struct pmi_decoder){0};
    }
    while (f.left > 0) {
        uint8_t who = fuzz_u8(&f);
        size_t len = fuzz_u8(&f);
        uint8_t what = fuzz_u8(&f);
        const uint8_t *at = fuzz_bytes(&f, len, &got);
        if (who % (WORKERS + 1) < WORKERS)
            worker_says(who % (WORKERS + 1), at, got);
        else
            nodes_say(what, at, got);
    }
    for (int i = 0; i < WORKERS; i++)
        buf_free(&in[i]);
    space_free(&s);
    return 0;
}
