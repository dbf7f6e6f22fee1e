#!/bin/sh
# ddpctl report of the --events files of two nodes, one of whose workers was killed:
# does the page tell that, as text and by no script but its own, and without a request?
# Do the sums agree with the server's? What if a file's last line is torn, a file is of
# another run, has no events, or the page cannot be written?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
cat >job <<'JOB'
#!/bin/sh
echo "round=$((TORCHELASTIC_RESTART_COUNT + 1)) rank=$RANK" >>started
echo "<b>last words</b> of $RANK" >&2
read -r _ <gate
JOB
chmod +x job
for name in a b; do
    node $name --rdzv_id='job<i>' --nnodes=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" --events=events.$name ./job
done
wait_round 1 2
# A worker may be there before its launcher has told so.
pid_told()
{
    pid=$(sed -n 's/.*"started".*"rank":1,.*"pid":\([0-9]*\).*/\1/p' events.*)
    [ -n "$pid" ]
}
eventually 30 pid_told || fail 'no launcher tells that rank 1 was started'
sleep 0.5 # so that there is something to sum up
kill -KILL "$pid"
wait_round 2 2
sleep 0.5 # and in this round
open_gate
all_end 0 a b
ctl 0 "127.0.0.1:$port" status --json
mv ctl.out status

# report STATUS WORD...: the page, or the document, is in out; what is said in err.
report()
{
    _want=$1
    shift
    STATUS=0
    "$DDPCTL" report "$@" >out 2>err || STATUS=$?
    [ "$STATUS" -eq "$_want" ] || { cat err && fail "it ended with $STATUS: $*"; }
}

# part NAME FILE: the first goodput's, in ms.
part()
{
    sed -n "s/.*\"goodput\":{[^}]*\"$1\":\([0-9]*\)\.\([0-9]\{3\}\).*/\1\2/p" "$2" |
        sed 's/^0*\(.\)/\1/'
}

report 0 events.a events.b --json
for name in wall_s ran_s; do
    ours=$(part $name out) theirs=$(part $name status)
    apart=$((ours - theirs))
    measured "$name of the events: $ours ms, of the server: $theirs ms"
    # A percent, and what messages take on a busy machine.
    [ "${apart#-}" -le "$((theirs / 100 + $(with_room 50 "$(busy)")))" ] ||
        fail "$name: $ours and $theirs"
done
has '"state":"ended","round":2,"nodes":2,"world_size":2,"restarts":1,' out
has '"end":{"status":0,"text":"all workers succeeded"}' out
has '"failures_left_out":0' out
mv out document

report 0 events.b events.a
has 'signal 9 (SIGKILL)' out
has '"id":"job.u003ci>"' out
has '".u003cb>last words.u003c/b> of 1"' out
has_not '<b>' out
has "default-src 'none'" out
has_not 'connect-src' out
# The document, the only other script, and nothing else that a browser would fetch.
same 2 "$(grep -c '<script' out)" 'scripts'
sed -n 's,^<script type="application/json" id="report">\(.*\)</script>$,\1,p' out |
    sed 's/\\u003c/</g' >inside
cmp document inside || fail 'the page has another document'
sed -n '/^<script>$/,/^<\/script>$/p' out >script
sed -n '/^<script>$/,/^<\/script>$/p' "$E2E_LIB/../../../rendezvous/http/page.html" |
    cmp - script || fail 'the page has another script'
[ -s script ] || fail 'the page has no script'
grep -v '^<script type=' out | grep -oE '(src|href|action)="[^"]*"|url\(|@import|https?:' >asks
same 'href="data:,"' "$(cat asks)" 'what the page names'

has_not 'do not tell the end' out
for name in a b; do
    grep -v '"end"\|"done"' events.$name >early.$name
done
report 0 early.a early.b
has '"state":"active"' out
has 'The files do not tell the end of the run' out

# A crash of the machine can leave NULs.
report 0 --json events.a events.b
mv out whole
sed 's/^/\x00/' events.a >hole
head -c 70000 /dev/zero >>hole
report 0 --json hole events.b
cmp whole out || fail 'NULs hide events'

head -c -20 events.a >torn
report 0 torn - <events.b
has '1 file ends with a last line that is not whole' out
report 0 events.a
has 'The events of up to 1 node of a round are missing' out

sed 's/"job<i>"/"other"/' events.b >foreign
report 2 events.a foreign
has "events.a has events of run 'job<i>', and foreign of run 'other'" err
report 0 events.a foreign events.b --run='job<i>'
report 2 events.a --run=third
has "no file has events of run 'third'" err
echo hello >none
report 66 events.a none
has 'none has no events: give the files that ddprun --events=FILE wrote' err
report 66 events.a missing
has 'cannot open missing: No such file' err
STATUS=0
"$DDPCTL" report events.a events.b >/dev/full 2>err || STATUS=$?
same 74 $STATUS 'the status with a full disk'
