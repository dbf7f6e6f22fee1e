/*
 * launcher/standby/runner: the text of imports.py and runner.py, which the
 * binary carries.
 */
#ifndef LAUNCHER_STANDBY_RUNNER_H
#define LAUNCHER_STANDBY_RUNNER_H

/* Python's source, as an argument of `python -c`. */
extern const char standby_runner[];

#endif
