//! What a command must not get at.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use skillbox_types::End;
use tokio_util::sync::CancellationToken;

use super::Harness;
use crate::misbehave;

pub async fn the_user_is_nobody_special(h: &Harness) {
    let ids = h.sh("id -u; id -g; id -G; id -un").await.ok();
    let ids: Vec<_> = ids.lines().collect();
    assert!(ids[..3].iter().all(|id| *id != "0" && id.parse::<u32>().is_ok()), "{ids:?}");
    assert!(!ids[3].is_empty());
    let status = h.sh("grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status").await.ok();
    for line in status.lines() {
        let (name, value) = line.split_once(':').unwrap();
        let value = value.trim();
        match name {
            "NoNewPrivs" => assert_eq!(value, "1"),
            "Seccomp" => assert_eq!(value, "2"),
            "Groups" => assert!(!value.split(' ').any(|group| group == "0"), "{value}"),
            _ => assert_eq!(value, "0000000000000000", "{name}"),
        }
    }
}

pub async fn f135_files_belong_to_the_sandbox_s_user(h: &Harness) {
    h.sh("echo x > file; mkdir -m 0700 dir; echo y > dir/inner; echo z > ~/in-home; chmod 000 dir/inner")
        .await
        .ok();
    let owner = h.sandbox().owner().unwrap_or_else(|| rustix::process::geteuid().as_raw());
    assert_ne!(owner, 0, "a sandbox must never be root on the host");
    for path in ["ws/file", "ws/dir", "home/in-home"] {
        assert_eq!(std::fs::metadata(h.outside().join(path)).unwrap().uid(), owner, "{path}");
    }
}

pub async fn set_uid_bits_are_refused(h: &Harness) {
    let script = "import os\nopen('a', 'w').close()\n\
                  def attempt(what, act):\n    try: act()\n    except OSError as e: print(what, e.strerror)\n\
                  attempt('chmod', lambda: os.chmod('a', 0o4755))\n\
                  attempt('chmod', lambda: os.chmod('a', 0o2755))\n\
                  attempt('open', lambda: os.close(os.open('b', os.O_CREAT | os.O_WRONLY, 0o6755)))\n\
                  attempt('mkdir', lambda: os.mkdir('d', 0o6755))\n\
                  attempt('mknod', lambda: os.mknod('dev', 0o20666, os.makedev(1, 3)))\n";
    h.python(script).await.expect_code(0);
    h.sh("cp /bin/sh shell; chmod u+s shell; chmod 4755 shell; install -m 6755 /bin/sh shell2; true")
        .await
        .ok();
    for entry in std::fs::read_dir(h.workspace()).unwrap() {
        let (entry, metadata) = entry.map(|e| (e.path(), e.metadata().unwrap())).unwrap();
        assert!(
            metadata.is_dir() || metadata.mode() & 0o6000 == 0,
            "{}: {:o}",
            entry.display(),
            metadata.mode()
        );
        assert!(metadata.is_dir() || metadata.is_file(), "{}", entry.display());
    }
}

pub async fn the_system_is_read_only(h: &Harness) {
    let script = "for dir in / /etc /usr /usr/bin /bin /lib /var /run /home /proc /proc/sys/kernel /dev /workspace/..; do \
                  (: > $dir/skillbox-was-here) 2>/dev/null && echo $dir; (mkdir $dir/skillbox-dir) 2>/dev/null && echo $dir; done; \
                  for file in /etc/passwd /usr/bin/env /proc/sys/kernel/core_pattern /proc/sysrq-trigger /etc/hosts; do \
                  (: >> $file) 2>/dev/null && [ $(wc -c < $file 2>/dev/null || echo 0) != 0 ] && echo $file; done; \
                  (echo x > /proc/sys/kernel/core_pattern) 2>/dev/null && echo wrote core_pattern; \
                  mv /workspace /elsewhere 2>/dev/null && echo moved; rm -rf /home/skillbox 2>/dev/null; test -d /home/skillbox || echo home; true";
    assert_eq!(h.sh(script).await.ok(), "");
    h.assert_usable().await;
}

