/*
 * The bench's worker: says when its main began, waits at the gate, says when
 * it ends. Static and tiny, so that its own start is not what is measured.
 * usage: worker FOLDER
 *
 * The gate is a lock that the driver holds: it opens for all workers in the
 * same moment, and by itself should the driver die, so that no worker that a
 * launcher leaves behind stays for ever.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "event.h"

static int open_in(const char *dir, const char *name, int flags)
{
    char path[512];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    return n < (int)sizeof(path) ? open(path, flags | O_CLOEXEC) : -1;
}

/* One write to a file opened with O_APPEND: records never mix. */
static int tell(int fd, enum event_kind kind, int64_t ns)
{
    struct event e = {.ns = ns, .pid = getpid(), .kind = (int32_t)kind};
    return write(fd, &e, sizeof(e)) == (ssize_t)sizeof(e) ? 0 : -1;
}

int main(int argc, char *argv[])
{
    int64_t began = event_now();
    if (argc != 2)
        return 2;
    int events = open_in(argv[1], "events", O_WRONLY | O_APPEND);
    int gate = open_in(argv[1], "gate", O_RDONLY);
    if (events < 0 || gate < 0 || tell(events, EVENT_START, began) != 0)
        return 3;
    if (flock(gate, LOCK_SH) != 0)
        return 4;
    if (tell(events, EVENT_END, event_now()) != 0)
        return 3;
    _exit(0);
}
