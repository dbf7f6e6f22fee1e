# What scenarios share that run the commands of examples/k8s.
# shellcheck shell=sh disable=SC2154

# command_of FILE: the words of its command, without train.py.
command_of()
{
    awk '/^ *command:$/ { on = 1; next }
        on && /^ *- / { if ($2 != "train.py") print $2; next }
        on { exit }' "$E2E_LIB/../../../examples/k8s/$1.yaml"
}

# gpu_of NAME: variables with which a launcher finds that GPU and no other.
gpu_of()
{
    [ -e "$E2E_BIN/libnvidia-ml.so.1" ] ||
        fail 'no stand-in for NVML: run make e2e-programs'
    echo "LD_LIBRARY_PATH=$E2E_BIN"
    echo "FAKE_NVML=GPU-$1+0:1b:0"
}
