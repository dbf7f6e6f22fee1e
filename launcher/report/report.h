/*
 * launcher/report/report: what the launcher says to people: one line for what
 * happens on the way, and at the end what failed first, where, how and when.
 */
#ifndef LAUNCHER_REPORT_REPORT_H
#define LAUNCHER_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/agent/agent.h"
#include "launcher/conf/conf.h"
#include "launcher/report/event_log.h"

/* Tells of a note of the agent's, if it is for the user, and not what `j` has
 * been told already. */
void report_note(const struct conf *conf,
                 const struct note *n,
                 const struct event_log *j,
                 bool debug);

/* The end: nothing where all went well at the first try. `logs` is the folder
 * of the log files, "" where there are none. */
void report_end(const struct conf *conf,
                const struct agent_verdict *v,
                const struct event_log *j,
                const char *logs);

/* The same as JSON, into the file of --report: whole or not at all. A file that
 * cannot be written is told; the exit status stays what it is. A pipe or the
 * like that takes nothing is waited for RELAY_STUCK_MS, and not when `hurry_fd`
 * can be read. */
void report_write(const struct conf *conf,
                  const struct agent_verdict *v,
                  const struct event_log *j,
                  const char *logs,
                  int hurry_fd);

/* The local time of something so long ago, as ISO 8601. */
void report_time(int64_t ago_us, char *text, size_t size);

#endif
