#include "rendezvous/past/page.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/utf8.h"

/* -- texts ----------------------------------------------------------------- */

/* Characters that turn the direction of what stands behind them. */
static bool turns(const char *at, size_t len)
{
    const unsigned char *p = (const unsigned char *)at;
    if (len == 2)
        return p[0] == 0xd8 && p[1] == 0x9c; /* U+061C */
    if (len != 3 || p[0] != 0xe2)
        return false;
    return (p[1] == 0x80 &&
            (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae))) ||
           (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}

static void put_text(FILE *f, const char *text)
{
    bool control;
    size_t len;
    for (; *text != '\0'; text += len == 0 ? 1 : len) {
        len = utf8_char(text, &control);
        if (*text == '\n' || *text == '\t')
            fputc(*text, f);
        else if (len == 0 || control || turns(text, len))
            fputs("\xef\xbf\xbd", f);
        else if (len == 1 && strchr("&<>\"'", *text) != NULL)
            fprintf(f, "&#%d;", *text);
        else
            fwrite(text, 1, len, f);
    }
}

/* "2026-11-22 14:32:53" in UTC. */
static void put_time(FILE *f, int64_t us)
{
    char text[40] = "";
    struct tm tm;
    time_t at = (time_t)(us / MONO_S);
    if (gmtime_r(&at, &tm) != NULL)
        (void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    fputs(text, f);
}

static void put_span(FILE *f, int64_t us)
{
    int64_t s = us / MONO_S;
    if (us < 10 * MONO_S)
        fprintf(f, "%.3f s", (double)us / (double)MONO_S);
    else if (s < 60)
        fprintf(f, "%.1f s", (double)us / (double)MONO_S);
    else if (s < 3600)
        fprintf(f, "%d min %02d s", (int)(s / 60), (int)(s % 60));
    else
        fprintf(f, "%lld h %02d min", (long long)(s / 3600),
                (int)(s % 3600 / 60));
}

static void put_cell_span(FILE *f, int64_t us)
{
    fputs("<td class=n>", f);
    if (us > 0)
        put_span(f, us);
    else
        fputs("\xe2\x80\x93", f);
    fputs("</td>", f);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* -- the head -------------------------------------------------------------- */

static const char head[] =
    "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
    "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
    "<meta name=referrer content=no-referrer>\n"
    "<meta name=viewport content=\"width=device-width\">\n"
    "<style>\n"
    ":root{color-scheme:light dark;--fg:#1d2329;--dim:#5c6770;--bg:#fff;"
    "--line:#d5dade;--ran:#2e7d4f;--wait:#c58a00;--lost:#c0392b}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e3e7ea;--dim:#9aa5ae;"
    "--bg:#14181b;--line:#343c43;--ran:#4caf78;--wait:#e0ac3a;--lost:#ef6a5b}}"
    "\n"
    "@media print{:root{--fg:#000;--dim:#444;--bg:#fff;--line:#bbb}"
    "section{break-inside:avoid}}\n"
    "*{box-sizing:border-box}\n"
    "body{font:15px/1.45 system-ui,sans-serif;color:var(--fg);"
    "background:var(--bg);max-width:1100px;margin:0 auto;padding:1em}\n"
    "h1{font-size:1.5em;margin:.2em 0}h2{font-size:1.1em;margin:1.6em 0 .4em}\n"
    "p{margin:.3em 0}.dim,th,caption{color:var(--dim)}\n"
    "div.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\n"
    "caption{text-align:left;padding-bottom:.3em}\n"
    "td,th{text-align:left;padding:.2em .9em .2em 0;"
    "border-bottom:1px solid var(--line);vertical-align:top;font-weight:400}\n"
    ".n{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}\n"
    "td.t{white-space:nowrap}td.why{min-width:14em;overflow-wrap:anywhere}\n"
    "td.bar{width:75%;padding:.2em 0}svg{display:block;width:100%;height:18px;"
    "background:var(--line)}\n"
    "td.ends{display:flex;flex-wrap:wrap;justify-content:space-between;"
    "font-size:.85em;padding-right:0}\n"
    "pre{margin:.3em 0;padding:.4em .6em;background:var(--line);"
    "white-space:pre-wrap;overflow-wrap:anywhere;font-size:.9em}\n"
    ".big{font-size:2em;font-weight:600}.r{fill:var(--ran)}"
    ".w{fill:var(--wait)}.d,.x{fill:var(--lost)}.s{fill:var(--dim)}\n"
    "svg.key{display:inline-block;width:22px;height:14px;vertical-align:-2px}\n"
    "@media print{table{font-size:.8em}td.t{white-space:normal}"
    "td.why{min-width:8em}td,th{padding-right:.6em}}\n"
    "</style>\n";

static void put_state(const struct past *p, FILE *f)
{
    if (p->n_rounds > 0 && p->rounds[p->n_rounds - 1].done)
        fputs("all workers succeeded", f);
    else if (p->status >= 0)
        fprintf(f, "ended with status %lld", (long long)p->status);
    else
        fputs("no launcher told its end", f);
}

static void put_head(const struct past *p, FILE *f)
{
    fputs(head, f);
    fputs("<title>run ", f);
    put_text(f, p->run);
    fputs("</title></head><body>\n<h1>Run <bdi>", f);
    put_text(f, p->run);
    fputs("</bdi></h1>\n<p>", f);
    put_state(p, f);
    fprintf(f, "; %lld node%s, %zu round%s, %lld restart%s</p>\n<p class=dim>",
            (long long)p->nodes, plural(p->nodes), p->n_rounds,
            plural((int64_t)p->n_rounds), (long long)p->restarts,
            plural(p->restarts));
    put_time(f, p->start_us);
    fputs(" to ", f);
    put_time(f, p->end_us);
    fputs(" UTC, ", f);
    put_span(f, p->end_us - p->start_us);
    fputs("</p>\n", f);
}

/* -- bars ------------------------------------------------------------------ */

#define SCALE 10000 /* of a bar from the start to the end */

/* The kinds differ in height, too: not all eyes and printers see colours. */
enum bar_kind {
    BAR_RAN,
    BAR_WAITED,
    BAR_DETECT,
    BAR_RESTART,
    BAR_KINDS
};

static const struct {
    const char *class, *word;
    int y, height;
} bars[BAR_KINDS] = {
    [BAR_RAN] = {"r", "ran", 0, 18},
    [BAR_WAITED] = {"w", "waited for nodes", 12, 6},
    [BAR_DETECT] = {"d", "detection of a failure", 0, 6},
    [BAR_RESTART] = {"s", "start or restart", 6, 6},
};

static double place(const struct past *p, int64_t at_us)
{
    double whole = (double)(p->end_us - p->start_us);
    double x = whole > 0 ? (double)(at_us - p->start_us) / whole * SCALE : 0;
    return x < 0 ? 0 : x > SCALE ? SCALE : x;
}

/* What is too narrow to be seen gets a width that can be. */
static void put_bar(const struct past *p,
                    enum bar_kind kind,
                    int64_t from_us,
                    int64_t to_us,
                    FILE *f)
{
    double x = place(p, from_us);
    double width = place(p, to_us) - x;
    if (to_us <= from_us)
        return;
    fprintf(f, "<rect class=%s x=%.0f y=%d width=%.0f height=%d />",
            bars[kind].class, x, bars[kind].y, width < 8 ? 8 : width,
            bars[kind].height);
}

static void open_bar(const char *label, FILE *f)
{
    fprintf(f,
            "<svg viewBox=\"0 0 %d 18\" preserveAspectRatio=none role=img "
            "aria-label=\"%s\">",
            SCALE, label);
}

static void put_key(FILE *f)
{
    fputs("<p class=dim>", f);
    for (int i = 0; i < BAR_KINDS; i++)
        fprintf(f,
                "%s<svg class=key viewBox=\"0 0 22 18\" aria-hidden=true><rect "
                "class=%s y=%d width=22 height=%d /></svg> %s",
                i > 0 ? ", " : "", bars[i].class, bars[i].y, bars[i].height,
                bars[i].word);
    fputs("</p>\n", f);
}

/* -- goodput --------------------------------------------------------------- */

static void put_part(const struct past *p,
                     const char *what,
                     const char *meaning,
                     int64_t us,
                     FILE *f)
{
    double wall = (double)goodput_wall_us(&p->sum);
    fprintf(f, "<tr><td>%s</td>", what);
    put_cell_span(f, us);
    fprintf(f, "<td class=n>%.1f %%</td><td class=dim>%s</td></tr>\n",
            wall > 0 ? 100 * (double)us / wall : 0, meaning);
}

static void put_goodput(const struct past *p, FILE *f)
{
    int64_t at_us = p->start_us;
    const int64_t parts[BAR_KINDS] = {p->sum.ran_us, p->sum.waited_us,
                                      p->sum.detect_us, p->sum.restart_us};
    fprintf(f,
            "<section><h2>Goodput</h2>\n<p><span class=big>%.1f %%</span> "
            "of the time all ranks ran</p>\n",
            100 * goodput_share(&p->sum));
    open_bar("how the time was spent", f);
    for (int i = 0; i < BAR_KINDS; i++) {
        put_bar(p, (enum bar_kind)i, at_us, at_us + parts[i], f);
        at_us += parts[i];
    }
    fputs("</svg>\n<table>\n", f);
    put_part(p, "ran", "all ranks ran", p->sum.ran_us, f);
    put_part(p, "waited", "nodes were missing, or the last call ran",
             p->sum.waited_us, f);
    put_part(p, "detection", "from a worker's death to the end of its round",
             p->sum.detect_us, f);
    put_part(p, "starts and restarts", "workers were stopped or started",
             p->sum.restart_us, f);
    fputs("</table></section>\n", f);
}

/* -- the timeline ---------------------------------------------------------- */

/* All rounds, or as many of the last ones as there may be bars for. */
static size_t first_round(const struct past *p, size_t most)
{
    return p->n_rounds > most ? p->n_rounds - most : 0;
}

static void put_job_row(const struct past *p, FILE *f)
{
    fputs("<tr><td class=t>all ranks</td><td class=bar>", f);
    open_bar("rounds", f);
    size_t first = first_round(p, PAGE_BARS_MAX / 4);
    int64_t at_us = first == 0 ? p->start_us : p->rounds[first - 1].end_us;
    for (size_t i = first; i < p->n_rounds; i++) {
        const struct past_round *r = &p->rounds[i];
        int64_t end_us = r->end_us > 0 ? r->end_us : p->end_us;
        int64_t sign_us = r->sign_us > 0 ? r->sign_us : end_us;
        int64_t start_us =
            i > 0 && r[-1].stopped_us > at_us && r[-1].stopped_us < r->sealed_us
                ? r[-1].stopped_us
                : at_us;
        put_bar(p, BAR_RESTART, at_us, start_us, f);
        put_bar(p, BAR_WAITED, start_us, r->sealed_us, f);
        if (r->all_run_us > 0) {
            put_bar(p, BAR_RESTART, r->sealed_us, r->all_run_us, f);
            put_bar(p, BAR_RAN, r->all_run_us, sign_us, f);
            put_bar(p, BAR_DETECT, sign_us, end_us, f);
        } else {
            put_bar(p, BAR_RESTART, r->sealed_us, end_us, f);
        }
        at_us = end_us;
    }
    fputs("</svg></td></tr>\n", f);
}

/* A launch on the page, with its spans among those of all. */
struct page_row {
    int launch;
    int64_t group_rank;
    bool failed;
};

/* By rank; if there is no room for all, those on which something failed come
 * first. */
static int compare_rows(const void *a, const void *b)
{
    const struct page_row *x = a;
    const struct page_row *y = b;
    if (x->failed != y->failed)
        return x->failed ? -1 : 1;
    if (x->group_rank != y->group_rank)
        return x->group_rank < y->group_rank ? -1 : 1;
    return (x->launch > y->launch) - (x->launch < y->launch);
}

static size_t make_rows(const struct past *p, struct page_row *rows)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_launches; i++)
        if (p->launches[i].file >= 0)
            rows[n++] = (struct page_row){
                .launch = (int)i, .group_rank = p->launches[i].group_rank};
    for (size_t i = 0; n > PAGE_NODES_MAX && i < p->n_failures; i++)
        for (size_t k = 0; k < n; k++)
            rows[k].failed |= rows[k].launch == p->failures[i].launch;
    qsort(rows, n, sizeof(rows[0]), compare_rows);
    return n;
}

