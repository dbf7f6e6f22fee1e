/*
 * Failure modes: the daemon cannot be reached, or the answer is none of its:
 * the error's status. stdout is closed: the status of DDP_E_IO, without a word
 * if it is a broken pipe.
 */
#include "rendezvous/ctl/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/ctl/document.h"
#include "rendezvous/ctl/fields.h"

/* -- asking ---------------------------------------------------------------- */

void ctl_complain(const struct ctl_style *style,
                  const char *where,
                  const struct ddp_err *err)
{
    char clean[sizeof(err->text)];
    ctl_clean(style, err->text, clean, sizeof(clean));
    if (err->code == DDP_E_UNREACHABLE)
        log_warnx(
            "no rendezvous at %s: %s. Check that ddprdzvd or the launcher "
            "that serves the job runs there, that no firewall blocks the "
            "port, and that --endpoint is right",
            where, clean);
    else if (err->code == DDP_E_PROTO)
        log_warnx("%s: %s. Check the host and the port (--endpoint)", where,
                  clean);
    else
        log_warnx("%s: %s", where, clean);
}

/* An answer that is not the status is an error, which this names. */
static int take_status(const struct ctl_peer *peer,
                       const struct ctl_answer *a,
                       struct ddp_err *err)
{
    if (a->status == 200)
        return 0;
    if (a->status == 403 && peer->key == NULL)
        return ctl_token_missing(err);
    if (a->status == 503)
        return ddp_err_set(
            err, DDP_E_UNREACHABLE,
            "the rendezvous has too many requests; try again in a second");
    if (a->status == 404)
        return ddp_err_set(
            err, DDP_E_PROTO,
            "the answer is not from a ddprun rendezvous: no status page");
    return ddp_err_set(err, DDP_E_PROTO,
                       "the rendezvous answered with HTTP status %d",
                       a->status);
}

int ctl_status_ask(const struct ctl_peer *peer,
                   const char *run,
                   int64_t timeout_us,
                   struct ctl_answer *a,
                   struct ddp_err *err)
{
    char escaped[3 * 128 + 1];
    char path[sizeof(escaped) + 64];
    *a = (struct ctl_answer){.status = 0};
    ctl_http_escape(run != NULL ? run : "", escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), /* fits */
                   "/status%s%s", run != NULL ? "?run=" : "", escaped);
    if (ctl_http_get(peer, path, mono_now_us() + timeout_us, a, err) != 0)
        return -1;
    return take_status(peer, a, err);
}

/* -- the document ---------------------------------------------------------- */

bool ctl_status_put(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

int ctl_status_fail_to_write(void)
{
    if (errno != EPIPE)
        log_warn("cannot write to standard output");
    return ddp_code_exit(DDP_E_IO);
}

/* One that was named must be there. */
static int check_run(const struct ctl_status *s, const cJSON *status)
{
    char clean[512];
    if (s->run == NULL || field_count(field_of(status, "runs")) > 0)
        return 0;
    ctl_clean(&s->style, s->run, clean, sizeof(clean));
    log_warnx("there is no run '%s' on %s", clean, s->where);
    return ddp_code_exit(DDP_E_USAGE);
}

static int print(const struct ctl_status *s,
                 const struct ctl_answer *a,
                 const cJSON *status)
{
    if (!s->terminal)
        return ctl_status_put(STDOUT_FILENO, a->body, a->len)
                   ? check_run(s, status)
                   : ctl_status_fail_to_write();
    bool written = ctl_document_json(&s->style, status, stdout) == 0 &&
                   fflush(stdout) == 0;
    return written ? check_run(s, status) : ctl_status_fail_to_write();
}

int ctl_status_run(const struct ctl_status *s)
{
    struct ctl_answer a;
    struct ddp_err err;
    cJSON *status = NULL;
    if (ctl_status_ask(s->peer, s->run, s->timeout_us, &a, &err) == 0)
        status = ctl_document_parse(a.body, a.len, &err);
    int rc = status != NULL ? print(s, &a, status) : ddp_code_exit(err.code);
    if (status == NULL)
        ctl_complain(&s->style, s->where, &err);
    cJSON_Delete(status);
    free(a.body);
    return rc;
}
