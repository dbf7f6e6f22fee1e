/*
 * What makes a shell complete a program's options, from its table. A row's
 * metavar says what its value is: words with a small letter in it can be
 * written as they stand ("N|cpu|gpu"), FILE and FOLDER are looked for, nothing
 * is known of the rest.
 */
#include "rendezvous/base/opts.h"

#include <ctype.h>
#include <string.h>

static bool is_shown(const struct opts_row *row)
{
    return row->kind != OPTS_LATER;
}

/* -- what a value can be --------------------------------------------------- */

/* The next word of "N|cpu|gpu" that can be written as it is. */
static const char *next_word(const char **list, size_t *len)
{
    while (*list != NULL && **list != '\0') {
        const char *word = *list;
        bool small = false, ready = true;
        *len = strcspn(word, "|");
        for (size_t i = 0; i < *len; i++) {
            small |= islower((unsigned char)word[i]) != 0;
            ready &= isalnum((unsigned char)word[i]) || word[i] == '-';
        }
        *list = word + *len + (word[*len] == '|');
        if (small && ready)
            return word;
    }
    return NULL;
}

static void put_words(const struct opts_row *row, FILE *f)
{
    const char *list = row->metavar, *word;
    size_t len;
    for (bool first = true; (word = next_word(&list, &len)) != NULL;
         first = false)
        fprintf(f, "%s%.*s", first ? "" : " ", (int)len, word);
}

static bool has_words(const struct opts_row *row)
{
    const char *list = row->metavar;
    size_t len;
    return next_word(&list, &len) != NULL;
}

static bool wants(const struct opts_row *row, const char *what)
{
    return row->metavar != NULL && strcmp(row->metavar, what) == 0;
}

/* The help up to its first stop or colon, the letters of `odd` left out. */
static void put_help(const struct opts_row *row, const char *odd, FILE *f)
{
    for (const char *p = row->help; *p != '\0'; p++) {
        bool ends = (*p == '.' || *p == ':') && (p[1] == ' ' || p[1] == '\0');
        if (ends)
            return;
        if (strchr(odd, *p) == NULL)
            fputc(*p, f);
    }
}

/* -- bash ------------------------------------------------------------------ */

/* "--a | -x | --b", of those that take a value. */
static void put_valued(const struct opts_table *t, const char *between, FILE *f)
{
    bool first = true;
    for (int i = 0; i < t->rows_len; i++) {
        const struct opts_row *row = &t->rows[i];
        if (!is_shown(row) || row->metavar == NULL)
            continue;
        fprintf(f, "%s--%s", first ? "" : between, row->name);
        if (row->letter != 0)
            fprintf(f, "%s-%c", between, row->letter);
        first = false;
    }
}

static void bash_values(const struct opts_table *t, FILE *f)
{
    for (int i = 0; i < t->rows_len; i++) {
        const struct opts_row *row = &t->rows[i];
        if (!is_shown(row) || row->metavar == NULL)
            continue;
        bool files = wants(row, "FILE"), folders = wants(row, "FOLDER");
        if (!files && !folders && !has_words(row))
            continue;
        fprintf(f, "        --%s", row->name);
        if (row->letter != 0)
            fprintf(f, " | -%c", row->letter);
        fputs(") mapfile -t COMPREPLY < <(compgen ", f);
        if (files || folders) {
            fprintf(f, "-%c", files ? 'f' : 'd');
        } else {
            fputs("-W '", f);
            put_words(row, f);
            fputc('\'', f);
        }
        fputs(" -- \"$cur\") ;;\n", f);
    }
}

/* The words before the cursor: which option has no value yet (opt), and whether
 * the program, behind which nothing is ours, comes before (i). */
static void bash_look(const struct opts_table *t, FILE *f)
{
    fputs("    # Readline takes --name=value for three words, and a:b too.\n"
          "    while [ $i -lt \"$COMP_CWORD\" ]; do\n"
          "        opt=\n"
          "        case ${COMP_WORDS[i]} in\n"
          "        --) i=$((i + 1)) && break ;;\n"
          /* Dashes within the name become underscores, as in the table. */
          "        --*) word=${COMP_WORDS[i]#--} && word=--${word//-/_} ;;\n"
          "        -*) word=${COMP_WORDS[i]} ;;\n"
          "        *) break ;;\n"
          "        esac\n"
          "        case $word in\n"
          "        ",
          f);
    put_valued(t, " | ", f);
    fputs(")\n"
          "            opt=$word i=$((i + 1))\n"
          "            [ \"${COMP_WORDS[i]}\" != = ] || i=$((i + 1))\n"
          "            i=$((i + 1))\n"
          "            while [ \"${COMP_WORDS[i]}\" = : ]; do\n"
          "                i=$((i + 2))\n"
          "            done\n"
          "            ;;\n"
          "        *) i=$((i + 1)) ;;\n"
          "        esac\n"
          "    done\n",
          f);
}

