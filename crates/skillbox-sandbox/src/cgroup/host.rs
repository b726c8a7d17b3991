//! Which hierarchies are mounted, and where the engine is in them.

use std::path::{Path, PathBuf};

/// A controller that is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Controller {
    Memory,
    Pids,
    Cpu,
    /// v1 only; v2 counts CPU time without a controller.
    CpuAccounting,
}

impl Controller {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "memory" => Self::Memory,
            "pids" => Self::Pids,
            "cpu" => Self::Cpu,
            "cpuacct" => Self::CpuAccounting,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::CpuAccounting => "cpuacct",
        }
    }
}

/// A mounted hierarchy and the engine's own directory in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Whether it is cgroup v2.
    pub(super) unified: bool,
    /// The mount point, above which nothing is touched.
    pub(super) mount: PathBuf,
    /// The engine's own cgroup.
    pub(super) own: PathBuf,
    /// On v1, what the mount carries; on v2 empty, since `cgroup.controllers` says it.
    pub(super) controllers: Vec<Controller>,
}

/// Combines `/proc/self/cgroup` with `/proc/self/mountinfo` (cgroups(7), proc_pid_mountinfo(5)).
pub(super) fn hierarchies(cgroup: &str, mountinfo: &str) -> Vec<Hierarchy> {
    let memberships: Vec<(Vec<&str>, &str)> = cgroup
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?.split(',').collect(), parts.next()?))
        })
        .collect();
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some(mount) = Mount::parse(line) else { continue };
        let unified = mount.kind == "cgroup2";
        let controllers: Vec<_> = if unified {
            Vec::new()
        } else {
            mount.options.split(',').filter_map(Controller::from_name).collect()
        };
        if !unified && (mount.kind != "cgroup" || controllers.is_empty()) {
            continue;
        }
        let known = found.iter().any(|hierarchy| {
            hierarchy.unified == unified && (unified || hierarchy.controllers == controllers)
        });
        let member = memberships.iter().find(|(names, _)| match controllers.first() {
            Some(first) => names.contains(&first.name()),
            None => names == &[""],
        });
        // A mount may show a part of the hierarchy only (in a container): the engine must be in that part.
        let own = member.and_then(|(_, path)| Path::new(path).strip_prefix(&mount.root).ok());
        if let (false, Some(own)) = (known, own)
            && own.components().all(|part| matches!(part, std::path::Component::Normal(_)))
        {
            let own = if own.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(own) };
            found.push(Hierarchy { unified, mount: mount.point, own, controllers });
        }
    }
    found
}

struct Mount<'a> {
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut filesystem = filesystem.split(' ');
        Some(Self {
            root: unescape(mount.next()?),
            point: unescape(mount.next()?),
            kind: filesystem.next()?,
            options: filesystem.nth(1).unwrap_or_default(),
        })
    }
}

/// Undoes the kernel's octal escapes of space, tab, newline and backslash.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| {
            std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok())
        });
        if code.is_some() {
            rest = tail.get(3..).unwrap_or_default();
        }
        plain.push(code.unwrap_or(*first));
    }
    std::ffi::OsString::from_vec(plain).into()
}