static void
put_row(const struct past *p, const struct page_row *row, int64_t from, FILE *f)
{
    const struct past_launch *l = &p->launches[row->launch];
    fputs("<tr><td class=t><bdi>", f);
    put_text(f, l->node);
    fputs("</bdi>", f);
    if (row->group_rank >= 0)
        fprintf(f, " <span class=dim>(%lld)</span>",
                (long long)row->group_rank);
    fputs("</td><td class=bar>", f);
    open_bar("rounds of this node", f);
    for (size_t i = 0; i < p->n_spans; i++) {
        const struct past_span *s = &p->spans[i];
        if (s->launch != row->launch || s->round < from)
            continue;
        int64_t end_us = s->end_us > 0 ? s->end_us : l->last_us;
        put_bar(p, BAR_RESTART, s->sealed_us, s->started_us, f);
        if (s->started_us > 0)
            put_bar(p, BAR_RAN, s->started_us, end_us, f);
        if (s->failed) /* where it failed */
            fprintf(f, "<rect class=x x=%.0f width=24 height=18 />",
                    place(p, end_us));
    }
    fputs("</svg></td></tr>\n", f);
}

static void put_timeline(const struct past *p, FILE *f)
{
    struct page_row *rows = calloc(p->n_launches + 1, sizeof(rows[0]));
    size_t n = rows == NULL ? 0 : make_rows(p, rows);
    size_t shown = n < PAGE_NODES_MAX ? n : PAGE_NODES_MAX;
    size_t first = first_round(p, PAGE_BARS_MAX / (shown + 1));
    fputs("<section><h2>Timeline</h2>\n", f);
    put_key(f);
    fputs("<table>\n", f);
    put_job_row(p, f);
    for (size_t i = 0; i < shown; i++)
        put_row(p, &rows[i], p->n_rounds > 0 ? p->rounds[first].round : 0, f);
    fputs("<tr class=dim><td></td><td class=ends><span>", f);
    put_time(f, p->start_us);
    fputs("</span><span>", f);
    put_time(f, p->end_us);
    fputs("</span></td></tr>\n</table>\n", f);
    if (shown < n)
        fprintf(f, "<p class=dim>%zu more launches are not shown.</p>\n",
                n - shown);
    if (first > 0)
        fprintf(f,
                "<p class=dim>The nodes' rows leave out what was before round "
                "%lld.</p>\n",
                (long long)p->rounds[first].round);
    fputs("</section>\n", f);
    free(rows);
}

