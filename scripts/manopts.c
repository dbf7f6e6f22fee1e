/*
 * Prints a table as the part of a manual page, in mdoc(7). Compiled by
 * scripts/man-options, once for each table:
 *
 *     cc -I. -DOPTIONS='"launcher/conf/options.def"' scripts/manopts.c
 *     cc -I. -DERRORS='"rendezvous/base/errors.def"' scripts/manopts.c
 *     cc -I. -DMESSAGES='"rendezvous/proto/messages.def"' scripts/manopts.c
 *     cc -I. -DMETRICS='"rendezvous/http/metrics.def"' scripts/manopts.c
 *     cc -I. -DEVENTS='"launcher/report/event_log.def"' scripts/manopts.c
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#if defined(OPTIONS) || defined(MESSAGES) || defined(METRICS)

/* One sentence's text, escaped; a dash that begins a word is an option's. */
static void put_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char before = i > 0 ? text[i - 1] : ' ';
        int dash = text[i] == '-' && strchr(" -(\"", before) != NULL;
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else if (dash)
            fputs("\\-", stdout);
        else if (i == 0 && (text[i] == '.' || text[i] == '\''))
            printf("\\&%c", text[i]);
        else
            putchar(text[i]);
    }
    putchar('\n');
}

/* New sentence, new line, as mdoc wants it. */
static void put_sentences(const char *text)
{
    while (*text != '\0') {
        const char *end = text;
        while (*end != '\0' && !(strchr(".?!", *end) != NULL && end[1] == ' '))
            end++;
        if (*end != '\0')
            end++;
        put_text(text, (size_t)(end - text));
        text = end + strspn(end, " ");
    }
}

#endif

#if defined(MESSAGES) || defined(EVENTS) || defined(ERRORS)

/* The rest of a row: words of a macro's line, none of which is to be a macro or
 * to begin a quotation. */
static void put_words(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        char before = ' ';
        if (p > text)
            before = p[-1];
        int opens = isupper((unsigned char)*p) || strchr("\"|.,;:!?()", *p);
        if (before == ' ' && opens)
            fputs("\\&", stdout);
        if (*p == '\\')
            fputs("\\e", stdout);
        else if (*p == '-' && strchr(" -(", before) != NULL)
            fputs("\\-", stdout);
        else
            putchar(*p);
    }
    putchar('\n');
}

#endif

#ifdef OPTIONS

enum kind {
    FLAG,
    INT,
    SECONDS,
    STR,
    SPEC,
    LATER
};

enum option_group {
#define OPT_GROUP(ident, title) GROUP_##ident,
#define OPT(...)
#include OPTIONS
#undef OPT
#undef OPT_GROUP
    GROUPS
};

static const char *const titles[] = {
#define OPT_GROUP(ident, title) title,
#define OPT(...)
#include OPTIONS
#undef OPT
#undef OPT_GROUP
};

static const struct row {
    const char *name;
    char letter;
    enum kind kind;
    const char *env;
    const char *init;
    const char *metavar;
    enum option_group group;
    const char *help;
} rows[] = {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    {#name, letter, kind, env, init, metavar, GROUP_##group, help},
#include OPTIONS
#undef OPT
#undef OPT_GROUP
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* The default stands in parentheses behind the value. */
static void put_row(const struct row *r)
{
    fputs(".It", stdout);
    if (r->letter != 0)
        printf(" Fl %c ,", r->letter);
    printf(" Fl -%s", r->name);
    if (r->metavar != NULL && r->metavar[0] == '[') /* may be left out */
        printf(" Ns Oo = Ns Ar %.*s Oc", (int)strlen(r->metavar) - 2,
               r->metavar + 1);
    else if (r->metavar != NULL)
        printf(" Ns = Ns Ar %s", r->metavar);
    if (r->init != NULL && r->init[0] != '\0')
        printf(" Pq Cm %s", r->init);
    putchar('\n');
    put_sentences(r->help);
    const char *second = r->env != NULL ? strchr(r->env, ' ') : NULL;
    if (second != NULL)
        printf("The variable\n.Ev %s\nsets the default as well.\n", second + 1);
}

static void put_later(void)
{
    size_t left = 0;
    for (size_t i = 0; i < ROWS; i++)
        left += rows[i].kind == LATER;
    if (left == 0)
        return;
    fputs(".Ss Options of torchrun that are not there yet\n"
          "These are refused with a sentence, unless their value is torchrun's "
          "default:\n",
          stdout);
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].kind == LATER)
            printf(".Fl -%s %c\n", rows[i].name, --left > 0 ? ',' : '.');
    }
}

