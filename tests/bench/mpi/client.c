/*
 * One rank without an MPI library, for what PMI-1 itself costs: all meet in a
 * barrier, put KEYS keys each, meet, get as many of others, meet. Writes the
 * times of the first and the last meeting, in ns of CLOCK_MONOTONIC, as a line
 * to the file in its first argument.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEYS     16
#define LINE_MAX 1024

static int fd;

static int number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? -1 : atoi(text);
}

static long long now_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

/* Its answer, which has to be a good one, is in `line`. */
static void ask(char line[LINE_MAX])
{
    size_t len = strlen(line), got = 0;
    if (write(fd, line, len) != (ssize_t)len)
        exit(3);
    do {
        ssize_t n = read(fd, line + got, LINE_MAX - 1 - got);
        if (n <= 0)
            exit(4);
        got += (size_t)n;
    } while (line[got - 1] != '\n');
    line[got] = '\0';
    if (strstr(line, "rc=0") == NULL && strstr(line, "finalize_ack") == NULL)
        exit(5);
}

static void say(const char *command)
{
    char line[LINE_MAX];
    (void)snprintf(line, sizeof(line), "cmd=%s\n", command);
    ask(line);
}

int main(int argc, char *argv[])
{
    char line[LINE_MAX];
    int rank = number("PMI_RANK"), size = number("PMI_SIZE");
    fd = number("PMI_FD");
    if (argc != 2 || fd < 0 || size < 1)
        return 2;
    say("init pmi_version=1 pmi_subversion=1");
    say("barrier_in");
    long long began = now_ns();
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(line, sizeof(line), "cmd=put key=%d-%d value=%0200d\n",
                       rank, i, rank);
        ask(line);
    }
    say("barrier_in");
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(line, sizeof(line), "cmd=get key=%d-%d\n",
                       (rank + 1 + i * 61) % size, i);
        ask(line);
    }
    say("barrier_in");
    long long ended = now_ns();
    say("finalize");
    int len = snprintf(line, sizeof(line), "%lld %lld\n", began, ended);
    int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    return write(file, line, (size_t)len) == len ? 0 : 1;
}