/* -- tables ---------------------------------------------------------------- */

static void put_round(const struct past_round *r, FILE *f)
{
    fprintf(f, "<tr><td class=n>%lld</td><td class=t>", (long long)r->round);
    put_time(f, r->sealed_us);
    fprintf(f, "</td><td class=n>%lld</td><td class=n>%lld</td>",
            (long long)r->nodes, (long long)r->world_size);
    put_cell_span(f, r->cost.ran_us);
    put_cell_span(f, r->cost.detect_us);
    put_cell_span(f, r->cost.waited_us);
    put_cell_span(f, r->cost.restart_us);
    fputs("<td class=why><bdi>", f);
    put_text(f, r->why[0] != '\0' ? r->why
                : r->done         ? "all workers succeeded"
                                  : "no word of its end");
    fputs("</bdi></td></tr>\n", f);
}

static void put_rounds(const struct past *p, FILE *f)
{
    size_t first = first_round(p, PAGE_ROUNDS_MAX);
    fputs("<section><h2>Rounds</h2>\n<div class=wide><table><caption>What the "
          "end of each cost, until the next one ran",
          f);
    if (first > 0)
        fprintf(f, "; the last %d of %zu", PAGE_ROUNDS_MAX, p->n_rounds);
    fputs("</caption>\n<tr><th class=n>round</th><th>sealed (UTC)</th><th "
          "class=n>nodes</th><th class=n>ranks</th><th class=n>ran</th><th "
          "class=n>detection</th><th class=n>waited</th><th "
          "class=n>restart</th><th>ended</th></tr>\n",
          f);
    for (size_t i = first; i < p->n_rounds; i++)
        put_round(&p->rounds[i], f);
    fputs("</table></div></section>\n", f);
}

