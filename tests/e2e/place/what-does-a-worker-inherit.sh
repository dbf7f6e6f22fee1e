#!/bin/sh
# Does a worker get nothing but its own descriptors, the user's limits, default
# signals (but what was ignored stays so), a session of its own, and a place
# before the launcher in the queue of the OOM killer?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >look <<'LOOK'
#!/bin/sh
grep '^Sig\(Blk\|Ign\)' /proc/self/status
echo "files $(ulimit -n)"
echo "oom $(cat /proc/self/oom_score_adj)"
echo "session $(cut -d ' ' -f 6 /proc/$$/stat) pid $$"
echo "open $(ls /proc/self/fd | tr '\n' ' ')"
LOOK
chmod +x look
(ulimit -Sn 256 && exec sh -c 'trap "" HUP; exec "$@"' sh env \
    "E2E_MARK=$E2E_DIR:it" "$DDPRUN" --nproc_per_node=2 --standalone ./look) \
    >it.out 2>it.err 9<&- 5<&- || fail "status $?"
lines 2 '^SigBlk:.0000000000000000$' it.out
# HUP, and what was ignored before us (a shell's background jobs ignore INT).
ignored=$(sh -c 'trap "" HUP; exec grep "^SigIgn" /proc/self/status')
lines 2 "^$ignored\$" it.out
lines 2 '^files 256$' it.out
lines 2 '^oom 200$' it.out
# No more than a program gets without the launcher.
lines 2 "^$(./look </dev/null 9<&- 5<&- | grep '^open')\$" it.out
sed -n 's/^session //p' it.out | while read -r session word pid; do
    same "$pid" "$session" "session of worker ($word)"
done || exit 1

# SIGHUP that nohup ignores ends nothing, nor do SIGINT and SIGQUIT what a script
# starts with &: these ignore them. SIGTERM does.
in_script()
{
    : >started
    (trap '' HUP; exec env "E2E_MARK=$E2E_DIR:hup" "$DDPRUN" "$WORKER" gate) \
        >hup.out 2>hup.err 9<&- &
    pid_hup=$!
    wait_round 1 1
    for signal in HUP INT INT QUIT "$@"; do
        kill "-$signal" "$pid_hup"
    done
}
in_script
open_gate
ends_with 0 hup
close_gate
in_script TERM
ends_with 143 hup
nothing_left
