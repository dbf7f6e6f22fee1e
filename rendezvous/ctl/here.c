/*
 * A launcher knows who serves its run, wherever that is: it is connected to it.
 * So nobody has to tell, and nothing can be left of who is dead. The kernel
 * shows the sockets of our own processes: those of launchers that are connected
 * to somewhere, and not accepted (a server's have the port at which it
 * listens), and those at which a daemon listens.
 *
 * Failure modes: /proc is not there, or hides what is ours: nothing is found.
 * Processes in another network (a container) are none of this machine.
 */
#include "rendezvous/ctl/here.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/dial.h"

#define SOCKETS_MAX 16384
#define ENTRIES_MAX 4194304 /* of /proc: pid_max */

bool ctl_here_answers(int port, int64_t deadline_us)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = dial_addr((const struct sockaddr *)&at, deadline_us, NULL);
    if (fd < 0)
        return false;
    (void)close(fd); /* nothing was said */
    return true;
}

/* -- sockets of our processes ---------------------------------------------- */

enum owner {
    OWNER_LAUNCHER,
    OWNER_DAEMON
};

struct owned {
    unsigned long long inode;
    enum owner by;
};

struct ctl_search {
    struct owned *sockets;
    int n_sockets;
    uint8_t listens[65536 / 8]; /* ports at which any process of ours does */
    struct ctl_place *at;
    int n;
};

static void take_sockets(struct ctl_search *l, const char *pid, enum owner by)
{
    char path[300], to[64];
    (void)snprintf(path, sizeof(path), "/proc/%.20s/fd", pid); /* fits */
    DIR *dir = opendir(path);
    if (dir == NULL)
        return; /* it has ended */
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        (void)snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid,
                       e->d_name); /* fits */
        ssize_t len = readlink(path, to, sizeof(to) - 1);
        to[len > 0 ? len : 0] = '\0';
        unsigned long long inode;
        if (sscanf(to, "socket:[%llu]", &inode) == 1 &&
            l->n_sockets < SOCKETS_MAX)
            l->sockets[l->n_sockets++] =
                (struct owned){.inode = inode, .by = by};
    }
    (void)closedir(dir);
}

static bool read_word(const char *pid, const char *file, char word[32])
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, file); /* fits */
    FILE *f = fopen(path, "re");
    word[0] = '\0';
    if (f == NULL)
        return false;
    bool got = fscanf(f, "%31s", word) == 1;
    (void)fclose(f); /* read only */
    return got;
}

/* Whether it lives in the network that we are in. */
static bool is_of_our_network(const char *pid)
{
    char path[64];
    struct stat its, ours;
    (void)snprintf(path, sizeof(path), "/proc/%.20s/ns/net", pid); /* fits */
    return stat(path, &its) == 0 && stat("/proc/self/ns/net", &ours) == 0 &&
           its.st_ino == ours.st_ino && its.st_dev == ours.st_dev;
}

static void take_process(struct ctl_search *l, const char *pid)
{
    char path[64], name[32];
    struct stat st;
    (void)snprintf(path, sizeof(path), "/proc/%.20s", pid); /* fits */
    if (stat(path, &st) != 0 || st.st_uid != geteuid() ||
        !read_word(pid, "comm", name) || !is_of_our_network(pid))
        return;
    if (strcmp(name, "ddprun") == 0)
        take_sockets(l, pid, OWNER_LAUNCHER);
    else if (strcmp(name, "ddprdzvd") == 0)
        take_sockets(l, pid, OWNER_DAEMON);
}

static void take_processes(struct ctl_search *l)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return;
    for (int i = 0; i < ENTRIES_MAX; i++) {
        const struct dirent *e = readdir(dir);
        if (e == NULL)
            break;
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            take_process(l, e->d_name);
    }
    (void)closedir(dir);
}

/* -- where they lead ------------------------------------------------------- */

#define TCP_ESTABLISHED_HEX 0x01
#define TCP_LISTEN_HEX      0x0a

struct tcp_row {
    unsigned local_port, port, state;
    char addr[40]; /* of the peer, hexadecimal digits as the kernel has them */
    unsigned long long inode;
};

