#!/bin/sh
# --health_check: a node that is not fit does not join; one that becomes so
# leaves after a failure, with a status and a reason, and a spare takes over.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

launch 81 --health_check='echo one; echo "the disk is full"; exit 3' true
has 'not fit: the disk is full (the health check ended with exit code 3)' it.err
lines 0 '^round=' started
# A reason in another alphabet, to its last byte.
launch 81 --health_check='echo "显卡过热"; exit 3' true
has 'not fit: 显卡过热 (the health check ended with exit code 3)' it.err
launch 81 --health_check='sleep 60 & sleep 60@1' true
has 'not fit: the health check took longer than 1 s (--health_check)' it.err
nothing_left
launch 0 --health_check='true' true
nothing_left

# Node a is fit until its worker has failed. The run needs two, c is a spare.
port=$(free_port)
daemon d "$port"
cat >fails_on_a <<'FAILS'
#!/bin/sh
echo "round=$DDP_ROUND rank=$RANK node=$NODE" >>"$E2E_DIR/attempts"
[ "$DDP_ROUND" = 1 ] || exit 0
[ "$NODE" = a ] || exec sleep 100
until [ "$(grep -c '^round=1' "$E2E_DIR/attempts")" = 2 ]; do
    sleep 0.01
done
exit 9
FAILS
chmod +x fails_on_a
for name in a b c; do
    export NODE=$name
    node "$name" --nnodes=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --health_check="[ $name != a ] || ! grep -q node=a '$E2E_DIR/attempts' ||
            { echo GPU 3 is lost; exit 1; }" ./fails_on_a
    [ "$name" != b ] || wait_lines 2 '^round=1' attempts
done
ends_with 81 a
has 'this node is not fit: GPU 3 is lost' a.err
all_end 0 b c
lines 2 '^round=2' attempts
lines 0 '^round=2.*node=a' attempts
kill "$(pid_of d)"
end_of d
nothing_left
