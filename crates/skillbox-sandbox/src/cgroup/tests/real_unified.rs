//! v2's rule against processes in inner nodes, on a real hierarchy with any controller (as root).

use std::{fs, path::PathBuf, process::Command};

use crate::cgroup::{files, host, unified};

/// A directory in the v2 hierarchy and a controller to hand down; leaves everything as it was.
struct Scratch {
    dir: PathBuf,
    controller: String,
    enabled_in: Option<PathBuf>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir(&self.dir).unwrap();
        if let Some(own) = &self.enabled_in {
            files::try_write(&own.join("cgroup.subtree_control"), &format!("-{}", self.controller)).unwrap();
        }
    }
}

fn scratch(name: &str) -> Option<Scratch> {
    let read = |path| fs::read_to_string(path).unwrap();
    let found = host::hierarchies(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    let own = found.into_iter().find(|hierarchy| hierarchy.unified)?.own;
    let controller = unified::listed(&own, "cgroup.controllers").pop()?;
    let was_enabled = unified::listed(&own, "cgroup.subtree_control").contains(&controller);
    unified::enable(&own, &[&controller]).ok()?;
    let dir = own.join(format!("test-{}-{name}", std::process::id()));
    fs::create_dir(&dir).ok()?;
    Some(Scratch { dir, controller, enabled_in: (!was_enabled).then_some(own) })
}

#[test]
fn engine_alone_in_its_cgroup_makes_room_and_moves_back() {
    let Some(scratch) = scratch("room") else {
        println!("left out: needs root and a v2 hierarchy with a controller");
        return;
    };
    let own = scratch.dir.clone();
    let mut engine = Command::new("sleep").arg("60").spawn().unwrap();
    files::try_write(&own.join("cgroup.procs"), &engine.id().to_string()).unwrap();
    let wanted = [scratch.controller.as_str()];

    let refused = unified::prepare(&own, &own, &wanted, None).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    // Somebody else is there too: nobody is moved.
    let refused = unified::prepare(&own, &own, &wanted, Some(("leaf", engine.id() + 1))).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    assert!(!own.join("leaf").exists());

    let prepared = unified::prepare(&own, &own, &wanted, Some(("leaf", engine.id()))).unwrap();
    assert_eq!((prepared.dir, prepared.moved_to.clone()), (own.clone(), Some(own.join("leaf"))));
    assert_eq!(unified::listed(&own, "cgroup.subtree_control"), wanted);
    assert_eq!(files::read(&own.join("leaf/cgroup.procs")).unwrap().trim(), engine.id().to_string());
    // A second engine finds it done.
    assert_eq!(unified::prepare(&own, &own, &wanted, None).unwrap().moved_to, None);

    unified::move_back(&own, &own.join("leaf"), engine.id(), &wanted);
    assert_eq!(files::read(&own.join("cgroup.procs")).unwrap().trim(), engine.id().to_string());
    assert!(!own.join("leaf").exists());

    engine.kill().unwrap();
    engine.wait().unwrap();
}
