#!/bin/sh
# ddpctl top of a job with two nodes: does the picture show both, follow a kill, the
# keys and a new size of the terminal, and say when the daemon is away and back, with
# its job? Is it plain text on a pipe, once or, with --delay, repeatedly; and without
# colour where that is not wanted?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/terminal.sh"

escape=$(printf '\033')
port=$(free_port)
daemon d "$port"
nodes "a b" --rdzv_id=job --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
    --max_restarts=1 "$WORKER" gate
wait_round 1 2

# pictures: on the screen now, without what has scrolled away.
picture() { tmux_on op capture-pane "$@" -p >op.picture; }
drawn() { picture && grep -q -- "$1" op.picture; }
gone() { picture && ! grep -q -- "$1" op.picture; }
wait_picture()
{
    eventually 30 drawn "$1" || { cat op.picture && fail "'$1' is not drawn"; }
}

terminal op
enter op "$DDPCTL --endpoint=127.0.0.1:$port top"
wait_picture '^  job *active *1  2 of 2'
same 2 "$(grep -c '^ *[01] .* running' op.picture)" 'nodes in the picture'
wait_picture '^q quit'
picture -e
has "$escape" op.picture

kill -KILL "$(worker_of 1 1)"
wait_picture '^  job *active *2  2 of 2'
wait_picture 'goodput [0-9]'
wait_picture 'round 1 ran .*, then: failed: rank 1'
wait_picture 'last failure: rank 1 .* killed by SIGKILL'
has_not 'failed first' op.picture # it runs again, as the others do

keys op '?'
wait_picture 'Goodput is the share'
keys op '?'
keys op p
wait_picture '^.paused. 127.0.0.1'
keys op p
tmux_on op resize-window -x 40 -y 10
wait_picture '^q ?'
same 10 "$(wc -l <op.picture)" 'lines on a small terminal'
same 2 "$(grep -c '^ *[01] .* running' op.picture)" 'nodes on a small terminal'
tmux_on op resize-window -x 120 -y 30

kill -KILL "$(pid_of d)"
end_of d
wait_picture '^127.0.0.1:[0-9]* has not answered for'
has '^  job *active' op.picture
daemon d "$port"
eventually 30 gone 'has not answered' || fail 'the daemon stays away'
wait_for 'elected' d.err # it has its job again
wait_picture '^  job *active *2  2 of 2'
keys op q
at=127.0.0.1:$port
wait_screen op '^[$#] $'
enter op "clear; NO_COLOR=1 $DDPCTL --endpoint=$at top"
wait_picture '^q quit'
picture -e
has_not "$escape" op.picture
keys op q
wait_screen op '^[$#] $'
enter op "clear; TERM=dumb $DDPCTL --endpoint=$at top; echo that is all"
wait_screen op '^that is all'
has '^  job *active' op.screen

ctl 0 "$at" top
has '^  job *active *2  2 of 2' ctl.out
has_not "$escape" ctl.out
ctl 0 "$at" top --color=always
has "$escape" ctl.out
background all "$DDPCTL" --endpoint="$at" top job --delay=0.1
eventually 30 has_lines 3 '^  job ' all.out || fail 'there is one picture only'
kill -TERM "$(pid_of all)"
end_of all
ctl 2 "$at" top other
has "there is no run 'other' on" ctl.out
ctl 2 "$at" top --color=blue
has "'blue' is not auto, always or never" ctl.out
open_gate
all_end 0 a b
