# What the scenarios with ddptrain share; comes after lib.sh.
# shellcheck shell=sh disable=SC2034,SC2154

[ -x "$E2E_BIN/ddptrain" ] || skip 'ddptrain is not built'

# Real images where the package is installed, else samples that are made up.
E2E_DATA=${E2E_DATA:-/usr/share/datasets/fashion-mnist}
if [ -s "$E2E_DATA/train-images-idx3-ubyte.gz" ]; then
    MODEL="--model=mlp --data=$E2E_DATA --train_samples=6000"
else
    MODEL='--model=linear --batch_size=1'
fi

# The trainer, after it has noted its place as tests/e2e/lib/worker does.
cat >train <<'TRAIN'
#!/bin/sh
echo "round=$DDP_ROUND rank=$RANK world=$WORLD_SIZE group=$GROUP_RANK" \
    "groups=$GROUP_WORLD_SIZE restarts=$TORCHELASTIC_RESTART_COUNT pid=$$" \
    "node=${E2E_MARK##*:} at=$(date +%s%3N)" >>"$E2E_DIR/started"
exec "$E2E_BIN/ddptrain" "$@"
TRAIN
chmod +x train

# train_on PORT NODES RESTARTS SNAPSHOT NAME...: a launcher for each name, two
# workers each, so many `epochs`. A fast machine is done with one in 50 ms: a
# scenario that waits for an epoch, and then does something to those that train,
# leaves them five more.
epochs=8
train_on()
{
    port=$1 nodes=$2 restarts=$3 snapshot=$4
    shift 4
    for name in "$@"; do
        # shellcheck disable=SC2086 # words
        node "$name" --nnodes="$nodes" --nproc_per_node=2 \
            --max_restarts="$restarts" --rdzv_endpoint="127.0.0.1:$port" \
            --rdzv_conf=last_call_timeout=0 \
            ./train $epochs 1 $MODEL --save_steps=10 --snapshot_path="$snapshot"
    done
}

has_said()
{
    grep -qs -- "$1" ./*.out
}

# said PATTERN [SECONDS]: until rank 0, wherever it is, has said it.
said()
{
    eventually "${2:-30}" has_said "$1" || {
        tail -n 20 ./*.out
        fail "nobody says '$1'"
    }
}

# fingerprint: of the parameters at the end.
fingerprint()
{
    sed -n 's/^fingerprint \([0-9a-f]*\) .*/\1/p' ./*.out
}
