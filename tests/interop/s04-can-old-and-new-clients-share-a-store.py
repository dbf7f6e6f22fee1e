# Two PyTorches of the two protocol families at one store: does each see what
# the other does? Needs INTEROP_OTHER, a Python with the other one.
from interop import *

other = os.environ.get("INTEROP_OTHER")
if len(sys.argv) == 1:
    if not other:
        skip("needs a second PyTorch: INTEROP_OTHER=/path/to/its/python")
    port = daemon()
    start("peer", other, __file__, port, "1")
    me = 0
else:
    port, me = int(sys.argv[1]), 1

s = store(port)
s.set(f"from {me}", f"hello, {1 - me}")
same(s.get(f"from {1 - me}"), f"hello, {me}".encode(), "a word")
for turn in range(200):
    if turn % 2 == me:
        same(s.add("turns", 1), turn + 1, "turns")
        s.set(f"turn {turn}", bytes([turn]) * turn)
    else:
        same(s.get(f"turn {turn}"), bytes([turn]) * turn, f"turn {turn}")
same(s.compare_set("winner", "", str(me)), s.get("winner"), "the winner")
if me == 0:
    ends_with(0, "peer")
    done()
