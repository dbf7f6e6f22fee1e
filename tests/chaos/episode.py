"""Plays one episode of tests/chaos: starts its jobs, lets the faults strike, looks
whether the jobs come back, has their workers end, and asks judge.py."""

import os
import random
import re
import signal
import subprocess
import time

import judge
import processes
from machines import Broken

START_S = 20.0  # until a job without faults is whole
SETTLE_S = 15.0  # ... after the last fault
ALONE_S = 5.0  # ... by itself, if it may have to wait for an operator
ORDER_S = 3.0  # an operator's order is carried out
RECONNECT_S = 60  # who finds no server any more gives up
END_S = RECONNECT_S + 10.0  # until the launchers have ended
LEFT_S = 3.0  # until nothing of them is left
TURN_S = 0.04
FRESH_US = 400000  # who runs has a beat as new as that


def now_us():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def waited_us():
    """For how long processes that could run waited for a CPU, since the start."""
    text = processes.read("/proc/pressure/cpu")
    return int(text.split("total=")[1].split()[0]) if text else 0


class Launcher:
    def __init__(self, job, machine, life):
        self.job, self.machine, self.life = job, machine, life
        self.name = f"{machine.name}{chr(ord('a') + life)}"
        self.process = None
        self.killed_at = None  # by the test

    def lives(self):
        return self.killed_at is None and self.process.poll() is None


class Beats:
    """The workers of all jobs, by the files that they write."""

    def __init__(self, folder):
        self.folder = folder
        self.workers = {}  # by file
        self.read_to = {}
        self.rest = {}

    def look(self):
        for entry in os.scandir(self.folder):
            if entry.name.endswith(".beats") and \
                    entry.stat().st_size > self.read_to.get(entry.name, 0):
                self.look_at(entry.name)

    def look_at(self, name):
        with open(os.path.join(self.folder, name)) as file:
            file.seek(self.read_to.get(name, 0))
            news = file.read()
        self.read_to[name] = self.read_to.get(name, 0) + len(news)
        text = self.rest.get(name, "") + news
        lines = text.split("\n")
        self.rest[name] = lines.pop()
        if name not in self.workers and lines:
            _, machine, _, _ = name.split(".")
            instance, number, rank, _, _, nodes = lines.pop(0).split()
            self.workers[name] = judge.Worker(
                machine[:-1], (instance, int(number)), int(rank), int(nodes), [])
        if lines:
            self.workers[name].beats += [int(line) for line in lines]

    def of(self, job):
        return [worker for name, worker in self.workers.items()
                if name.startswith(job.name + ".")]

    def names(self, job):
        """The launchers of the newest round. Others that were in one before it may
        find nobody any more, once it has ended: they are not asked."""
        world = judge.newest(self.of(job))
        return {name.split(".")[1] for name, worker in self.workers.items()
                if name.startswith(job.name + ".") and worker.world == world}


