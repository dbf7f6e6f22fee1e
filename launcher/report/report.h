/*
 * launcher/report/report: what the launcher prints for people: one line for
 * each event on the way, and at the end what failed first, where, how and when.
 */
#ifndef LAUNCHER_REPORT_REPORT_H
#define LAUNCHER_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/agent/agent.h"
#include "launcher/conf/conf.h"
#include "launcher/output/output.h"
#include "launcher/report/event_log.h"

/* Prints a note of the agent if it is for the user, and if `j` does not show
 * that the same was printed before; a wait that is printed is kept there. With
 * `debug` all notes are printed as well. */
void report_note(const struct conf *conf,
                 const struct note *n,
                 struct event_log *j,
                 bool debug);

/* Prints how the run ended; nothing if all went well at the first try. `logs`
 * is the folder of the log files, "" if there are none. */
void report_end(const struct conf *conf,
                const struct agent_verdict *v,
                const struct event_log *j,
                const char *logs);

/* Writes the same as JSON to the file of --report, whole or not at all. If that
 * fails a line says so, and the exit status stays as it is. A pipe that takes
 * nothing is waited for RELAY_STUCK_MS at most, or much shorter if `h` says so.
 */
void report_write(const struct conf *conf,
                  const struct agent_verdict *v,
                  const struct event_log *j,
                  const char *logs,
                  const struct output_hurry *h);

/* The local time `ago_us` before now, as ISO 8601. */
void report_time(int64_t ago_us, char *text, size_t size);

#endif
