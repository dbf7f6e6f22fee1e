#!/bin/sh
# Do /healthz, /status and /metrics tell of a run as it gathers, runs, fails,
# loses its daemon and ends; of a launcher's own server, too?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
daemon d "$port"
# get TARGET [EXPRESSION...]: its answer, in `got`.
get()
{
    got=$(python3 "$E2E_LIB/get.py" "$port" "$@" 2>&1) || fail "$1: $got"
}
# shows WANTED EXPRESSION...
shows()
{
    _want=$1
    shift
    get /status "$@"
    same "$_want" "$(echo "$got" | tr '\n' ' ')" "$*"
}
# counts METRIC VALUE
counts()
{
    get /metrics
    case $got in
    *"
$1 $2
"*) ;;
    *) fail "no '$1 $2' in /metrics: $(echo "$got" | grep "${1%%[{ ]*}")" ;;
    esac
}
join()
{
    node "$1" --nnodes=2 --nproc_per_node="$2" --max_restarts=3 \
        --rdzv_endpoint="127.0.0.1:$port" --rdzv_id='a "job"' "$WORKER" gate
}
get /healthz
same '200 ok' "$(echo "$got" | tr '\n' ' ' | sed 's/ $//')" /healthz
shows '[] False 1 ' 'it["runs"]' 'it["token"]' 'it["connections"]'
join a 2
wait_for waiting a.err
shows 'a "job" gather 0 1 2 ' 'run["id"]' 'run["state"]' 'run["round"]' \
    'run["waiting"]["have"]' 'run["waiting"]["min"]'
join b 1
wait_round 1 3
shows 'active 1 2 3 0 3 worker ' 'run["state"]' 'run["round"]' \
    'run["nodes"]' 'run["world_size"]' 'run["restarts"]' \
    'run["max_restarts"]' 'run["prog"]'
shows '[(0, 0), (1, 2)] [2, 1] ' \
    '[(n["group_rank"], n["base_rank"]) for n in nodes]' \
    '[n["nproc"] for n in nodes]'
counts 'ddprun_run_nodes{run="a \"job\""}' 2
counts 'ddprun_nodes{state="running"}' 2
# A failure is charged, and shown while the next round runs.
kill -SEGV "$(worker_of 2 1)"
wait_round 2 3
shows 'active 2 1 1 2 11 ' 'run["state"]' 'run["round"]' 'run["restarts"]' \
    'run["last_failure"]["round"]' 'run["last_failure"]["rank"]' \
    'run["last_failure"]["signal"]'
counts ddprun_restarts_charged_total 1
counts ddprun_failures_total 1
# The node that leads in its place shows the same round.
get /status 'run["instance"]' 'run["master_port"]' 'run["world_size"]' \
    '[(n["agent"], n["group_rank"], n["base_rank"]) for n in nodes]'
before=$got
get /status 'it["incarnation"]'
incarnation=$got
kill -KILL "$(pid_of d)"
end_of d
for name in a b; do
    wait_for 'it is served at' $name.err
done
endpoint=$port
port=$(sed -n 's/.*it is served at .*:\([0-9]*\) from now on.*/\1/p' a.err | tail -n 1)
get /status 'run["instance"]' 'run["master_port"]' 'run["world_size"]' \
    '[(n["agent"], n["group_rank"], n["base_rank"]) for n in nodes]'
same "$before" "$got" 'the round after the daemon was killed'
shows 'active 2 1 ' 'run["state"]' 'run["round"]' 'run["restarts"]'
get /status 'it["incarnation"]'
[ "$incarnation" != "$got" ] || fail 'two daemons have the same incarnation'
counts ddprun_rounds_inherited_total 1
open_gate
all_end 0 a b
# Another daemon shows a run that has ended.
port=$endpoint
background d2 "$DDPRDZVD" --listen="127.0.0.1:$port"
wait_listener "$port"
node c --rdzv_endpoint="127.0.0.1:$port" --rdzv_id='a "job"' "$WORKER" gate
ends_with 0 c
shows 'ended 0 [] ' 'run["state"]' 'run["end"]["status"]' 'nodes'
counts 'ddprun_runs{state="ended"}' 1
counts ddprun_runs_ended_total 1
get '/status?run=other' 'it["runs"]'
same '[]' "$got" 'runs of another id'
python3 "$E2E_LIB/get.py" "$port" /nothing >nothing.out && fail 'found /nothing'
has '^404$' nothing.out

# A launcher on the endpoint's host serves the same.
port=$(free_port)
close_gate
: >started
node alone --nnodes=1:2 --rdzv_conf=last_call_timeout=0 \
    --rdzv_endpoint="localhost:$port" "$WORKER" gate
wait_round 1 1
shows 'active 1 True ' 'run["state"]' 'run["round"]' 'nodes[0]["hosts"]'
open_gate
ends_with 0 alone
