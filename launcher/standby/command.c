/*
 * What is not understood gets no standby, so this knows the few forms that
 * people write and no more: options without a value (-u, -uB), -W and -X with
 * theirs, then -m MODULE or SCRIPT.py. A folder or an archive is run in another
 * way, and -c or a script from stdin is no job that anybody restarts.
 */
#include "launcher/standby/command.h"

#include <stdio.h>
#include <string.h>

#define PLAIN  "bBdEIOPqsSuv" /* options of one letter without a value */
#define VALUED "WX"

static bool refuse(char why[STANDBY_WHY_MAX], const char *of, const char *text)
{
    (void)snprintf(why, STANDBY_WHY_MAX, "%.100s %s", of, text); /* fits */
    return false;
}

static bool is_python(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash != NULL ? slash + 1 : path, "python", 6) == 0;
}

static bool ends_in_py(const char *name)
{
    size_t len = strlen(name);
    return len > 3 && strcmp(name + len - 3, ".py") == 0;
}

/* How many words the option at argv[0] has; 0: it is not understood. */
static int option_words(char *const argv[])
{
    const char *letters = argv[0] + 1;
    size_t plain = strspn(letters, PLAIN);
    if (letters[0] != '\0' && letters[plain] == '\0')
        return 1;
    if (letters[plain] == '\0' || strchr(VALUED, letters[plain]) == NULL)
        return 0;
    if (letters[plain + 1] != '\0')
        return 1;
    return argv[1] != NULL ? 2 : 0;
}

bool standby_command_read(char *const argv[],
                          struct standby_command *out,
                          char why[STANDBY_WHY_MAX])
{
    int n = 1;
    if (!is_python(argv[0]))
        return refuse(why, argv[0], "is not Python");
    while (argv[n] != NULL && argv[n][0] == '-' && strcmp(argv[n], "-m") != 0) {
        int words = option_words(argv + n);
        if (words == 0)
            return refuse(why, argv[n],
                          "is an option of Python that standbys do not have");
        n += words;
    }
    bool module = argv[n] != NULL && strcmp(argv[n], "-m") == 0;
    *out = (struct standby_command){
        .options = n, .program = n + module, .module = module};
    const char *program = argv[out->program];
    if (program == NULL)
        return refuse(why, argv[0], "has neither a script nor a module");
    if (!module && !ends_in_py(program))
        return refuse(why, program, "does not end in .py");
    return true;
}