/* A value, a file behind the program, an option, or the program. */
static void bash_offer(const struct opts_table *t, FILE *f)
{
    fputs("    if [ $i -gt \"$COMP_CWORD\" ]; then\n"
          "        case $opt in\n",
          f);
    bash_values(t, f);
    fputs("        esac\n"
          "    elif [ $i -lt \"$COMP_CWORD\" ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "    elif [ \"${cur#-}\" != \"$cur\" ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W '--help --version",
          f);
    for (int i = 0; i < t->rows_len; i++) {
        if (is_shown(&t->rows[i]))
            fprintf(f, " --%s", t->rows[i].name);
    }
    fputs("' -- \"$cur\")\n"
          "    else\n"
          "        mapfile -t COMPREPLY < <(compgen -c -f -- \"$cur\")\n"
          "    fi\n",
          f);
}

static void bash(const struct opts_table *t, FILE *f)
{
    const char *p = t->program;
    fprintf(f,
            "# bash completion of %s; written by %s --print_completion=bash\n"
            "_%s()\n"
            "{\n"
            "    local cur=${COMP_WORDS[COMP_CWORD]} opt= i=1 word\n"
            "    COMPREPLY=()\n"
            "    [ \"$cur\" != = ] || cur=\n",
            p, p, p);
    bash_look(t, f);
    bash_offer(t, f);
    fprintf(f,
            "}\n"
            "complete -o filenames -F _%s %s\n",
            p, p);
}

/* -- zsh ------------------------------------------------------------------- */

static void zsh_row(const struct opts_row *row, FILE *f)
{
    static const char odd[] = "'[]:\\`$";
    const char *equals = row->metavar != NULL ? "=" : "";
    if (row->letter != 0)
        fprintf(f, "    '(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name,
                row->letter, row->metavar != NULL ? "+" : "", row->name,
                equals);
    else
        fprintf(f, "    '--%s%s[", row->name, equals);
    put_help(row, odd, f);
    fputc(']', f);
    if (row->metavar != NULL) {
        fputc(':', f);
        for (const char *p = row->metavar; *p != '\0'; p++)
            fputc(strchr(odd, *p) != NULL ? ' ' : *p, f);
        fputc(':', f);
        if (wants(row, "FILE")) {
            fputs("_files", f);
        } else if (wants(row, "FOLDER")) {
            fputs("_files -/", f);
        } else if (has_words(row)) {
            fputc('(', f);
            put_words(row, f);
            fputc(')', f);
        } else {
            fputc(' ', f);
        }
    }
    fputs("' \\\n", f);
}

static void zsh(const struct opts_table *t, FILE *f)
{
    fprintf(f,
            "#compdef %s\n"
            "# written by %s --print_completion=zsh\n"
            "_arguments -S \\\n"
            "    '(- *)'{-h,--help}'[print a summary and exit]' \\\n"
            "    '(- *)--version[print the version and exit]' \\\n",
            t->program, t->program);
    for (int i = 0; i < t->rows_len; i++) {
        if (is_shown(&t->rows[i]))
            zsh_row(&t->rows[i], f);
    }
    fputs("    '(-)1:program:{ _command_names -e || _files }' \\\n"
          "    '*::argument: _normal'\n",
          f);
}

/* -- fish ------------------------------------------------------------------ */

static void
fish_row(const struct opts_table *t, const struct opts_row *row, FILE *f)
{
    fprintf(f, "complete -c %s -n __%s_in_options -l %s", t->program,
            t->program, row->name);
    if (row->letter != 0)
        fprintf(f, " -s %c", row->letter);
    if (wants(row, "FILE"))
        fputs(" -r -F", f);
    else if (wants(row, "FOLDER"))
        fputs(" -x -a '(__fish_complete_directories)'", f);
    else if (row->metavar != NULL)
        fputs(" -x", f);
    if (row->metavar != NULL && has_words(row)) {
        fputs(" -a '", f);
        put_words(row, f);
        fputc('\'', f);
    }
    fputs(" -d '", f);
    put_help(row, "'\\", f);
    fputs("'\n", f);
}

static void fish(const struct opts_table *t, FILE *f)
{
    const char *p = t->program;
    fprintf(f,
            "# fish completion of %s; written by %s --print_completion=fish\n"
            "function __%s_in_options\n"
            "    set -l value 0\n"
            "    for word in (commandline -opc)[2..-1]\n"
            "        if test $value = 1\n"
            "            set value 0\n"
            "            continue\n"
            "        end\n"
            "        switch $word\n"
            "            case '--*=*'\n"
            "            case ",
            p, p, p);
    put_valued(t, " ", f);
    fprintf(f,
            "\n"
            "                set value 1\n"
            "            case '-*'\n"
            "            case '*'\n"
            "                return 1\n"
            "        end\n"
            "    end\n"
            "    return 0\n"
            "end\n"
            "complete -c %s -n __%s_in_options -a "
            "'(__fish_complete_command)'\n"
            "complete -c %s -n __%s_in_options -s h -l help -d 'Print a "
            "summary and exit'\n"
            "complete -c %s -n __%s_in_options -l version -d 'Print the "
            "version and exit'\n",
            p, p, p, p, p, p);
    for (int i = 0; i < t->rows_len; i++) {
        if (is_shown(&t->rows[i]))
            fish_row(t, &t->rows[i], f);
    }
}

bool opts_completion(const struct opts_table *t, const char *shell, FILE *f)
{
    static const struct {
        const char *name;
        void (*print)(const struct opts_table *t, FILE *f);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(t, f);
            return true;
        }
    }
    return false;
}
