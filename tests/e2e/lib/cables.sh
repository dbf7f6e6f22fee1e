# Cables of one speed, far below what the machine can do: a pair that had no CPU
# for a while is then not taken for one with a slow link. After lib.sh.
# shellcheck shell=sh disable=SC2154

# even_cables DEVICE MACHINE...: what each sends by it takes 100 Mbit/s at most, where
# tc and the kernel can do that.
even_cables()
{
    _device=$1
    shift
    for _machine in "$@"; do
        ip netns exec "dpe$$-$_machine" tc qdisc add dev "$_device" root tbf \
            rate 100mbit burst 64kbit latency 50ms 2>>tc.err
    done
}
