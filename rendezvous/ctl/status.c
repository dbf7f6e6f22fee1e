/*
 * A listing is made in memory and written at once. With --watch on a terminal
 * it is drawn from the upper left corner, line by line over the listing before:
 * nothing flickers, and an interrupt leaves nothing to restore.
 *
 * Failure modes: the daemon cannot be reached, or the answer is none of its:
 * the first listing ends ddpctl with the error's status; later ones keep the
 * last listing under a line that says how long the daemon is away. stdout is
 * closed: ddpctl ends with the status of DDP_E_IO, without a word if it is a
 * broken pipe.
 */
#include "rendezvous/ctl/status.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
    (void)signo;
    interrupted = 1;
}

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
                   bool all,
                   int64_t timeout_us,
                   struct ctl_answer *a,
                   struct ddp_err *err)
{
    char escaped[3 * 128 + 1];
    char path[sizeof(escaped) + 64];
    *a = (struct ctl_answer){.status = 0};
    ctl_http_escape(run != NULL ? run : "", escaped, sizeof(escaped));
    (void)snprintf(path, sizeof(path), /* fits */
                   "/status?nodes=%s%s%s", all ? "all" : "256",
                   run != NULL ? "&run=" : "", escaped);
    if (ctl_http_get(peer, path, mono_now_us() + timeout_us, a, err) != 0)
        return -1;
    return take_status(peer, a, err);
}

static int fetch(const struct ctl_status *s,
                 struct ctl_answer *a,
                 cJSON **status,
                 struct ddp_err *err)
{
    *status = NULL;
    if (ctl_status_ask(s->peer, s->view.run, s->view.all, s->timeout_us, a,
                       err) == 0)
        *status = ctl_view_parse(a->body, a->len, err);
    return *status != NULL ? 0 : -1;
}

/* -- one listing ----------------------------------------------------------- */

/* A listing, owned by the caller. NULL: an error. */
static char *make_listing(struct ctl_status *s, int *runs, struct ddp_err *err)
{
    struct ctl_answer a;
    cJSON *status;
    char *listing = NULL;
    size_t size;
    if (fetch(s, &a, &status, err) != 0) {
        free(a.body);
        return NULL;
    }
    FILE *f = open_memstream(&listing, &size);
    if (f == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the status");
    *runs = 1;
    if (s->json && !s->terminal)
        (void)fwrite(a.body, 1, a.len, f);
    else if (s->json)
        (void)ctl_view_json(&s->view.style, status, f);
    else
        *runs = ctl_view_print(&s->view, status, f);
    if (fclose(f) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the status");
    cJSON_Delete(status);
    free(a.body);
    return listing;
}

bool ctl_status_put(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        text += n;
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

static int show_once(struct ctl_status *s)
{
    struct ddp_err err;
    int runs;
    char *listing = make_listing(s, &runs, &err);
    if (listing == NULL) {
        ctl_complain(&s->view.style, s->view.where, &err);
        return ddp_code_exit(err.code);
    }
    bool written = ctl_status_put(listing, strlen(listing));
    free(listing);
    if (!written)
        return ctl_status_fail_to_write();
    return s->view.run != NULL && runs == 0 ? ddp_code_exit(DDP_E_USAGE) : 0;
}

/* -- repeatedly ------------------------------------------------------------ */

/* The terminal may have another size by now. */
static int measure(struct ctl_status *s)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 24;
    s->view.style.width =
        size.ws_col < CTL_WIDTH_MIN ? CTL_WIDTH_MIN : size.ws_col;
    return size.ws_row < 4 ? 24 : size.ws_row;
}

/* From the upper left corner; lines that do not fit are left out. */
static bool redraw(const char *news, const char *listing, int rows)
{
    char *all = NULL;
    size_t size;
    FILE *f = open_memstream(&all, &size);
    if (f == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the status");
    fputs("\033[H", f);
    for (int i = 0; i < 2; i++) {
        const char *at = i == 0 ? news : listing;
        for (; *at != '\0' && rows > 1; rows--) {
            size_t len = strcspn(at, "\n");
            fprintf(f, "%.*s\033[K\n", (int)len, at);
            at += len + (at[len] == '\n');
        }
    }
    fputs("\033[J", f);
    if (fclose(f) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the status");
    bool written = ctl_status_put(all, size);
    free(all);
    return written;
}

/* "", or a line that says that the daemon is away. */
static void describe_away(const struct ctl_status *s,
                          const struct ddp_err *err,
                          int64_t since_us,
                          char *news,
                          size_t size)
{
    char clean[sizeof(err->text)];
    char span[24];
    ctl_clean(&s->view.style, err->text, clean, sizeof(clean));
    ctl_span((double)(mono_now_us() - since_us) / (double)MONO_S, span);
    (void)snprintf(news, size, /* may be cut */
                   "%s has not answered for %s, still trying: %s",
                   s->view.where, span, clean);
    ctl_fit_end(&s->view.style, news, size - 1, s->view.style.width);
    (void)strncat(news, "\n", size - strlen(news) - 1); /* has room */
}

static void sleep_until(int64_t at_us)
{
    while (interrupted == 0 && mono_now_us() < at_us)
        (void)poll(NULL, 0, (int)mono_ms_until(mono_now_us(), at_us));
}

/* Shows a listing, or the news that there is none. On a pipe, where they follow
 * each other, the news is written once. */
static bool show(struct ctl_status *s,
                 const char *listing,
                 const char *news,
                 bool first,
                 int rows)
{
    if (s->terminal)
        return redraw(news, listing, rows);
    if (news[0] != '\0')
        return !first || ctl_status_put(news, strlen(news));
    return ctl_status_put(listing, strlen(listing)) &&
           (s->json || ctl_status_put("\n", 1));
}

static int watch(struct ctl_status *s)
{
    struct ddp_err err = {.text = ""};
    char *listing = NULL;
    int64_t away_us = 0; /* since when; 0: it is there */
    int runs, status = 0;
    if (s->terminal && ctl_status_put("\033[2J", 4) == false)
        return ctl_status_fail_to_write();
    for (bool ok = true; ok && interrupted == 0;) {
        int64_t next_us = mono_now_us() + s->watch_us;
        char news[1024] = "";
        int rows = s->terminal ? measure(s) : 0;
        char *fresh = make_listing(s, &runs, &err);
        bool first = fresh == NULL && away_us == 0;
        if (interrupted != 0) {
            free(fresh);
            break;
        }
        if (fresh == NULL && listing == NULL) { /* it has never answered */
            ctl_complain(&s->view.style, s->view.where, &err);
            return ddp_code_exit(err.code);
        }
        if (fresh == NULL) {
            away_us = first ? mono_now_us() : away_us;
            describe_away(s, &err, away_us, news, sizeof(news));
        } else {
            away_us = 0;
            free(listing);
            listing = fresh;
        }
        ok = show(s, listing, news, first, rows);
        status = ok ? 0 : ctl_status_fail_to_write();
        if (ok)
            sleep_until(next_us);
    }
    free(listing);
    return status;
}

int ctl_status_run(struct ctl_status *s)
{
    struct sigaction sa = {.sa_handler = on_signal};
    if (s->terminal)
        (void)measure(s);
    if (s->watch_us == 0)
        return show_once(s);
    (void)sigaction(SIGINT, &sa, NULL); /* valid signals: cannot fail */
    (void)sigaction(SIGTERM, &sa, NULL);
    return watch(s);
}
