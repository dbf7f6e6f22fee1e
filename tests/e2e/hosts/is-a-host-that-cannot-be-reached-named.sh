#!/bin/sh
# A host of the list does not answer, or refuses: is it named within its time-out,
# and are the others ended? Does the job start without it if fewer hosts will do?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b c
make_into
# Two hosts more: one never answers, one refuses.
mv into into-machine
cat >into <<'INTO'
#!/bin/sh
case $1 in
silent) exec sleep 300 ;;
refuses) echo "connect to host $1 port 22: Connection refused" >&2; exit 255 ;;
esac
exec "$E2E_DIR/into-machine" "$@"
INTO
chmod +x into

began=$(now_ms)
front --hosts=a,b,silent --launch_timeout=2 "$WORKER" hold
ends_with 69 front 30
in_time 5000 "$(took)" 'naming a host that never answers'
has 'cannot start on silent: no answer within 2 s' front.err
has 'at most 2 hosts can be reached, and the job needs 3: ending it' front.err
nothing_left

# Nobody is asked to start what the front end is starting.
front --hosts=a,b,silent --launch_timeout=6 "$WORKER" hold
ends_with 69 front 30
has 'waiting: 2 of 3 nodes joined (.*) in [0-9]* s; 1 more is to be started by the front end; giving up in [0-9]* s at the latest' front.err
has_not 'run ddprun on' front.err
nothing_left

began=$(now_ms)
front --hosts=a,refuses,c "$WORKER" hold
ends_with 69 front 30
in_time 4000 "$(took)" 'naming a host that refuses'
has '^refuses: connect to host refuses port 22: Connection refused' front.err
has 'cannot start on refuses: into ended with status 255' front.err
nothing_left

: >started
front --hosts=a,refuses,c --nnodes=2:3 --rdzv_conf=last_call_timeout=1 \
    "$WORKER" exit 0
ends_with 0 front 30
lines 2 'world=2 ' started
has 'cannot start on refuses' front.err
nothing_left

# Also the first one, where the job would meet: its name leads to nobody.
echo '10.77.0.99 refuses' >>hosts
: >started
front --hosts=refuses,a,c --nnodes=2:3 --rdzv_conf=last_call_timeout=1 \
    "$WORKER" exit 0
ends_with 0 front 30
lines 2 'world=2 ' started
has 'cannot start on refuses' front.err
nothing_left
