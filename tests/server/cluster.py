"""A primary and a streaming standby, both real and nobody else's, for tests of failovers.

    cluster = Cluster()                       # primary and standby stream, asynchronously
    url = cluster.database("jobs")            # on the primary first, then on the standby
    cluster.cut()                             # what is committed from here on is lost by...
    cluster.primary.crash()
    cluster.promote()                         # ...this; primary and standby have changed places
    cluster.standby.start()                   # the old primary, which nobody has fenced
    cluster.end()

Everything waits for a condition, nothing for a time. Nodes end with the test, however it ends.
"""
import atexit
import os
import shutil
import signal
import subprocess
import tempfile

from trouble import PATIENCE_S, check, free_port, psql, start, until

SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 100
shared_buffers = 16MB
max_wal_size = 256MB
wal_keep_size = 256MB
wal_retrieve_retry_interval = 100ms
wal_receiver_status_interval = 100ms
hot_standby = on
fsync = off
log_min_messages = warning
"""


def newest_server():
    """The directory of the newest server's programs, as scripts/with-postgres finds it."""
    root = "/usr/lib/postgresql"
    versions = [name for name in (os.listdir(root) if os.path.isdir(root) else [])
                if os.access(f"{root}/{name}/bin/initdb", os.X_OK)]
    if versions:
        return f"{root}/{max(versions, key=lambda name: [int(n) for n in name.split('.')])}/bin"
    found = shutil.which("initdb")
    check(found, "no PostgreSQL server is installed; see scripts/install-deps")
    return os.path.dirname(found)


BIN = newest_server()


def as_postgres(*command):
    """A server does not run as root. Whoever starts one takes it along when it dies."""
    if os.getuid() != 0:
        return command
    return ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig",
            "KILL", *command)


def run_as_postgres(*command):
    done = subprocess.run(as_postgres(*command), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, cwd="/", timeout=PATIENCE_S, check=False)
    check(done.returncode == 0, command, done.stdout, done.stderr)


