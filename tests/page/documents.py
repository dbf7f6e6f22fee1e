"""Documents as /events sends them, and a server that sends those that a test
gives it, with the page and the headers of a real daemon."""

import http.server
import json
import queue
import threading
import urllib.request

STATES = ("running", "done", "waiting", "spare", "stopping", "leaving",
          "quarantined", "absent")


def node(i, state="running", **more):
    placed = state not in ("waiting", "spare", "quarantined")
    return {"name": f"node{i}", "agent": f"{i:012x}", "state": state,
            "group_rank": i if placed else -1,
            "base_rank": 8 * i if placed else -1, "nproc": 8, "strikes": 0,
            "addr": f"10.0.0.{i}", "connected": state != "absent",
            "lease_s": 4.2, "uptime_s": 99.0, "hosts": i == 0,
            "role": "default", "step": 41230 + i % 7, **more}


def run(nodes_list, **more):
    return {"id": "llama-8b", "instance": "7fe3698377be", "state": "active",
            "round": 7, "backend": "c10d", "prog": "train.py",
            "nodes_min": 4, "nodes_max": 16, "nodes": len(nodes_list), "spares": 0,
            "absent": 0, "world_size": 8 * len(nodes_list),
            "master_addr": "10.0.0.1", "master_port": 29511, "restarts": 2,
            "max_restarts": 10, "window_s": 0, "restarts_in_window": 2,
            "uptime_s": 19563.2, "round_uptime_s": 4510.0,
            "authority": {"term": 3, "leads": True, "may_act": True,
                         "voters": 12, "here": 12, "answer": 11},
            "goodput": {"wall_s": 19563.2, "ran_s": 19120.0, "waited_s": 310.0,
                        "detect_s": 41.2, "restart_s": 92.0, "share": 0.977, "phase": "ran",
                        "repeated_steps": 118, "repeated_s": 61.4},
            "timeline": [
                round_of(5, 8210.0, "failed", "rank 37 on node4: SIGKILL",
                         restart_s=21.0),
                round_of(6, 6400.0, "lost", "node9 was lost", nodes=13,
                         detect_s=40.0, waited_s=309.6, restart_s=71.0),
                round_of(7, 4510.0)],
            "timeline_left_out": 0,
            "progress": {"step": 41230, "step_max": 41236, "steps_per_s": 2.14,
                         "mirrored": 41228, "mirrored_behind": 2,
                         "slow": [{"rank": 12, "node": "node1", "local_rank": 4,
                                   "slower_permille": 123, "part_s": 0.1123,
                                   "since_s": 75.0}],
                         "slowest": [
                             {"rank": 8, "node": "node1", "step": 41230},
                             {"rank": 61, "node": "node7", "step": 41231}]},
            "last_failure": {
                "round": 6, "node": "node4", "rank": 37, "local_rank": 5,
                "pid": 4711, "code": 1, "signal": 0, "age_s": 4602.0,
                "text": "exited with status 1",
                "tail": ["Traceback (most recent call last):",
                         '  File "train.py", line 210, in <module>',
                         "    loss.backward()",
                         "torch.OutOfMemoryError: CUDA out of memory"]},
            "nodes_list": nodes_list, **more}


def round_of(number, ran_s, ended=None, text="", nodes=12, **cost):
    r = {"round": number, "term": 3, "sealed_unix": 1763860000 + 9000 * number,
         "nodes": nodes, "world_size": 8 * nodes, "ran_s": ran_s, **cost}
    return r if ended is None else {**r, "ended": ended, "text": text}


def document(*runs, **more):
    return {"version": "0.3.0", "incarnation": "10ccec7655144176",
            "uptime_s": 86000.0, "token": False, "connections": 14,
            "runs": list(runs), "runs_left_out": 0, **more}


def busy():
    """One run with most of what there is."""
    nodes = [node(i) for i in range(12)]
    nodes[4]["failed_first"] = True
    nodes[4]["strikes"] = 2
    nodes[9] = node(9, "absent")
    nodes += [node(12, "spare"), node(13, "quarantined", strikes=3)]
    return run(nodes, absent=1, spares=1)


def large():
    """10,000 nodes, in groups."""
    groups = [{"first": 100 * i, "nodes": 100, "ranks": 800, "running": 100}
              for i in range(100)]
    groups[17] = {"first": 1700, "nodes": 100, "ranks": 800, "running": 98,
                  "absent": 2}
    groups[61] = {"first": 6100, "nodes": 99, "ranks": 792, "running": 96,
                  "stopping": 3}
    groups.append({"first": -1, "nodes": 8, "ranks": 64, "spare": 8})
    sick = [node(1702, "absent"), node(1744, "absent"),
            *(node(6100 + i, "stopping") for i in range(3))]
    return run(sick, id="frontier", groups=groups, group_size=100, unwell=5,
               nodes=10000, world_size=80000, last_failure=None)


class Fake(http.server.ThreadingHTTPServer):
    """Serves the page of the daemon at `url`; `show` sends a document."""
    daemon_threads = True

    def __init__(self, url):
        ask = urllib.request.Request(url, headers={"Accept": "text/html"})
        with urllib.request.urlopen(ask, timeout=30) as answer:
            self.page = answer.read()
            self.headers = [(k, v) for k, v in answer.getheaders()
                            if k not in ("Connection", "Content-Length")]
        self.viewers = []
        self.last = None
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def show(self, doc):
        self.last = doc
        for viewer in self.viewers:
            viewer.put(doc)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        if self.path == "/":
            for k, v in self.server.headers:
                self.send_header(k, v)
            self.end_headers()
            self.wfile.write(self.server.page)
            return
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        mine = queue.Queue()
        mine.put(self.server.last)
        self.server.viewers.append(mine)
        while True:
            doc = mine.get()
            if doc is None:
                return
            try:
                self.wfile.write(f"data: {json.dumps(doc)}\n\n".encode())
                self.wfile.flush()
            except OSError:
                return
