"""The page in a real Chromium. usage: check.py BUILD [NAME...]"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import documents
from browser import Browser
from documents import document, node, run

BUILD = os.path.abspath(sys.argv[1])
CELLS = """[...document.querySelectorAll('.node .c')].map(
    c => [c.textContent, c.getAttribute('aria-label')])"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Job:
    """A daemon, and launchers of one run. Ends what it started."""

    def __init__(self, token=False):
        self.folder = tempfile.TemporaryDirectory(prefix="page-job-")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.processes = []
        with open(os.path.join(self.folder.name, "worker"), "w") as f:
            f.write("echo $$ >pid.$RANK; exec sleep 1000\n")
        self.secret = []
        if token:
            path = os.path.join(self.folder.name, "token")
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
                f.write(os.urandom(24).hex() + "\n")
            self.secret = ["--token_file=" + path]
        self.daemon = self.serve()

    def start(self, name, *command):
        out = open(os.path.join(self.folder.name, name), "ab")
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                             stderr=out, cwd=self.folder.name)
        self.processes.append(p)
        return p

    def serve(self):
        p = self.start("daemon", BUILD + "/ddprdzvd",
                       f"--listen=127.0.0.1:{self.port}", *self.secret)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return p
            time.sleep(0.02)
        raise AssertionError("the daemon does not serve")

    def node(self, name, *options, run_id="job", nodes="2"):
        return self.start(
            name, BUILD + "/ddprun", "--nnodes=" + nodes, "--nproc_per_node=2",
            "--max_restarts=5", "--rdzv_id=" + run_id, "--rdzv_backend=c10d",
            f"--rdzv_endpoint=127.0.0.1:{self.port}",
            "--local_addr=127.0.0.1",
            *(o.replace("--", "--rdzv_") for o in self.secret), *options, "sh", "worker")

    def page(self):
        """Starts ddpctl page; the address that it prints."""
        p = subprocess.Popen(
            [BUILD + "/ddpctl", f"--endpoint=127.0.0.1:{self.port}",
             *self.secret, "page"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.processes.append(p)
        return p.stdout.readline().strip()

    def follow(self):
        """The daemon is gone: from now on the port is that of the member which
        serves the run, as the launchers tell it."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for name in "ab":
                with open(os.path.join(self.folder.name, name)) as f:
                    found = re.findall("it is served at 127.0.0.1:([0-9]+)", f.read())
                if found:
                    self.port = int(found[-1])
                    self.url = f"http://127.0.0.1:{self.port}/"
                    return
            time.sleep(0.02)
        raise AssertionError("no member serves the run")

    def pid(self, rank):
        with open(os.path.join(self.folder.name, f"pid.{rank}")) as f:
            return int(f.read())

    def close(self):
        for p in self.processes[::-1]:
            if p.poll() is None:
                p.terminate()
        for p in self.processes:
            try:
                p.wait(60)
            except subprocess.TimeoutExpired:
                p.kill()
        self.folder.cleanup()


def slack():
    """How much longer things may take, as others use the machine."""
    try:
        with open("/proc/pressure/cpu") as f:
            return 1 + float(f.readline().split("avg10=")[1].split()[0]) / 50
    except OSError:
        return 1


# -- tests: each has a browser, and a server of documents that it gives ------


def each_state_has_its_cell(b, fake):
    """Letters and names of all states, of the rank that failed first, and of a
    node that is gone."""
    nodes = [node(i, s) for i, s in enumerate(documents.STATES)]
    nodes[0]["failed_first"] = True
    fake.show(document(run(nodes)))
    b.open(fake.url)
    cells = b.until("document.querySelectorAll('.node .c').length >= 64 && " +
                    CELLS, "64 cells")
    letters = "".join(c[0] for c in cells[::8])
    assert letters == "RDWSXXQL", letters
    assert cells[5] == ["F", "rank 5 on node0: runs, failed first"]
    assert cells[8] == ["D", "rank 8 on node1: done"], cells[8]
    assert cells[16] == ["W", "worker 0 on node2: waits"], cells[16]
    assert cells[56] == ["L", "rank 56 on node7: lost"], cells[56]
    assert b.run("document.querySelector('h3').textContent").endswith(
        "1 run, 1 done, 1 spare, 1 wait, 1 stopped, 1 leaves, 1 quarantined, 1 lost")
    legend = b.run("document.getElementById('legend').innerText")
    for letter in "RDWSXQLF":
        assert letter in legend, legend
    fake.show(document(run(nodes[1:])))
    b.until("document.getElementById('news').textContent.includes("
            "'node node0 is gone')", "news of a node that is gone")
    gone = b.run(CELLS)[-8]
    assert gone == ["L", "rank 0 on node0: gone: lost or left"], gone
    two = [node(i, name=name, agent=f"{i}ab51dc0ffee")
           for i, name in enumerate(("vm", "vm", "other"))]
    fake.show(document(run(two)))
    b.until("[...document.querySelectorAll('[role=rowheader] bdi')]"
            ".map(e => e.textContent).join().startsWith("
            "'vm 0ab51dc0,vm 1ab51dc0,other')", "two nodes of one name")


def a_run_tells_its_story(b, fake):
    """Goodput, progress, rounds, the failure with its last lines, who serves."""
    fake.show(document(documents.busy()))
    b.open(fake.url)
    text = b.until("document.querySelectorAll('section li').length === 3 && "
                   "document.getElementById('runs').innerText", "the rounds")
    for words in ("Goodput 97.7 %", "waited 5 min 10 s", "118 steps done twice",
                  "step 41,230", "rank 8 on node1 at 41,230", "2.14",
                  "newest step on two nodes 41,228, 2 behind",
                  "slower than the others rank 12 (local rank 4) on node1 by 12.3 % for 1 min 15 s",
                  "lost: node9 was lost", "cost 7 min 1 s: waited 5 min 10 s",
                  "cost restarts 21 s",
                  "First failure of round 6: rank 37 on node4",
                  "served by node0", "restarts 2 of 10"):
        assert words in text, (words, text)
    for words in ("term", "epoch", "voters"): # a detail, to be asked for
        assert words not in text, (words, text)
    b.run("[...document.querySelectorAll('details')].pop().open = true")
    text = b.run("document.getElementById('runs').innerText")
    assert "term 3" in text and "11 of 12 voters answer" in text, text
    lost = documents.busy()
    lost["authority"]["may_act"] = False
    fake.show(document(lost))
    b.until("document.getElementById('runs').innerText.includes("
            "'No majority: 11 of 12 voters answer')", "that it cannot decide")
    assert "CUDA out of memory" in b.run(
        "document.querySelector('pre').textContent")
    stands = documents.busy()
    stands["stands"] = {"node": "node3", "age_s": 75.0,
                        "text": "rank 25 is stopped (state T); ranks 0-24 wait in all_reduce"}
    fake.show(document(stands))
    b.until("/Stands still, as node3 tells for 1 min 1[5-9] s: rank 25 is stopped "
            ".state T.; ranks 0-24 wait in all_reduce/"
            ".test(document.getElementById('runs').innerText)", "the hang")
    fake.show(document(documents.busy()))
    b.until("!document.getElementById('runs').innerText.includes('Stands still')",
            "that the workers go on")
    gather = run([node(1, "waiting")], state="gather", goodput=None,
                 timeline=None, progress=None, last_failure=None, authority=None,
                 waiting={"have": 1, "min": 4, "left_s": 100})
    ended = run([], id="old", state="ended",
                end={"status": 0, "text": "all is done", "age_s": 3})
    brief = {"brief": True, "id": "small", "state": "active", "round": 1,
             "nodes": 1, "nodes_min": 1, "nodes_max": 1, "world_size": 8,
             "restarts": 0, "uptime_s": 5}
    well = run([], id="well", state="ended",
               end={"status": 0, "text": "", "age_s": 3})
    well["last_failure"].update(signal=0, code=7, text="")
    fake.show(document(gather, ended, well, brief, runs_left_out=3))
    text = b.until("document.querySelectorAll('section').length === 4 && "
                   "document.getElementById('runs').innerText", "four runs")
    for words in ("1 of 4 are here", "Ended with status 0: all is done",
                  "Ended with status 0, ", "exit code 7", "small",
                  "3 more runs"):
        assert words in text, (words, text)
    assert "nodes 0" not in text, text


def time_goes_to_its_part(b, fake):
    """Between two documents the part grows that the last one named: here the
    ranks of a round that is sealed do not all run yet."""
    parts = {"wall_s": 8, "ran_s": 2, "waited_s": 1.5, "detect_s": 1.5,
             "restart_s": 3, "phase": "restart"}
    fake.show(document(run([node(0)], goodput=parts)))
    b.open(fake.url)
    text = b.until("/restarts [4-9]\\.\\d s/.test(document.getElementById('runs')"
                   "?.innerText) && document.getElementById('runs').innerText",
                   "restarts that grow")
    for words in ("ran 2.0 s", "waited 1.5 s", "detection 1.5 s"):
        assert words in text, (words, text)
    fake.show(document(run([node(0)], state="ended", goodput={**parts, "phase": None})))
    b.until("document.querySelector('main').innerText.includes('ended')", "the end")
    time.sleep(2)
    assert "restarts 3.0 s" in b.run("document.querySelector('main').innerText")


def the_gone_are_forgotten(b, fake):
    """Other nodes come and go: the page keeps the last ones that went."""
    for i in range(3):
        fake.show(document(run([node(200 * i + k) for k in range(200)])))
        if i == 0:
            b.open(fake.url)
        b.until(f"[...document.querySelectorAll('.node bdi')].some("
                f"e => e.textContent === 'node{200 * i}')", f"nodes from {200 * i} on")
    b.until("document.querySelectorAll('.node').length === 200 + 256",
            "the last 256 of 400 that went")
    assert b.run("seen.get('llama-8b').gone.size") == 256
    assert not b.run("[...document.querySelectorAll('.node bdi')].some("
                     "e => e.textContent === 'node0')")


def many_nodes_are_groups(b, fake):
    """10,000 nodes: some hundred cells, and the nodes that are not well."""
    fake.show(document(documents.large()))
    b.open(fake.url)
    cells = b.until("""document.querySelectorAll('.groups .c').length === 101 &&
        [...document.querySelectorAll('.groups .c')].map(
            c => [c.textContent, c.getAttribute('aria-label')])""", "101 groups")
    assert cells[0] == ["R", "nodes 0\u201399: 100 run"], cells[0]
    assert cells[17] == ["L 2", "nodes 1,700\u20131,799: 98 run, 2 lost"]
    assert cells[100][0] == "S 8", cells[100]
    assert b.run("document.querySelectorAll('.node').length") == 5
    assert b.run("document.querySelectorAll('*').length") < 1500


EVIL = "<script>window.hacked=1</script></style><img src=x onerror=hacked=1>" \
    "\"'`&lt;javascript:hacked=1 \u202egnp.exe\u2066\u0007\u2028event: orders\u2029\n\n" + "w" * 300


def texts_are_only_texts(b, fake):
    """Whatever runs, programs, nodes and errors are called."""
    def evil(x):
        if isinstance(x, dict):
            return {k: v if k in ("state", "data") else evil(v)
                    for k, v in x.items()}
        if isinstance(x, list):
            return [evil(v) for v in x]
        return EVIL if isinstance(x, str) else x
    fake.show(document())
    b.open(fake.url)
    b.until("!!document.querySelector('section')", "the page")
    tags = b.run("document.querySelectorAll('script, style, img, a').length")
    odd = run([node(0, state="<b>"), node(1, state="constructor")],
              state="__proto__", id="odd")
    for doc in (evil(document(documents.busy(), documents.large())),
                document(odd)):
        for width in (360, 1920):
            b.size(width)
            fake.show(doc)
            b.until("document.querySelectorAll('section').length === %d" %
                    len(doc["runs"]), "the runs")
            time.sleep(0.1)
            assert b.run("typeof hacked") == "undefined"
            assert b.run("document.querySelectorAll("
                         "'script, style, img, a').length") == tags
            assert not b.run("document.querySelector('section b b, b script')")
            assert_no_scroll(b, width)
    fake.show(evil(document(documents.busy())))
    b.until("document.body.innerText.includes('<U+202E>gnp.exe<U+2066><U+0007>')",
            "the override as a text")
    assert not b.run(r"/[\u202a-\u202e\u2066-\u2069\u0007]/.test("
                     "document.documentElement.outerHTML)")


def assert_no_scroll(b, width):
    wide = b.run("document.documentElement.scrollWidth")
    assert wide <= b.run("innerWidth") <= width, (wide, width)


def it_fits_narrow_and_wide_screens(b, fake):
    fake.show(document(documents.busy(), documents.large()))
    b.open(fake.url)
    for width in (360, 768, 1280, 1920):
        b.size(width)
        b.until("!!document.querySelector('.node .c')", "cells")
        assert_no_scroll(b, width)
        if width == 360: # a node's eight ranks in one line
            assert b.run("""(() => { const c = document.querySelector('.node')
                .querySelectorAll('.c'); return c[0].offsetTop === c[7].offsetTop
                })()"""), "a node's ranks take two lines"


CONTRAST = """(() => {
    const pixel = document.createElement('canvas').getContext('2d',
        {willReadFrequently: true});
    const rgb = colour => {
        pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1);
        return [...pixel.getImageData(0, 0, 1, 1).data];
    };
    const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ?
        v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) =>
        s + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = e => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if (c !== 'rgba(0, 0, 0, 0)') return c; } };
    return [...document.querySelectorAll('.c, .tag, h1, h3, p, .note b, small, li')]
        .map(e => { const a = light(rgb(getComputedStyle(e).color)),
            g = light(rgb(ground(e)));
        return [(Math.max(a, g) + .05) / (Math.min(a, g) + .05), e.outerHTML]; })
        .sort((x, y) => x[0] - y[0])[0];
    })()"""


def light_and_dark_can_be_read(b, fake):
    """The contrast that WCAG asks for, in both."""
    nodes = [node(i, s) for i, s in enumerate(documents.STATES)]
    fake.show(document(run(nodes), run([node(1, "waiting")], state="gather",
                                       waiting={"have": 1, "min": 2,
                                                "left_s": 9})))
    grounds = []
    for scheme in ("light", "dark"):
        b.scheme(scheme)
        b.open(fake.url)
        b.until("!!document.querySelector('.node .c')", "cells")
        worst, where = b.run(CONTRAST)
        assert worst >= 4.5, (scheme, worst, where)
        grounds.append(b.run("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1], grounds


def the_keyboard_goes_everywhere(b, fake):
    """One stop for Tab in a grid, arrows in it, and an update leaves the focus
    where it is."""
    doc = document(run([node(i) for i in range(3)]))
    label = "document.activeElement.getAttribute('aria-label')"
    fake.show(doc)
    b.open(fake.url)
    b.until("!!document.querySelector('[role=grid] [tabindex=\"0\"]')", "a stop")
    stops = b.run("document.querySelectorAll('[role=grid] [tabindex=\"0\"]').length")
    assert stops == 1, stops
    for _ in range(5):
        b.key("Tab")
        if b.run("document.activeElement.getAttribute('role')") == "gridcell":
            break
    for key, want in (("Home", "rank 0 on node0: runs"),
                      ("ArrowRight", "rank 1 on node0: runs"),
                      ("ArrowDown", "rank 9 on node1: runs"),
                      ("End", "rank 15 on node1: runs"),
                      ("ArrowUp", "rank 7 on node0: runs"),
                      ("ArrowUp", "rank 7 on node0: runs"),
                      ("ArrowLeft", "rank 6 on node0: runs")):
        b.key(key)
        assert b.run(label) == want, (key, b.run(label), want)
    outline = b.run("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", outline
    doc["runs"][0]["nodes_list"][0]["state"] = "stopping"
    fake.show(doc)
    b.until("document.querySelector('.node .c').textContent === 'X'", "the update")
    assert b.run(label) == "rank 6 on node0: stopped", b.run(label)


def screen_readers_are_told(b, fake):
    """Roles and names."""
    fake.show(document(documents.busy(), documents.large()))
    b.open(fake.url)
    b.until("document.querySelectorAll('section').length === 2", "the runs")
    names = b.names()
    for want in (("gridcell", "rank 37 on node4: runs, failed first"),
                 ("gridcell", "nodes 1,700\u20131,799: 98 run, 2 lost"),
                 ("grid", "Nodes and ranks of llama-8b"),
                 ("region", "Run llama-8b"), ("heading", "llama-8b")):
        assert want in names, (want, names[:40])
    assert not [n for n in names if n[0] == "gridcell" and not n[1]]
    live = b.run("document.getElementById('news').getAttribute('aria-live')")
    assert live == "polite" and "status" in [n[0] for n in names]


def the_policy_holds(b, fake):
    """What the browser would complain about is seen here: that there is nothing
    elsewhere means something."""
    fake.show(document())
    b.open(fake.url)
    b.until("!!document.querySelector('section')", "the page")
    b.run("""(() => { const s = document.createElement('script');
        s.textContent = 'window.hacked = 1'; document.body.append(s);
        const i = new Image(); i.src = 'http://127.0.0.1:1/x';
        document.body.append(i); document.body.setAttribute('style', 'color:red');
        })()""")
    assert b.run("typeof hacked") == "undefined"
    until = time.monotonic() + 60
    while len(b.complaints) < 3 and time.monotonic() < until:
        b.run("1")
        time.sleep(0.05)
    assert len(b.complaints) >= 3, b.complaints
    b.complaints.clear()


def events_of(rounds, nodes=1, run="job", text="signal 11 (SIGSEGV), core dumped"):
    """The events of nodes whose workers fail in turn, but for the last round, and a
    take-over, as text."""
    lines = []

    def say(n, up, event, **fields):
        when = f"2026-11-22T{10 + int(up) // 3600:02}:{int(up) // 60 % 60:02}:" \
               f"{int(up) % 60:02}.000000Z"
        lines.append(json.dumps({"time": when, "up_s": up, "event": event, "run": run,
                                 "node": f"node{n}", **fields}) + "\n")
    for n in range(nodes):
        say(n, 0, "connecting")
        say(n, 0, "joined")
        for r in range(rounds):
            at = {"round": r + 1, "rank": 8 * n}
            say(n, 600 * r + 60, "sealed", **at, group_rank=n, nodes=nodes,
                world_size=8 * nodes, restarts=r)
            say(n, 600 * r + 90, "started", **at)
            if r == rounds - 1:
                say(n, 600 * r + 570, "done", **at)
            elif r % nodes == n:
                say(n, 600 * r + 540, "failed", **at, tail=text + "\n" + 90 * "w",
                    text=f"rank {8 * n} (pid 4711): " + text)
            else:
                say(n, 600 * r + 570, "stopped", **at, text=f"rank 8: {text}")
            say(n, 600 * r + 570, "exited", **at)
        say(n, 600 * rounds, "taken_over", epoch=4, server="node1:29500",
            before="head:29500", gap_s=0.25)
        say(n, 600 * rounds, "end", exit_code=0)
    return "".join(lines)


class Report:
    """A report as a file in a browser, as long as it is entered."""

    def __init__(self, b, events):
        self.b = b
        self.file = tempfile.NamedTemporaryFile("w", suffix=".html")
        subprocess.run([BUILD + "/ddpctl", "report", "-"], input=events, text=True,
                       stdout=self.file, check=True)

    def __enter__(self):
        self.b.open("file://" + self.file.name)
        self.b.until("document.title.startsWith('run ')", "the report")

    def __exit__(self, *_):
        leave(self.b)
        self.file.close()


def a_report_is_a_page_without_a_server(b, _):
    """The ranks, what the time went to, the timeline, failures and take-overs, of a
    file, which asks for nothing."""
    with Report(b, events_of(4, 3)):
        assert b.run("document.title") == "run job"
        text = " ".join(b.run("document.body.innerText").split())
        for words in ("report of 1 file of events; times are UTC", "ranks 24", "nodes 3",
                      "restarts 3", "took 39 min 30 s",
                      "Ended with status 0: all workers succeeded Goodput",
                      "Goodput 77.2 % of 39 min 30 s", "2026-11-22 10:00:00",
                      "round 1 2026-11-22 10:01:00 3 nodes, 24 ranks ran 7 min 30 s "
                      "failed: rank 0 (pid 4711): signal 11 (SIGSEGV), core dumped cost "
                      "2 min 30 s: waited 1 min 30 s, detection 30 s, restarts 30 s",
                      "Failures", "2026-11-22 10:19:00 round 2 node1 rank 8 (pid 4711): "
                      "signal 11 (SIGSEGV), core dumped", 90 * "w",
                      "term 4 node1:29500 serves, before head:29500, as node2 tells; "
                      "250 ms without a server"):
            assert words in text, (words, text)
        labels = b.run("[...document.querySelectorAll('.track')].map("
                       "e => e.getAttribute('aria-label'))")
        assert labels == ["what the time went to", "node0: 4 rounds, failed in 1",
                          "node1: 4 rounds, failed in 2",
                          "node2: 4 rounds, failed in 3"], labels
        marks = """[...document.querySelectorAll('.track')].map(t => { const r =
            t.getBoundingClientRect(); return [...t.children].map(i => { const q =
            i.getBoundingClientRect(); return [i.className, (q.left - r.left) / r.width,
            (q.right - r.left) / r.width]; }); })"""
        # All ranks ran, and node 0 did, from 90 to 540 of 2370 s, where it failed.
        everyone, node0, *_ = b.run(marks)
        for track in (everyone, node0):
            _, left, right = next(m for m in track if m[0] == "ran_s")
            assert abs(left - 90 / 2370) < 0.005, track
            assert abs(right - 540 / 2370) < 0.005, track
        died = [m for m in node0 if m[0] == "died"]
        assert len(died) == 1 and abs(died[0][1] - 540 / 2370) < 0.005, node0
        for width in (360, 1920):
            b.size(width)
            assert_no_scroll(b, width)
        for scheme in ("light", "dark"):
            b.scheme(scheme)
            worst, where = b.run(CONTRAST)
            assert worst >= 4.5, (scheme, worst, where)
        assert b.run("performance.getEntriesByType('resource').length") == 0
    with Report(b, events_of(2, run=EVIL[:150], text=EVIL[:150])):
        assert b.run("typeof hacked") == "undefined"
        assert b.run("document.querySelectorAll('script').length") == 2
        assert not b.run("document.querySelector('main img, main script, b b')")
        assert "<U+202E>gnp.exe" in b.run("document.body.innerText")


def a_report_fits_on_paper(b, _):
    """What is beside the sheet is not printed: here A4, with margins of 1 cm."""
    b.size(round(190 / 25.4 * 96))
    with Report(b, events_of(12)):
        assert b.run("document.querySelectorAll('li').length") >= 23
        b.medium("print")
        try:
            beside = b.run("""[...document.querySelectorAll('li *, .row, pre')].map(
                e => [e.getBoundingClientRect().right - innerWidth, e.outerHTML])
                .sort((x, y) => y[0] - x[0])[0]""")
            assert beside[0] <= 0, beside
            assert b.run("[...document.querySelectorAll('pre')].every("
                         "e => e.scrollHeight <= e.clientHeight)"), "lines are hidden"
        finally:
            b.medium("")


def leave(b):
    """So that the page does not ask servers that end."""
    b.open("about:blank")
    b.until("document.URL === 'about:blank'", "the empty page")


def a_kill_is_seen_within_a_second(b, _):
    """A real job: a worker is killed; the daemon goes, and comes back to its job."""
    job = Job()
    try:
        nodes = [job.node(name) for name in ("a", "b")]
        b.open(job.url)
        b.until("[...document.querySelectorAll('.node .c')].filter("
                "c => c.textContent === 'R').length === 4", "four ranks that run")
        b.until("/changed [1-9][.0-9]* s ago/.test(document.body.innerText)",
                "a second without a change")
        began = time.monotonic()
        os.kill(job.pid(3), signal.SIGKILL)
        b.until("document.getElementById('runs').innerText.includes('SIGKILL')",
                "the rank that failed first")
        took = time.monotonic() - began
        assert took < slack(), took
        print(f"    measured: kill -> page {took * 1000:.0f} ms")
        b.until("document.getElementById('runs').innerText.includes('round 2') &&"
                "[...document.querySelectorAll('.node .c')].filter("
                "c => c.textContent === 'R').length === 4",
                "that it runs again, and no mark of what it did before")
        text = b.run("document.getElementById('runs').innerText")
        for words in ("SIGKILL", "failed: rank 3", "round 2", "Goodput "):
            assert words in text, text
        job.daemon.kill()
        job.daemon.wait()
        b.until("document.getElementById('link').textContent.startsWith("
                "'No connection')", "that the daemon is gone")
        job.daemon = job.serve()
        b.until("document.getElementById('link').textContent === 'connected'",
                "the daemon that is back")
        b.until("document.querySelectorAll('.node .c').length === 4",
                "the job, at its daemon again")
        # A fetch that a daemon does not answer is no fault of the page.
        b.complaints[:] = [c for c in b.complaints if "net::ERR" not in c]
        for p in nodes:
            assert p.poll() is None
        leave(b)
    finally:
        job.close()


def ask(url, path, method="GET", **fields):
    """The status, and the first bytes of the answer."""
    host = url.split("/")[2]
    fields.setdefault("Host", host)
    request = f"{method} {path} HTTP/1.1\r\n" + "".join(
        f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items()) + "\r\n"
    with socket.create_connection(host.split(":"), timeout=60) as s:
        s.sendall(request.encode())
        got = b""
        while b"\r\n\r\n" not in got or len(got) < 300:
            piece = s.recv(65536)
            if not piece:
                break
            got += piece
            if b"event: orders" in got:
                break
    return int(got.split()[1]), got.decode(errors="replace")


def others_cannot_use_the_page_of_ddpctl(_, fake):
    """Other pages of the same browser, and other users of the same host."""
    job = Job()
    try:
        url, key = job.page().split("#")
        own = url.rstrip("/")
        assert len(key) == 64 and ask(url, "/")[0] == 200
        assert "Content-Security-Policy" in ask(url, "/", "HEAD")[1]
        for path, method in (("/events", "GET"), ("/drain?node=a&run=b", "POST"),
                             ("/end?run=b", "POST"), ("/stacks?run=b&rank=0", "POST")):
            for bad in ({}, {"X_Ddpctl_Key": key[:-1] + "x"},
                        {"X_Ddpctl_Key": key, "Origin": "http://evil.example"},
                        {"X_Ddpctl_Key": key, "Origin": "null"},
                        {"X_Ddpctl_Key": key, "Host": "evil.example"},
                        {"X_Ddpctl_Key": key + "0"}):
                if "Origin" not in bad and method == "POST":
                    bad["Origin"] = own
                assert ask(url, path, method, **bad)[0] == 403, (path, bad)
        right = {"X_Ddpctl_Key": key, "Origin": own}
        assert ask(url, "/end?run=b", "POST", X_Ddpctl_Key=key)[0] == 403
        assert ask(url, "/end?run=b", "GET", **right)[0] == 405
        assert ask(url, "/events", "POST", **right)[0] == 405
        assert ask(url, "/end", "PUT", **right)[0] == 405
        assert ask(url, "/end", "OPTIONS", **right)[0] == 405
        assert ask(url, "/end", "POST", **right)[0] == 400
        for rank in ("", "x", "-1", "1234567890"):
            assert ask(url, "/stacks?run=b&rank=" + rank, "POST", **right)[0] == 400
        assert ask(url, "/status", **right)[0] == 404
        status, text = ask(url, "/end?run=nothing", "POST", **right)
        assert status == 403 and "nothing" in text, text
        assert "event: orders" in ask(url, "/events", **right)[1]
        assert ask(job.url, "/end?run=b", "POST", **right)[0] == 405
    finally:
        job.close()


def orders_are_given_after_a_question(b, _):
    """With a token, by ddpctl page: a node is drained, the daemon goes, the run is
    ended where it is served then. A rendezvous' own page has no buttons."""
    job = Job(token=True)
    try:
        nodes = [job.node(name, nodes="1:2") for name in ("a", "b")]
        b.open(job.page())
        b.until("document.querySelectorAll('[data-drain]').length === 2 && "
                "document.querySelectorAll('[data-end]').length === 1", "buttons")
        assert ("button", "End run job") in b.names()
        b.until("document.querySelectorAll('[data-stacks]').length === 2", "buttons for stacks")
        b.run("document.querySelector('[data-stacks]').click()")
        b.until("/rank 0 .*on .*:\\nrank 0 .pid [0-9]+.: /.test("
                "document.getElementById('stacks').innerText)", "the stacks of a worker")
        b.run("document.querySelector('[data-close]').click()")
        b.until("!document.getElementById('stacks').open", "that they are gone")
        b.consent = False
        b.run("document.querySelector('[data-drain]').click()")
        b.until("1", "an answer")
        assert b.asked and b.asked[0].startswith("Drain node "), b.asked
        time.sleep(0.3)
        assert all(p.poll() is None for p in nodes)
        b.consent = True
        b.run("document.querySelector('[data-drain]').click()")
        b.until("document.querySelectorAll('[data-drain]').length === 1",
                "one node less")
        job.daemon.kill()
        job.daemon.wait()
        b.until("document.getElementById('link').textContent.startsWith("
                "'No connection')", "that the daemon is gone")
        job.follow()
        b.open(job.page())
        b.until("!!document.querySelector('[data-end]')",
                "the job, where it is served now")
        b.run("document.querySelector('[data-end]').click()")
        b.until("document.body.innerText.includes(\"run 'job' ends: \")",
                "the answer that the run ends")
        assert b.asked[-1].startswith("End run job?"), b.asked
        assert 84 in [p.wait(60) for p in nodes]
        # Its server ended with the launcher, and the page tries to reach it.
        b.complaints[:] = [c for c in b.complaints if "net::ERR" not in c]
        leave(b)
    finally:
        job.close()


