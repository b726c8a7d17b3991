//! The template: the read-only root that every sandbox starts from.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::mount::{Attr, attach, clone_tree, make_read_only, new_filesystem};

use super::message::{LauncherConfig, LauncherError, SetupReport, Step as _};

/// The workspace as a sandbox sees it.
pub(crate) const WORKSPACE: &str = "/workspace";
/// The home folder as a sandbox sees it.
pub(crate) const HOME: &str = "/home/skillbox";
/// The uid and gid inside.
pub(crate) const INNER_ID: u32 = 1000;

/// Directories of the root that hold programs; each is a link or a directory on the host, and is made the same here.
const SYSTEM_DIRS: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Parts of /etc that programs need and that hold no secret.
const ETC: [&str; 8] = [
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "ssl/openssl.cnf",
    "mime.types",
    "fonts",
];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Where the root is put together; any directory that every system has will do, since only this mount namespace sees it.
const STAGE: &str = "/tmp";

fn staged(path: &str) -> PathBuf {
    Path::new(STAGE).join(path)
}

/// Builds the root and moves into it. The mount namespace must be the template's own.
pub(crate) fn build(config: &LauncherConfig, report: &mut SetupReport) -> Result<(), LauncherError> {
    let root = new_filesystem(
        "tmpfs",
        &[("size", Some("4m")), ("nr_inodes", Some("4096")), ("mode", Some("0755"))],
        Attr::Data,
    )
    .step("make the root filesystem")?;
    attach(&root, Path::new(STAGE)).step("mount the root filesystem")?;
    for name in ["proc", "dev", "etc", "tmp", "run", "var", "home", "workspace"] {
        fs::create_dir(staged(name)).step("make the root's folders")?;
    }
    fs::create_dir(Path::new(STAGE).join(&HOME[1..])).step("make the root's folders")?;
    symlink("/tmp", staged("var/tmp")).step("make the root's folders")?;
    symlink("/workspace/skills", staged("skills")).step("make the root's folders")?;
    system_dirs()?;
    for dir in &config.runtime_dirs {
        runtime_dir(dir)?;
    }
    etc(report)?;
    devices()?;
    proc(report);
    make_read_only(Path::new(STAGE)).step("make the root read-only")?;
    enter()
}

fn bind(source: &Path, target: &Path, attr: Attr) -> Result<(), LauncherError> {
    let what = || format!("make {} visible", source.display());
    let tree = clone_tree(source, attr).step(&what())?;
    attach(&tree, target).step(&what())
}

fn system_dirs() -> Result<(), LauncherError> {
    for name in SYSTEM_DIRS {
        let source = Path::new("/").join(name);
        let Ok(metadata) = fs::symlink_metadata(&source) else { continue };
        if metadata.is_symlink() {
            let target = fs::read_link(&source).step("read a link of the root")?;
            symlink(target, staged(name)).step("make the root's links")?;
        } else if metadata.is_dir() {
            fs::create_dir(staged(name)).step("make the root's folders")?;
            bind(&source, &staged(name), Attr::ReadOnly)?;
        }
    }
    Ok(())
}

fn runtime_dir(dir: &Path) -> Result<(), LauncherError> {
    let inside = dir.strip_prefix("/").unwrap_or(dir);
    let target = Path::new(STAGE).join(inside);
    let what = || format!("make the runtime directory {} visible", dir.display());
    if target.exists() {
        // Already part of what is visible, such as a folder below /usr.
        return if dir.starts_with("/usr") {
            Ok(())
        } else {
            Err(LauncherError::new(what(), nix::Error::EEXIST))
        };
    }
    fs::create_dir_all(&target).step(&what())?;
    bind(dir, &target, Attr::ReadOnly)
}

fn etc(report: &mut SetupReport) -> Result<(), LauncherError> {
    let file = |name: &str, content: &str| fs::write(staged("etc").join(name), content).step("write /etc");
    file(
        "passwd",
        &format!(
            "skillbox:x:{INNER_ID}:{INNER_ID}::{HOME}:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"
        ),
    )?;
    file("group", &format!("skillbox:x:{INNER_ID}:\nnogroup:x:65534:\n"))?;
    file("hosts", "127.0.0.1 localhost\n::1 localhost\n")?;
    file("hostname", "skillbox\n")?;
    file("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")?;
    file("resolv.conf", "")?;
    for name in ETC {
        let source = Path::new("/etc").join(name);
        let target = staged("etc").join(name);
        let Ok(metadata) = fs::metadata(&source) else {
            report.left_out.push(source.display().to_string());
            continue;
        };
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).step("make /etc")?;
        }
        // A link, such as /etc/ssl/certs on some systems, is followed here once, by the host's own eyes.
        let real = fs::canonicalize(&source).step("find a part of /etc")?;
        if metadata.is_dir() {
            fs::create_dir(&target).step("make /etc")?;
        } else {
            fs::write(&target, "").step("make /etc")?;
        }
        bind(&real, &target, Attr::ReadOnly)?;
    }
    Ok(())
}

fn devices() -> Result<(), LauncherError> {
    for name in DEVICES {
        let target = staged("dev").join(name);
        fs::write(&target, "").step("make /dev")?;
        bind(&Path::new("/dev").join(name), &target, Attr::Device)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, staged("dev").join(name)).step("make /dev")?;
    }
    fs::create_dir(staged("dev/shm")).step("make /dev")
}

/// A /proc of the launcher's own pid namespace, which holds sandboxes alone.
///
/// A new user namespace may mount a fresh /proc only where a whole one is visible already (`mount_too_revealing` in the
/// kernel's fs/namespace.c). Each sandbox mounts its own over this one.
fn proc(report: &mut SetupReport) {
    let mounted = new_filesystem("proc", &[], Attr::Data).and_then(|proc| attach(&proc, &staged("proc")));
    if let Err(error) = mounted {
        report.no_proc = Some(LauncherError::new("mount /proc", error));
    }
}

fn enter() -> Result<(), LauncherError> {
    std::env::set_current_dir(STAGE).step("enter the root")?;
    nix::unistd::pivot_root(".", ".").step("pivot_root")?;
    nix::mount::umount2(".", nix::mount::MntFlags::MNT_DETACH).step("unmount the old root")?;
    std::env::set_current_dir("/").step("enter the root")
}