static void put_tail(const char *tail, FILE *f)
{
    fputs("<pre dir=auto>", f);
    put_text(f, tail);
    fputs("</pre>", f);
}

static void put_failures(const struct past *p, FILE *f)
{
    size_t first = p->n_failures > PAGE_FAILURES_MAX
                       ? p->n_failures - PAGE_FAILURES_MAX
                       : 0;
    if (p->n_failures == 0)
        return;
    fprintf(f, "<section><h2>Failures</h2>\n<div class=wide><table>");
    if (first > 0)
        fprintf(f, "<caption>The last %d of %zu</caption>", PAGE_FAILURES_MAX,
                p->n_failures);
    fputs("\n<tr><th>when (UTC)</th><th class=n>round</th><th>node</th><th>what"
          "</th></tr>\n",
          f);
    for (size_t i = first; i < p->n_failures; i++) {
        const struct past_failure *x = &p->failures[i];
        fputs("<tr><td class=t>", f);
        put_time(f, x->at_us);
        fprintf(f, "</td><td class=n>%lld</td><td><bdi>", (long long)x->round);
        put_text(f, p->launches[x->launch].node);
        fputs("</bdi></td><td class=why><bdi>", f);
        put_text(f, x->text);
        fputs("</bdi>", f);
        if (x->tail[0] != '\0' && i + PAGE_TAILS_MAX >= p->n_failures)
            put_tail(x->tail, f);
        fputs("</td></tr>\n", f);
    }
    fputs("</table></div></section>\n", f);
}

