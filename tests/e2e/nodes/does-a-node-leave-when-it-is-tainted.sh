#!/bin/sh
# --drain_check with the script for Kubernetes, and an API server that is a
# stand-in: does a node leave at a step once it is cordoned, and the other one go
# on from there? Does it stay if the run needs it, has other taints, or if nobody
# answers?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

# The stand-in checks that it is asked as curl is: the address is the last word.
mkdir bin account
cat >bin/curl <<'CURL'
#!/bin/sh
read -r header
[ "$header" = 'Authorization: Bearer secret' ] || exit 22
for url in "$@"; do :; done
echo "$url" >>asked
cat "${url##*/}.json" || exit 7
CURL
chmod +x bin/curl
echo secret >account/token
: >account/ca.crt

# taint NODE KEY: as the API server writes it.
taint()
{
    printf '{"spec": {"taints": [{"key": "%s",\n"effect": "NoSchedule"}]}}\n' \
        "$2" >new.json
    mv new.json "$1.json"
}

port=$(free_port)
taint node-a nvidia.com/gpu
for name in a b; do
    ask="PATH=$E2E_DIR/bin:\$PATH ACCOUNT=account NODE_NAME=node-$name"
    # shellcheck disable=SC2086 # words
    node $name --nnodes=1:2 --nproc_per_node=2 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --drain_check="$ask $E2E_LIB/../../../examples/k8s/drain-check@1" \
        --rdzv_conf=last_call_timeout=5 ./train 1000 1000 $MODEL --snapshot_path=snap
    wait_listener "$port"
done
wait_round 1 4
# Nobody has heard of node-b.
wait_for 'the drain check ended with exit code 2: .*, so this node stays' b.err
said '^epoch 2/'
taint node-b node.kubernetes.io/unschedulable
ends_with 80 b
has 'to be drained: node node-b has the taint node.kubernetes.io/unschedulable' \
    b.err
wait_for 'round [2-9]: ranks 0 to 1 of 2' a.err
left=$(cat ./*.out | sed -n 's/^asked to stop.*: saved at step //p')
eventually 30 has_said "^resuming from epoch [0-9]*, step $left (" ||
    fail "step '$left' was left, and nobody resumed from it"
has 'api/v1/nodes/node-b$' asked

# The last one stays.
taint node-a ToBeDeletedByClusterAutoscaler
wait_for 'to be drained: node node-a has the taint ToBeDeleted' a.err
so_far=$(grep -c node-a asked)
asked_more()
{
    [ "$(grep -c node-a asked)" -ge $((so_far + 2)) ]
}
eventually 30 asked_more || fail 'it is not asked again'
lines 1 'is to be drained' a.err
lines 1 'is drained' a.err
kill -TERM "$(pid_of a)"
ends_with 143 a
nothing_left