class Episode:
    def __init__(self, plan, network, programs, folder, is_ended):
        self.plan, self.network, self.folder = plan, network, folder
        self.programs = programs  # paths, by name
        self.is_ended = is_ended  # threading.Event: somebody ends us
        self.draw = random.Random(f"play {plan.seed}")
        self.beats = Beats(folder)
        self.launchers = {job.name: [] for job in plan.jobs}
        self.daemons = {}
        self.thaws = []
        self.frozen = {}  # by fault
        self.active = []  # faults that are to be mended
        self.verdicts = []  # (what, sentence)
        self.played = 0
        self.disturbed_at = -100.0
        self.told = {}  # job: when its workers were told to end
        self.disturbed = {}  # machine: when its last fault ended
        self.log_file = open(os.path.join(folder, "log"), "w")
        self.began = time.monotonic()
        self.waited_us = waited_us()

    # -- time, words ----------------------------------------------------------------

    def now(self):
        return time.monotonic() - self.began

    def log(self, *words):
        print(f"[{self.now():7.3f}]", *words, file=self.log_file, flush=True)

    def with_room(self, seconds):
        """A machine that others use as well gets up to three times as long."""
        share = (waited_us() - self.waited_us) / (1e6 * self.now() + 1)
        return seconds * (1 + 2 * min(1.0, share))

    def until(self, seconds, condition):
        """Whether it came true in time."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > self.with_room(seconds):
                return False
            self.turn()
        return True

    def turn(self):
        if self.is_ended.is_set():
            raise Broken("it was ended")
        self.beats.look()
        time.sleep(TURN_S)

    def say(self, what, sentence):
        self.log(f"{what}: {sentence}")
        self.verdicts.append((what, sentence))

    # -- starting ---------------------------------------------------------------------

    def environment(self, more):
        return {**os.environ, "TMPDIR": self.folder, **more}

    def spawn(self, machine, name, command, environment):
        with open(os.path.join(self.folder, name + ".out"), "a") as out, \
                open(os.path.join(self.folder, name + ".err"), "a") as err:
            return subprocess.Popen(
                machine.command(*command), stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, cwd=self.folder, env=environment)

    def token(self, job):
        path = os.path.join(self.folder, "token")
        if job.token and not os.path.exists(path):
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                file.write(f"{self.draw.getrandbits(256):064x}")
        return {"DDPRUN_TOKEN_FILE": path} if job.token else {}

    def start_daemon(self, name):
        """One for all jobs that have it among their places."""
        machine = self.network.machines[name]
        job = next(job for job in self.plan.jobs
                   if any(place.startswith(name + ":") for place in job.places))
        if name in self.daemons:
            self.daemons[name].wait()
        port = next(place for place in job.places
                    if place.startswith(name + ":")).split(":")[1]
        self.log("daemon", name)
        self.daemons[name] = self.spawn(
            machine, name, [self.programs["ddprdzvd"], f"--listen=0.0.0.0:{port}"],
            self.environment(self.token(job)))

    def command(self, job):
        conf = (f"heartbeat_timeout={job.heartbeat},last_call_timeout=0.3,"
                f"join_timeout=120,reconnect_timeout={RECONNECT_S}")
        return [self.programs["ddprun"], f"--nnodes={job.least}:{job.most}",
                f"--nproc_per_node={job.nproc}", "--max_restarts=1000000",
                "--scale_interval=0", "--shutdown_timeout=1", "--snapshot_memory=0",
                f"--rdzv_id={job.name}-{self.plan.seed}",
                f"--rdzv_endpoint={','.join(job.places)}",
                f"--rdzv_conf={conf}"]

    def start_launcher(self, job, machine, options=(), variables=None):
        life = sum(launcher.machine is machine
                   for launcher in self.launchers[job.name])
        launcher = Launcher(job, machine, life)
        self.log("launcher", job.name, launcher.name)
        name = f"{job.name}.{launcher.name}"
        variables = {"CHAOS_JOB": job.name, "CHAOS_NODE": launcher.name,
                     **self.token(job), **(variables or {})}
        events = f"--events={os.path.join(self.folder, name + '.events')}"
        launcher.process = self.spawn(
            machine, name, [*self.command(job), events, *options,
                            self.programs["beats"], self.folder],
            self.environment(variables))
        self.launchers[job.name].append(launcher)

    def start(self):
        watch = [self.programs["beats"], "--watch",
                 os.path.join(self.folder, "watch")]
        self.watch = subprocess.Popen(watch)
        for name in self.plan.proxies:
            self.network.machines[name].start_proxy()
            self.network.machines[name].redirect(True)
        for i in range(self.plan.daemons):
            self.start_daemon(f"s{i}")
        for job in self.plan.jobs:
            for name in job.machines:
                self.start_launcher(job, self.network.machines[name])

    # -- looking ----------------------------------------------------------------------

    def living(self, job):
        return [each for each in self.launchers[job.name] if each.lives()]

    def is_whole(self, job):
        """All launchers that live, up to MAX, are in the newest round, which has no
        others."""
        now = judge.running(self.beats.of(job), now_us() - FRESH_US)
        machines = {worker.machine for worker in now}
        nodes = min(job.most, len(self.living(job)))
        return len(machines) == nodes and len(now) == nodes * job.nproc \
            and now[0].nodes == nodes

    def missed_the_end(self, job):
        """The names of launchers that live, though others of the newest round have
        ended with 0, and whose machine had a fault since the workers were told to
        end. They find nobody any more, and give up in the end."""
        names = self.asked(job)
        ended = any(each.process.poll() == 0 for each in self.launchers[job.name]
                    if each.name in names)
        return {each.name for each in self.living(job) if ended
                and self.disturbed.get(each.machine.name, -1) > self.told[job.name]}

    def is_over(self, job):
        """All launchers of the newest round have ended, that could hear of it."""
        names = self.asked(job) - self.missed_the_end(job)
        return not any(each.name in names for each in self.living(job))

    def is_told(self, job):
        return os.path.exists(self.finish_file(job))

    def leader(self, job):
        """The machine of the launcher that serves; None: none does."""
        for launcher in self.living(job):
            if processes.parts(launcher.process.pid)["server"]:
                return launcher.machine
        return None

    # -- the faults -------------------------------------------------------------------

    def machine_of(self, fault):
        job = self.draw.choice(self.plan.jobs)
        if fault.machine != "leader":
            return self.network.machines.get(fault.machine)
        return self.leader(job) or self.network.machines[
            job.places[0].split(":")[0]]

    def on(self, machine):
        """The launchers that live there."""
        return [each for job in self.plan.jobs for each in self.living(job)
                if each.machine is machine]

    def may_kill(self, launchers):
        """See plan.py."""
        for job in {id(each.job): each.job for each in launchers}.values():
            left = len(self.living(job)) - 1
            ends_soon = job.finish is not None  # nobody is started again then
            if self.is_told(job) or left < 2 or (ends_soon and left < job.least):
                return False
            if not job.is_strict() and (
                    job.most < 3 or not self.is_whole(job) or self.active
                    or self.now() - self.disturbed_at < 2 * job.heartbeat):
                return False
        return True

    def strike(self, fault):
        machine = self.machine_of(fault)
        if fault.kind != "outage" and machine is None:
            raise Broken(f"no machine for {fault}")
        struck = getattr(self, "strike_" + fault.kind.replace("-", "_"))(
            fault, machine)
        self.log(fault.kind, machine.name if machine else "all", fault.other,
                 fault.how, f"for {fault.seconds:.2f} s" if fault.seconds else "",
                 "" if struck else "(not now)")
        if not struck:
            return
        self.played += 1
        if fault.seconds:
            self.active.append((self.now() + fault.seconds, fault, machine))
        self.disturbed_at = self.now() + fault.seconds
        names = self.plan.machines() if fault.kind == "outage" \
            else [machine.name, fault.other]
        self.disturbed.update(dict.fromkeys(names, self.disturbed_at))

    def mend(self, fault, machine):
        verb = getattr(self, "mend_" + fault.kind.replace("-", "_"))
        verb(fault, machine)
        self.log("mended:", fault.kind, machine.name if machine else "all")

    def pairs(self, fault, machine):
        names = self.plan.machines()
        others = [name for name in names if machine and name != machine.name]
        if fault.kind == "outage":
            return [(a, b) for a in names for b in names if a != b]
        if fault.kind == "pair":
            others = [fault.other] if fault.other != machine.name else []
        there = [(machine.name, other) for other in others]
        back = [(other, machine.name) for other in others]
        return {"in": back, "out": there, "there": there}.get(
            fault.how, there + back)

    def strike_cut(self, fault, machine):
        pairs = self.pairs(fault, machine)
        fault.pairs = pairs
        self.network.lose(pairs, True)
        return bool(pairs)

    def mend_cut(self, fault, machine):
        self.network.lose(fault.pairs, False)

    strike_isolate = strike_pair = strike_outage = strike_cut
    mend_isolate = mend_pair = mend_outage = mend_cut

    def strike_reject(self, fault, machine):
        if self.is_under(machine, "reject"):
            return False
        machine.firewall(*fault.how.split(" ", 1))
        return True

    def mend_reject(self, fault, machine):
        machine.firewall("input", None)

    def is_under(self, machine, *kinds):
        return any(on is machine and fault.kind in kinds
                   for _, fault, on in self.active)

    def strike_sockets(self, fault, machine):
        machine.kill_sockets()
        return True

    def strike_freeze(self, fault, machine):
        if self.is_under(machine, "freeze", "freeze-part"):
            return False
        processes.freeze(machine)
        return True

    def mend_freeze(self, fault, machine):
        self.thaws.append((machine.name, now_us()))
        # As a machine that goes on: nobody is first.
        pids = processes.on_machine(machine)
        self.draw.shuffle(pids)
        processes.send(pids, signal.SIGCONT)

    def strike_freeze_part(self, fault, machine):
        if self.is_under(machine, "freeze", "freeze-part"):
            return False
        found = [pid for launcher in self.on(machine)[:1]
                 for pid in processes.parts(launcher.process.pid)[fault.how]]
        self.frozen[id(fault)] = found
        processes.send(found, signal.SIGSTOP)
        return bool(found)

    def mend_freeze_part(self, fault, machine):
        processes.send(self.frozen.pop(id(fault)), signal.SIGCONT)

    def died(self, launchers):
        for launcher in launchers:
            launcher.killed_at = self.now()

    def strike_kill_part(self, fault, machine):
        launcher = next(iter(self.on(machine)), None)
        if launcher is None:
            return False
        found = processes.parts(launcher.process.pid)[fault.how]
        if not found:
            return False
        if fault.how in ("guard", "agent"):
            if not self.may_kill([launcher]):
                return False
            self.died([launcher])
        processes.send([self.draw.choice(found)], signal.SIGKILL)
        return True

    def strike_kill_launcher(self, fault, machine):
        """All of ddprun there and no worker, as by pkill -9 ddprun."""
        launcher = next(iter(self.on(machine)), None)
        if launcher is None or not self.may_kill([launcher]):
            return False
        found = processes.parts(launcher.process.pid)
        pids = found["launcher"]
        self.draw.shuffle(pids)
        first, last = {"guard first": ("guard", None), "guard last": (None, "guard"),
                       "agent last": (None, "agent")}[fault.how]
        pids.sort(key=lambda pid: (pid not in found.get(first, ()),
                                   pid in found.get(last, ())))
        self.died([launcher])
        processes.send(pids, signal.SIGKILL)
        return True

    def strike_kill_machine(self, fault, machine):
        """All that runs there; at once: nobody sees another one die."""
        if not self.on(machine) or not self.may_kill(self.on(machine)):
            return False
        self.died(self.on(machine))
        pids = processes.on_machine(machine)
        self.draw.shuffle(pids)
        if fault.how == "at once":
            pids = processes.freeze(machine)
        processes.send(pids, signal.SIGKILL)
        return True

    def strike_kill_most(self, fault, machine):
        """Half of the job's machines or more, but for one, which is any."""
        job = self.plan.jobs[0]
        if self.active or self.is_told(job) or not self.is_whole(job):
            return False
        machines = [each.machine for each in self.living(job)]
        most = self.draw.randint((len(machines) + 1) // 2, len(machines) - 1)
        for victim in self.draw.sample(machines, most):
            self.died(self.on(victim))
            pids = processes.on_machine(victim)
            self.draw.shuffle(pids)
            if fault.how == "at once":
                pids = processes.freeze(victim)
            processes.send(pids, signal.SIGKILL)
            self.log("killed:", victim.name)
        return True

    def strike_kill_daemon(self, fault, machine):
        if self.is_under(machine, "kill-daemon"):
            return False
        processes.send(processes.freeze(machine), signal.SIGKILL)
        return True

    def mend_kill_daemon(self, fault, machine):
        self.start_daemon(machine.name)

    def strike_proxy(self, fault, machine):
        if machine.proxy is None:
            return False
        machine.end_proxy(getattr(signal, "SIG" + fault.how))
        return True

    def mend_proxy(self, fault, machine):
        machine.start_proxy()

    # -- the course of it -------------------------------------------------------------

    def finish_file(self, job):
        return os.path.join(self.folder, job.name + ".finish")

    def finish(self, job):
        if not self.is_told(job):
            self.log("the workers of", job.name, "are told to end")
            open(self.finish_file(job), "w").close()
            self.told[job.name] = self.now()

    def storm(self):
        """The faults, each at its time, and their ends."""
        began = self.now()
        todo = list(self.plan.faults)
        while todo or self.active:
            at = self.now() - began
            for ends, fault, machine in list(self.active):
                if ends <= self.now():
                    self.active.remove((ends, fault, machine))
                    self.mend(fault, machine)
            for job in self.plan.jobs:
                if job.finish is not None and job.finish <= at:
                    self.finish(job)
            while todo and todo[0].at <= at:
                self.strike(todo.pop(0))
            self.turn()

    def start_again(self):
        """What was killed, where the job goes on."""
        for job in self.plan.jobs:
            for launcher in list(self.launchers[job.name]):
                if launcher.killed_at is None or self.is_told(job):
                    continue
                while self.now() < launcher.killed_at + 1.2 * job.heartbeat:
                    self.turn()
                self.start_launcher(job, launcher.machine)

    def lost_most(self, job):
        """Half of the newest round or more were killed: if they could not say
        farewell the others wait until an operator says that they are dead."""
        names = self.asked(job)
        dead = [each for each in self.launchers[job.name]
                if each.name in names and each.killed_at is not None]
        return bool(dead) and 2 * len(dead) >= len(names)

    def operators_order(self, job, place):
        """On that host: orders need no token there. Whether it was carried out."""
        host = place.split(":")[0]
        machine = next(each for each in self.network.machines.values()
                       if host in (each.name, each.address))
        done = subprocess.run(
            machine.command("timeout", str(ORDER_S), self.programs["ddpctl"],
                            f"--endpoint={place}", "go-on",
                            f"{job.name}-{self.plan.seed}", "--yes"),
            env=self.environment(self.token(job)), capture_output=True, text=True)
        self.log("go-on at", place, done.returncode,
                 (done.stdout + done.stderr).strip())
        return done.returncode == 0

    def go_on(self, job):
        """Where they say that they ask."""
        places = []
        for each in self.living(job):
            path = os.path.join(self.folder, f"{job.name}.{each.name}.err")
            places += re.findall(r"this node asks at ([0-9.]+:[0-9]+)",
                                 processes.read(path))[-1:]
        return any(self.operators_order(job, place)
                   for place in dict.fromkeys(places + job.places))

    def comes_back(self, job):
        def is_well():
            return self.is_over(job) if self.is_told(job) else self.is_whole(job)
        began = self.now()
        waits = self.lost_most(job)
        well = self.until(ALONE_S if waits else SETTLE_S, is_well)
        if not well and waits:
            self.go_on(job)
            well = self.until(SETTLE_S, is_well)
        if well:
            self.log(f"{job.name} is well after {self.now() - began:.1f} s")
            return
        running = judge.running(self.beats.of(job), now_us() - FRESH_US)
        self.say("stuck", f"{job.name}: {self.now() - began:.1f} s after the last "
                 f"fault {len(self.living(job))} launchers live, and "
                 f"{len(running)} workers of the newest round run")

    def is_stuck(self, job):
        return any(what == "stuck" and sentence.startswith(job.name)
                   for what, sentence in self.verdicts)

    def asked(self, job):
        """The names of the launchers that have to end alike."""
        return self.beats.names(job)

    def ends(self, job):
        self.finish(job)
        if not self.until(END_S, lambda: self.is_over(job)):
            self.say("stuck", f"{job.name}: its workers were told to end "
                     f"{END_S:.0f} s ago, and launchers live")
            return
        names = self.asked(job) - self.missed_the_end(job)
        statuses = {each.name: each.process.wait()
                    for each in self.launchers[job.name]
                    if each.killed_at is None and each.name in names}
        verdict = judge.ends(statuses)
        if verdict:
            self.say(verdict[0], f"{job.name}: {verdict[1]}")

    def leave(self):
        """Launchers that are in no round end by a signal; then nothing is left."""
        for job in self.plan.jobs:
            for launcher in self.living(job):
                launcher.process.kill()
        for daemon in self.daemons.values():
            daemon.kill()
        left = []

        def nothing():
            left[:] = [f"{processes.name(pid)} on {machine.name}"
                       for machine in self.network.machines.values()
                       for pid in processes.on_machine(machine)
                       if not processes.is_dead(pid)]
            return not left
        if not self.until(LEFT_S, nothing):
            self.say("left", ", ".join(left))

    def overlaps(self):
        self.beats.look()
        watch = processes.read(os.path.join(self.folder, "watch")).split()
        allowed_us = judge.late_us([int(at) for at in watch])
        self.log(f"a kill may come {allowed_us / 1000:.0f} ms late")
        for job in self.plan.jobs:
            for sentence in judge.overlaps(self.beats.of(job), self.thaws,
                                           allowed_us):
                self.say("overlap", f"{job.name}: {sentence}")

    def rounds(self):
        return len({worker.world for job in self.plan.jobs
                    for worker in self.beats.of(job)})

    def clear(self):
        """Whatever happened: nothing of it runs on, and all machines are well."""
        for machine in self.network.machines.values():
            machine.redirect(False)
            machine.firewall("input", None)
            machine.end_proxy(signal.SIGKILL)
            processes.send(processes.freeze(machine), signal.SIGKILL)
            if machine.name in self.plan.machines():
                machine.clear_memory()
        self.network.mend()
        self.watch.kill()
        self.watch.wait()
        for each in [launcher.process for all_of in self.launchers.values()
                     for launcher in all_of] + list(self.daemons.values()):
            each.wait()
        self.log_file.close()

    def play(self):
        try:
            self.start()
            for job in self.plan.jobs:
                if not self.until(START_S, lambda job=job: self.is_whole(job)):
                    self.say("stuck", f"{job.name}: it does not begin")
                    return
            self.storm()
            self.start_again()
            for job in self.plan.jobs:
                self.comes_back(job)
            for job in self.plan.jobs:
                if not self.is_stuck(job):
                    self.ends(job)
            if not self.verdicts:
                self.leave()
            self.overlaps()
        finally:
            self.clear()
