#!/bin/sh
# Do bash, zsh and fish take what --print_completion writes, and does bash then
# complete options, values, files and programs?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

for shell in bash zsh fish; do
    launch 0 --print_completion=$shell
    cp it.out completion.$shell
    ! command -v $shell >/dev/null || $shell -n completion.$shell ||
        fail "$shell does not read its completion"
done
launch 2 --print_completion=tcsh
has 'must be bash, zsh or fish' it.err
command -v bash >/dev/null || skip 'needs bash for the rest'

mkdir folder && : >file.token
cat >complete.bash <<'BASH'
source ./completion.bash
complete -p ddprun || exit 1
sorted()
{
    printf '%s\n' "$@" | sort -u | tr '\n' ' '
}
# What Readline would offer behind these words; the last is being typed.
offer()
{
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _ddprun ddprun "${@: -1}" "${@: -2:1}"
    sorted "${COMPREPLY[@]}"
}
want()
{
    local wanted got
    # shellcheck disable=SC2086 # words
    wanted=$(sorted $1)
    shift
    got=$(offer "$@")
    [ "$got" = "$wanted" ] ||
        { echo "$*: got '$got', wanted '$wanted'" && exit 1; }
}
want '--nproc_per_node' ddprun --npr
want '--rdzv_endpoint --rdzv_backend --rdzv_id --rdzv_conf --rdzv_token_file' \
    ddprun --nnodes = 2 --rdzv
want 'cpu gpu gpu-or-1 auto' ddprun --nproc_per_node ''
want 'gpu gpu-or-1' ddprun --nproc_per_node = g
want 'cpu gpu gpu-or-1 auto' ddprun --nproc-per-node =
want 'socket' ddprun --rdzv_endpoint = host : 29500 --numa_binding so
want '--standalone --standby --start_method' ddprun --rdzv_endpoint h -m --sta
want 'folder' ddprun --log_dir f
want 'file.token' ddprun --rdzv_token_file = file
want '' ddprun --nnodes ''
want 'complete.bash completion.bash completion.fish completion.zsh' \
    ddprun --nnodes 2 prog comp
want '' ddprun prog --nn
want 'file.token' ddprun prog --x --nproc_per_node file
want 'mkfifo' ddprun -- mkfif
BASH
bash --norc complete.bash >bash.err 2>&1 || fail 'bash completes otherwise'
if command -v zsh >/dev/null; then
    zsh -fc 'autoload -U compinit && compinit -D && fpath=(. $fpath) &&
        cp completion.zsh _ddprun && autoload -U _ddprun && whence -w _ddprun' \
        >zsh.err 2>&1 || fail 'zsh does not load it'
fi
if command -v fish >/dev/null; then
    HOME=$E2E_DIR fish -N -c 'source completion.fish
        complete -C "ddprun --nproc_per_node=g"
        complete -C "ddprun --rdzv_b"' >fish.out 2>&1
    has 'nproc_per_node=gpu' fish.out
    has 'rdzv_backend' fish.out
fi
