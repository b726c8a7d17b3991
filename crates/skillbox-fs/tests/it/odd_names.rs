//! Any byte string works as a file name.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use skillbox_fs::glob::PatternSet;
use skillbox_fs::{ConfinedDir, ImportOptions, WalkOptions, collect_walk, copy_tree, remove_tree, save_file};

use crate::import::Bench;

#[test]
fn f134_odd_names_go_all_the_way_round() {
    let long = vec![b'n'; 255];
    let names: [&[u8]; 10] = [
        "報告 1.txt".as_bytes(),
        b"a\nb.txt",
        b"-rf",
        b"\"q\".txt",
        b"\xff\xfe.bin",
        &long,
        b"a\\b",
        b" ",
        b"\x1b[31m",
        b"...",
    ];
    let bench = Bench::new();
    fs::create_dir(bench.source.join("d")).unwrap();
    for name in names {
        fs::write(bench.source.join("d").join(OsStr::from_bytes(name)), name).unwrap();
    }
    let imported = bench.import();
    assert_eq!(imported.files, 11);
    assert!(bench.store.import(&bench.source, &ImportOptions::default()).unwrap().cached);

    let workspace = tempfile::tempdir_in(bench.store.root()).unwrap();
    let dir = ConfinedDir::open(workspace.path()).unwrap();
    let tree = bench.store.tree(&imported.digest).unwrap();
    copy_tree(&tree, &dir, &dir, "out", None).unwrap();

    let saved = tempfile::tempdir().unwrap();
    let target = ConfinedDir::open(saved.path()).unwrap();
    let mut found = Vec::new();
    let patterns = PatternSet::parse(["out/d/*"]).unwrap();
    collect_walk(dir.as_fd(), &patterns, &WalkOptions::default(), &mut |file| {
        let (mut content, _) = file.open().unwrap();
        save_file(&target, file.path, &mut content).unwrap();
        found.push(file.path.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut expected: Vec<Vec<u8>> = names.iter().map(|name| [b"out/d/", *name].concat()).collect();
    expected.sort();
    assert_eq!(found, expected);
    for name in names {
        assert_eq!(target.read(&[b"out/d/", name].concat(), 300).unwrap(), name);
        assert!(remove_tree(dir.open_dir("out/d").unwrap().as_fd(), name).is_ok());
    }
    assert!(dir.list("out/d").unwrap().is_empty());
}