TESTS = [each_state_has_its_cell, a_run_tells_its_story,
         time_goes_to_its_part, the_gone_are_forgotten, many_nodes_are_groups,
         texts_are_only_texts, it_fits_narrow_and_wide_screens,
         light_and_dark_can_be_read, the_keyboard_goes_everywhere,
         screen_readers_are_told, the_policy_holds,
         a_report_is_a_page_without_a_server, a_report_fits_on_paper,
         a_kill_is_seen_within_a_second, others_cannot_use_the_page_of_ddpctl,
         orders_are_given_after_a_question]


def play(test, b, fake):
    began = time.monotonic()
    b.complaints.clear()
    b.size(1280)
    try:
        test(b, fake)
        b.run("1")
        assert not b.complaints, b.complaints
        word = "ok   "
    except Exception: # whatever it is, the others are played, too
        traceback.print_exc(file=sys.stdout)
        word = "FAIL "
    print(f"{word} {test.__name__} {time.monotonic() - began:.1f} s", flush=True)
    return word == "ok   "


def main():
    names = sys.argv[2:]
    source = Job()
    b = Browser()
    try:
        fake = documents.Fake(source.url)
        failed = [t for t in TESTS if not names or t.__name__ in names
                  if not play(t, b, fake)]
    finally:
        b.close()
        source.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
