#include "rendezvous/net/server_mark.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER      "/dev/shm/"
#define PREFIX      "ddprun-server_"
#define ENTRIES_MAX 65536 /* of the folder, to which everybody may add */

void server_mark_path(char path[SERVER_MARK_PATH_SIZE], int port)
{
    (void)snprintf(path, SERVER_MARK_PATH_SIZE, /* fits */
                   FOLDER PREFIX "%u_%d", (unsigned)geteuid(), port);
}

/* 0: the name is not that of a mark. */
static int port_of(const char *name, const char *begins)
{
    char *end;
    size_t len = strlen(begins);
    if (strncmp(name, begins, len) != 0)
        return 0;
    long port = strtol(name + len, &end, 10);
    return *end == '\0' && port >= 1 && port <= 65535 ? (int)port : 0;
}

void server_mark_each(void (*see)(void *ctx, int port), void *ctx)
{
    char begins[32];
    (void)snprintf(begins, sizeof(begins), PREFIX "%u_", /* fits */
                   (unsigned)geteuid());
    DIR *dir = opendir(FOLDER);
    if (dir == NULL)
        return;
    for (int i = 0; i < ENTRIES_MAX; i++) {
        const struct dirent *e = readdir(dir);
        if (e == NULL)
            break;
        int port = port_of(e->d_name, begins);
        if (port > 0)
            see(ctx, port);
    }
    (void)closedir(dir);
}
