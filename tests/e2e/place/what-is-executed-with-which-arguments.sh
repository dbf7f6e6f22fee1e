#!/bin/sh
# Is the program run with its arguments word for word, a .py file by python3
# -u, and a module by -m?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >show <<'SHOW'
#!/bin/sh
line=
for word in "$@"; do line="$line<$word>"; done
printf '%s\n' "$line"
SHOW
chmod +x show
launch 0 --nproc_per_node=2 ./show --nnodes 9 -m -- '' 'two words' \
    'r${local_rank}x' '$local_rank' '$local_rank2' '$$HOME' '*'
same "<--nnodes><9><-m><--><><two words><r0x><0><\$local_rank2><\$HOME><*>
<--nnodes><9><-m><--><><two words><r1x><1><\$local_rank2><\$HOME><*>" \
    "$(sort it.out)" 'arguments'

# A -- before the program is dropped; both spellings; a prefix that is unique.
launch 0 --nproc-per-node=1 --max-rest 2 -- ./show a --b
same '<a><--b>' "$(cat it.out)" 'arguments behind --'

if command -v python3 >/dev/null; then
    cat >place.py <<'PY'
import os, sys
print(sys.argv[1:], os.environ["RANK"], sys.stdout.write_through)
PY
    launch 0 --nproc_per_node=1 place.py --epochs 3 '-u'
    same "['--epochs', '3', '-u'] 0 True" "$(cat it.out)" 'a .py file'
    launch 0 -m place x
    same "['x'] 0 True" "$(cat it.out)" 'a module'
    launch 0 --no_python ./show place.py
    same '<place.py>' "$(cat it.out)" '--no_python'
fi
