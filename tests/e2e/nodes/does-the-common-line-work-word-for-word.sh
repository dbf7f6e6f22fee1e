#!/bin/sh
# ddprun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=host:29500 prog
# on two machines: does it work as it stands, and can the workers of the other
# node talk to MASTER_ADDR:MASTER_PORT?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other
mkdir path
ln -s "$DDPRUN" path/ddprun
cat >path/prog <<'PROG'
#!/bin/sh
! command -v python3 >/dev/null ||
    python3 "$E2E_LIB/tcpstore.py" "$MASTER_ADDR" "$MASTER_PORT" "$RANK" ||
    exit 1
exec "$E2E_LIB/worker" gate
PROG
chmod +x path/prog
PATH=$E2E_DIR/path:$PATH
DDPRUN=ddprun
for order in 'host other' 'other host'; do
    : >started
    nodes_on "$order" --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=host:29500 prog
    wait_round 1 8
    same '8 ' "$(values world 1)" 'world size'
    case $(values master 1) in
    10.77.0.[12]:*\ ) ;;
    *) fail "MASTER_ADDR and MASTER_PORT are $(values master 1)" ;;
    esac
    open_gate
    all_end 0 host other
    close_gate
done
nothing_left
