/*
 * ctl/report: ddpctl report: reads the --events files of a run's nodes and
 * prints what they say together, as a page or as JSON.
 */
#ifndef RENDEZVOUS_CTL_REPORT_H
#define RENDEZVOUS_CTL_REPORT_H

#include <stdbool.h>

#include "rendezvous/ctl/text.h"

struct ctl_report {
    const struct ctl_style *style; /* for messages */
    const char *const *files;      /* "-": standard input */
    int n_files;
    const char *run; /* only this one; NULL: the only one that there is */
    bool json;       /* instead of a page */
};

/* Returns the exit status. */
int ctl_report_run(const struct ctl_report *r);

#endif
