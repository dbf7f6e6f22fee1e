#!/bin/sh
# The stacks of a worker that hangs are taken, and the debugger prints for ever: is
# it ended before it fills the disk, or the memory of this node, and is that said?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

mkdir bin
cat >bin/gdb <<'GDB'
#!/bin/sh
exec yes "a line without end"
GDB
chmod +x bin/gdb
PATH=$E2E_DIR/bin:$PATH
background it "$DDPRUN" --hang_timeout=1 --log_dir="$LOG_DIR" sleep 300
ends_with 82 it
stacks=$(find "$LOG_DIR" -name stacks.txt)
has '(the debugger was killed by signal 25 (SIGXFSZ): it printed too much)' "$stacks"
size=$(wc -c <"$stacks")
[ "$size" -lt 5000000 ] || fail "the stacks have $size bytes"
