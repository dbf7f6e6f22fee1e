#!/bin/sh
# With --standby a Python that is older than 3.9 runs the program as if we were not
# there, its arguments and variables as they were: one that says it is 3.8, and each
# that pyenv has of 2.7 to 3.8. ddprun says that there are no standbys.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

cat >program.py <<'END'
import os, sys, time
with open("/proc/self/environ") as file:
    before = sorted(file.read().split("\0")[:-1])
now = sorted("%s=%s" % entry for entry in os.environ.items())
print("%s|%s|%s|%s" % (sys.version_info[:2], sys.argv, __name__, before == now))
sys.stdout.flush()
with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
    file.write("1")
until = time.time() + 60
while not os.path.exists("said") and time.time() < until:
    time.sleep(0.02)
END

# look VERSION OPTION...
look()
{
    version=$1
    shift
    rm -f said
    background it "$DDPRUN" --nproc_per_node=2 --max_restarts=1 --standby=auto \
        "$@" program.py 'two words'
    wait_for 'afresh: this Python is older than 3.9' it.err 60
    echo yes >said
    ends_with 0 it
    has_lines 2 "($version)|\['program.py', 'two words'\]|__main__|True" it.out ||
        fail "Python $version runs another program"
}

for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/[23].*/bin/python; do
    version=$("$python" -c 'import sys; print("%d, %d" % sys.version_info[:2])') ||
        continue
    case $version in
    2,* | '3, '[0-8]) look "$version" --no_python "$python" ;;
    esac
done
echo 'import sys; sys.version_info = (3, 8, 0, "final", 0)' >site-packages/sitecustomize.py
look '3, 8'
