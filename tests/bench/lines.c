/*
 * The worker of the log rows, and the judge of what became of its lines.
 *
 *     lines write BYTES     writes lines of 100 bytes to stdout, each with this
 *                           worker's rank and its number
 *     lines check FILE...   reads them, with or without a prefix that ends in
 *                           ':', and says how many whole lines of each rank
 *                           there are; fails where one is torn, missing or not
 *                           in its place
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE  100 /* with its newline */
#define BLOCK (64 * LINE)
#define RANKS 64

static void fill(char *line, int rank, long number)
{
    int n = snprintf(line, LINE, "rank %02d line %010ld ", rank, number);
    for (int i = n; i < LINE - 1; i++)
        line[i] = (char)('a' + i % 26);
    line[LINE - 1] = '\n';
}

/* As fill does it, but cheaper: what makes the lines is not what is measured.
 */
static void put_number(char *line, long number)
{
    for (char *p = line + sizeof("rank 00 line 0123456789") - 2;
         p >= line + sizeof("rank 00 line"); p--) {
        *p = (char)('0' + number % 10);
        number /= 10;
    }
}

static int write_lines(long bytes)
{
    static char block[BLOCK];
    const char *rank = getenv("RANK");
    long number = 0;
    for (int i = 0; i < BLOCK; i += LINE)
        fill(block + i, rank != NULL ? atoi(rank) : 0, 0);
    while (bytes > 0) {
        for (int i = 0; i < BLOCK; i += LINE)
            put_number(block + i, number++);
        for (size_t done = 0; done < BLOCK;) {
            ssize_t n = write(STDOUT_FILENO, block + done, BLOCK - done);
            if (n < 0 && errno != EINTR)
                return 1;
            done += n > 0 ? (size_t)n : 0;
        }
        bytes -= BLOCK;
    }
    return 0;
}

static long next[RANKS];

/* What torchrun writes has a prefix for each line: "[default0]:". */
static int is_whole(const char *line, size_t len)
{
    char wanted[LINE];
    const char *at = line;
    if (len > LINE && line[0] == '[') {
        const char *colon = memchr(line, ':', len);
        at = colon != NULL ? colon + 1 : line;
    }
    int rank = len - (size_t)(at - line) == LINE && strncmp(at, "rank ", 5) == 0
                   ? atoi(at + 5)
                   : -1;
    if (rank < 0 || rank >= RANKS)
        return 0;
    fill(wanted, rank, next[rank]);
    return memcmp(at, wanted, LINE) == 0 && ++next[rank] > 0;
}

static int check_file(const char *path)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    while ((len = getline(&line, &cap, f)) > 0)
        if (!is_whole(line, (size_t)len)) {
            fprintf(stderr, "%s: not the line that was to come: %.*s\n", path,
                    (int)(len > 140 ? 140 : len), line);
            return 1;
        }
    free(line);
    return fclose(f) != 0;
}

int main(int argc, char *argv[])
{
    if (argc == 3 && strcmp(argv[1], "write") == 0)
        return write_lines(atol(argv[2]));
    if (argc < 3 || strcmp(argv[1], "check") != 0)
        return 2;
    for (int i = 2; i < argc; i++)
        if (check_file(argv[i]) != 0)
            return 1;
    for (int rank = 0; rank < RANKS; rank++)
        if (next[rank] > 0)
            printf("%d %ld\n", rank, next[rank]);
    return 0;
}