pub async fn files_of_the_host_are_not_there(h: &Harness) {
    // Readable for everybody on the host.
    let secret = h.outside().join("secret.txt");
    std::fs::write(&secret, "the-secret").unwrap();
    let beside = std::env::current_exe().unwrap();
    let script = "for file in \"$@\"; do cat \"$file\" 2>/dev/null | head -c 100; ls -A \"$(dirname \"$file\")\" 2>/dev/null; done";
    let paths = [
        secret.to_str().unwrap(),
        "/etc/shadow",
        beside.to_str().unwrap(),
        "/var/log/x",
        "/run/docker.sock",
        "/boot/x",
    ];
    let argv = ["/bin/sh", "-c", script, "sh"].into_iter().chain(paths);
    let ran = h.run(h.plan(argv)).await;
    // /etc and /run may be listed; the host's own things are not in them.
    let output = ran.stdout();
    for line in ["the-secret", "secret.txt", "root:", "shadow", "docker.sock", "ELF"] {
        assert!(!output.contains(line), "{line}: {output}");
    }
    let devices = h.sh("for dev in mem kmem kmsg port sda vda nvme0n1 loop0 loop-control kvm fuse vsock net/tun mapper/control; do \
                        (: < /dev/$dev) 2>/dev/null && echo $dev; done; true");
    assert_eq!(devices.await.ok(), "");
}

pub async fn the_temporary_folder_is_private(h: &Harness) {
    let (in_tmp, in_shm) = (
        tempfile::NamedTempFile::new_in("/tmp").unwrap(),
        tempfile::NamedTempFile::new_in("/dev/shm").unwrap(),
    );
    let another = h.another().await;
    another.sh("touch /tmp/other /dev/shm/other ~/other").await.ok();
    assert_eq!(h.sh("ls -A /tmp /dev/shm ~").await.ok().matches("other").count(), 0);
    for file in [&in_tmp, &in_shm] {
        let path = file.path().to_str().unwrap();
        h.run(h.plan(["/usr/bin/test", "-e", path])).await.expect_code(1);
        h.run(h.plan(["/usr/bin/touch", &format!("{path}-inside")])).await.ok();
        assert!(!std::path::Path::new(&format!("{path}-inside")).exists());
    }
    another.sandbox().close().await.unwrap();
}

pub async fn f107_home_and_temporary_folders_are_usable_and_stay(h: &Harness) {
    let script = "d=$(mktemp -d) && touch $d/x ~/kept $TMPDIR/kept /dev/shm/kept && test -w $HOME && \
                  /usr/bin/python3 -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\")' && echo $HOME $TMPDIR";
    let first = h.sh(script).await.ok();
    let second = h.sh("ls ~/kept $TMPDIR/kept /dev/shm/kept > /dev/null && echo $HOME $TMPDIR").await.ok();
    assert_eq!(first, second);
    h.sh("touch /var/tmp/x && test -w .").await.ok();
}

pub async fn processes_of_the_host_are_not_visible(h: &Harness) {
    let mut secret =
        Command::new("/bin/sleep").arg("98765.4321").env("SECRET_OF_THE_HOST", "x").spawn().unwrap();
    let script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/1/environ 2>/dev/null | tr '\\0' '\\n'; \
                  ls -l /proc/1/root/ /proc/1/cwd/ /proc/1/exe /proc/1/fd 2>/dev/null; ls -d /proc/[0-9]* | wc -l";
    let output = h.sh(script).await.stdout();
    let gone = h.run(h.plan(["/bin/kill", "-0", &secret.id().to_string()])).await;
    secret.kill().unwrap();
    secret.wait().unwrap();
    for hidden in ["98765.4321", "SECRET_OF_THE_HOST", "CARGO", "->"] {
        assert!(!output.contains(hidden), "{hidden}: {output}");
    }
    let count: u32 = output.lines().last().unwrap().parse().unwrap();
    assert!(count < 20, "{count} processes are visible");
    assert_ne!(gone.end().exit_code(), 0);
}

pub async fn init_cannot_be_touched(h: &Harness) {
    let script = "kill -9 1; kill -STOP 1; kill -TERM 1; cat /proc/1/mem /proc/1/environ; ls /proc/1/fd; (: > /proc/1/fd/0); \
                  /usr/bin/python3 -c 'import ctypes; libc = ctypes.CDLL(None); print(\"traced\" if libc.ptrace(16, 1, 0, 0) == 0 else \"\", end=\"\")'; echo end";
    assert_eq!(h.sh(script).await.stdout(), "end\n");
    h.assert_usable().await;
    assert!(!h.sandbox().is_lost());
}

pub async fn kill_everything_leaves_the_sandbox_usable(h: &Harness) {
    for _ in 0..5 {
        let other = h.spawn(h.sh_plan("echo $$ > pid; exec /bin/sleep 60"), CancellationToken::new());
        h.until_written("pid").await;
        let ran = h.sh(misbehave::KILLS_EVERYTHING).await;
        // Where the killer's own keeper is among the killed, the killer ends with it.
        assert!(
            matches!(ran.end(), End::Exited { exit_code: 0 } | End::Signaled { signal: 9, .. }),
            "{:?}",
            ran.end()
        );
        let other = other.await.unwrap();
        assert!(matches!(other.end, End::Signaled { signal: 9, .. }), "{:?}", other.end);
        assert!(!h.sandbox().is_lost());
        h.assert_usable().await;
        assert!(!h.is_alive("pid").await);
        h.sh("rm pid").await.ok();
    }
}

