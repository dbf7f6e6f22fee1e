/*
 * The worker of tests/chaos: says that it runs, every BEAT_MS, until the file
 * FOLDER/JOB.finish is there, and exits with 0 then (with $CHAOS_EXIT if that
 * is set). $CHAOS_JOB is the job, $CHAOS_NODE the launcher.
 *
 * It writes the file FOLDER/JOB.NODE.PID.beats: one line that says of which
 * round it is a worker, then for each beat one with the microseconds of
 * CLOCK_MONOTONIC, which is one clock for all the machines that are namespaces
 * of this one.
 *
 * usage: beats FOLDER
 * `beats --watch FILE` is no worker: it beats into FILE, without a first line,
 * until it is killed. The gaps in that file tell for how long a process that
 * could have run waited for a CPU.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BEAT_MS 20

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "-";
}

static bool write_line(int fd, const char *line, int len)
{
    return write(fd, line, (size_t)len) == len;
}

static bool say_place(int fd)
{
    char line[512];
    int len = snprintf(line, sizeof(line), "%s %s %s %s %s %s\n",
                       variable("DDP_INSTANCE"), variable("DDP_ROUND"),
                       variable("RANK"), variable("WORLD_SIZE"),
                       variable("GROUP_RANK"), variable("GROUP_WORLD_SIZE"));
    return len > 0 && len < (int)sizeof(line) && write_line(fd, line, len);
}

static bool beat(int fd)
{
    char line[32];
    struct timespec at;
    if (clock_gettime(CLOCK_MONOTONIC, &at) != 0)
        return false;
    int len = snprintf(line, sizeof(line), "%lld\n",
                       (long long)at.tv_sec * 1000000 + at.tv_nsec / 1000);
    return write_line(fd, line, len);
}

static int open_new(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
}

int main(int argc, char *argv[])
{
    char path[1024], finish[1024];
    bool watches = argc == 3 && strcmp(argv[1], "--watch") == 0;
    if (!watches && argc != 2) {
        (void)fprintf(stderr, "usage: beats FOLDER | beats --watch FILE\n");
        return 2;
    }
    if (watches)
        (void)snprintf(path, sizeof(path), "%s", argv[2]);
    else
        (void)snprintf(path, sizeof(path), "%s/%s.%s.%d.beats", argv[1],
                       variable("CHAOS_JOB"), variable("CHAOS_NODE"),
                       (int)getpid());
    (void)snprintf(finish, sizeof(finish), "%s/%s.finish", argv[1],
                   variable("CHAOS_JOB"));
    int fd = open_new(path);
    if (fd < 0 || (!watches && !say_place(fd))) {
        perror(path);
        return 3;
    }
    const struct timespec pause = {.tv_nsec = BEAT_MS * 1000000L};
    while (beat(fd)) {
        if (!watches && access(finish, F_OK) == 0)
            return atoi(getenv("CHAOS_EXIT") ? getenv("CHAOS_EXIT") : "0");
        (void)nanosleep(&pause, NULL);
    }
    perror(path);
    return 3;
}
