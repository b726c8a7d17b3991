//! Copies of stored trees into a workspace.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

use skillbox_fs::{ConfinedDir, FsError, Owner, StoreError, copy_tree};

use crate::import::{Bench, mode_of};

#[test]
fn a_copy_is_the_tree_and_is_independent_of_it() {
    let bench = Bench::new();
    bench.file("scripts/run.sh", "#!/bin/sh\n", 0o755);
    bench.file("empty", "", 0o644);
    bench.file("big", vec![7; 3 << 20], 0o644);
    fs::create_dir(bench.source.join("nothing")).unwrap();
    symlink("scripts/run.sh", bench.source.join("run")).unwrap();
    let imported = bench.import();
    let tree = bench.store.tree(&imported.digest).unwrap();
    let workspace = tempfile::tempdir_in(bench.store.root()).unwrap();
    let dir = ConfinedDir::open(workspace.path()).unwrap();
    let staging = dir.create_dir_all("staging", 0o700, None).unwrap();
    let skills = dir.create_dir_all("skills", 0o755, None).unwrap();

    let report = copy_tree(&tree, &staging, &skills, "skill", None).unwrap();
    assert_eq!((report.files, report.bytes), (imported.files, imported.bytes));
    let copy = workspace.path().join("skills/skill");
    assert_eq!(mode_of(&copy.join("scripts/run.sh")), 0o755);
    assert_eq!(mode_of(&copy.join("SKILL.md")), 0o644);
    assert_eq!(fs::read(copy.join("big")).unwrap(), vec![7; 3 << 20]);
    assert_eq!(fs::read_link(copy.join("run")).unwrap().to_str(), Some("scripts/run.sh"));
    assert!(copy.join("nothing").is_dir());
    // The copy imports to the same digest, and writing to it leaves the store alone.
    let again = bench.store.import(&copy, &skillbox_fs::ImportOptions::default()).unwrap();
    assert_eq!(again.digest, imported.digest);
    fs::write(copy.join("big"), "changed").unwrap();
    bench.store.verify(&imported.digest).unwrap();

    let error = copy_tree(&tree, &staging, &skills, "skill", None).unwrap_err();
    assert!(matches!(error, StoreError::Copy { source: FsError::Exists { .. }, .. }), "{error}");
    assert!(copy_tree(&tree, &staging, &skills, "../x", None).is_err());
    assert_eq!(fs::read_dir(workspace.path().join("staging")).unwrap().count(), 0);
}

#[test]
fn a_copy_belongs_to_the_given_owner() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    bench.file("d/f", "x", 0o755);
    symlink("d/f", bench.source.join("link")).unwrap();
    let tree = bench.store.tree(&bench.import().digest).unwrap();
    let workspace = tempfile::tempdir_in(bench.store.root()).unwrap();
    let dir = ConfinedDir::open(workspace.path()).unwrap();
    copy_tree(&tree, &dir, &dir, "s", Some(Owner { uid: 12_345, gid: 12_346 })).unwrap();
    for path in ["s", "s/d", "s/d/f", "s/link", "s/SKILL.md"] {
        let metadata = fs::symlink_metadata(workspace.path().join(path)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (12_345, 12_346), "{path}");
    }
    assert_eq!(mode_of(&workspace.path().join("s/d/f")), 0o755);
}

#[test]
fn a_damaged_store_does_not_yield_half_a_copy() {
    let bench = Bench::new();
    bench.file("a", "content", 0o644);
    let tree = bench.store.tree(&bench.import().digest).unwrap();
    fs::write(tree.path().join("a"), "x").unwrap();
    let workspace = tempfile::tempdir_in(bench.store.root()).unwrap();
    let dir = ConfinedDir::open(workspace.path()).unwrap();
    assert!(copy_tree(&tree, &dir, &dir, "s", None).is_err());
    assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0);
}
