/*
 * trainer/progress: the bar stands on the last line without a newline, so
 * whatever else is written to the terminal takes it away first, and the next
 * step draws it again.
 */
#include "trainer/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define DRAW_SECONDS 0.1
#define BAR_MIN      5
#define BAR_MAX      30
#define TAIL_SIZE    1280 /* for the longest that doubles can print as */
#define CLEAR_LINE   "\r\033[K"

void progress_init(struct progress *p, bool speaks)
{
    const char *term = getenv("TERM");
    *p = (struct progress){.speaks = speaks, .since = progress_clock()};
    p->bar = speaks && isatty(STDOUT_FILENO) == 1 && term != NULL &&
             strcmp(term, "dumb") != 0;
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* fully buffered at worst */
}

double progress_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_start(struct progress *p)
{
    p->since = progress_clock();
    p->samples = 0;
}

void progress_add(struct progress *p, int64_t samples)
{
    p->samples += samples;
}

double progress_rate(const struct progress *p)
{
    double seconds = progress_clock() - p->since;
    return seconds > 0.0 ? (double)p->samples / seconds : 0.0;
}

/* The bar must not wrap: a carriage return goes to the start of one line. */
static size_t columns(void)
{
    struct winsize w = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
        return 80;
    return w.ws_col;
}

/* "1:02:03" or "2:03" for what is left of the run; "-" while unknown. */
static void eta(char text[24], const struct progress_state *s, double rate)
{
    double left = (double)(s->total - s->done) +
                  (double)(s->epochs - s->epoch) * (double)s->total;
    double seconds = rate > 0.0 ? left / rate : 1e9;
    if (!(seconds < 1e8)) {
        (void)snprintf(text, 24, "-");
        return;
    }
    int n = (int)(seconds + 0.5);
    if (n >= 3600)
        (void)snprintf(text, 24, "%d:%02d:%02d", n / 3600, n / 60 % 60, n % 60);
    else
        (void)snprintf(text, 24, "%d:%02d", n / 60, n % 60);
}

/* "[###......] " as wide as there is room, or nothing. */
static void bar_of(char bar[BAR_MAX + 4], double part, size_t room)
{
    bar[0] = '\0';
    if (room < BAR_MIN + 3)
        return;
    size_t len = room - 3 < BAR_MAX ? room - 3 : BAR_MAX;
    size_t filled = part < 1.0 ? (size_t)(part * (double)len) : len;
    bar[0] = '[';
    memset(bar + 1, '#', filled);
    memset(bar + 1 + filled, '.', len - filled);
    memcpy(bar + 1 + len, "] ", 3);
}

void progress_draw(struct progress *p, const struct progress_state *s)
{
    double now = progress_clock();
    if (!p->bar || (p->drawn && now - p->drawn_at < DRAW_SECONDS))
        return;
    char left[24], bar[BAR_MAX + 4], head[64], tail[TAIL_SIZE];
    size_t width = columns() - 1;
    double rate = progress_rate(p);
    double part = s->total > 0 ? (double)s->done / (double)s->total : 1.0;
    part = part < 1.0 ? part : 1.0;
    eta(left, s, rate);
    (void)snprintf(head, sizeof(head), "epoch %lld/%lld ", (long long)s->epoch,
                   (long long)s->epochs);
    (void)snprintf(tail, sizeof(tail),
                   "%3.0f %%  loss %.4f  %.0f samples/s  ETA %s", 100.0 * part,
                   s->loss, rate, left);
    size_t text = strlen(head) + strlen(tail);
    bar_of(bar, part, width > text ? width - text : 0);
    size_t head_len = strlen(head) + strlen(bar);
    printf(CLEAR_LINE "%s%s%.*s", head, bar,
           width > head_len ? (int)(width - head_len) : 0, tail);
    (void)fflush(stdout); /* a bar that is not seen is no loss */
    p->drawn = true;
    p->drawn_at = now;
}

void progress_clear(struct progress *p)
{
    if (!p->drawn)
        return;
    fputs(CLEAR_LINE, stdout);
    (void)fflush(stdout); /* as above */
    p->drawn = false;
}

void progress_line(struct progress *p, const char *fmt, ...)
{
    if (!p->speaks)
        return;
    progress_clear(p);
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    (void)fflush(stdout); /* stdout may be gone; training goes on */
}
