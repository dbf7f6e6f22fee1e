/*
 * Files are read line by line and folded as they are read (past/past), so their
 * size does not matter. Nothing is printed before all were read.
 *
 * Failure modes: a file cannot be read, or has no event in it: an error, since
 * a page without a node's events would be wrong. A file has events of another
 * run: an error that names both, unless --run chooses one. A last line that is
 * not whole, or lines that are no events: left out and counted on the page.
 * NULs, which a crash of the machine leaves: left out. stdout cannot be
 * written: the status of DDP_E_IO.
 */
#include "rendezvous/ctl/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/ctl/status.h"
#include "rendezvous/http/page.h"
#include "rendezvous/past/past_json.h"

#define LINE_BYTES     65536 /* launchers write no more than 4000 */
#define DOCUMENT_BYTES (64u << 20)

struct reading {
    const struct ctl_report *conf;
    struct past past;
    struct past_files seen;
    const char *first; /* the file in which the run was found */
    char name[300];    /* of the file that is read, clean */
    int file;
    int64_t events; /* in it */
};

/* The run that was asked for, or else the first run that is met. */
static int
check_run(struct reading *r, const struct past_line *e, struct ddp_err *err)
{
    char first[300], run[129], other[129];
    if (r->past.run[0] == '\0') {
        (void)snprintf(r->past.run, sizeof(r->past.run), "%s", e->run);
        r->first = r->conf->files[r->file];
        return 0;
    }
    if (strcmp(r->past.run, e->run) == 0)
        return 0;
    ctl_clean(r->conf->style, r->first, first, sizeof(first));
    ctl_clean(r->conf->style, r->past.run, run, sizeof(run));
    ctl_clean(r->conf->style, e->run, other, sizeof(other));
    return ddp_err_set(err, DDP_E_USAGE,
                       "%.60s has events of run '%.40s', and %.60s of run "
                       "'%.40s': give files of one run, or choose one by "
                       "--run=ID",
                       first, run, r->name, other);
}

static int
take_line(struct reading *r, const char *line, size_t len, struct ddp_err *err)
{
    struct past_line e;
    bool torn = line[len - 1] != '\n';
    if (!past_line_read(line, len, &e)) {
        *(torn ? &r->seen.torn : &r->seen.bad) += 1;
        return 0;
    }
    r->events++;
    if (r->conf->run != NULL && strcmp(r->conf->run, e.run) != 0)
        return 0;
    if (check_run(r, &e, err) != 0)
        return -1;
    past_add(&r->past, r->file, &e);
    return 0;
}

/* The next line, without NULs: where the machine crashed, they can stand in the
 * place of bytes that did not reach the disk, before those of the next launch.
 * Returns its length; 0: there is none left. What is too long is cut. */
static size_t read_line(FILE *f, char line[LINE_BYTES], bool *cut)
{
    size_t len = 0;
    *cut = false;
    for (int c = 0; c != '\n';) {
        c = getc_unlocked(f);
        if (c == EOF)
            break;
        if (c == '\0')
            continue;
        *cut = len == LINE_BYTES;
        if (!*cut)
            line[len++] = (char)c;
    }
    return len;
}

static int read_lines(struct reading *r, FILE *f, struct ddp_err *err)
{
    static char line[LINE_BYTES];
    bool cut;
    for (size_t len; (len = read_line(f, line, &cut)) > 0;) {
        if (cut)
            r->seen.bad++;
        else if (take_line(r, line, len, err) != 0)
            return -1;
    }
    if (ferror(f))
        return ddp_err_set(err, DDP_E_NOINPUT, "cannot read %s: %s", r->name,
                           strerror(errno));
    if (r->events == 0)
        return ddp_err_set(err, DDP_E_NOINPUT,
                           "%s has no events: give the files that ddprun "
                           "--events=FILE wrote, one of each node",
                           r->name);
    return 0;
}

static int read_file(struct reading *r, int file, struct ddp_err *err)
{
    const char *path = r->conf->files[file];
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    ctl_clean(r->conf->style, is_stdin ? "standard input" : path, r->name,
              sizeof(r->name));
    r->file = file;
    r->events = 0;
    if (f == NULL)
        return ddp_err_set(err, DDP_E_NOINPUT, "cannot open %s: %s", r->name,
                           strerror(errno));
    int rc = read_lines(r, f, err);
    if (!is_stdin)
        (void)fclose(f); /* read only */
    return rc;
}

static int read_all(struct reading *r, struct ddp_err *err)
{
    char clean[300];
    for (int i = 0; i < r->conf->n_files; i++) {
        if (read_file(r, i, err) != 0)
            return -1;
        r->seen.files++;
    }
    if (r->past.n_launches == 0) {
        ctl_clean(r->conf->style, r->conf->run, clean, sizeof(clean));
        return ddp_err_set(err, DDP_E_USAGE,
                           "no file has events of run '%.128s'", clean);
    }
    return past_finish(&r->past, err);
}

/* In JSON this letter stands in texts only. Without it no text ends the element
 * or opens another one. */
static void print_in_element(const char *json, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (json[i] == '<')
            fputs("\\u003c", stdout);
        else
            fputc(json[i], stdout);
}

static void print_page(const char *json, size_t len)
{
    const char *title = strstr(page_html, PAGE_TITLE);
    ddp_assert(title != NULL);
    (void)fwrite(page_html, 1, (size_t)(title - page_html), stdout);
    fputs(page_policy, stdout);
    fputs("<script type=\"application/json\" id=\"report\">", stdout);
    print_in_element(json, len);
    fputs("</script>\n", stdout);
    fputs(title, stdout);
}

/* stdout remembers whether a write has failed. */
static int print(const struct reading *r)
{
    struct buf out;
    buf_init(&out, DOCUMENT_BYTES);
    if (!past_json(&r->past, &r->seen, &out))
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the report");
    const char *json = (const char *)buf_head(&out);
    if (r->conf->json) {
        (void)fwrite(json, 1, buf_len(&out), stdout);
        fputc('\n', stdout);
    } else {
        print_page(json, buf_len(&out));
    }
    buf_free(&out);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0
                                                  : ctl_status_fail_to_write();
}

int ctl_report_run(const struct ctl_report *conf)
{
    static struct reading r;
    struct ddp_err err;
    r = (struct reading){.conf = conf};
    past_init(&r.past);
    if (!conf->json && isatty(STDOUT_FILENO) == 1) {
        log_warnx("the page is HTML, and standard output is a terminal: "
                  "write it to a file (> run.html), or give --json");
        return ddp_code_exit(DDP_E_USAGE);
    }
    int rc = 0;
    if (read_all(&r, &err) == 0) {
        rc = print(&r);
    } else {
        log_warnx("%s", err.text);
        rc = ddp_code_exit(err.code);
    }
    past_free(&r.past);
    return rc;
}
