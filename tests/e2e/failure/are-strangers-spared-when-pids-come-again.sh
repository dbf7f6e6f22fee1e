#!/bin/sh
# A storm of processes whose pids are used again within milliseconds, beside a
# launch that restarts and sweeps processes whose own children come and go as
# fast: is any of the storm's hit?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/strangers.sh"
need_tools cc
need_namespaces

# It makes the next pids small ones, its own and the launch's.
cat >storm.c <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* What workers leave behind: its children are gone before they are known. */
static void churn(void)
{
    for (;;) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        churn();
    int again = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    int made = 0, hit = 0, alive = 0, status;
    if (again < 0 || pwrite(again, "100", 3, 0) != 3) {
        perror("ns_last_pid");
        return 1;
    }
    while (access("launch.status", F_OK) != 0) {
        pwrite(again, "100", 3, 0);
        pid_t pid = fork();
        if (pid == 0) {
            usleep((unsigned)(made * 7919 % 3000));
            _exit(0);
        }
        alive += pid > 0;
        if (made++ == 500)
            close(open("storm.ready", O_CREAT | O_WRONLY, 0600));
        while (waitpid(-1, &status, alive < 16 ? WNOHANG : 0) > 0) {
            alive--;
            hit += WIFSIGNALED(status);
        }
    }
    for (; alive > 0 && wait(&status) > 0; alive--)
        hit += WIFSIGNALED(status);
    printf("made=%d hit=%d\n", made, hit);
    return 0;
}
C
cc -O1 -w -o storm storm.c || skip 'cc makes no program'
cat >churner <<'CHURNER'
#!/bin/sh
for _ in 1 2 3 4 5; do
    setsid -f ./storm churn
done
sleep 0.1
[ "$TORCHELASTIC_RESTART_COUNT" -lt "$1" ] || exit 0
exit 3
CHURNER
chmod +x churner

cat >both <<'BOTH'
mount=$1
shift
./storm >storm.out 2>storm.err &
storm=$!
until [ -e storm.ready ]; do
    kill -0 $storm || exit 0
    sleep 0.01
done
[ $mount = own ] || umount -l /proc || exit 1
status=0
E2E_MARK=$E2E_DIR:it "$@" >it.out 2>it.err 9<&- || status=$?
echo $status >launch.status
wait $storm
BOTH
for proc in own none; do
    rm -f launch.status storm.ready
    background both unshare -fpm --kill-child sh -c '
        mount -t proc proc /proc && exec sh both "$@"' sh $proc \
        "$DDPRUN" --cgroup=none --nproc_per_node=2 --max_restarts=12 ./churner 12
    ends_with 0 both 40
    [ ! -s storm.err ] || skip "pids cannot be chosen here: $(cat storm.err)"
    same 0 "$(cat launch.status)" 'status of the launch'
    measured "/proc $proc: $(cat storm.out)"
    has ' hit=0$' storm.out
    nothing_left
done