/* proc_net_tcp.txt of the kernel's documentation. */
static bool read_row(const char *line, struct tcp_row *row)
{
    return sscanf(line,
                  " %*d: %*32[0-9A-F]:%4x %32[0-9A-F]:%4x %2x %*s %*s %*s %*s "
                  "%*s %llu",
                  &row->local_port, row->addr, &row->port, &row->state,
                  &row->inode) == 5;
}

/* Words of 32 bits, each as this machine's number. */
static bool print_addr(const char *hex, char text[64])
{
    uint32_t word[4] = {0};
    static const uint32_t mapped = 0xffff;
    size_t n = strlen(hex) / 8;
    for (size_t i = 0; i < n && i < 4; i++) {
        char part[9] = "";
        memcpy(part, hex + 8 * i, 8);
        word[i] = (uint32_t)strtoul(part, NULL, 16);
    }
    if (n == 4 && word[0] == 0 && word[1] == 0 && word[2] == htonl(mapped)) {
        word[0] = word[3];
        n = 1;
    }
    if (n == 1 && (ntohl(word[0]) >> 24) == 127) {
        (void)snprintf(text, 64, "localhost"); /* fits */
        return true;
    }
    return (n == 1 || n == 4) &&
           inet_ntop(n == 4 ? AF_INET6 : AF_INET, word, text, 64) != NULL;
}

static void add(struct ctl_search *l, const char *host, unsigned port)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i].port == (int)port && strcmp(l->at[i].host, host) == 0)
            return;
    if (l->n == CTL_HERE_MAX)
        return;
    l->at[l->n].port = (int)port;
    (void)snprintf(l->at[l->n++].host, sizeof(l->at[0].host), "%s",
                   host); /* fits */
}

static const struct owned *owner_of(const struct ctl_search *l, uint64_t inode)
{
    for (int i = 0; i < l->n_sockets; i++)
        if (l->sockets[i].inode == inode)
            return &l->sockets[i];
    return NULL;
}

/* Rows are read twice: who listens must be known before who is connected. */
static void
take_row(struct ctl_search *l, const struct tcp_row *row, bool connections)
{
    char host[64];
    const struct owned *o = owner_of(l, row->inode);
    uint8_t bit = (uint8_t)(1u << (row->local_port & 7));
    uint8_t *listens = &l->listens[(row->local_port & 0xffff) >> 3];
    if (o == NULL)
        return;
    if (!connections && row->state == TCP_LISTEN_HEX) {
        *listens |= bit;
        if (o->by == OWNER_DAEMON)
            add(l, "localhost", row->local_port);
    }
    if (connections && row->state == TCP_ESTABLISHED_HEX &&
        o->by == OWNER_LAUNCHER && (*listens & bit) == 0 &&
        print_addr(row->addr, host))
        add(l, host, row->port);
}

static void take_rows(struct ctl_search *l, const char *path, bool connections)
{
    char line[512];
    struct tcp_row row;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return; /* no IPv6 */
    while (fgets(line, sizeof(line), f) != NULL)
        if (read_row(line, &row))
            take_row(l, &row, connections);
    (void)fclose(f); /* read only */
}

static int compare(const void *a, const void *b)
{
    const struct ctl_place *x = a, *y = b;
    int order = strcmp(x->host, y->host);
    return order != 0 ? order : x->port - y->port;
}

int ctl_here_find(struct ctl_place at[CTL_HERE_MAX])
{
    static struct ctl_search l;
    l = (struct ctl_search){
        .at = at, .sockets = calloc(SOCKETS_MAX, sizeof(l.sockets[0]))};
    if (l.sockets == NULL)
        return 0;
    take_processes(&l);
    for (int connections = 0; connections < 2; connections++) {
        take_rows(&l, "/proc/self/net/tcp", connections != 0);
        take_rows(&l, "/proc/self/net/tcp6", connections != 0);
    }
    free(l.sockets);
    qsort(at, (size_t)l.n, sizeof(at[0]), compare);
    return l.n;
}