int main(void)
{
    for (int group = 0; group < GROUPS; group++) {
        if (GROUPS > 1)
            printf(".Ss %s\n", titles[group]);
        fputs(".Bl -tag -width Ds\n", stdout);
        for (size_t i = 0; i < ROWS; i++) {
            if (rows[i].kind != LATER && (int)rows[i].group == group)
                put_row(&rows[i]);
        }
        if (GROUPS > 1)
            fputs(".El\n", stdout);
    }
    if (GROUPS > 1)
        fputs(".Ss Others\n.Bl -tag -width Ds\n", stdout);
    fputs(".It Fl h , Fl -help\nPrint a summary and exit.\n"
          ".It Fl -version\nPrint the version and exit.\n.El\n",
          stdout);
    put_later();
    return ferror(stdout) || fclose(stdout) != 0;
}

#elif defined(MESSAGES)

enum sender {
    AGENT,
    SERVER,
    CTL,
    BOTH
};

static void begin(const char *name, enum sender sender, const char *meaning)
{
    static const char *const senders[] = {
        "Sent by the agent: ", "Sent by the server: ",
        "Sent by the operator's ddpctl: ", "Sent by both: "};
    printf(".It Cm %s\n%s", name, senders[sender]);
    put_sentences(meaning);
    puts(".Bl -column \"cooldown_left_ms*\" \"0 to 86400000000\" -compact");
}

static void end(void)
{
    puts(".El");
}

/* A field that may be left out has a star. */
static void put_field(const char *field,
                      const char *bounds,
                      int needed,
                      const char *meaning)
{
    printf(".It Va %s%s Ta %s Ta ", field, needed ? "" : "*", bounds);
    put_words(meaning);
}

static void
put_str(const char *field, long long longest, int needed, const char *meaning)
{
    char bounds[64];
    (void)snprintf(bounds, sizeof(bounds), "text, %lld bytes", longest);
    put_field(field, bounds, needed, meaning);
}

static void put_int(const char *field,
                    long long min,
                    long long max,
                    int needed,
                    const char *meaning)
{
    char bounds[64];
    (void)snprintf(bounds, sizeof(bounds), "%lld to %lld", min, max);
    put_field(field, bounds, needed, meaning);
}

int main(void)
{
    puts(".Bl -tag -width Ds");
/* clang-format off */
#define MSG_BEGIN(name, sender, meaning)             begin(#name, sender, meaning);
#define MSG_STR(name, field, longest, needed, text)  put_str(#field, longest, needed + 0, text);
#define MSG_INT(name, field, min, max, needed, text) put_int(#field, min, max, needed + 0, text);
#define MSG_TERM(name, field, needed, text)          put_field(#field, "text, a term", needed + 0, text);
#define MSG_END(name)                                end();
    /* clang-format on */
#include MESSAGES
#undef MSG_BEGIN
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END
    puts(".El");
    return ferror(stdout) || fclose(stdout) != 0;
}

#elif defined(METRICS)

/* "run state" as {run,state}, which is how they stand in /metrics. */
static void put_metric(const char *name,
                       const char *type,
                       const char *labels,
                       const char *help)
{
    printf(".It Cm ddprun_%s", name);
    if (labels[0] != '\0')
        printf(" Ns { Ns Va ");
    for (const char *p = labels; *p != '\0'; p++) {
        if (*p == ' ')
            fputs(" , ", stdout);
        else
            putchar(*p);
    }
    if (labels[0] != '\0')
        printf(" Ns }");
    printf("\n%c%s: ", toupper((unsigned char)type[0]), type + 1);
    if (islower((unsigned char)help[1])) /* no abbreviation */
        putchar(tolower((unsigned char)*help++));
    put_sentences(help);
}

int main(void)
{
    puts(".Bl -tag -width Ds");
#define METRIC(name, type, labels, help) put_metric(#name, #type, labels, help);
#include METRICS
#undef METRIC
    puts(".El");
    return ferror(stdout) || fclose(stdout) != 0;
}

#elif defined(EVENTS)

static void put_event(const char *name, const char *meaning)
{
    printf(".It Ql %s Ta ", name);
    put_words(meaning);
}

int main(void)
{
    puts(".Bl -column quarantinedxx -compact");
#define EVENT_LOG(name, meaning) put_event(#name, meaning);
#include EVENTS
#undef EVENT_LOG
    puts(".El");
    return ferror(stdout) || fclose(stdout) != 0;
}

#else

/* A status's verdict says what to do about it; success needs none. */
static void put_error(int status, const char *verdict, const char *meaning)
{
    printf(".It %d Ta ", status);
    for (const char *p = verdict; *p != '\0' && status != 0; p++)
        putchar(tolower((unsigned char)*p));
    printf(" Ta \\&%c", toupper((unsigned char)*meaning));
    put_words(meaning + 1);
}

int main(void)
{
    puts(".Bl -column 0000 transientx -compact");
#define DDP_ERROR(name, status, verdict, meaning)                              \
    put_error(status, #verdict, meaning);
#include ERRORS
#undef DDP_ERROR
    puts(".El");
    return ferror(stdout) || fclose(stdout) != 0;
}

#endif
