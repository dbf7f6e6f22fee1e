#!/bin/sh
# Ctrl-Z in a shell with job control: does the launcher stop, do its workers,
# does the node keep its place in the job (the beats go on), and does all of it
# go on with fg and with bg? In the background of a terminal that stops whoever
# writes there (stty tostop), is the launcher there to end what is left?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/terminal.sh"

cat >pulse <<'PULSE'
#!/bin/sh
echo "round=1 pid=$$" >>"$E2E_DIR/started"
while [ ! -e "$E2E_DIR/over" ]; do
    echo >>"$E2E_DIR/pulse.$RANK"
    sleep 0.02
done
PULSE
chmod +x pulse

state_of() { sed 's/.*) \(.\).*/\1/' "/proc/$1/stat"; }
is_stopped()
{
    # D: it waits, by vfork, for a child that is stopped.
    case $(state_of "$1") in
    [TD]) return 0 ;;
    esac
    return 1
}
beats() { wc -l <pulse.0; }
is_before() { [ "$(ps -o tpgid= -p "$guard")" -eq "$guard" ]; }

terminal tty
enter tty "$DDPRUN --nproc_per_node=2 --rdzv_conf=heartbeat_timeout=0.5 ./pulse"
wait_round 1 2
workers=$(sed -n 's/.*pid=//p' started)
guard=$(marked tty | while read -r pid; do
    grep -lsq '(ddprun) S' "/proc/$pid/stat" && echo "$pid"; done | sort -n | head -n 1)
for resume in fg bg fg; do
    # What runs behind has to come before, to be stopped by a key.
    is_before || enter tty fg
    eventually 30 is_before || fail 'fg does not bring it back'
    sleep 1 # a SIGCONT comes right behind that
    keys tty C-z
    for worker in $workers; do
        eventually 30 is_stopped "$worker" || fail "worker $worker runs on"
    done
    eventually 30 is_stopped "$guard" || fail 'the launcher does not stop'
    before=$(beats)
    sleep 1.2 # more than two leases
    same "$before" "$(beats)" 'what the worker did while it was stopped'
    enter tty "$resume; echo status=\$?"
    eventually 30 sh -c "[ \$(wc -l <pulse.0) -gt $before ]" ||
        fail "the worker does not go on by $resume"
done
touch over
eventually 30 is_gone "$guard" || fail 'the launcher does not end'
enter tty 'echo that is all'
wait_screen tty '^that is all'
same 'status=0' "$(grep '^status' tty.screen | tail -n 1)" 'how fg ends'
has_not 'killed' tty.screen
lines 2 '^round=' started

rm over
: >started
enter tty "clear; stty tostop; $DDPRUN ./pulse & echo guard=\$!."
wait_round 1 1
wait_screen tty '^guard=[0-9]'
guard=$(sed -n 's/^guard=\([0-9]*\)\.$/\1/p' tty.screen | tail -n 1)
kill -KILL "$(first_child "$(first_child "$guard")")"
wait_screen tty 'was killed by signal 9'
eventually 30 is_gone "$guard" || fail 'its own words stop it'
close_terminal tty
nothing_left
