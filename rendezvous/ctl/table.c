#include "rendezvous/ctl/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"

#define GAP       2 /* columns between two */
#define GIVES_MIN 8 /* what gives keeps so many, while others can give too */
#define CELL_MAX  512

void ctl_table_init(struct ctl_table *t,
                    const struct ctl_style *style,
                    const struct ctl_column *columns,
                    int n_columns)
{
    ddp_assert(n_columns <= CTL_COLUMNS_MAX);
    *t = (struct ctl_table){
        .style = style, .columns = columns, .n_columns = n_columns};
}

void ctl_table_free(struct ctl_table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i].text);
    free(t->cells);
    t->cells = NULL;
}

static void die(void)
{
    fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for a table");
}

void ctl_table_add(struct ctl_table *t,
                   enum ctl_tint tint,
                   const char *fmt,
                   ...)
{
    char raw[CELL_MAX];
    char text[CELL_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(raw, sizeof(raw), fmt, ap); /* may be cut */
    va_end(ap);
    ctl_clean(t->style, raw, text, sizeof(text));
    if (t->n_cells == t->cap_cells) {
        size_t cap = t->cap_cells == 0 ? 64 : t->cap_cells * 2;
        struct ctl_cell *cells = realloc(t->cells, cap * sizeof(cells[0]));
        if (cells == NULL)
            die();
        t->cells = cells;
        t->cap_cells = cap;
    }
    struct ctl_cell *cell = &t->cells[t->n_cells++];
    cell->tint = tint;
    cell->text = strdup(text);
    if (cell->text == NULL)
        die();
}

size_t ctl_table_rows(const struct ctl_table *t)
{
    return t->n_cells / (size_t)t->n_columns;
}

/* The widest column, of those that give or of all; -1: none can be cut. */
static int widest(const struct ctl_table *t, bool all)
{
    int best = -1;
    for (int c = 0; c < t->n_columns; c++) {
        bool can = all ? t->width[c] > 1
                       : t->columns[c].gives && t->width[c] > GIVES_MIN;
        if (can && (best < 0 || t->width[c] > t->width[best]))
            best = c;
    }
    return best;
}

void ctl_table_fit(struct ctl_table *t, int indent)
{
    int total = indent - GAP;
    t->indent = indent;
    for (int c = 0; c < t->n_columns; c++)
        t->width[c] = (int)strlen(t->columns[c].head);
    for (size_t i = 0; i < t->n_cells; i++) {
        int c = (int)(i % (size_t)t->n_columns);
        int width = ctl_columns(t->style, t->cells[i].text);
        if (width > t->width[c])
            t->width[c] = width;
    }
    for (int c = 0; c < t->n_columns; c++)
        total += GAP + t->width[c];
    for (; total > t->style->width; total--) {
        int c = widest(t, false);
        if (c < 0)
            c = widest(t, true);
        if (c < 0)
            return;
        t->width[c]--;
    }
}

/* The last cell of a line has no blanks behind it. */
static void put_cell(const struct ctl_table *t,
                     int c,
                     const char *text,
                     enum ctl_tint tint,
                     FILE *f)
{
    char cut[CELL_MAX];
    (void)snprintf(cut, sizeof(cut), "%s", text); /* it fits */
    ctl_fit(t->style, cut, sizeof(cut), t->width[c]);
    int pad = t->width[c] - ctl_columns(t->style, cut);
    bool last = c + 1 == t->n_columns;
    bool right = t->columns[c].right;
    fprintf(f, "%*s%s%s%s%*s", right ? pad : 0, "", ctl_on(t->style, tint), cut,
            ctl_off(t->style, tint), last ? 0 : (right ? 0 : pad) + GAP, "");
}

void ctl_table_head(const struct ctl_table *t, FILE *f)
{
    fprintf(f, "%*s", t->indent, "");
    for (int c = 0; c < t->n_columns; c++)
        put_cell(t, c, t->columns[c].head, TINT_DIM, f);
    fputc('\n', f);
}

void ctl_table_row(const struct ctl_table *t, size_t row, FILE *f)
{
    fprintf(f, "%*s", t->indent, "");
    for (int c = 0; c < t->n_columns; c++) {
        const struct ctl_cell *cell =
            &t->cells[row * (size_t)t->n_columns + (size_t)c];
        put_cell(t, c, cell->text, cell->tint, f);
    }
    fputc('\n', f);
}
