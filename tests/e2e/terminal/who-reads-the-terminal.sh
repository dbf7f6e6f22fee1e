#!/bin/sh
# Does the worker with rank 0 read what is typed, in each round, and nobody
# else; and is nothing that is typed lost to the shell, neither what no worker
# reads nor what is typed while the job runs behind? Is a question of Python's
# shown before it is answered, and the answer behind it?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/terminal.sh"

cat >ask <<'ASK'
#!/bin/sh
[ "$RANK" = 0 ] || { read -r none || echo "rank $RANK: nothing" >>"$E2E_DIR/got"; }
[ "$RANK" = 0 ] || exec sleep 1000
until [ "$(grep -c nothing got)" = "$DDP_ROUND" ]; do sleep 0.05; done
echo "round $DDP_ROUND asks"
read -r word || word='nothing'
echo "round $DDP_ROUND: $word" >>"$E2E_DIR/got"
[ "$DDP_ROUND" = 2 ] || exit 1
exec kill -INT "$(cat "$E2E_DIR/launcher")"
ASK
chmod +x ask
terminal tty
enter tty "sh -c 'echo \$\$ >launcher; exec $DDPRUN --nproc_per_node=2 --max_restarts=1 ./ask'; echo status=\$?"
wait_screen tty '^round 1 asks'
enter tty one
wait_screen tty '^round 2 asks'
enter tty two
wait_screen tty '^status=130'
has '^round 1: one$' got
has '^round 2: two$' got
lines 2 '^rank 1: nothing$' got

if command -v python3 >/dev/null; then
    enter tty "$DDPRUN python3 -c 'print(input(\"name? \") + \" it is\")'"
    wait_screen tty '^name?'
    enter tty Ada
    wait_screen tty '^Ada it is$'
    has '^name? Ada$' tty.screen
fi

# What nobody reads is the shell's, when the job is over.
enter tty "$DDPRUN sh -c 'echo here; sleep 1'"
wait_screen tty 'here$'
enter tty 'echo typed $((40 + 2))'
wait_screen tty 'typed 42$'
# Behind, rank 0 has nothing to read, and the shell has all.
enter tty "$DDPRUN sh -c 'read -r word || echo behind: nothing; sleep 1' &"
wait_screen tty 'behind: nothing$'
enter tty 'echo typed $((40 + 3))'
wait_screen tty 'typed 43$'
