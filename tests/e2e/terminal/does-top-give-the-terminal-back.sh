#!/bin/sh
# ddpctl top draws on the terminal's second screen and takes its keys. Is the
# terminal as it was, with what stood there, after q, Ctrl-C, SIGTERM, a crash, and
# while Ctrl-Z stops it? Is the picture there again after fg, and after a SIGSTOP?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/terminal.sh"

port=$(free_port)
daemon d "$port"
ulimit -c 0

terminal op
enter op 'stty -g >before; echo this stood here'
wait_screen op '^this stood here'

is_drawn() { [ "$(tmux_on op display-message -p '#{alternate_on}')" = "$1" ]; }
has_modes()
{
    enter op 'stty -g >after' && eventually 30 [ -s after ] &&
        cmp -s before after
}
is_stopped() { grep -q '^State:.T' "/proc/$top/status"; }

# top: until there is a picture; its pid is in `top`.
top()
{
    rm -f after
    enter op "$DDPCTL --endpoint=127.0.0.1:$port top; echo status \$? of $1"
    eventually 30 is_drawn 1 || fail 'there is no picture'
    wait_screen op 'nothing runs here'
    top=$(marked op | while read -r pid; do
        grep -qs '^ddpctl' "/proc/$pid/comm" && echo "$pid"
    done | sort -n | head -n 1)
}

# back WAY
back()
{
    eventually 30 is_drawn 0 || fail "$1 leaves the picture"
    eventually 30 has_modes || fail "$1 leaves other modes: $(cat before after)"
    wait_screen op '^this stood here'
    has_not 'nothing runs here' op.screen
}

top q
keys op q
wait_screen op "^status 0 of q"
back q

top interrupt
keys op C-c
wait_screen op "^status 0 of interrupt"
back interrupt

top SIGTERM
kill -TERM "$top"
wait_screen op "^status 0 of SIGTERM"
back SIGTERM

top crash
kill -SEGV "$top"
wait_screen op "^status 139 of crash"
back crash

top stop
keys op C-z
eventually 30 is_stopped || fail 'Ctrl-Z does not stop it'
back Ctrl-Z
enter op fg
eventually 30 is_drawn 1 || fail 'there is no picture after fg'
kill -STOP "$top"
eventually 30 is_stopped || fail 'SIGSTOP does not stop it'
enter op 'printf "\033[?1049lnot here\n"; fg' # as a shell might
eventually 30 is_drawn 1 || fail 'there is no picture after SIGSTOP and fg'
wait_screen op 'nothing runs here'
keys op q
back q
