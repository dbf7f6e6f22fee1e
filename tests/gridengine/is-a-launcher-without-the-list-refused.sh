#!/bin/sh
# A launcher that qrsh starts on another host of the job is not told the hosts: is
# it refused, and does not train alone there?
set -u
cat >job <<'JOB'
#$ -pe ddp 3
#$ -cwd
#$ -V
other=$(awk 'NR == 2 { print $1 }' "$PE_HOSTFILE")
qrsh -inherit "$other" ddprun echo trained
echo "status $?"
JOB
qsub -sync y -o first.out -j y job || exit
grep -q '^status 2$' first.out && ! grep -q '^trained' first.out &&
    grep -q 'Grid Engine job [0-9]*: PE_HOSTFILE is not set.*add --nnodes' first.out
