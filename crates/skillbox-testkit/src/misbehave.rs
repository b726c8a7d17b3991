//! Programs that misbehave, as scripts for `/bin/sh` and for Python.
//!
//! Those that stay alive write their process number to a file in the working directory first, so that a test can see whether they
//! still run; see [`Harness::is_alive`](crate::contract::Harness::is_alive).

/// The Python that scripts are run with; no version manager's stand-in is in its way.
pub const PYTHON: &str = "/usr/bin/python3";

/// Ends neither for TERM nor for INT nor for HUP. Writes `pid`.
pub const DEAF: &str = "trap '' TERM INT HUP; echo $$ > pid; while :; do /bin/sleep 1000; done";

/// Writes `goodbye` when it is asked to end, and does so. Writes `pid`.
pub const POLITE: &str =
    "trap 'echo bye > goodbye; exit 7' TERM; echo $$ > pid; while :; do /bin/sleep 1000 & wait; done";

/// Leaves a child behind that is in the same process group. Writes `pid`.
pub const LEAVES_A_CHILD: &str = "/bin/sleep 1000 & echo $! > pid; echo done";

/// Leaves a process behind that forked twice into a session of its own and holds no pipe. Writes `pid`.
pub const DAEMON: &str = r#"
/usr/bin/setsid /bin/sh -c '/bin/sh -c "echo \$\$ > pid.tmp; mv pid.tmp pid; exec /bin/sleep 1000" &' > /dev/null 2>&1 < /dev/null
while [ ! -s pid ]; do :; done
echo done
"#;

/// Leaves a process behind that forked twice into a session of its own and holds all pipes open. Writes `pid`.
pub const CLINGING_DAEMON: &str = r#"
/usr/bin/setsid /bin/sh -c '/bin/sh -c "echo \$\$ > pid.tmp; mv pid.tmp pid; exec /bin/sleep 1000" &'
while [ ! -s pid ]; do :; done
echo done
"#;

/// Kills everything that it may kill.
pub const KILLS_EVERYTHING: &str = "kill -9 -1; echo survived";

/// Closes its output and stays. Writes `pid`.
pub const CLOSES_ITS_OUTPUT: &str = "echo $$ > pid; exec /bin/sleep 1000 >&- 2>&-";

/// Stops itself. Writes `pid`.
pub const STOPS_ITSELF: &str = "echo $$ > pid; kill -STOP $$; echo continued";

/// Writes to both streams without end.
pub const FLOODS: &str = "yes err >&2 & exec yes out";

/// A fork bomb that ends by itself at `count` processes, should nothing else end it; every process is in a session of its own.
pub fn fork_bomb(count: u32) -> String {
    format!(
        "import os, time\n\
         made = os.open('made', os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)\n\
         end = time.monotonic() + 60\n\
         while time.monotonic() < end and os.fstat(made).st_size < {count}:\n\
         \x20   try:\n\
         \x20       if os.fork() == 0:\n\
         \x20           os.setsid()\n\
         \x20           os.write(made, b'x')\n\
         \x20   except OSError:\n\
         \x20       pass\n\
         time.sleep(60)\n"
    )
}

/// `count` busy processes, each in a session of its own; prints `busy` when all of them are.
pub fn busy(count: u32) -> String {
    format!(
        "import os, sys, time\n\
         read, write = os.pipe()\n\
         for _ in range({count}):\n\
         \x20   if os.fork() == 0:\n\
         \x20       os.setsid()\n\
         \x20       os.write(write, b'x')\n\
         \x20       end = time.monotonic() + 60\n\
         \x20       while time.monotonic() < end: pass\n\
         \x20       os._exit(0)\n\
         got = 0\n\
         while got < {count}: got += len(os.read(read, 4096))\n\
         print('busy', flush=True)\n\
         time.sleep(60)\n"
    )
}

/// Takes memory page by page and says so, or says that it was refused and exits with 9.
pub fn allocate(mebibytes: u32) -> String {
    format!(
        "import sys\n\
         held = []\n\
         try:\n\
         \x20   for _ in range({mebibytes}): held.append(b'\\xa5' * (1 << 20))\n\
         except MemoryError:\n\
         \x20   held.clear()\n\
         \x20   print('refused')\n\
         \x20   sys.exit(9)\n\
         print('took all')\n"
    )
}

/// Forks until it is refused or `most` children wait, and prints how many it got.
pub fn fork_until_refused(most: u32) -> String {
    format!(
        "import os, signal, time\n\
         children = []\n\
         try:\n\
         \x20   while len(children) < {most}:\n\
         \x20       pid = os.fork()\n\
         \x20       if pid == 0:\n\
         \x20           time.sleep(60)\n\
         \x20           os._exit(0)\n\
         \x20       children.append(pid)\n\
         except OSError as error:\n\
         \x20   print(error.strerror)\n\
         print(len(children))\n\
         for pid in children: os.kill(pid, signal.SIGKILL)\n\
         for pid in children: os.waitpid(pid, 0)\n"
    )
}
