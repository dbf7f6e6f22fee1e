#!/bin/sh
# Is the launcher's status 0 for success, else the status of the worker that
# failed first, 128+N for a signal, and its own for its own errors?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

launch 0 --nproc_per_node=4 true
launch 3 --nproc_per_node=2 "$WORKER" always 1 3
launch 137 sh -c 'kill -KILL $$$$' # the launcher makes one dollar of two
launch 139 sh -c 'kill -SEGV $$$$'
launch 1 --nproc_per_node=2 false
launch 2 --nnodes
launch 2
launch 2 --nprocs_per_node=2 true
has 'nproc_per_node' it.err
launch 2 --nnodes=3:2 true
launch 2 --nnodes=2 true
launch 127 ./is-not-there
launch 127 is-not-in-the-path-either
echo '#!/bin/sh' >not-executable
launch 126 ./not-executable
has 'not-executable' it.err
echo '#!/is/not/there' >no-interpreter
chmod +x no-interpreter
launch 127 --max_restarts=3 ./no-interpreter
lines 1 'no-interpreter' it.err
printf 'no program at all' >nonsense
chmod +x nonsense
launch 126 --max_restarts=3 ./nonsense
if ! ls /dev/nvidia0 >/dev/null 2>&1; then
    launch 78 --nproc_per_node=gpu true
fi
launch 0 --help
has 'rdzv_endpoint' it.out
launch 0 --version
nothing_left
