# 512 clients at one store: each adds 1, and waits for a key that the last one
# sets. With 1.13 each has two connections, one of them silent; 2.x asks for the
# names of addresses, which takes 10 s where no name server answers.
from interop import *
import threading

PROCESSES, THREADS = 4, 128
ALL = PROCESSES * THREADS


def client(port):
    s = store(port, timeout=40)
    if s.add("here", 1) == ALL:
        s.set("all", str(ALL))
    if s.get("all") != str(ALL).encode():
        os._exit(1)
    kept.append(s)


kept = []
port = daemon(options=("--c10d", "--max_nodes=16"))
began = time.monotonic()
children = []
for _ in range(PROCESSES):
    children.append(os.fork())
    if children[-1] == 0:
        threads = [threading.Thread(target=client, args=(port,))
                   for _ in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        os._exit(0 if len(kept) == THREADS else 1)
for child in children:
    same(os.waitpid(child, 0)[1], 0, "status of 128 clients")
measured(f"{ALL} clients: {time.monotonic() - began:.2f} s")
same(store(port).add("here", 0), ALL, "clients that were counted")
if "closed" in log("daemon"):
    fail("connections were closed")
done()
