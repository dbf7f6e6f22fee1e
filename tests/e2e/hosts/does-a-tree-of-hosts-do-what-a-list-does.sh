#!/bin/sh
# Hosts that are started through other hosts: do all get the job, with output,
# variables and folder, and end with one status? Do signals reach all, and is
# nothing left after kill -9 of the front end?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b c d e
make_into
# Branches of a, b; c, d; e. `through` has who executed it, for whom.
mv into into-machine
cat >into <<'INTO'
#!/bin/sh
echo "$(hostname) $*" >>"$E2E_DIR/through"
exec "$E2E_DIR/into-machine" "$@"
INTO
chmod +x into

front --hosts=a:2,b,c,d,e --launch_fanout=4 --launch_timeout=30 sh -c \
    'seq -f "rank $RANK line %.0f" 20000; exec "$0" exit 0' "$WORKER"
ends_with 0 front 30
lines 6 'world=6 ' started
lines 2 ' node=a ' started
for machine in b c d e; do lines 1 " node=$machine " started; done
# On a busy machine a line is shown in two parts, so newlines do not count.
bytes=0
for rank in 0 1 2 3 4 5; do
    bytes=$((bytes + $(seq -f "rank $rank line %.0f" 20000 | tr -d '\n' | wc -c)))
done
same $bytes "$(tr -d '\n' <front.out | wc -c)" 'bytes of output'
lines 3 'front_end_hub$' through
lines 1 '^a b .*front_end_proxy$' through
lines 1 '^c d .*front_end_proxy$' through
lines 2 'front_end_proxy$' through
lines 1 'starting on 5 hosts' front.err
has_not 'from here' front.err
nothing_left

: >started
front --hosts=a,b,c,d --launch_fanout=4 "$WORKER" always 3 7
ends_with 7 front 30
lines 1 '^ddprun: 3 other launchers reported the same' front.err
nothing_left

for signal in TERM INT; do
    : >started
    : >terms
    front --hosts=a,b,c,d --launch_fanout=4 "$WORKER" report
    wait_round 1 4 30
    kill -$signal "$(pid_of front)"
    case $signal in
    TERM) ends_with 143 front ;;
    INT) ends_with 130 front ;;
    esac
    [ $signal != TERM ] || lines 4 '^term ' terms
    nothing_left
done

: >started
front --hosts=a,b,c,d --launch_fanout=4 "$WORKER" hold
wait_round 1 4 30
began=$(now_ms)
kill -KILL "$(pid_of front)"
ends_with 137 front
nothing_left '' 30
measured "kill -9 of the front end: nothing left after $(took) ms"
