//! Concurrency, kills, pins and collection.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use skillbox_fs::{ImportOptions, Store, StoreError};

use crate::child;
use crate::import::Bench;

fn entries_in(path: &Path) -> usize {
    fs::read_dir(path).unwrap().count()
}

/// Ends the other threads of a test, also when it fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn concurrent_importers_agree_and_leave_nothing() {
    let bench = Bench::new();
    for index in 0..50 {
        bench.file(&format!("d{}/f{index}", index % 5), vec![b'x'; index * 100], 0o644);
    }
    let root = bench.store.root();
    let digests: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let store = Store::open(root).unwrap();
                    store.import(&bench.source, &ImportOptions::default()).unwrap().digest
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    bench.store.verify(&digests[0]).unwrap();
    assert_eq!(bench.store.digests().unwrap().len(), 1);
    assert_eq!(entries_in(&root.join("v1/tmp")), 0);
}

#[test]
fn a_changing_source_is_stored_consistently() {
    let bench = Bench::new();
    bench.file("big.bin", vec![b'a'; 300_000], 0o644);
    let stop = AtomicBool::new(false);
    let options = ImportOptions::default();
    let mut stored = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_u32.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let byte = b'a' + u8::try_from(round % 26).unwrap();
                fs::write(
                    bench.source.join("big.bin"),
                    vec![byte; 200_000 + (round as usize * 7919) % 100_000],
                )
                .unwrap();
                let extra = bench.source.join(format!("extra{}", round % 3));
                if round % 2 == 0 {
                    fs::create_dir_all(&extra).unwrap();
                    fs::write(extra.join("f"), [byte]).unwrap();
                } else {
                    let _ = fs::remove_dir_all(&extra);
                }
            }
        });
        let _stop = StopOnDrop(&stop);
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            match bench.store.import(&bench.source, &options) {
                Ok(imported) => {
                    bench.store.verify(&imported.digest).unwrap();
                    stored += 1;
                }
                Err(StoreError::SourceChanging { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    });
    // Once the source is at rest, what is stored is what is there.
    let last = bench.import();
    let tree = bench.store.tree(&last.digest).unwrap();
    assert_eq!(
        fs::read(tree.path().join("big.bin")).unwrap(),
        fs::read(bench.source.join("big.bin")).unwrap()
    );
    assert_eq!(entries_in(&bench.store.root().join("v1/tmp")), 0);
    assert!(stored > 0 || last.files > 0);
}

/// Imports ever new content until it is killed.
#[test]
fn child_imports_until_killed() {
    let Some(folder) = child::folder() else { return };
    let store = Store::open(&folder.join("store")).unwrap();
    let unique = u64::from(std::process::id()) << 32;
    for round in unique.. {
        fs::write(folder.join("skill/round"), round.to_le_bytes().repeat(20_000)).unwrap();
        store.import(&folder.join("skill"), &ImportOptions::default()).unwrap();
        println!("imported");
    }
}

#[test]
fn a_kill_at_any_point_leaves_only_whole_trees() {
    use std::io::BufRead as _;
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("skill");
    fs::create_dir_all(source.join("d")).unwrap();
    for index in 0..40 {
        fs::write(source.join(format!("d/{index}")), vec![b'x'; 3000]).unwrap();
    }
    for attempt in 0..12_u32 {
        let mut command = child::command("store::child_imports_until_killed", folder.path());
        let mut running = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        // After its first import, and then somewhere within a later one.
        let mut lines = std::io::BufReader::new(running.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("imported")));
        std::thread::sleep(Duration::from_micros(u64::from(attempt) * 977));
        running.kill().unwrap();
        running.wait().unwrap();
    }
    let store = Store::open(&folder.path().join("store")).unwrap();
    assert_eq!(entries_in(&store.root().join("v1/tmp")), 0, "the rest of killed importers is removed");
    let digests = store.digests().unwrap();
    assert!(digests.len() >= 2);
    for digest in &digests {
        store.verify(digest).unwrap();
    }
    // What a killed importer remembered of the source is right too.
    let imported = store.import(&source, &ImportOptions::default()).unwrap();
    let tree = store.tree(&imported.digest).unwrap();
    assert_eq!(fs::read(tree.path().join("round")).unwrap(), fs::read(source.join("round")).unwrap());
}

#[test]
fn the_tree_of_a_living_importer_is_not_swept() {
    let bench = Bench::new();
    let tmp = bench.store.root().join("v1/tmp");
    fs::create_dir(tmp.join("new-alive")).unwrap();
    fs::create_dir_all(tmp.join("new-dead/tree/x")).unwrap();
    let alive = fs::File::open(tmp.join("new-alive")).unwrap();
    alive.lock().unwrap();
    Store::open(bench.store.root()).unwrap();
    assert_eq!(
        fs::read_dir(&tmp).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>(),
        ["new-alive"]
    );
    drop(alive);
    Store::open(bench.store.root()).unwrap();
    assert_eq!(entries_in(&tmp), 0);
}