pub async fn namespaces_and_mounts_are_refused(h: &Harness) {
    let script = "unshare -U true && echo unshare; unshare -m true && echo unshare-m; unshare -Ur true && echo unshare-r; \
                  mount -t tmpfs none /tmp && echo mount; umount /workspace && echo umount; umount -l /proc && echo umount-proc; \
                  chroot / true && echo chroot; nsenter -t 1 -m true && echo nsenter; hostname x && echo hostname; \
                  mount --bind / /tmp && echo bind; su -c true && echo su; date -s 2020-01-01 > /dev/null && echo date; swapoff -a && echo swapoff; true";
    assert_eq!(h.sh(&format!("({script}) 2>/dev/null")).await.stdout(), "");
    h.assert_usable().await;
}

pub async fn the_loopback_is_the_sandbox_s_own(h: &Harness) {
    // A server in one command, its client in another.
    let server = "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nopen('ready', 'w').write('x')\nc, _ = s.accept()\nc.sendall(c.recv(9).upper())\n";
    let running = h.spawn(h.python_plan(server), CancellationToken::new());
    h.until_written("ready").await;
    let client = "import socket\nc = socket.create_connection(('localhost', 8000))\nc.sendall(b'hello')\nprint(c.recv(9).decode())\n";
    let another = h.another().await;
    assert_ne!(another.python(client).await.end().exit_code(), 0, "another sandbox reached it");
    assert_eq!(h.python(client).await.ok(), "HELLO\n");
    assert!(running.await.unwrap().end.success());
    another.sandbox().close().await.unwrap();
}

pub async fn f116_the_network_is_not_there(h: &Harness) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (listener.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let name = format!("skillbox-contract-{}", std::process::id());
    let abstract_address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name)
            .unwrap();
    let abstract_listener = std::os::unix::net::UnixListener::bind_addr(&abstract_address).unwrap();
    let in_fs = h.outside().join("socket");
    let _fs_listener = std::os::unix::net::UnixListener::bind(&in_fs).unwrap();
    let script = format!(
        "import socket\n\
         def attempt(what, act):\n    try:\n        act()\n        print('reached', what)\n    except OSError: pass\n\
         socket.setdefaulttimeout(3)\n\
         for host, port in [('127.0.0.1', {tcp_port}), ('169.254.169.254', 80), ('10.0.0.1', 80), ('1.1.1.1', 53), ('::1', {tcp_port})]:\n\
         \x20   attempt(host, lambda: socket.create_connection((host, port)))\n\
         attempt('name', lambda: socket.getaddrinfo('example.com', 80))\n\
         u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         attempt('udp elsewhere', lambda: u.sendto(b'x', ('1.1.1.1', 53)))\n\
         try: u.sendto(b'x', ('127.0.0.1', {udp_port}))\n\
         except OSError: pass\n\
         attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'))\n\
         attempt('unix', lambda: socket.socket(socket.AF_UNIX).connect('{}'))\n\
         attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))\n\
         attempt('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))\n",
        in_fs.display()
    );
    let ran = h.python(&script).await.expect_code(0);
    assert_eq!(ran.stdout(), "");
    assert!(ran.took < std::time::Duration::from_secs(10), "{:?}", ran.took);
    assert!(listener.accept().is_err() && udp.recv(&mut [0; 9]).is_err());
    drop(abstract_listener);
}

pub async fn another_sandbox_is_out_of_reach(h: &Harness) {
    let another = h.another().await;
    another.put("secret.txt", "the-secret").await;
    let running =
        another.spawn(another.sh_plan("echo $$ > pid; exec /bin/sleep 54321"), CancellationToken::new());
    another.until_written("pid").await;
    let path = another.workspace();
    let script =
        "cat \"$1\"/s*.txt; ls \"$1\"; cat /proc/[0-9]*/cmdline; ls /workspace; cat /proc/[0-9]*/cwd/s*.txt";
    let output = h.run(h.plan(["/bin/sh", "-c", script, "sh", path.to_str().unwrap()])).await.stdout();
    for hidden in ["the-secret", "secret.txt", "54321\0"] {
        assert!(!output.contains(hidden), "{hidden}: {output}");
    }
    if let (Some(one), Some(two)) = (h.sandbox().owner(), another.sandbox().owner()) {
        assert_ne!(one, two, "two sandboxes share a user of the host");
    }
    h.sh(misbehave::KILLS_EVERYTHING).await;
    assert!(another.is_alive("pid").await);
    another.sandbox().close().await.unwrap();
    assert!(matches!(running.await.unwrap().end, End::SandboxLost { .. }));
    h.assert_usable().await;
}
