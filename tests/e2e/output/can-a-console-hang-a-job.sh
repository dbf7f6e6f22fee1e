#!/bin/sh
# A console whose reader is gone, goes while the pipe is full or between two
# rounds, or is slow, with and without log files: does each job end with the
# status of its workers, and is no line of a log file lost?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

LINES=30000 # of 50 bytes to one stream, of each worker
BYTES=$((LINES * 50))
mkfifo console
cat >flood <<'FLOOD'
#!/bin/sh
yes "a line of some length, to fill what can be filled" | head -n "$1" >&"$FD"
echo "$RANK" >>"$E2E_DIR/ended"
[ "$2" != fails ] || [ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || exit 1
FLOOD
chmod +x flood

# start [OPTION...] PROGRAM...: with both streams to the console.
start()
{
    : >ended
    # shellcheck disable=SC2016 # for the shell
    background it sh -c 'exec "$@" >console 2>&1' sh "$DDPRUN" \
        --nproc_per_node=2 "$@"
}

# files ATTEMPT: the log files of that stream hold all that both workers wrote.
files()
{
    [ ! -d log ] || same $((2 * BYTES)) \
        "$(cat log/*/attempt_"$1"/*/"$name".log | wc -c)" "$row: log files"
    rm -rf log
}

# What is written to, and how it is shown.
for row in '1' '2' '1 --tee=3 --log_dir=/dev/null' '1 --tee=3 --log_dir=log' \
    '2 --tee=3 --log_dir=log' '2 --redirects=2 --log_dir=log'; do
    export FD="${row%% *}"
    mode=${row#?}
    case $FD in
    1) name=stdout ;;
    2) name=stderr ;;
    esac
    # Gone at once; gone while the pipe is full, or between the rounds.
    for reader in true 'sleep 0.5'; do
        for how in ends fails; do
            $reader <console &
            # shellcheck disable=SC2086 # words
            start --max_restarts=1 $mode "$PWD/flood" $LINES $how
            eventually 30 is_gone "$(pid_of it)" ||
                fail "'$row', reader '$reader', workers '$how': it hangs"
            ends_with 0 it
            case $how in
            ends) lines 2 . ended && files 0 ;;
            fails) [ "$(wc -l <ended)" -ge 3 ] && files 1 ;;
            esac
        done
    done

    # Slow: all is shown.
    sh -c 'while head -c 65536 >piece && [ -s piece ]; do
        cat piece; sleep 0.01; done' \
        <console >shown &
    slow=$!
    # shellcheck disable=SC2086
    start $mode "$PWD/flood" $LINES ends
    ends_with 0 it 30
    wait $slow
    case $mode in
    *--redirects*) ;;
    *) lines $((2 * LINES)) '^\(\[default[01]\]:\)\?a line .* filled$' shown ;;
    esac
    files 0
done

# A reader of the FIFO goes and another one comes, twice, the second time after
# the process for the output was killed: each sees whole lines.
for FD in 1 2; do
    rm -f shown.* enough
    # shellcheck disable=SC2016 # for the worker
    start sh -c 'i=0; until [ -e enough ]; do
        echo "line $i of rank $RANK." >&"$FD"; i=$((i + 1)); sleep 0.01; done'
    head -n 20 <console >shown.0
    sleep 0.3
    timeout 1 cat <console >shown.1
    relay=
    for pid in $(pgrep -P "$(agent_of it)"); do
        [ "/proc/$pid/exe" -ef "$DDPRUN" ] || continue
        for fd in "/proc/$pid/fd"/*; do # it opens the console anew
            [ "${fd##*/}" -le 2 ] || [ ! "$fd" -ef console ] || relay=$pid
        done
    done
    kill -KILL "${relay:?there is no relay}"
    sleep 0.3
    cat <console >shown.2 &
    wait_lines 20 'of rank 1\.$' shown.2
    is_gone "$relay" || fail 'the relay lives'
    : >enough
    ends_with 0 it
    wait
    for n in 0 1 2; do
        has '^line [0-9]* of rank [01]\.$' shown.$n
        sed 1d shown.$n | grep -v '^ddprun: ' |
            grep -qv '^\(line [0-9]* of rank [01]\.\)\?$' &&
            fail "torn lines in shown.$n"
    done
    [ "$(tail -n 1 shown.2 | cut -c 1-5)" = 'line ' ] || fail 'no last line'
done
