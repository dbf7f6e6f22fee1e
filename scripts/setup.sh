#!/bin/sh
# Installs what is needed to build ddprun and to run its tests and its demo, as
# far as it is missing: on Debian and its kin with apt, as root or by sudo. On
# other systems it says what is needed and looks whether it is there.
# With --check also what make check has besides: spin, clang-format, sshd.
# With --long that, and what make check-long and tests/ci/slices have: libFuzzer,
# valgrind, gcovr, a cross compiler for aarch64 and qemu-user.
# With --interop also what tests/interop plays with: PyTorch 1.13, and what it
# takes to install a newer one from PyPI.
# With --clusters also Slurm, which tests/clusters brings up.
# With --mpi also the MPI libraries whose programs tests/e2e/mpi and tests/mpi start:
# Debian's, and those of PyPI in build-mpi/ (400 MB; tests/mpi/fetch).
# With --page also what make check-page looks with: Chromium and Prometheus.
# With --dist what make dist, make site and packaging/ have: debhelper, lintian, rpm ...
# With --cuda nvcc, the CUDA runtime, cuBLAS and NCCL, where there is no toolkit:
# NVIDIA's wheels from PyPI (some 750 MB) into the folder toolkit/, in which the
# Makefile looks first. They are NVIDIA's and under its licence.
# usage: scripts/setup.sh [--quiet] [--check | --long] [--interop] [--clusters] [--mpi] [--page] [--dist] [--cuda]
set -u

# Without these nothing is built. A|B: either will do, the first is installed.
build='gcc make libc6-dev pkg-config|pkgconf libuv1-dev libcjson-dev
    libxxhash-dev zlib1g-dev libssl-dev'
# Without these some tests or the demo cannot run, or are slow (libdnnl2).
tests='libdnnl2 g++ check libsubunit-dev mandoc iproute2 nftables
    procps python3 dataset-fashion-mnist gdb-minimal|gdb tmux
    openssl strace'
check='spin clang-format-14 openssh-client openssh-server'
# python3-pip: scripts/old-glibc gets a compiler from PyPI. llvm: its symbolizer,
# which names the lines in libFuzzer's reports.
long='clang libclang-rt-dev llvm git valgrind gcovr qemu-user gcc-aarch64-linux-gnu g++-aarch64-linux-gnu
    libc6-dev-arm64-cross python3-pip'
# The libraries are those of Grid Engine, which tests/gridengine unpacks itself.
clusters='slurmctld slurmd slurm-client munge iproute2
    libjemalloc2 libmunge2 libtirpc3 libhwloc15 libdb5.3'
page='chromium fonts-dejavu-core prometheus python3-prometheus-client'
dist='git debhelper dpkg-dev lintian rpm python3-pip python3-venv abigail-tools mmdebstrap'
# What the compiler must find where there is no apt.
headers='uv.h cjson/cJSON.h xxhash.h zlib.h openssl/ssl.h check.h'

# Of one version of CUDA; what of it we use.
wheels='nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88
    nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3
    nvidia-nccl-cu13==2.28.9'

quiet=0
cuda=0
mpi=0
for option in "$@"; do
    case $option in
    --quiet) quiet=1 ;;
    --cuda) cuda=1 ;;
    --check) tests="$tests $check" ;;
    --long) tests="$tests $check $long" ;;
    --interop) tests="$tests python3-torch python3-venv" ;;
    --clusters) tests="$tests $clusters" ;;
    --mpi)
        tests="$tests mpich libmpich-dev libpmix2 openmpi-bin libopenmpi-dev"
        tests="$tests python3-venv"
        mpi=1
        ;;
    --page) tests="$tests $page" ;;
    --dist) tests="$tests $dist" ;;
    *)
        exec "$(dirname "$0")/usage" "$0"
        ;;
    esac
done

say()
{
    [ $quiet -eq 1 ] || echo "setup: $*"
}

fail()
{
    echo "setup: $*" >&2
    exit 1
}

# missing PACKAGE...: prints, one a line, what is to be installed: of A|B the
# first where neither is there. One question to dpkg-query answers for all.
missing()
{
    # The names are words to be split, and ${...} is dpkg-query's, not ours.
    # shellcheck disable=SC2046,SC2016
    have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' \
        $(echo "$*" | tr '|' ' ') 2>/dev/null | sed -n 's/ installed$//p')
    have=" $(echo "$have" | tr '\n' ' ') "
    for want in "$@"; do
        found=0
        for name in $(echo "$want" | tr '|' ' '); do
            case $have in
            *" $name "*) found=1 ;;
            esac
        done
        [ $found -eq 1 ] || echo "${want%%|*}"
    done
}

