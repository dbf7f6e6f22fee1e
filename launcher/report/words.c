/*
 * The same traceback reaches us twice: on stderr and in the error file. Each
 * copy may be cut at its beginning, may have lines of other threads in between,
 * and may have a rank before each line. So lines are compared bare, in order,
 * and one text is left out only if all of its lines are in the other one. When
 * in doubt both are printed: twice is better than not at all.
 */
#include "launcher/report/words.h"

#include <stdbool.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"

#define HEADING "Traceback (most recent call last):"

void report_words_plain(const char *text, size_t len, char *out, size_t size)
{
    size_t n = 0;
    ddp_assert(size >= 5);
    for (size_t i = 0; i < len && n + 4 < size; i++) {
        if (text[i] == '\033' && i + 1 < len && text[i + 1] == '[') {
            for (i += 2; i < len && (text[i] < '@' || text[i] > '~'); i++)
                ;
        } else if (text[i] == '\r') {
            n = i + 1 < len ? 0 : n;
        } else if (text[i] == '\t') {
            memcpy(out + n, "    ", 4);
            n += 4;
        } else {
            out[n++] = text[i];
        }
    }
    out[n] = '\0';
}

/* Takes the next line of `*at` as it is shown; false: there is none. */
static bool next_line(const char **at, char *line, size_t size)
{
    if (**at == '\0')
        return false;
    size_t len = strcspn(*at, "\n");
    report_words_plain(*at, len, line, size); /* a long one is cut */
    *at += len + ((*at)[len] == '\n');
    return true;
}

static void trim(char *line)
{
    size_t len = strlen(line);
    while (len > 0 && line[len - 1] == ' ')
        len--;
    line[len] = '\0';
}

/* The part of a line that is compared. PyTorch's excepthook (2.2 and newer, in
 * torch/distributed/distributed_c10d.py) writes "[rank5]: " before each. */
static const char *bare(char *line)
{
    trim(line);
    size_t digits = 0;
    if (strncmp(line, "[rank", 5) == 0)
        digits = strspn(line + 5, "0123456789");
    if (digits == 0 || strncmp(line + 5 + digits, "]:", 2) != 0)
        return line;
    line += 5 + digits + 2;
    return *line == ' ' ? line + 1 : line;
}

/* Whether all lines of `part` are in `whole`, in order. A traceback's heading
 * is not looked for, since the tail may begin below it. */
static bool is_within(const char *part, const char *whole)
{
    char wanted[1024], line[1024];
    while (next_line(&part, wanted, sizeof(wanted))) {
        bool found = false;
        const char *text = bare(wanted);
        if (text[0] == '\0' || strcmp(text, HEADING) == 0)
            continue;
        while (!found && next_line(&whole, line, sizeof(line)))
            found = strcmp(text, bare(line)) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* A traceback that was cut begins within a line, which is not compared. */
static const char *whole_lines(const char *trace)
{
    const char *behind = strchr(trace, '\n');
    bool cut = strncmp(trace, HEADING, sizeof(HEADING) - 1) != 0;
    return cut && behind != NULL ? behind + 1 : trace;
}

enum words report_words_compare(const char *tail, const char *trace)
{
    if (is_within(whole_lines(trace), tail))
        return WORDS_TAIL_ONLY;
    return is_within(tail, trace) ? WORDS_TRACE_ONLY : WORDS_BOTH;
}

static void tell(const char *heading, const char *text)
{
    char line[1024];
    log_warnx("  %s", heading);
    while (next_line(&text, line, sizeof(line)))
        log_warnx("    | %s", line);
}

void report_words(const char *tail, const char *trace)
{
    enum words which = report_words_compare(tail, trace);
    if (which != WORDS_TRACE_ONLY && tail[0] != '\0')
        tell(trace[0] == '\0' || which == WORDS_BOTH
                 ? "its last lines on stderr:"
                 : "its last lines, on stderr and in its error file:",
             tail);
    if (which != WORDS_TAIL_ONLY)
        tell(tail[0] == '\0' || which == WORDS_BOTH
                 ? "the traceback in its error file:"
                 : "the traceback, in its error file and on stderr:",
             trace);
}
