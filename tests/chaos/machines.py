"""The machines of tests/chaos: network namespaces at one switch, each with a host
name, a /dev/shm and an /etc/hosts of its own, and what can be done to their cables.

    h0, h1, ...   machines for launchers: 10.77.0.1, .2, ...
    s0, s1        machines for daemons: 10.77.0.101, .102

The switch has the faults of cables: a table of nft that drops what goes from one
machine to another. A machine has those of firewalls: they answer.
"""

import collections
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROXY_PORT = 19999


class Broken(Exception):
    """The test itself went wrong: nothing is said about the product."""


def run(*command, stdin=None, may_fail=False):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode != 0 and not may_fail:
        raise Broken(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


# Keeps a machine: what enters it enters the namespaces of this process.
HOLDER = """hostname "$1" && mount -t tmpfs tmpfs /dev/shm &&
    mount --bind "$2" /etc/hosts && echo ready && exec sleep infinity"""


class Machine:
    def __init__(self, name, number, namespace):
        self.name = name
        self.address = f"10.77.0.{number}"
        self.namespace = namespace
        self.holder = None
        self.proxy = None

    def hold(self, hosts):
        self.holder = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "--mount",
             "sh", "-c", HOLDER, "sh", self.name, hosts],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            raise Broken(f"no machine {self.name}")
        self.net = os.readlink(f"/proc/{self.holder.pid}/ns/net")

    def command(self, *words):
        """The words that execute these words there, in the process that does."""
        return ["nsenter", "-t", str(self.holder.pid), "-n", "-u", "-m",
                f"--wd={os.getcwd()}", "--", *words]

    def nft(self, rules):
        run(*self.command("nft", "-f", "-"), stdin=rules)

    def redirect(self, whether):
        """What its processes send to others by TCP goes to the proxy, or not."""
        rules = "add table ip proxy\ndelete table ip proxy\n"
        if whether:
            rules += f"""table ip proxy {{
                chain sent {{
                    type nat hook output priority -100;
                    ip daddr 10.77.0.0/16 ip daddr != {self.address} \
                        meta l4proto tcp meta mark != 7 redirect to :{PROXY_PORT}
                }}
            }}"""
        self.nft(rules)

    def start_proxy(self):
        self.proxy = subprocess.Popen(
            self.command(sys.executable, os.path.join(HERE, "proxy.py"),
                         str(PROXY_PORT)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.proxy.stdout.readline() != "ready\n":
            raise Broken(f"no proxy on {self.name}")

    def end_proxy(self, signal_number):
        if self.proxy is not None:
            self.proxy.send_signal(signal_number)
            self.proxy.wait()
            self.proxy.stdout.close()
        self.proxy = None

    def firewall(self, hook, answer):
        """It answers what comes in (input) or goes out (output); None: it is off."""
        rules = "add table inet fault\ndelete table inet fault\n"
        if answer is not None:
            interface = "iif" if hook == "input" else "oif"
            rules += f"""table inet fault {{
                chain faults {{
                    type filter hook {hook} priority 0;
                    {interface} != lo meta l4proto tcp {answer}
                }}
            }}"""
        self.nft(rules)

    def clear_memory(self):
        """Nothing of an episode is in its /dev/shm any more."""
        run(*self.command("find", "/dev/shm", "-mindepth", "1", "-delete"))

    def kill_sockets(self):
        """ss -K: each connection of the machine ends as by a reset."""
        run(*self.command("ss", "-K", "-t", "state", "all", "exclude", "listening"))


class Network:
    """All of the machines; `close` ends it."""

    def __init__(self, slot, folder, launchers, daemons):
        self.prefix = f"dpe{os.getpid()}-{slot}"  # tests/e2e/run removes what is left
        self.switch = self.prefix + "sw"
        self.machines = {}
        names = [(f"h{i}", i + 1) for i in range(launchers)]
        names += [(f"s{i}", i + 101) for i in range(daemons)]
        hosts = os.path.join(folder, f"hosts.{slot}")
        with open(hosts, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"10.77.0.{n} {name}\n" for name, n in names)
        try:
            self.make(names, hosts)
        except BaseException:
            self.close()
            raise

    def make(self, names, hosts):
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "-batch", "-", stdin="""link add br0 type bridge
            link set br0 up\n""")
        for name, number in names:
            machine = Machine(name, number, self.prefix + name)
            self.machines[name] = machine
            run("ip", "netns", "add", machine.namespace)
            run("ip", "-n", machine.namespace, "-batch", "-", stdin=f"""
                link add eth0 type veth peer name to-{name} netns {self.switch}
                address add {machine.address}/24 dev eth0
                link set lo up
                link set eth0 up\n""")
            machine.hold(hosts)
        run("ip", "-n", self.switch, "-batch", "-", stdin="".join(
            f"link set to-{name} master br0 up\n" for name, _ in names))
        self.mend()

    def nft(self, rules):
        run("ip", "netns", "exec", self.switch, "nft", "-f", "-", stdin=rules)

    def mend(self):
        """No cable has a fault any more."""
        self.lost = collections.Counter()
        self.nft("""add table bridge cables
            delete table bridge cables
            table bridge cables {
                set lost { type ifname . ifname; }
                chain faults {
                    type filter hook forward priority 0;
                    iifname . oifname @lost drop
                }
            }""")

    def lose(self, pairs, whether):
        """What the first sends to the second of a pair is lost from now on, or not
        any more: as often as that was said before."""
        self.lost.update({pair: 1 if whether else -1 for pair in pairs})
        elements = ", ".join(f'"to-{a}" . "to-{b}"'
                             for (a, b), times in self.lost.items() if times > 0)
        rules = "flush set bridge cables lost\n"
        if elements:
            rules += f"add element bridge cables lost {{ {elements} }}"
        self.nft(rules)

    def close(self):
        for machine in self.machines.values():
            for process in (machine.proxy, machine.holder):
                if process is not None:
                    process.kill()
                    process.wait()
                    process.stdout.close()
            run("ip", "netns", "del", machine.namespace, may_fail=True)
        run("ip", "netns", "del", self.switch, may_fail=True)
