/*
 * launcher/standby/runner: the Python texts that the binary carries.
 */
#ifndef LAUNCHER_STANDBY_RUNNER_H
#define LAUNCHER_STANDBY_RUNNER_H

/* start.py, as an argument of `python -c`. Any Python reads it; it executes the
 * text behind it, if that is for this Python. */
extern const char standby_start[];

/* imports.py, replay.py and runner.py, its next argument. */
extern const char standby_runner[];

#endif
