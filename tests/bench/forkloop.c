/*
 * The least that a launcher can do: fork and exec in a loop, then wait for
 * all. The floor under every other figure.
 * usage: forkloop N PROGRAM [ARGUMENT...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
    if (argc < 3)
        return 2;
    long n = strtol(argv[1], NULL, 10);
    for (long rank = 0; rank < n; rank++) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0) {
            (void)execv(argv[2], argv + 2);
            _exit(127);
        }
    }
    int bad = 0;
    int status;
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
