use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::cgroup::{
    CgroupUnavailable, Step, files,
    host::{self, Controller, Hierarchy},
    stale::Owner,
};

fn v1(mount: &str, own: &str, controllers: &[Controller]) -> Hierarchy {
    Hierarchy { unified: false, mount: mount.into(), own: own.into(), controllers: controllers.to_vec() }
}

#[test]
fn hybrid_host_has_v1_controllers_and_a_unified_hierarchy() {
    let cgroup = "8:pids:/\n4:memory:/a/b\n2:cpuacct,cpu:/\n9:name=systemd:/x\n3:cpuset:/\n0::/\n";
    let mountinfo = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
99 31 0:32 / /elsewhere/memory rw,relatime - cgroup cgroup rw,memory
";
    let unified = Hierarchy {
        unified: true,
        mount: "/sys/fs/cgroup/unified".into(),
        own: "/sys/fs/cgroup/unified".into(),
        controllers: Vec::new(),
    };
    let expected = vec![
        v1(
            "/sys/fs/cgroup/cpu,cpuacct",
            "/sys/fs/cgroup/cpu,cpuacct",
            &[Controller::Cpu, Controller::CpuAccounting],
        ),
        v1("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a/b", &[Controller::Memory]),
        v1("/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids", &[Controller::Pids]),
        unified,
    ];
    assert_eq!(host::hierarchies(cgroup, mountinfo), expected);
}

#[test]
fn container_mount_shows_a_part_of_the_hierarchy() {
    // Docker on v1: the membership is the host's path, and so is the mount's root.
    let mountinfo = "35 31 0:32 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let found = host::hierarchies("4:memory:/docker/0a1b/x\n", mountinfo);
    assert_eq!(found[0].own, Path::new("/sys/fs/cgroup/memory/x"));
    // The engine is outside of what is mounted: nothing there is its own.
    assert!(host::hierarchies("4:memory:/docker/ffff\n", mountinfo).is_empty());
    assert!(
        host::hierarchies("4:memory:/../up\n", "35 31 0:32 / /m rw - cgroup cgroup rw,memory\n").is_empty()
    );
}

#[test]
fn mount_points_are_unescaped() {
    let mountinfo = "41 31 0:38 / /a\\040b\\134c rw - cgroup2 cgroup2 rw,nsdelegate\n";
    assert_eq!(host::hierarchies("0::/\n", mountinfo)[0].mount, Path::new("/a b\\c"));
}

#[test]
fn owners_name_reads_back_and_others_do_not() {
    let owner = Owner::this().unwrap();
    assert_eq!(Owner::parse(&owner.directory()), Some(owner));
    assert_ne!(owner.directory(), owner.directory());
    for other in [
        "skillbox-",
        "skillbox-1-2-3",
        "skillbox-1-2-3-4",
        "skillbox-1-2-3-00000000-x",
        "skillbox-a-2-3-00000000",
        "init",
    ] {
        assert_eq!(Owner::parse(other), None, "{other}");
    }
}

#[test]
fn remedies_name_what_helps() {
    let remedy = |step, errno| {
        CgroupUnavailable::new(step, "/x".as_ref(), std::io::Error::from_raw_os_error(errno)).to_string()
    };
    assert!(remedy(Step::MakeDirectory, libc::EROFS).contains("--cgroupns=private"));
    assert!(remedy(Step::MakeDirectory, libc::EACCES).contains("Delegate=memory pids cpu"));
    assert!(remedy(Step::MakeDirectory, libc::ENOSPC).contains("cgroup.max.descendants"));
    assert!(remedy(Step::EnableControllers, libc::EBUSY).contains("DelegateSubgroup"));
    assert!(remedy(Step::FindControllers, libc::ENOENT).contains("cgroup_enable=memory"));
}

#[test]
fn pids_that_the_namespace_cannot_see_are_left_out() {
    assert_eq!(files::parse_pids("12\n0\n7\n"), [12, 7]);
    assert_eq!(files::field("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill"), Some(3));
    assert_eq!(files::field("low 0\noom 2\noom_kill 5\noom_group_kill 1\n", "oom_kill"), Some(5));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_leads_above_the_mount(cgroup in "[0-9:,a-z./\n]{0,80}", path in "(/[a-z.]{0,3}){0,4}", mountinfo in "[ -~\n]{0,120}") {
        let mount = "41 31 0:38 / /mnt rw - cgroup2 cgroup2 rw\n";
        for hierarchy in host::hierarchies(&format!("{cgroup}\n0::{path}\n"), &format!("{mountinfo}\n{mount}")) {
            let inside = hierarchy.own.strip_prefix(&hierarchy.mount).map(PathBuf::from);
            prop_assert!(inside.is_ok_and(|inside| inside.components().all(|part| matches!(part, std::path::Component::Normal(_)))));
        }
    }
}
