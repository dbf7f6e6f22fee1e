/*
 * launcher/conf/program: finds what to execute: a program by PATH or by its
 * path, a Python script and the interpreter that runs it. execve(2) can still
 * fail later; the worker reports that.
 *
 * `path` gets a name with a slash in it, of less than `cap` bytes. Errors:
 * DDP_E_NOTFOUND there is no such file; DDP_E_NOTEXEC it is not executable;
 * DDP_E_NOINPUT a script that cannot be read.
 */
#ifndef LAUNCHER_CONF_PROGRAM_H
#define LAUNCHER_CONF_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/base/err.h"

/* Finds `name` as execvp(3) does. */
int program_find(const char *name, char *path, size_t cap, struct ddp_err *err);

/* Finds $PYTHON_EXEC, else the python of the active VIRTUAL_ENV, of the virtual
 * environment that this program is installed in, of CONDA_PREFIX, else python3
 * by PATH. */
int program_find_python(char *path, size_t cap, struct ddp_err *err);

/* Whether python runs it: torchrun's users name scripts ending in .py. */
bool program_is_script(const char *name);

/* Checks that the script exists and can be read. */
int program_check_script(const char *script, struct ddp_err *err);

#endif
