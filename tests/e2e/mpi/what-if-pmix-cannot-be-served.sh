#!/bin/sh
# Does --mpi=pmix without a libpmix that can be loaded end with 78 and name the
# package, and does --mpi=auto serve PMI-1 then? If the PMIx server is killed,
# does the round fail with the reason, and does the next one have another?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

mkdir broken
: >broken/libpmix.so.2
LD_LIBRARY_PATH=$PWD/broken
export LD_LIBRARY_PATH
launch 78 --mpi=pmix --nproc_per_node=1 true
has 'mpi=pmix cannot work here: cannot load .*install libpmix2' it.err
launch 0 --mpi=auto --nproc_per_node=1 env
has '^PMI_FD=' it.out
has_not '^PMIX_' it.out
has_not 'libpmix' it.err
launch 0 --mpi=auto --dry_run --nproc_per_node=1 true
has 'mpi=auto serves PMI-1 only: cannot load' it.err

# tests/lib/fake_pmix.
LD_LIBRARY_PATH=$E2E_BIN
launch 0 --mpi=pmix --nproc_per_node=2 sh -c '[ $RANK = 1 ] && env || true'
has '^PMIX_RANK=1$' it.out
has '^FAKE_RANKS=raw:0,1$' it.out
has '^OMPI_COMM_WORLD_LOCAL_RANK=1$' it.out
has '^OMPI_MCA_schizo=^orte$' it.out
has_not '^PMI_' it.out
nothing_left

FAKE_PMIX=init=-3
export FAKE_PMIX
launch 72 --mpi=pmix --nproc_per_node=2 true
has 'the PMIx server failed: PMIx_server_init: status -3' it.err
unset FAKE_PMIX
nothing_left

cat >kill_server <<'END'
#!/bin/sh
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
for comm in /proc/[0-9]*/comm; do
    dir=${comm%/comm}
    [ "$(cat $comm 2>&1)" = ddprun-pmix ] || continue
    [ "$(sed -n 's/^PPid:[^0-9]*//p' $dir/status)" = $PPID ] || continue
    kill -9 ${dir#/proc/}
done
exec sleep 60
END
chmod +x kill_server
launch 0 --mpi=pmix --nproc_per_node=1 --max_restarts=1 ./kill_server
has 'restarts used 1 of 1' it.err
nothing_left
launch 72 --mpi=pmix --nproc_per_node=1 ./kill_server
has 'the PMIx server was killed by signal 9 (SIGKILL)' it.err
nothing_left