class Node:
    """One PostgreSQL: its directory, its port and, while it runs, its process."""

    def __init__(self, home, name):
        self.name = name
        self.data = os.path.join(home, name)
        self.log = os.path.join(home, name + ".log")
        self.port = free_port()
        self.process = None

    def url(self, database="postgres"):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def say(self, sql, database="postgres"):
        """One statement, as a superuser; its result without the last line's end."""
        return psql(self.url(database), sql).strip()

    def create(self, settings=""):
        run_as_postgres(BIN + "/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E",
                        "UTF8", "--locale=C", "--no-sync")
        with open(self.data + "/postgresql.conf", "a", encoding="utf-8") as file:
            file.write(SETTINGS + settings)

    def start(self, **environment):
        """Starts it as what its directory says that it is, and waits until it takes connections.
        A port that somebody has taken meanwhile is a failure: the other nodes know the old one."""
        check(self.process is None, self.name, "runs already")
        with open(self.log, "ab") as log:
            self.process = start(
                *as_postgres("env", *(f"{name}={value}" for name, value in environment.items()),
                             BIN + "/postgres", "-D", self.data, "-p", str(self.port)),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        until(f"PostgreSQL {self.name}", self.answers, why=self.last_words)

    def answers(self):
        check(self.process.poll() is None, self.name, "has ended", self.last_words())
        done = subprocess.run([BIN + "/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                              timeout=PATIENCE_S, check=False)
        return done.returncode == 0

    def last_words(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]

    def end_by(self, number):
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)
        self.process = None

    def crash(self):
        """At once, as if it were killed; its memory is gone, what it wrote is there."""
        self.end_by(signal.SIGQUIT)

    def stop(self):
        """In order: clients are thrown out, the rest of its log is sent to who follows."""
        self.end_by(signal.SIGINT)

    def freeze(self):
        """Its processes stop answering, and no connection breaks; `thaw` lets them go on."""
        for process in self.processes():
            os.kill(process, signal.SIGSTOP)

    def thaw(self):
        for process in self.processes():
            os.kill(process, signal.SIGCONT)

    def processes(self):
        main = self.process.pid
        with open(f"/proc/{main}/task/{main}/children", encoding="ascii") as children:
            return [main, *(int(child) for child in children.read().split())]

    def set(self, name, value):
        """A setting that takes effect with a reload; None: its default."""
        quoted = None if value is None else value.replace("'", "''")
        self.say(f"ALTER SYSTEM RESET {name}" if value is None else
                 f"ALTER SYSTEM SET {name} = '{quoted}'")
        self.say("SELECT pg_reload_conf()")
        shown = value or ""
        until(f"{name} = {value}", lambda: value is None or
              self.say(f"SELECT setting FROM pg_file_settings WHERE name = '{name}'"
                       " AND applied ORDER BY seqno DESC LIMIT 1") == shown)

    def is_standby(self):
        return self.say("SELECT pg_is_in_recovery()") == "t"

    def timeline(self):
        """Of what it writes; only of a primary."""
        return int(self.say("SELECT pg_walfile_name(pg_current_wal_lsn())")[:8], 16)

    def followers(self):
        return int(self.say("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"))

    def position(self):
        return self.say("SELECT pg_current_wal_flush_lsn()")

    def has(self, position):
        """Whether a standby has replayed the log up to there."""
        return self.say(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn") == "t"


class Cluster:
    """Two nodes, of which one follows the other. `synchronous`: commits wait for the standby."""

    def __init__(self, synchronous=False, settings=""):
        # A directory of its own: the server's user must get there.
        self.home = tempfile.mkdtemp(prefix="pawl-cluster-", dir="/tmp")
        atexit.register(self.end)
        os.chmod(self.home, 0o755)
        if os.getuid() == 0:
            shutil.chown(self.home, "postgres", "postgres")
        self.primary = Node(self.home, "a")
        self.standby = Node(self.home, "b")
        self.primary.create(settings)
        self.primary.start()
        self.follow()
        if synchronous:
            self.set_synchronous(True)

    def conninfo(self):
        return f"host=127.0.0.1 port={self.primary.port} user=postgres application_name=standby"

    def follow(self):
        """Makes the standby a fresh copy of the primary, which follows it from then on."""
        if self.standby.process:
            self.standby.crash()
        shutil.rmtree(self.standby.data, ignore_errors=True)
        run_as_postgres(BIN + "/pg_basebackup", "-d", self.conninfo(), "-D", self.standby.data,
                        "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with open(self.standby.data + "/postgresql.auto.conf", "a", encoding="utf-8") as file:
            file.write(f"primary_conninfo = '{self.conninfo()}'\nsynchronous_standby_names = ''\n")
        self.standby.start()
        until("the standby", lambda: self.primary.followers() == 1, why=self.standby.last_words)

    def set_synchronous(self, wanted):
        """Whether the primary's commits wait for the standby."""
        self.primary.set("synchronous_standby_names", "*" if wanted else "")
        if wanted and self.primary.followers():
            until("a synchronous standby", lambda: self.primary.say(
                "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1")

    def catch_up(self):
        """Waits until the standby shows all that is committed on the primary now."""
        position = self.primary.position()
        until("the standby's catching up", lambda: self.standby.has(position))

    def cut(self):
        """Ends the replication: the standby keeps what it has and gets no more. Both go on."""
        self.catch_up()
        self.standby.set("primary_conninfo", "")
        until("the end of replication", lambda: self.primary.followers() == 0)

    def heal(self):
        """The standby follows again, if it has not been promoted."""
        self.standby.set("primary_conninfo", self.conninfo())
        until("the standby", lambda: self.primary.followers() == 1)

    def promote(self):
        """The standby becomes the primary, on a new timeline; the other one is called the standby
        from then on, whether it runs or not."""
        self.standby.say("SELECT pg_promote(true, 60)")
        until("the promotion", lambda: not self.standby.is_standby())
        self.primary, self.standby = self.standby, self.primary

    def fail_over(self):
        """The primary crashes, what the standby has not got is lost, and the standby is promoted."""
        self.primary.crash()
        self.promote()

    def database(self, name, options="target_session_attrs=read-write"):
        """Creates a database and gives the URL that names both nodes."""
        self.primary.say(f"CREATE DATABASE {name}")
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgres://postgres@{hosts}/{name}?{options}"

    def end(self):
        for node in (self.standby, self.primary):
            if node.process:
                node.process.send_signal(signal.SIGCONT)
                node.crash()
        shutil.rmtree(self.home, ignore_errors=True)
