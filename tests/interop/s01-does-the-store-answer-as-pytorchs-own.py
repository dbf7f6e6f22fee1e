# Does the store answer every operation that this PyTorch's client has, word for
# word as PyTorch's own server does?
from interop import *
from torch.distributed import PrefixStore, TCPStore

BIG = bytes(range(256)) * (8 << 12)  # 8 MiB, the most that a value may be


def answer(call, *words):
    """What a call gives; of an error that there is one."""
    try:
        return call(*words)
    except (RuntimeError, ValueError):
        return "error"


def old(s, put):
    """What every PyTorch has."""
    put(answer(s.set, "key", "value"), s.get("key"))
    put(s.set("key", ""), s.get("key"))
    put(s.set("", "empty key"), s.get(""))
    put(s.set("\u00e9/\0/x", "text"), s.get("\u00e9/\0/x"))
    put(s.add("count", 5), s.add("count", -7), s.add("count", 0),
        s.get("count"))
    put(s.add("big", 2**62), s.get("big"))
    put(s.set("count", "40"), s.add("count", 2))
    # of a key that is not there, with an empty and with another expectation
    put(s.compare_set("cas", "", "a"), s.compare_set("cas", "a", "b"),
        s.compare_set("cas", "a", "c"), s.compare_set("none", "x", "y"))
    put(s.num_keys(), s.delete_key("cas"), s.delete_key("cas"), s.num_keys())
    put(s.wait(["key", "count"]), s.wait(["key"],
                                         datetime.timedelta(seconds=1)))
    put(s.set("large", BIG), s.get("large") == BIG)
    p = PrefixStore("outer", PrefixStore("inner", s))
    put(p.set("key", "of the prefix"), p.get("key"), s.get("key"),
        s.get("inner/outer/key"), p.add("n", 3), p.delete_key("n"))
    put(s.num_keys())


def new(s, put):
    """What 2.x has added, as far as this one has it."""
    put(s.check(["key"]), s.check(["key", "no"]), s.check([]))
    put(s.append("log", "a"), s.append("log", "bc"), s.get("log"))
    put(s.multi_set(["m1", "m2", "m3"], ["1", "", "333"]),
        s.multi_get(["m3", "m1", "m2"]), s.multi_get([]))
    put(s.multi_set([f"many/{i}" for i in range(1000)], ["v"] * 1000),
        s.multi_get([f"many/{i}" for i in range(999, -1, -1)]) ==
        [b"v"] * 1000)
    for name, words in (("queue_len", ["q"]), ("queue_push", ["q", "one"]),
                        ("queue_push", ["q", "two"]), ("queue_len", ["q"]),
                        ("queue_pop", ["q"]), ("queue_pop", ["q"]),
                        ("queue_pop", ["q", False])):
        if hasattr(s, name):
            put(name, answer(getattr(s, name), *words))
    if hasattr(s, "list_keys"):
        put(sorted(k for k in s.list_keys() if not k.startswith("many")))
    if hasattr(s, "barrier"):
        put(answer(s.barrier, "all", 1))
    put(s.has_extended_api(), s.num_keys())
    c = s.clone()
    put(c.get("key"), c.set("cloned", "x"), s.get("cloned"))


def transcript(s):
    lines = []

    def put(*answers):
        lines.append(answers)

    old(s, put)
    if hasattr(s, "multi_get"):
        new(s, put)
    return lines


kinds = [{}]
if torch_version() >= (2, 4):
    kinds = [{"use_libuv": True}]
own_port = free_port()
for more in kinds:
    own = TCPStore("127.0.0.1", own_port, -1 if not more else None, True,
                   timeout=datetime.timedelta(seconds=20),
                   wait_for_workers=False, **more)
    theirs = transcript(own)
    ours = transcript(store(daemon(), **more))
    for number, (a, b) in enumerate(zip(ours, theirs)):
        same(a, b, f"answers {number}")
    same(len(ours), len(theirs), "answers")
    measured(f"{sum(len(a) for a in ours)} answers, all as PyTorch's")
    del own
done()
