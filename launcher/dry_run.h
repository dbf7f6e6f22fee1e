/*
 * launcher/dry_run: what a launch would give to each worker, for people:
 * ranks, environment, command line, CPUs and GPUs. Makes no connection; what
 * only the rendezvous could tell stands in angle brackets.
 */
#ifndef LAUNCHER_DRY_RUN_H
#define LAUNCHER_DRY_RUN_H

#include <stdio.h>

#include "launcher/conf/conf.h"

/* Prints it; returns the exit status (DDP_E_IO's where `f` did not take it). */
int dry_run(const struct conf *conf, FILE *f);

#endif
