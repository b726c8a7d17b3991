//! Nothing leads out of a confined directory.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;

use skillbox_fs::{ConfinedDir, FsError, WriteOptions, remove_tree, save_file};

use crate::import::mode_of;

fn fifo(path: &std::path::Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn f119_links_are_not_followed_at_any_place() {
    let folder = tempfile::tempdir().unwrap();
    let ws = folder.path().join("ws");
    fs::create_dir_all(ws.join("out/real")).unwrap();
    fs::write(folder.path().join("secret"), "s").unwrap();
    fs::write(ws.join("out/real/f"), "f").unwrap();
    symlink("/proc/self", ws.join("out/hop")).unwrap();
    symlink("../../..", ws.join("out/a")).unwrap();
    symlink("real", ws.join("out/inner")).unwrap();
    let dir = ConfinedDir::open(&ws).unwrap();
    for path in ["out/hop/environ", "out/a/secret", "out/inner/f"] {
        let error = dir.open_regular(path).unwrap_err();
        assert!(matches!(error, FsError::Link { .. } | FsError::NotADirectory { .. }), "{path}: {error}");
        assert!(dir.write_file(path, &mut &b"x"[..], &WriteOptions::default()).is_err(), "{path}");
        assert!(dir.create_dir_all(path, 0o755, None).is_err(), "{path}");
        assert!(dir.metadata(path).is_err(), "{path}");
    }
    for path in ["../secret", "out/../../secret", "/etc/passwd", "out//x", "./out", "out/", "a\0b"] {
        assert!(matches!(dir.open_regular(path), Err(FsError::InvalidPath { .. })), "{path}");
    }
    assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"s");
}

#[test]
fn f120_only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    symlink("/etc/hostname", folder.path().join("x.txt")).unwrap();
    fifo(&folder.path().join("p"));
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    let dir = ConfinedDir::open(folder.path()).unwrap();
    assert!(matches!(dir.open_regular("x.txt"), Err(FsError::Link { .. })));
    for path in ["p", "s", "d"] {
        let error = dir.open_regular(path).unwrap_err();
        assert!(matches!(error, FsError::NotRegular { .. }), "{path}: {error}");
    }
    assert!(matches!(dir.open_regular("nothing"), Err(FsError::NotFound { .. })));
}

#[test]
fn writing_replaces_a_link_instead_of_writing_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    fs::write(&outside, "keep").unwrap();
    fs::create_dir(folder.path().join("ws")).unwrap();
    symlink(&outside, folder.path().join("ws/f")).unwrap();
    let dir = ConfinedDir::open(&folder.path().join("ws")).unwrap();
    let options = WriteOptions { mode: 0o640, ..WriteOptions::default() };
    assert_eq!(dir.write_file("f", &mut &b"new"[..], &options).unwrap(), 3);
    assert_eq!(fs::read(&outside).unwrap(), b"keep");
    assert_eq!(dir.read("f", 10).unwrap(), b"new");
    assert_eq!(mode_of(&folder.path().join("ws/f")), 0o640);
    assert!(matches!(dir.read("f", 2), Err(FsError::TooLarge { limit: 2, .. })));
    // A folder in the way, a file that may not be replaced, too many bytes: nothing is left behind.
    fs::create_dir(folder.path().join("ws/d")).unwrap();
    assert!(matches!(dir.write_file("d", &mut &b"x"[..], &options), Err(FsError::Exists { .. })));
    let keep = WriteOptions { replace: false, ..options };
    assert!(matches!(dir.write_file("f", &mut &b"x"[..], &keep), Err(FsError::Exists { .. })));
    let short = WriteOptions { max_bytes: 1, ..options };
    assert!(matches!(dir.write_file("g", &mut &b"xx"[..], &short), Err(FsError::TooLarge { .. })));
    let names: Vec<_> = dir.list("").unwrap().iter().map(skillbox_types::FileName::display).collect();
    assert_eq!(names, ["d", "f"]);
}

