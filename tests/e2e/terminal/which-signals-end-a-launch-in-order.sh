#!/bin/sh
# Does --signals_to_handle choose which signals end the workers in order, are
# SIGUSR1 and SIGUSR2 passed on otherwise, and is nothing left of the rest?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >listen <<'LISTEN'
#!/bin/sh
for name in TERM USR1 USR2 XCPU; do
    trap "echo $name-\$RANK >>\"\$E2E_DIR/heard\"
        [ $name = USR2 ] || exit 0" $name
done
echo "round=1 rank=$RANK" >>"$E2E_DIR/started"
while :; do
    sleep 0.02
done
LISTEN
chmod +x listen

# start [OPTION...]
start()
{
    : >started
    : >heard
    node it --nproc_per_node=2 "$@" ./listen
    wait_round 1 2
}

# heard_all NAME: both workers heard it, and nothing else.
heard_all()
{
    wait_lines 2 "^$1-" heard
    lines 2 . heard
}

# By default: passed on, and the job goes on; then TERM ends it.
start
kill -USR2 "$(pid_of it)"
heard_all USR2
: >heard
kill -TERM "$(pid_of it)"
heard_all TERM
ends_with 143 it

# Slurm's notice before preemption, as an order to go.
start --signals_to_handle=SIGTERM,SIGUSR1
kill -USR1 "$(pid_of it)"
heard_all USR1
ends_with $((128 + 10)) it
has 'signal 10 (SIGUSR1): stopping this node' it.err

# One that the launcher knows nothing of by default.
start --signals-to-handle XCPU
kill -XCPU "$(pid_of it)"
heard_all XCPU
ends_with $((128 + 24)) it

# One that is not named kills the launcher, and no worker stays behind.
start --signals_to_handle=SIGUSR1
kill -TERM "$(pid_of it)"
ends_with 143 it
nothing_left it 30
lines 0 . heard

start --signals_to_handle=SIGTERM,SIGFOO,SIGKILL
has 'ignoring SIGFOO, SIGKILL, which cannot be handled' it.err
# Asked twice: no more time for those that do not mind.
kill -TERM "$(pid_of it)"
ends_with 143 it
node it --shutdown_timeout=60 "$WORKER" stubborn
wait_lines 1 ' world=1 ' started
began=$(now_ms)
kill -INT "$(pid_of it)"
wait_for 'a second signal kills' it.err
kill -INT "$(pid_of it)"
ends_with 130 it
[ "$(took)" -lt 20000 ] || fail 'the second Ctrl-C changed nothing'
nothing_left
