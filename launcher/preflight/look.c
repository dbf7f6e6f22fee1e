/*
 * What can be seen of this node without another one. Each look is on its own: a
 * file or a library that is not there leaves its field empty, and the judge
 * compares the fields of all nodes. Only what is wrong whatever other nodes
 * have (an NCCL_SOCKET_IFNAME that no interface matches) is a problem already,
 * and so is a machine that does not list its interfaces.
 *
 * Interfaces are chosen as NCCL does: NCCL_SOCKET_IFNAME is a list of prefixes,
 * "=" before it asks for whole names, "^" excludes; IPv4 comes first.
 */
#include "launcher/preflight/look.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "launcher/hw/gpus.h"
#include "rendezvous/net/addr.h"

/* -- interfaces ------------------------------------------------------------ */

bool preflight_ifname_matches(const char *list, const char *iface)
{
    bool wanted = list[0] != '^';
    list += !wanted;
    bool whole = list[0] == '=';
    list += whole;
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        if (len > 0 && strncmp(list, iface, len) == 0 &&
            (!whole || iface[len] == '\0'))
            return wanted;
        list += len + (list[len] == ',');
    }
    return !wanted;
}

/* 0: not known. */
static int mtu_of(const char *iface)
{
    struct ifreq req = {.ifr_mtu = 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", iface);
    int mtu = fd >= 0 && ioctl(fd, SIOCGIFMTU, &req) == 0 ? req.ifr_mtu : 0;
    if (fd >= 0)
        (void)close(fd); /* nothing was sent by it */
    return mtu;
}

static bool is_up(const struct ifaddrs *i)
{
    return i->ifa_addr != NULL && (i->ifa_flags & (unsigned)IFF_UP) != 0 &&
           (i->ifa_addr->sa_family == AF_INET ||
            i->ifa_addr->sa_family == AF_INET6);
}

__attribute__((format(printf, 3, 4))) static void
say(struct preflight_node *n, int fact, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(n->fact[fact], FACT_MAX, fmt, ap); /* a long one is cut */
    va_end(ap);
}

/* The first one counts. */
__attribute__((format(printf, 2, 3))) static void
blame(struct preflight_node *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (n->fact[FACT_PROBLEM][0] == '\0')
        (void)vsnprintf(n->fact[FACT_PROBLEM], FACT_MAX, fmt, ap);
    va_end(ap);
}

static void
set_iface(struct preflight_node *n, enum preflight_net net, const char *iface)
{
    int mtu = mtu_of(iface);
    say(n, FACT_IFACE + (int)net, "%s", iface);
    if (mtu > 0)
        say(n, FACT_MTU + (int)net, "%d", mtu);
}

/* The interface that has the address. */
static void find_iface(const struct ifaddrs *all, struct preflight_node *n)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        char text[ADDR_TEXT_MAX];
        if (!is_up(i))
            continue;
        addr_text(i->ifa_addr, text);
        if (strcmp(text, n->fact[FACT_ADDR + PREFLIGHT_MASTER]) == 0) {
            set_iface(n, PREFLIGHT_MASTER, i->ifa_name);
            return;
        }
    }
}

static bool is_usable(const struct ifaddrs *i, const char *list, int family)
{
    if (!is_up(i) || i->ifa_addr->sa_family != family ||
        !preflight_ifname_matches(list, i->ifa_name))
        return false;
    /* "All but these" does not mean loopback. */
    return list[0] != '^' || (i->ifa_flags & (unsigned)IFF_LOOPBACK) == 0;
}

static bool
find_nccl(const struct ifaddrs *all, const char *list, struct preflight_node *n)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (int f = 0; f < 2; f++)
        for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
            if (is_usable(i, list, families[f])) {
                char text[ADDR_TEXT_MAX];
                addr_text(i->ifa_addr, text);
                if (strcmp(text, n->fact[FACT_ADDR + PREFLIGHT_MASTER]) == 0)
                    return true; /* it is the same way */
                say(n, FACT_ADDR + PREFLIGHT_NCCL, "%s", text);
                set_iface(n, PREFLIGHT_NCCL, i->ifa_name);
                return true;
            }
    return false;
}