# No apt: go on if the compiler finds everything, else say what it does not.
without_apt()
{
    # shellcheck disable=SC2086 # words
    names=$(echo $build $tests | sed 's/|[^ ]*//g')
    for tool in make "${CC:-cc}"; do
        command -v "$tool" >/dev/null 2>&1 ||
            fail "this system has no apt-get, and no $tool: install what" \
                "Debian calls $names"
    done
    absent=
    for header in $headers; do
        echo "#include <$header>" | "${CC:-cc}" -E - >/dev/null 2>&1 ||
            absent="$absent <$header>"
    done
    [ -z "$absent" ] ||
        fail "this system has no apt-get, and the compiler does not find$absent:" \
            "install what Debian calls $names"
    say "no apt-get here, but all headers are found"
}

# as_root COMMAND...: by sudo where we are not root.
as_root()
{
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# apt ARGUMENT...: asks nothing, waits for another apt for two minutes, and
# shows what it wrote only if it failed.
apt()
{
    log=$(mktemp) || return 1
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=120 "$@" </dev/null >"$log" 2>&1
    status=$?
    [ $status -eq 0 ] || tail -n 15 "$log" >&2
    rm -f "$log"
    return $status
}

install()
{
    apt install --no-install-recommends "$@"
}

may_install()
{
    [ "$(id -u)" -eq 0 ] && return 0
    command -v sudo >/dev/null 2>&1 || return 1
    sudo -n true 2>/dev/null || [ -t 0 ]
}

# The wheels' files, put together as in a toolkit, which is there as a whole or
# not at all.
get_cuda()
{
    root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
    if [ -x "$root/toolkit/bin/nvcc" ]; then
        say "toolkit/ is there"
        return
    fi
    new=$root/toolkit.new
    python3 -m pip --version >/dev/null 2>&1 || install python3-pip ||
        fail "python3 -m pip is needed to get the wheels"
    rm -rf "$new"
    mkdir -p "$new" || fail "cannot make $new"
    say "getting CUDA from PyPI into toolkit/"
    # shellcheck disable=SC2086 # words
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps \
        --no-compile --target "$new/wheels" $wheels ||
        fail "pip could not get the wheels; what it said is above"
    if ! mv "$new/wheels/nvidia/cu13" "$new/all" ||
        ! cp -a "$new/wheels/nvidia/nccl/include" \
            "$new/wheels/nvidia/nccl/lib" "$new/all/" ||
        ! cp -a "$new/wheels/"*.dist-info "$new/all/" ||
        ! mv "$new/all" "$root/toolkit"; then
        fail "the wheels are not laid out as expected, see $new"
    fi
    rm -rf "$new"
    "$root/toolkit/bin/nvcc" --version >/dev/null ||
        fail "nvcc of toolkit/ does not run"
    say "toolkit/ has $("$root/toolkit/bin/nvcc" --version | sed -n 's/^Cuda.*release/CUDA/p')"
}

# What comes from PyPI.
get_more()
{
    [ $cuda -eq 0 ] || get_cuda
    [ $mpi -eq 0 ] || "$(dirname "$0")/../tests/mpi/fetch" ||
        echo "setup: tests/mpi will do without those" >&2
}

if ! command -v apt-get >/dev/null 2>&1 ||
    ! command -v dpkg-query >/dev/null 2>&1; then
    without_apt
    get_more
    exit
fi

# shellcheck disable=SC2086 # words
absent=$(missing $build $tests)
if [ -z "$absent" ]; then
    say "everything is there"
    get_more
    exit 0
fi
absent=$(echo "$absent" | tr '\n' ' ')
absent=${absent% }
may_install ||
    fail "these packages are missing, and we are neither root nor may we use" \
        "sudo; as root: apt-get install --no-install-recommends $absent"

say "installing $absent"
apt update ||
    echo "setup: apt-get update failed, trying with the lists there are" >&2
# shellcheck disable=SC2086 # words
if install $absent; then
    say "done"
    get_more
    exit 0
fi

# One that this system does not have must not keep the others away.
say "not all at once: trying what the build needs, then one by one"
# shellcheck disable=SC2086 # words
needed=$(missing $build)
# shellcheck disable=SC2086 # words
[ -z "$needed" ] || install $needed ||
    fail "could not install $(echo "$needed" | tr '\n' ' ')- what apt said is" \
        "above; is there a network, and are its package lists right?"
# shellcheck disable=SC2086 # words
for package in $(missing $tests); do
    install "$package" 2>/dev/null ||
        echo "setup: $package could not be installed: the tests or the demo" \
            "that need it will say so" >&2
done
say "done, what the build needs is there"
get_more
