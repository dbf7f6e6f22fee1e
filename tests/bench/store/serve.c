/*
 * The store as a launcher serves it, in a process of its own. Prints its port.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <signal.h>

#include "rendezvous/store/process.h"

int main(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 ||
        listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        perror("serve");
        return EXIT_FAILURE;
    }
    printf("%u\n", (unsigned)ntohs(sa.sin_port));
    (void)fflush(stdout);
    store_process_main(&(struct helper_fds){.listener = fd, .chan = -1}, NULL);
}