/// Works on the small file system at `full`, if it was mounted.
#[test]
fn child_on_a_full_disk() {
    let Some(folder) = crate::child::folder() else { return };
    let dir = ConfinedDir::open(&folder.join("full")).unwrap();
    dir.create_dir_all("t/read-only/deep", 0o500, None).unwrap();
    let mut filled = 0;
    let error = loop {
        match dir.write_file(format!("t/{filled}").as_str(), &mut &[b'x'; 4096][..], &WriteOptions::default())
        {
            Ok(_) => filled += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, FsError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("free some space"));
    assert!(dir.list("t").unwrap().len() == filled + 1, "nothing half-made is left");
    remove_tree(dir.as_fd(), b"t").unwrap();
    assert!(dir.list("").unwrap().is_empty());
}

#[test]
fn a_full_disk_has_its_own_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("full")).unwrap();
    let test = crate::child::command("confined::child_on_a_full_disk", folder.path());
    let script = "mount -t tmpfs -o size=128k none \"$0/full\" && exec \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]).arg(folder.path());
    command.arg(test.get_program()).args(test.get_args());
    command.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Ok(output) = command.output() else {
        println!("left out: unshare(1) is not installed");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("unshare:") || errors.contains("mount:") {
        println!("left out: mounting is not allowed here: {errors}");
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

#[test]
fn paths_longer_than_the_kernel_takes_at_once_still_work() {
    let folder = tempfile::tempdir().unwrap();
    let dir = ConfinedDir::open(folder.path()).unwrap();
    let path = vec!["d".repeat(200); 30].join("/");
    assert!(path.len() > 4096);
    let deep = dir.create_dir_all(path.as_str(), 0o755, None).unwrap();
    deep.write_file("f", &mut &b"x"[..], &WriteOptions::default()).unwrap();
    let (mut file, metadata) = dir.open_regular(format!("{path}/f").as_str()).unwrap();
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), metadata.size), ("x", 1));
}

#[test]
fn saving_creates_folders_and_follows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = ConfinedDir::open(folder.path()).unwrap();
    assert_eq!(save_file(&dir, "out/sub/a.txt", &mut &b"abc"[..]).unwrap(), 3);
    assert_eq!(save_file(&dir, "out/sub/a.txt", &mut &b"abcd"[..]).unwrap(), 4);
    assert_eq!(fs::read(folder.path().join("out/sub/a.txt")).unwrap(), b"abcd");
    symlink("/tmp", folder.path().join("link")).unwrap();
    assert!(matches!(
        save_file(&dir, "link/x", &mut &b""[..]),
        Err(FsError::Link { .. } | FsError::NotADirectory { .. })
    ));
    assert!(matches!(save_file(&dir, "../x", &mut &b""[..]), Err(FsError::InvalidPath { .. })));
    save_file(&dir, "link", &mut &b"now a file"[..]).unwrap();
    assert_eq!(fs::read(folder.path().join("link")).unwrap(), b"now a file");
}

#[test]
fn a_racing_script_cannot_lead_a_reader_out() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let ws = folder.path().join("ws");
    fs::create_dir_all(ws.join("real")).unwrap();
    fs::create_dir(folder.path().join("outside")).unwrap();
    fs::write(ws.join("real/f"), "inside").unwrap();
    fs::write(folder.path().join("outside/f"), "SECRET").unwrap();
    symlink("../outside", ws.join("evil")).unwrap();
    fs::rename(ws.join("real"), ws.join("d")).unwrap();
    let dir = ConfinedDir::open(&ws).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let (a, b) = (ws.join("d"), ws.join("evil"));
                rustix::fs::renameat_with(rustix::fs::CWD, &a, rustix::fs::CWD, &b, flags).unwrap();
            }
        });
        let mut read = 0;
        for _ in 0..20_000 {
            if let Ok(content) = dir.read("d/f", 100) {
                assert_eq!(content, b"inside");
                read += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(read > 0);
    });
}