/* The interfaces that are up, for a message. */
static void name_ifaces(const struct ifaddrs *all, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        size_t len = strlen(i->ifa_name);
        if (!is_up(i) || i->ifa_addr->sa_family != AF_INET ||
            used + len + 2 > size)
            continue;
        text[used] = ' ';
        memcpy(text + used + (used > 0), i->ifa_name, len + 1);
        used += len + (used > 0);
    }
}

static void look_at_network(struct preflight_node *n)
{
    struct ifaddrs *all;
    char names[120];
    const char *list = getenv("NCCL_SOCKET_IFNAME");
    if (getifaddrs(&all) != 0) {
        blame(n, "the network interfaces cannot be listed: %s",
              strerror(errno));
        return;
    }
    find_iface(all, n);
    if (list != NULL && list[0] != '\0') {
        say(n, FACT_IFNAME, "%s", list);
        name_ifaces(all, names, sizeof(names));
        if (!find_nccl(all, list, n))
            blame(n,
                  "NCCL_SOCKET_IFNAME=%.60s: no interface of that name is up; "
                  "there are: %s",
                  list, names);
    }
    freeifaddrs(all);
}

/* -- versions -------------------------------------------------------------- */

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  ..." */
static void look_at_driver(struct preflight_node *n)
{
    char line[256] = "";
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    if (f == NULL)
        return;
    char *got = fgets(line, sizeof(line), f);
    (void)fclose(f); /* read only */
    for (char *save, *w = got != NULL ? strtok_r(line, " \t\n", &save) : NULL;
         w != NULL; w = strtok_r(NULL, " \t\n", &save))
        if (isdigit((unsigned char)w[0]) && strchr(w, '.') != NULL) {
            say(n, FACT_DRIVER, "%s", w);
            return;
        }
}

/* The NCCL that a program finds by the loader's path. PyTorch's wheels have
 * their own. */
static void look_at_nccl(struct preflight_node *n)
{
    void *lib = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    int (*get)(int *) = NULL;
    void *found = lib != NULL ? dlsym(lib, "ncclGetVersion") : NULL;
    int v = 0;
    memcpy(&get, &found, sizeof(get));
    if (get != NULL && get(&v) == 0 && v >= 10000)
        say(n, FACT_NCCL, "%d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
    /* It stays loaded, since it may have started threads. */
}

static void look_at_gpus(struct preflight_node *n)
{
    static struct gpus gpus; /* large */
    struct gpus_visible visible = gpus_visible_env();
    gpus_find(&gpus, &gpus_roots, &visible);
    if (gpus.n > 0)
        say(n, FACT_GPUS, "%d%s%.90s", gpus.n,
            gpus.gpu[0].name[0] != '\0' ? " x " : "", gpus.gpu[0].name);
}

/* -- limits ---------------------------------------------------------------- */

static void look_at_limits(struct preflight_node *n)
{
    struct rlimit files = {.rlim_cur = 0};
    struct statvfs shm;
    (void)getrlimit(RLIMIT_NOFILE, &files); /* valid arguments */
    if (files.rlim_cur == RLIM_INFINITY)
        say(n, FACT_FILES, "unlimited");
    else
        say(n, FACT_FILES, "%llu", (unsigned long long)files.rlim_cur);
    if (statvfs("/dev/shm", &shm) == 0)
        say(n, FACT_SHM, "%llu",
            (unsigned long long)shm.f_bavail * shm.f_frsize >> 20);
}

void preflight_look(struct preflight_node *n)
{
    struct utsname u;
    ddp_assert(n->fact[FACT_ADDR + PREFLIGHT_MASTER][0] != '\0');
    if (uname(&u) == 0) {
        say(n, FACT_NAME, "%.63s", u.nodename);
        say(n, FACT_KERNEL, "%.63s", u.release);
    }
    say(n, FACT_VERSION, "%s", DDPRUN_VERSION);
    look_at_network(n);
    look_at_driver(n);
    look_at_nccl(n);
    look_at_gpus(n);
    look_at_limits(n);
}
