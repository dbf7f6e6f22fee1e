#!/bin/sh
# On a terminal: does Ctrl-C reach the launcher once, and the workers only
# through it? Can a worker not stop the job by reading the terminal?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/terminal.sh"

cat >reads <<'READS'
#!/bin/sh
trap 'echo int >>"$E2E_DIR/ints"; exit 0' INT
echo "round=1 " >>"$E2E_DIR/started"
cat
read line <"$E2E_DIR/gate"
READS
cat >ignores <<'IGNORES'
#!/bin/sh
trap '' INT TERM
echo "round=2 " >>"$E2E_DIR/started"
exec sleep 300
IGNORES
chmod +x reads ignores

terminal tty
enter tty "$DDPRUN --nproc_per_node=2 ./reads; echo status=\$?"
wait_round 1 2
sleep 1.5 # a shell that gets a signal just before it waits, waits all the same
keys tty C-c
wait_screen tty '^status=130'
lines 2 int ints
lines 1 'a second signal kills them' tty.screen

enter tty "clear; $DDPRUN --nproc_per_node=2 ./ignores; echo status=\$?"
wait_round 2 2
keys tty C-c
wait_screen tty 'a second signal kills them'
began=$(now_ms)
keys tty C-c
wait_screen tty '^status=130'
measured "Ctrl-C once more, until the prompt: $(took) ms"
in_time 1000 "$(took)" 'the second Ctrl-C'
close_terminal tty
nothing_left
