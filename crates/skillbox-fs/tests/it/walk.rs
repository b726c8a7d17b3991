//! Finding output files.

use std::fs;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use skillbox_fs::glob::PatternSet;
use skillbox_fs::{ConfinedDir, SkipReason, WalkOptions, WalkReport, collect_walk};
use skillbox_types::FileName;

fn walk_with(root: &Path, patterns: &[&str], options: &WalkOptions) -> (Vec<String>, WalkReport) {
    let dir = ConfinedDir::open(root).unwrap();
    let mut found = Vec::new();
    let patterns = PatternSet::parse(patterns).unwrap();
    let report = collect_walk(dir.as_fd(), &patterns, options, &mut |file| {
        found.push(String::from_utf8_lossy(file.path).into_owned());
        ControlFlow::Continue(())
    });
    (found, report.unwrap())
}

fn walk(root: &Path, patterns: &[&str]) -> (Vec<String>, WalkReport) {
    walk_with(root, patterns, &WalkOptions::default())
}

fn make(root: &Path, paths: &[&str]) {
    for path in paths {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
}

#[test]
fn paths_come_in_byte_order_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &["out/a/z", "out/a.txt", "out/a-b", "out/b", "work/x", "out/a/b/c"]);
    let (found, report) = walk(folder.path(), &["out/**", "out/*", "nothing/*"]);
    assert_eq!(found, ["out/a-b", "out/a.txt", "out/a/b/c", "out/a/z", "out/b"]);
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(found, sorted);
    assert_eq!(report.per_pattern, [5, 3, 0]);
    assert_eq!(report.matched, 5);
    // `work` is not entered: 2 folders at the top, 4 entries of out, 2 of out/a, 1 of out/a/b.
    assert_eq!(report.visited, 2 + 4 + 2 + 1);
}

#[test]
fn f119_f120_links_and_special_files_are_reported_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &["out/real.txt", "secret/s.txt"]);
    symlink("/proc/self", folder.path().join("out/hop")).unwrap();
    symlink("/etc/hostname", folder.path().join("out/x.txt")).unwrap();
    symlink("real.txt", folder.path().join("out/inner.txt")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("out/p"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    let (found, report) = walk(folder.path(), &["out/**"]);
    assert_eq!(found, ["out/real.txt"]);
    let skipped: Vec<_> = report.skipped.iter().map(|s| (s.path.display(), s.reason)).collect();
    let expected = [
        ("out/hop", SkipReason::Symlink),
        ("out/inner.txt", SkipReason::Symlink),
        ("out/p", SkipReason::Special),
        ("out/x.txt", SkipReason::Symlink),
    ];
    assert_eq!(skipped, expected.map(|(path, reason)| (path.to_owned(), reason)));
    let (found, report) = walk(folder.path(), &["out/hop/environ"]);
    assert_eq!((found.len(), report.skipped_total), (0, 1));
}

#[test]
fn f119_a_link_swapped_in_between_match_and_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &["out/a", "out/d/b"]);
    let dir = ConfinedDir::open(folder.path()).unwrap();
    let patterns = PatternSet::parse(["out/**"]).unwrap();
    let mut results = Vec::new();
    collect_walk(dir.as_fd(), &patterns, &WalkOptions::default(), &mut |found| {
        if found.path == b"out/a" {
            fs::remove_file(folder.path().join("out/a")).unwrap();
            symlink("/etc/passwd", folder.path().join("out/a")).unwrap();
        } else {
            fs::rename(folder.path().join("out/d"), folder.path().join("moved")).unwrap();
            symlink("/etc", folder.path().join("out/d")).unwrap();
        }
        results.push(found.open().map(|(mut file, _)| {
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            content
        }));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(results[0].is_err());
    // The folder's handle still leads to the real file.
    assert_eq!(results[1].as_deref().unwrap(), "x");
}

#[test]
fn f123_a_literal_name_is_found_and_near_misses_are_named() {
    let folder = tempfile::tempdir().unwrap();
    make(
        folder.path(),
        &["out/a[1].txt", "out/report.csv", "out/deep research.md", "work/inputs/report.csv"],
    );
    let (found, report) = walk(folder.path(), &["out/a[1].txt", "*.csv", "out/reprot.csv", "zzz"]);
    assert_eq!(found, ["out/a[1].txt"]);
    let near = |index: usize| report.near_misses[index].iter().map(FileName::display).collect::<Vec<_>>();
    assert_eq!(near(0), [""; 0]);
    assert_eq!(near(1), ["out/report.csv"]);
    assert_eq!(near(2), ["out/report.csv"]);
    assert_eq!(near(3), [""; 0]);
}

#[test]
fn limits_end_the_walk_and_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..50).map(|i| format!("out/{i}")).collect();
    make(folder.path(), &names.iter().map(String::as_str).collect::<Vec<_>>());
    let options = WalkOptions { max_entries: 10, ..WalkOptions::default() };
    let (found, report) = walk_with(folder.path(), &["out/**"], &options);
    assert!(report.limit_reached && found.len() == 9, "{report:?}");
    let dir = ConfinedDir::open(folder.path()).unwrap();
    let mut count = 0;
    let patterns = PatternSet::parse(["out/**"]).unwrap();
    let report = collect_walk(dir.as_fd(), &patterns, &WalkOptions::default(), &mut |_| {
        count += 1;
        if count == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((count, report.unwrap().matched), (3, 3));
}

#[test]
fn a_tree_deeper_than_the_limit_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let dir = ConfinedDir::open(folder.path()).unwrap();
    let path = format!("out/{}", vec!["d".repeat(100); 200].join("/"));
    dir.create_dir_all(path.as_str(), 0o755, None).unwrap();
    make(folder.path(), &["out/z"]);
    let (found, report) = walk(folder.path(), &["out/**"]);
    assert_eq!(found, ["out/z"]);
    assert_eq!(report.skipped[0].reason, SkipReason::TooDeep);
    skillbox_fs::remove_tree(dir.as_fd(), b"out").unwrap();
}

#[test]
fn metadata_tells_when_a_file_was_born_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), &["a"]);
    fs::set_permissions(folder.path().join("a"), fs::Permissions::from_mode(0o751)).unwrap();
    let dir = ConfinedDir::open(folder.path()).unwrap();
    let patterns = PatternSet::parse(["a"]).unwrap();
    collect_walk(dir.as_fd(), &patterns, &WalkOptions::default(), &mut |found| {
        assert_eq!((found.metadata.size, found.metadata.mode, found.metadata.links), (1, 0o751, 1));
        if let Some(born) = found.metadata.born {
            assert!(born <= found.metadata.changed);
        }
        assert_eq!(found.patterns, [0]);
        ControlFlow::Continue(())
    })
    .unwrap();
}
