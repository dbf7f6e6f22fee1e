#include "launcher/hang/stack_line.h"

#include <stdbool.h>
#include <string.h>

/* The frame in which gdb found the process: the first one of a thread again,
 * without a number. */
static bool is_frame_again(const char *line)
{
    if (strchr("# ", line[0]) != NULL)
        return false;
    return strncmp(line, "0x", 2) == 0 || strstr(line, ") at ") != NULL ||
           strstr(line, ") from ") != NULL;
}

/* A debugger tells about itself, or says again what its first frame says. */
static bool is_noise(const char *line)
{
    static const char *const beginnings[] = {
        "[",          /* [New LWP 7], [Inferior 1 (process 5) detached] */
        "Using host", /* libthread_db library */
        "warning: ",
    };
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return line[0] == '\0' || is_frame_again(line);
}

/* The last place of `what` in `line`, or NULL: arguments may look like it. */
static char *last_of(char *line, const char *what)
{
    char *found = NULL;
    for (char *at = line; (at = strstr(at, what)) != NULL; at++)
        found = at;
    return found;
}

static void cut(char *from, const char *to)
{
    memmove(from, to, strlen(to) + 1);
}

/* Where " (" begins the arguments that end at `end`, or NULL. A name may have
 * parentheses as well (templates), and so may texts among the arguments. */
static char *args_before(char *name, const char *end)
{
    int depth = 0;
    for (const char *at = end; at > name; at--) {
        depth += *at == ')';
        depth -= *at == '(';
        if (depth == 0)
            return at[-1] == ' ' ? name + (at - 1 - name) : NULL;
    }
    return strstr(name, " (");
}

/* Takes the address and the arguments out of a frame of gdb. */
static void shorten(char *line)
{
    for (char *tab = line; (tab = strchr(tab, '\t')) != NULL;)
        *tab = ' ';
    if (line[0] != '#')
        return;
    char *name = line + 1 + strspn(line + 1, "0123456789");
    name += strspn(name, " ");
    const char *behind = strstr(name, " in ");
    if (strncmp(name, "0x", 2) == 0 && behind != NULL)
        cut(name, behind + 4);
    char *end = last_of(name, ") at ");
    if (end == NULL)
        end = last_of(name, ") from ");
    if (end == NULL && line[strlen(line) - 1] == ')')
        end = line + strlen(line) - 1; /* its file is not known */
    char *args = end != NULL ? args_before(name, end) : NULL;
    if (args != NULL && args < end)
        cut(args, end + 1);
}

const char *stack_line_for_people(char *line)
{
    if (is_noise(line))
        return NULL;
    shorten(line);
    if (strncmp(line, "Couldn't write extended state", 29) != 0)
        return line;
    return "  no Python lines: gdb before version 14 cannot call into a "
           "process on this CPU; py-spy reads them (pip install "
           "'ddprun[debug]')";
}
