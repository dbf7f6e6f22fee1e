/*
 * ctl/table: columns that fit a terminal. A column is as wide as its longest
 * text; if all together are too wide, the longest texts are cut in the middle.
 */
#ifndef RENDEZVOUS_CTL_TABLE_H
#define RENDEZVOUS_CTL_TABLE_H

#include <stdio.h>

#include "rendezvous/ctl/text.h"

#define CTL_COLUMNS_MAX 11

struct ctl_column {
    const char *head;
    bool right; /* numbers */
    bool gives; /* its texts are cut first */
};

struct ctl_cell {
    char *text;
    enum ctl_tint tint;
};

struct ctl_table {
    const struct ctl_style *style; /* borrowed, as columns */
    const struct ctl_column *columns;
    int n_columns;
    int width[CTL_COLUMNS_MAX]; /* by ctl_table_fit */
    int indent;
    struct ctl_cell *cells;
    size_t n_cells, cap_cells;
};

void ctl_table_init(struct ctl_table *t,
                    const struct ctl_style *style,
                    const struct ctl_column *columns,
                    int n_columns);
void ctl_table_free(struct ctl_table *t);

/* Adds the next cell, row by row; its text is cleaned (ctl_clean). Ends the
 * process if there is no memory. */
void ctl_table_add(struct ctl_table *t,
                   enum ctl_tint tint,
                   const char *fmt,
                   ...) __attribute__((format(printf, 3, 4)));

/* Finds the widths; when all cells were added. */
void ctl_table_fit(struct ctl_table *t, int indent);
size_t ctl_table_rows(const struct ctl_table *t);
void ctl_table_head(const struct ctl_table *t, FILE *f);
void ctl_table_row(const struct ctl_table *t, size_t row, FILE *f);

#endif