static void put_taken(const struct past *p, FILE *f)
{
    size_t first =
        p->n_taken > PAGE_TAKEN_MAX ? p->n_taken - PAGE_TAKEN_MAX : 0;
    if (p->n_taken == 0)
        return;
    fputs("<section><h2>Take-overs</h2>\n<div class=wide><table>\n<tr><th>when "
          "(UTC)</th><th>told by</th><th class=n>term</th><th>server</th><th>"
          "before</th><th class=n>without one</th></tr>\n",
          f);
    for (size_t i = first; i < p->n_taken; i++) {
        const struct past_taken *t = &p->taken[i];
        fputs("<tr><td class=t>", f);
        put_time(f, t->at_us);
        fputs("</td><td><bdi>", f);
        put_text(f, p->launches[t->launch].node);
        fprintf(f, "</bdi></td><td class=n>%lld</td><td><bdi>",
                (long long)t->epoch);
        put_text(f, t->server);
        fputs("</bdi></td><td><bdi>", f);
        put_text(f, t->before);
        fputs("</bdi></td>", f);
        put_cell_span(f, t->gap_us);
        fputs("</tr>\n", f);
    }
    fputs("</table></div></section>\n", f);
}

/* -- notes ----------------------------------------------------------------- */

static void put_clocks(const struct past *p, FILE *f)
{
    int said = 0;
    for (size_t i = 0; i < p->n_launches && said < 20; i++) {
        const struct past_launch *l = &p->launches[i];
        if (l->file < 0 || l->ahead_us == 0)
            continue;
        fputs("<li>The clock of <bdi>", f);
        put_text(f, l->node);
        fprintf(f, "</bdi> was %.3f s %s; its times are corrected.</li>\n",
                (double)llabs(l->ahead_us) / (double)MONO_S,
                l->ahead_us > 0 ? "ahead" : "behind");
        said++;
    }
}

/* Nodes of the last round without events. */
static int64_t missing(const struct past *p)
{
    int64_t most = 0;
    for (size_t i = 0; i < p->n_rounds; i++)
        if (p->rounds[i].nodes - p->rounds[i].seen > most)
            most = p->rounds[i].nodes - p->rounds[i].seen;
    return most;
}

static bool is_over(const struct past *p)
{
    return p->status >= 0 ||
           (p->n_rounds > 0 && p->rounds[p->n_rounds - 1].done);
}

static void
put_notes(const struct past *p, const struct past_files *files, FILE *f)
{
    int64_t gone = missing(p);
    fprintf(f,
            "<section><h2>About this page</h2>\n<ul class=dim>\n<li>Made by "
            "ddpctl " DDPRUN_VERSION " report from %d file%s of events.</li>"
            "\n",
            files->files, plural(files->files));
    put_clocks(p, f);
    if (!is_over(p))
        fputs("<li>The files do not tell the end of the run: it goes on, or "
              "all its launchers were killed. The sums are those up to the "
              "last event.</li>\n",
              f);
    if (gone > 0)
        fprintf(f,
                "<li>The events of up to %lld node%s of a round are "
                "missing: the sums may be wrong.</li>\n",
                (long long)gone, plural(gone));
    if (files->torn > 0)
        fprintf(f,
                "<li>%lld file%s with a last line that is not whole: a "
                "launcher was killed, or still writes.</li>\n",
                (long long)files->torn, files->torn == 1 ? " ends" : "s end");
    if (files->bad > 0)
        fprintf(f, "<li>%lld line%s no event, and left out.</li>\n",
                (long long)files->bad, files->bad == 1 ? " is" : "s are");
    if (p->earlier > 0)
        fprintf(f, "<li>%lld earlier job%s of this id left out.</li>\n",
                (long long)p->earlier, p->earlier == 1 ? " is" : "s are");
    if (p->untold > 0)
        fprintf(f,
                "<li>%lld failure%s, reasons and take-overs above the "
                "limits are left out.</li>\n",
                (long long)p->untold, plural(p->untold));
    if (p->left_out > 0)
        fprintf(f,
                "<li>There is too much for one page: %lld part%s left "
                "out, and the sums are wrong.</li>\n",
                (long long)p->left_out, p->left_out == 1 ? " is" : "s are");
    fputs("</ul></section>\n</body></html>\n", f);
}

void page_print(const struct past *p, const struct past_files *files, FILE *f)
{
    put_head(p, f);
    put_goodput(p, f);
    put_timeline(p, f);
    put_rounds(p, f);
    put_failures(p, f);
    put_taken(p, f);
    put_notes(p, files, f);
}
