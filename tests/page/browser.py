"""A headless Chromium, driven over its DevTools protocol by a pair of pipes."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

LIMIT_S = 60
QUIET = ("--headless=new", "--remote-debugging-pipe", "--no-first-run",
         "--no-default-browser-check", "--disable-gpu", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--mute-audio", "--no-proxy-server",
         "--disable-dev-shm-usage", "--force-device-scale-factor=1")


class Browser:
    """One browser with one page. `complaints` has what its console and its
    policy complained about, and exceptions."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="page-browser-")
        down, self._to = os.pipe()
        self._from, up = os.pipe()
        # The program expects to read from 3 and to write to 4.
        keep = [os.dup(down), os.dup(up)]
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            ["sh", "-c", f'exec 3<&{keep[0]} 4>&{keep[1]}; exec "$@"', "sh",
             "chromium", *QUIET, *sandbox, "--user-data-dir=" + self.folder,
             "about:blank"],
            pass_fds=keep, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(self.folder, "stderr"), "wb"))
        for fd in (down, up, *keep):
            os.close(fd)
        self._read = b""
        self._last = 0
        self._session = None
        self.complaints = []
        self.asked = []      # what its dialogs said ...
        self.consent = False # ... and how they are answered
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", flatten=True,
                                  targetId=page["targetId"])["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Audits"):
            self.call(domain + ".enable")

    def _message(self, end):
        """The next message; None: there was none until `end`."""
        import select
        while b"\0" not in self._read:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                return None
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise RuntimeError("chromium ended: " + self._said())
            self._read += piece
        one, self._read = self._read.split(b"\0", 1)
        return json.loads(one)

    def _said(self):
        with open(os.path.join(self.folder, "stderr"), errors="replace") as f:
            return f.read()[-2000:]

    def _note(self, m):
        p = m.get("params", {})
        method = m.get("method")
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(p["exceptionDetails"])[:600])
        elif method == "Log.entryAdded" and p["entry"]["level"] != "info":
            self.complaints.append(p["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(p["args"])[:600])
        elif method == "Page.javascriptDialogOpening":
            self.asked.append(p["message"])
            self._send("Page.handleJavaScriptDialog",
                       {"accept": self.consent}) # its answer is of no interest
        elif method == "Audits.issueAdded":
            if p["issue"]["code"] == "ContentSecurityPolicyIssue":
                self.complaints.append(json.dumps(p["issue"])[:600])

    def _send(self, method, params):
        self._last += 1
        m = {"id": self._last, "method": method, "params": params}
        if self._session and not method.startswith("Target."):
            m["sessionId"] = self._session
        os.write(self._to, json.dumps(m).encode() + b"\0")
        return self._last

    def call(self, method, **params):
        """One request; its answer."""
        number = self._send(method, params)
        end = time.monotonic() + LIMIT_S
        while True:
            answer = self._message(end)
            if answer is None:
                raise RuntimeError(method + ": no answer: " + self._said())
            if answer.get("id") != number:
                self._note(answer)
            elif "error" in answer:
                raise RuntimeError(method + ": " + str(answer["error"]))
            else:
                return answer["result"]

    def run(self, script):
        """The value of an expression, which may be a promise."""
        r = self.call("Runtime.evaluate", expression=script,
                      returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(script + ": " + json.dumps(r["exceptionDetails"]))
        return r["result"].get("value")

    def until(self, script, what, limit_s=LIMIT_S):
        """Until an expression is true; returns it, and fails with `what`."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"{what}: not within {limit_s} s; the page has: " +
                             str(self.run("document.body.innerText"))[:1500])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def size(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": name}])

    def medium(self, name):
        """As on "print"; "" is the screen again."""
        self.call("Emulation.setEmulatedMedia", media=name)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=KEYS[name],
                      **({"text": "\r"} if name == "Enter" and kind == "keyDown" else {}))

    def names(self):
        """(role, name) of all that a screen reader is told."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", ""))
                for n in nodes if not n.get("ignored")]

    def picture(self, path, height=None):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"],
                "height": min(size["height"], height or 4000), "scale": 1}
        r = self.call("Page.captureScreenshot", format="png", clip=clip,
                      captureBeyondViewport=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(r["data"]))

    def close(self):
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(LIMIT_S)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self.folder, ignore_errors=True)


KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38,
        "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}
