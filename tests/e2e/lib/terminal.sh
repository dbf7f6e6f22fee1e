# A terminal and the keys on it, by tmux; comes after lib.sh. A terminal has a
# name, by which what runs on it is marked.
# shellcheck shell=sh disable=SC2034,SC2154

command -v tmux >/dev/null || skip 'needs tmux, for a terminal'

tmux_on()
{
    _tty=$1
    shift
    tmux -S "$E2E_DIR/tty.$_tty" "$@"
}

# terminal NAME: one with an interactive shell on it, with job control, that has
# shown its prompt: if a line is typed before that, the prompt stands where the
# output of its command begins.
terminal()
{
    env --default-signal=INT --default-signal=QUIT "E2E_MARK=$E2E_DIR:$1" \
        PS1='$ ' ENV= tmux -S "$E2E_DIR/tty.$1" -f /dev/null \
        new-session -d -x 200 -y 50 'exec sh -i -m' 9<&- 2>tmux.err ||
        skip "no terminal can be made here: $(cat tmux.err)"
    wait_screen "$1" '^[$#]'
}

# keys NAME KEY...: as tmux(1) calls them under send-keys: C-c, C-z.
keys()
{
    tmux_on "$1" send-keys "$2"
}

# enter NAME LINE: for the shell, or whoever reads there.
enter()
{
    tmux_on "$1" send-keys -l "$2" && tmux_on "$1" send-keys Enter
}

# screen NAME: what stands there, and what has scrolled away, in the file
# NAME.screen.
screen()
{
    tmux_on "$1" capture-pane -p -J -S - >"$1.screen"
}

shows()
{
    screen "$1" && has_lines "$2" "$3" "$1.screen"
}

# wait_screen NAME PATTERN [COUNT]: until so many lines with it stand there.
wait_screen()
{
    eventually 30 shows "$1" "${3:-1}" "$2" || {
        cat "$1.screen"
        fail "'$2' does not come on the terminal $1"
    }
}

# close_terminal NAME: it goes away, as a window that is closed.
close_terminal()
{
    tmux_on "$1" kill-server
}