#[test]
fn collection_keeps_what_live_owners_use() {
    let bench = Bench::new();
    let used = bench.import();
    bench.file("more.txt", "x", 0o644);
    let orphaned = bench.import();
    bench.file("more.txt", "xy", 0o644);
    let unused = bench.import();
    let pin = bench.store.pin(&used.digest, "session-1").unwrap();
    let _orphan = bench.store.pin(&orphaned.digest, "gone").unwrap();
    let live = |owner: &str| owner == "session-1";

    let young = bench.store.collect_garbage(Duration::from_hours(1), &live).unwrap();
    assert_eq!((young.removed, young.kept, young.dead_pins), (0, 3, 1));
    let report = bench.store.collect_garbage(Duration::ZERO, &live).unwrap();
    assert_eq!((report.removed, report.kept), (2, 1));
    assert_eq!(report.removed_bytes, orphaned.bytes + unused.bytes);
    bench.store.verify(&used.digest).unwrap();
    assert!(matches!(bench.store.tree(&unused.digest), Err(StoreError::NotStored { .. })));
    assert!(matches!(bench.store.pin(&unused.digest, "session-2"), Err(StoreError::NotStored { .. })));
    // Importing again brings it back, whatever is remembered of the source.
    assert_eq!(bench.import().digest, unused.digest);

    assert!(matches!(bench.store.discard(&used.digest), Err(StoreError::Pinned { .. })));
    pin.release().unwrap();
    bench.store.discard(&used.digest).unwrap();
    assert_eq!(entries_in(&bench.store.root().join("v1/tmp")), 0);
}

#[test]
fn pins_outlive_the_process_and_end_with_their_owner() {
    let bench = Bench::new();
    let imported = bench.import();
    let _pin = bench.store.pin(&imported.digest, "a.b-c_1").unwrap();
    let _same = bench.store.pin(&imported.digest, "a.b-c_1").unwrap();
    let _other = bench.store.pin(&imported.digest, "other").unwrap();
    let reopened = Store::open(bench.store.root()).unwrap();
    assert_eq!(reopened.pinned_by(&imported.digest).unwrap(), ["a.b-c_1", "other"]);
    assert_eq!(reopened.unpin_owner("a.b-c_1").unwrap(), 1);
    assert_eq!(reopened.pinned_by(&imported.digest).unwrap(), ["other"]);
    for bad in ["", "../x", ".x", "a/b", "a b"] {
        assert!(
            matches!(reopened.pin(&imported.digest, bad), Err(StoreError::InvalidOwner { .. })),
            "{bad:?}"
        );
    }
}

#[test]
fn a_pinned_tree_survives_a_racing_collector() {
    let bench = Bench::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let store = Store::open(bench.store.root()).unwrap();
            let mut removed = 0;
            while !stop.load(Ordering::Relaxed) {
                removed += store.collect_garbage(Duration::ZERO, &|_| true).unwrap().removed;
            }
            removed
        });
        let guard = StopOnDrop(&stop);
        for round in 0..400 {
            let owner = format!("s{round}");
            let (imported, pin) =
                bench.store.import_pinned(&bench.source, &ImportOptions::default(), &owner).unwrap();
            bench.store.verify(&imported.digest).unwrap();
            pin.release().unwrap();
        }
        drop(guard);
        assert!(collector.join().unwrap() > 0, "the collector found something to remove");
    });
}

#[test]
fn damage_is_found() {
    let bench = Bench::new();
    bench.file("a.txt", "content", 0o644);
    let imported = bench.import();
    let tree = bench.store.tree(&imported.digest).unwrap();
    fs::write(tree.path().join("a.txt"), "CONTENT").unwrap();
    assert!(matches!(bench.store.verify(&imported.digest), Err(StoreError::Corrupt { .. })));
    fs::write(tree.path().join("a.txt"), "content").unwrap();
    bench.store.verify(&imported.digest).unwrap();
    fs::write(tree.path().join("extra"), "").unwrap();
    assert!(matches!(bench.store.verify(&imported.digest), Err(StoreError::Corrupt { .. })));
    bench.store.discard(&imported.digest).unwrap();
    assert_eq!(bench.import().digest, imported.digest);
}

#[test]
fn f032_thirteen_thousand_files_in_800_folders() {
    let bench = Bench::new();
    for index in 0..13_000_u32 {
        let path = bench.source.join(format!("d{}/e{}", index % 40, index % 800));
        if index < 800 {
            fs::create_dir_all(&path).unwrap();
        }
        fs::write(path.join(format!("f{index}.txt")), index.to_le_bytes()).unwrap();
    }
    let began = Instant::now();
    let imported = bench.store.import(&bench.source, &ImportOptions::default()).unwrap();
    assert_eq!(imported.files, 13_001);
    let stored = began.elapsed();
    let target = tempfile::tempdir_in(bench.store.root()).unwrap();
    let dir = skillbox_fs::ConfinedDir::open(target.path()).unwrap();
    let tree = bench.store.tree(&imported.digest).unwrap();
    let began = Instant::now();
    let report = skillbox_fs::copy_tree(&tree, &dir, &dir, "skill", None).unwrap();
    assert_eq!(report.files, 13_001);
    let copied = began.elapsed();
    println!("imported in {stored:?}, copied in {copied:?}");
    assert!(stored + copied < Duration::from_mins(1), "imported in {stored:?}, copied in {copied:?}");
}
