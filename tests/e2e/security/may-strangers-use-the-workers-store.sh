#!/bin/sh
# --worker_store_allow: may the nodes use the store, and strangers not, with
# networks and with the nodes themselves, on a port of its own and on the
# rendezvous's; also a node that came in a later round?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
network host other third
cat >client <<'SH'
#!/bin/sh
echo "$MASTER_ADDR $MASTER_PORT" >>"$E2E_DIR/masters"
python3 "$E2E_LIB/tcpstore.py" "$MASTER_ADDR" "$MASTER_PORT" "of $RANK" ||
    exit 9
exec "$E2E_LIB/worker" gate
SH
chmod +x client

# stranger WANTED: does the third machine get at the store?
stranger()
{
    read -r _host _port <masters
    _status=0
    (in_machine third python3 "$E2E_LIB/tcpstore.py" "$_host" "$_port" third) \
        >third.out 2>&1 || _status=1
    [ $_status -eq "$1" ] || fail "the stranger's status is $_status"
}

# job OPTION...: on host and other, both of whose workers find the store.
job()
{
    : >started
    rm -f masters
    for name in other host; do
        rank=0
        [ $name = host ] || rank=1
        node_on $name $name --nnodes=2 "$@" --node_rank=$rank ./client
    done
    wait_round 1 2 30
    wait_for '^store ok$' host.out
    wait_for '^store ok$' other.out
}

end_job()
{
    open_gate
    all_end 0 host other
    close_gate
}

for allow in nodes 10.77.0.2 10.77.0.0/30 172.16.0.0/12,nodes; do
    job --rdzv_endpoint=host:29500 --worker_store_allow=$allow
    case $allow in
    */30*) stranger 0 ;;
    *)
        stranger 1
        has 'connection from .*10.77.0.3.* closed: its address may not use this store' host.err
        ;;
    esac
    end_job
done
job --master_addr=host --worker_store_allow=nodes
stranger 1
# A store that takes a dead one's place lets in whom that one did.
agent=$(agent_of host)
for pid in $(cat "/proc/$agent/task/$agent/children"); do
    [ ! "/proc/$pid/exe" -ef "$DDPRUN_FILE" ] || store=$pid # the last
done
kill -KILL "$store"
wait_for 'store ended unexpectedly' host.err
(in_machine other python3 "$E2E_LIB/tcpstore.py" 10.77.0.1 29500 again) \
    >again.out 2>&1 || fail "$(cat again.out)"
stranger 1
end_job
job --rdzv_endpoint=host:29500
stranger 0
end_job

# The other node's workers are refused where it is not allowed: no hang.
node_on host host --nnodes=2 --rdzv_endpoint=host:29500 \
    --worker_store_allow=172.16.0.0/12 ./client
node_on other other --nnodes=2 --rdzv_endpoint=host:29500 ./client
ends_with 9 host 30
ends_with 9 other
has 'connection from .*10.77.0.2.* closed: its address may not use this store' host.err

# A node that takes another's place may, and the lost one may not any more.
: >started
rm -f masters
nodes_on "host other" --nnodes=2 --max_restarts=1 \
    --rdzv_endpoint=host:29500 --worker_store_allow=nodes ./client
wait_round 1 2
kill -KILL "$(pid_of other)"
node_on third third --nnodes=2 --max_restarts=1 --rdzv_endpoint=host:29500 \
    --worker_store_allow=nodes ./client
wait_round 2 2 30
wait_for '^store ok$' third.out
read -r master port <masters
(in_machine other python3 "$E2E_LIB/tcpstore.py" "$master" "$port" lost) \
    >lost.out 2>&1 && fail 'the lost node may still'
open_gate
all_end 0 host third

# What is no network is a usage error.
for wrong in 10.0.0.1/8 node7 '' 'nodes,'; do
    launch 2 --worker_store_allow="$wrong" true
    has 'must be nodes, networks' it.err
done
