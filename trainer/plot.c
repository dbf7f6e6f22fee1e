/*
 * trainer/plot: lines are appended to FILE.tsv as training goes, and gnuplot
 * draws all of them anew.
 *
 * Happy path: plot_open copies the lines that are still true to a new file and
 * renames it to FILE.tsv; plot_add writes a line for every EVERY_STEPS steps;
 * plot_draw runs gnuplot with a script on its standard input, and waits for it.
 *
 * Failure modes. The process is killed: FILE.tsv has all but the last steps,
 * and a cut line is dropped at the next start. gnuplot is missing or fails:
 * CONFIG; the numbers are in FILE.tsv all the same.
 */
#include "trainer/plot.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trainer/ops/fail.h"
#include "trainer/progress.h"

#define EVERY_STEPS   10
#define EVERY_SECONDS 5.0
#define PATH_ROOM     4200

static const struct {
    const char *end;
    const char *format;
} formats[] = {
    {".svg", "svg size 900,500 dynamic"},
    {".png", "pngcairo size 900,500"},
    {".pdf", "pdfcairo size 9,5"},
};

static const char *format_of(const char *file)
{
    size_t len = strlen(file);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (len > 4 && strcmp(file + len - 4, formats[i].end) == 0)
            return formats[i].format;
    return NULL;
}

int plot_check(const char *file, struct ddp_error *err)
{
    if (format_of(file) == NULL)
        return fail_set(err, DDP_ERR_USAGE, "must end in .svg, .png or .pdf");
    if (strlen(file) >= PATH_ROOM - 100 || strpbrk(file, "'\"\\\n`") != NULL)
        return fail_set(err, DDP_ERR_USAGE,
                        "must be shorter, and without quotes, backslashes "
                        "and newlines");
    return 0;
}

static void data_path(char path[PATH_ROOM], const char *file, const char *end)
{
    (void)snprintf(path, PATH_ROOM, "%.4000s.tsv%s", file, end); /* measured */
}

/* Its name is random: another process may still write to the same plot. */
static FILE *create(char temp[PATH_ROOM], const char *file)
{
    unsigned random;
    char end[32];
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return NULL;
    (void)snprintf(end, sizeof(end), ".new.%08x", random);
    data_path(temp, file, end);
    return fopen(temp, "wxe");
}

/* Copies the lines of the steps up to `step`. What a run took after its last
 * snapshot is taken again, and would be there twice. */
static void keep_lines(FILE *to, const char *path, int64_t step)
{
    char line[256];
    FILE *from = fopen(path, "re");
    if (from == NULL)
        return; /* nothing is known yet */
    while (fgets(line, sizeof(line), from) != NULL) {
        const char *number =
            strncmp(line, "restart\t", 8) == 0 ? line + 8 : line;
        if (strchr(line, '\n') != NULL && strtoll(number, NULL, 10) <= step)
            (void)fputs(line, to); /* looked at with ferror */
    }
    (void)fclose(from);
}

int plot_open(struct plot *p,
              const char *file,
              bool classify,
              int64_t step,
              int64_t round,
              struct ddp_error *err)
{
    char path[PATH_ROOM], temp[PATH_ROOM];
    *p = (struct plot){
        .file = file, .format = format_of(file), .classify = classify};
    data_path(path, file, "");
    p->data = create(temp, file);
    if (p->data == NULL)
        return fail_sys(err, DDP_ERR_IO, "--plot: cannot write %.200s", path);
    if (step > 0) {
        keep_lines(p->data, path, step);
        fprintf(p->data, "restart\t%lld\t%lld\n", (long long)step,
                (long long)round);
    }
    if (fflush(p->data) == 0 && !ferror(p->data) && rename(temp, path) == 0)
        return 0;
    (void)fail_sys(err, DDP_ERR_IO, "--plot: cannot write %.200s", path);
    (void)unlink(temp);
    plot_free(p);
    return -1;
}

void plot_free(struct plot *p)
{
    if (p->data != NULL)
        (void)fclose(p->data); /* a picture, nothing more */
    *p = (struct plot){0};
}

static void put_line(struct plot *p, int64_t step)
{
    double n = (double)p->seen;
    if (p->seen == 0)
        return;
    fprintf(p->data, "%lld\t%.6g\t%.4g\n", (long long)step, p->loss / n,
            100.0 * (double)p->correct / n);
    (void)fflush(p->data); /* as above */
    p->loss = 0.0;
    p->correct = p->seen = p->steps = 0;
}

void plot_add(
    struct plot *p, int64_t step, double loss, int64_t correct, int64_t seen)
{
    if (p->data == NULL)
        return;
    p->loss += loss;
    p->correct += correct;
    p->seen += seen;
    if (++p->steps == EVERY_STEPS)
        put_line(p, step);
}

/* Restarts as dashed lines with the round's number. */
static void write_restarts(FILE *to, const char *path)
{
    char line[256];
    long long step, round;
    FILE *from = fopen(path, "re");
    while (from != NULL && fgets(line, sizeof(line), from) != NULL) {
        if (sscanf(line, "restart %lld %lld", &step, &round) != 2)
            continue;
        fprintf(to,
                "set arrow from %lld, graph 0 to %lld, graph 1 nohead "
                "dashtype 2 linecolor 'gray40'\n"
                "set label 'round %lld' at %lld, graph 0.97 rotate right "
                "font ',9' offset -0.6,0\n",
                step, step, round, step);
    }
    if (from != NULL)
        (void)fclose(from); /* only read */
}

static void write_script(FILE *to, const struct plot *p)
{
    char path[PATH_ROOM];
    data_path(path, p->file, "");
    fprintf(to,
            "set terminal %s\n"
            "set output '%s'\n"
            "set datafile separator tab\n"
            "set xlabel 'step'\n"
            "set ylabel 'loss'\n"
            "set key bottom center horizontal outside\n"
            "set grid\n"
            "step(s) = s eq 'restart' ? NaN : real(s)\n",
            p->format, p->file);
    if (p->classify)
        fprintf(to, "set y2label 'accuracy, %%'\n"
                    "set y2range [0:100]\n"
                    "set y2tics\nset ytics nomirror\n");
    write_restarts(to, path);
    fprintf(to, "plot '%s' using (step(strcol(1))):2 with lines title 'loss'",
            path);
    if (p->classify)
        fprintf(to,
                ", '%s' using (step(strcol(1))):3 axes x1y2 with lines "
                "title 'accuracy'",
                path);
    fputs("\n", to);
}

int plot_draw(struct plot *p, bool now, struct ddp_error *err)
{
    double clock = progress_clock();
    if (p->data == NULL || (!now && clock - p->drawn_at < EVERY_SECONDS))
        return 0;
    p->drawn_at = clock;
    /* A gnuplot that is not there, or fails early, must not end the training:
     * what it does not read is no harm. */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    FILE *to = popen("exec gnuplot 2>/dev/null", "w");
    if (to != NULL)
        write_script(to, p);
    int rc = to == NULL ? -1 : pclose(to);
    (void)signal(SIGPIPE, before);
    if (rc == 0)
        return 0;
    bool absent = rc > 0 && WIFEXITED(rc) && WEXITSTATUS(rc) == 127;
    return fail_set(err, DDP_ERR_CONFIG, "--plot: gnuplot %s; %.200s.tsv %s",
                    absent ? "is not installed" : "failed", p->file,
                    "has the numbers");
}
