#!/bin/sh
# A Python worker sleeps for ever, in a function of a function: does the console
# show which lines of Python they are, or why it cannot, before anything else of the
# stacks and without what a debugger says of itself? Is the worker that hangs not
# counted among those that had to stop for it? Has a debugger the time that it needs?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

python=$(command -v python3) && command -v gdb >/dev/null ||
    skip 'needs python3 and gdb'
python=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
cat >stuck.py <<'PY'
import time
def collective():
    time.sleep(1000)
def train_step():
    collective()
train_step()
PY
PATH=$E2E_DIR/bin:$PATH
mkdir bin && ln -s "$E2E_DIR/gone" bin/py-spy
launch 82 --nproc_per_node=2 --hang_timeout=2 --no_python "$python" stuck.py
has 'makes no progress; taking the stacks of this node' it.err
# gdb before 14 cannot call into a process on a CPU with AMX: then that is said, and
# the worker is as it was.
sleep 100 &
sleeper=$!
gdb -nx -q -batch -p $sleeper -ex 'print (int)getpid()' >probe 2>&1
kill $sleeper
if grep -q "Couldn't write extended state" probe; then
    calls=
    has '^ddprun:   |   no Python lines: gdb before version 14 cannot call' it.err
    has_not "Couldn't write" it.err
    has_not 'OSError' it.err
    shown='no Python lines'
else
    calls=yes
    has '^ddprun:   |   File ".*stuck.py", line 3 in collective' it.err
    has '^ddprun:   |   File ".*stuck.py", line 5 in train_step' it.err
    shown='in collective'
fi
has "^ddprun:   |   (py-spy, .* is not installed: pip install 'ddprun.debug.')" it.err
has 'Thread 1 ' it.err
has_not 'auto-load\|libthread_db\|^ddprun:   | *$' it.err
# Frames without addresses and arguments, none twice, the main thread's first.
has '^ddprun:   | #[0-9]* *[A-Za-z_]* at [^ ]*:[0-9]*$' it.err
has_not '^ddprun:   | 0x\|^ddprun:   | #.*(\|^ddprun:   | #[0-9]* *0x' it.err
has_not 'is over: rank [01] on .* made no progress' it.err # said before that
first=$(grep -n -m 1 "$shown" it.err | cut -d : -f 1)
[ "$first" -le 8 ] || fail "the Python line is line $first"
has 'then            rank [01] on .*: stopped (SIGTERM)$' it.err
lines 1 'stopped (SIGTERM)' it.err
# All of it, of both, is in a file.
stacks=$(sed -n 's/^ddprun:   error .* its stacks are in //p' it.err)
[ -z "$calls" ] || lines 2 'line 3 in collective' "$stacks"
lines 2 'thread [0-9]* (python.*): state' "$stacks"

# py-spy is asked first where there is one.
cat >bin/py-spy.new <<'SPY'
#!/bin/sh
echo "spied: $*"
echo 'Thread 1 (idle): "MainThread"'
echo '    collective (stuck.py:3)'
SPY
chmod +x bin/py-spy.new && mv bin/py-spy.new bin/py-spy
launch 82 --hang_timeout=1 --no_python "$python" stuck.py
has '^ddprun:   | spied: dump --pid [0-9]*$' it.err
has_not 'py-spy, which\|line 3 in collective' it.err
has 'made no progress: it sleeps in collective$' it.err

# With large libraries gdb reads symbols for seconds, however short the limit is.
printf '#!/bin/sh\nsleep 7\necho "#0  in here ()"\n' >bin/gdb
chmod +x bin/gdb
launch 82 --hang_timeout=1 sleep 1000
has '^ddprun:   | #0 .*here' it.err
has_not 'it took too long' it.err
nothing_left
