/*
 * launcher/report/try_files: whether the files of --report and --events can be
 * written, before anything starts. Better to hear it now than weeks later, when
 * the run ends.
 */
#ifndef LAUNCHER_REPORT_TRY_FILES_H
#define LAUNCHER_REPORT_TRY_FILES_H

#include "launcher/conf/output.h"
#include "rendezvous/base/err.h"

/*
 * Does to each file what will be done to it later, as far as that leaves no
 * trace: the file of the events is made, beside that of the report one is made
 * and removed. A FIFO needs no reader yet. Errors: DDP_E_CONFIG, with the
 * option and the reason.
 */
int try_files(const struct conf_output *c, struct ddp_err *err);

#endif
