//! What an import keeps, repairs, leaves out and refuses.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use skillbox_fs::{EntryKind, ImportOptions, Imported, Modes, Store, StoreError};
use tempfile::TempDir;

/// A store, and a skill folder to fill.
pub(crate) struct Bench {
    _folder: TempDir,
    pub(crate) store: Store,
    pub(crate) source: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("skill");
        fs::create_dir(&source).unwrap();
        let store = Store::open(&folder.path().join("data/store")).unwrap();
        let bench = Self { _folder: folder, store, source };
        bench.file("SKILL.md", "---\nname: skill\ndescription: A skill.\n---\n", 0o644);
        bench
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>, mode: u32) {
        let path = self.source.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn import(&self) -> Imported {
        let imported = self.store.import(&self.source, &ImportOptions::default()).unwrap();
        self.store.verify(&imported.digest).unwrap();
        imported
    }

    pub(crate) fn import_with(&self, options: &ImportOptions) -> Result<Imported, StoreError> {
        self.store.import(&self.source, options)
    }

    /// Paths of the stored tree, folders with a slash, executables with a star.
    fn stored(&self, imported: &Imported) -> Vec<String> {
        let entries = self.store.tree(&imported.digest).unwrap().entries().unwrap();
        let show = |entry: &skillbox_fs::Entry| {
            let path = String::from_utf8_lossy(&entry.path).into_owned();
            match &entry.kind {
                EntryKind::Directory => format!("{path}/"),
                EntryKind::File { executable, .. } => format!("{path}{}", if *executable { "*" } else { "" }),
                EntryKind::Symlink { target } => format!("{path} -> {}", String::from_utf8_lossy(target)),
            }
        };
        entries.iter().map(show).collect()
    }
}

pub(crate) fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn codes(imported: &Imported) -> Vec<&str> {
    imported.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

#[test]
fn f035_the_owner_execute_bit_decides() {
    let bench = Bench::new();
    bench.file("scripts/run.sh", "#!/bin/sh\n", 0o700);
    bench.file("scripts/lib.sh", "#!/bin/sh\n", 0o640);
    bench.file("data.csv", "1", 0o666);
    bench.file("group.sh", "#!/bin/sh\n", 0o654);
    let imported = bench.import();
    let tree = bench.store.tree(&imported.digest).unwrap();
    assert_eq!(mode_of(&tree.path().join("scripts/run.sh")), 0o755);
    assert_eq!(mode_of(&tree.path().join("scripts/lib.sh")), 0o644);
    assert_eq!(mode_of(&tree.path().join("group.sh")), 0o644);
    assert_eq!(mode_of(&tree.path().join("data.csv")), 0o644);
    assert_eq!(mode_of(&tree.path().join("scripts")), 0o755);
    assert_eq!(codes(&imported), [""; 0]);
}

#[test]
fn f037_lost_execute_bits_are_restored_from_shebangs_and_reported() {
    let bench = Bench::new();
    bench.file("scripts/run.sh", "#!/bin/sh\n", 0o644);
    bench.file("data.csv", "1", 0o644);
    let imported = bench.import();
    assert_eq!(bench.stored(&imported), ["SKILL.md", "data.csv", "scripts/", "scripts/run.sh*"]);
    assert_eq!(codes(&imported), ["execute_bit_restored"]);
    assert!(imported.warnings[0].message.contains("scripts/run.sh"));
    let tree = bench.store.tree(&imported.digest).unwrap();
    assert_eq!(mode_of(&tree.path().join("scripts/run.sh")), 0o755);
}

#[test]
fn f037_a_source_without_modes_takes_them_from_shebangs_alone() {
    let bench = Bench::new();
    bench.file("run", "#!/bin/sh\n", 0o644);
    bench.file("data.csv", "1", 0o777);
    let options = ImportOptions { modes: Modes::FromShebang, ..ImportOptions::default() };
    let imported = bench.import_with(&options).unwrap();
    bench.store.verify(&imported.digest).unwrap();
    assert_eq!(bench.stored(&imported), ["SKILL.md", "data.csv", "run*"]);
}

#[test]
fn f039_crlf_on_the_shebang_line_is_reported() {
    let bench = Bench::new();
    bench.file("bad.sh", "#!/bin/sh\r\necho hi\r\n", 0o755);
    bench.file("good.sh", "#!/bin/sh\necho hi\r\n", 0o755);
    bench.file("text.txt", "a\r\nb\r\n", 0o644);
    let imported = bench.import();
    assert_eq!(codes(&imported), ["crlf_shebang"]);
    assert!(imported.warnings[0].message.contains("bad.sh"));
}

#[test]
fn f039_scripts_are_normalised_on_request() {
    let bench = Bench::new();
    bench.file("bad.sh", "#!/bin/sh\r\necho hi\r\n", 0o755);
    bench.file("text.txt", "a\r\nb\r\n", 0o644);
    let options = ImportOptions { normalise_crlf: true, ..ImportOptions::default() };
    let imported = bench.import_with(&options).unwrap();
    bench.store.verify(&imported.digest).unwrap();
    assert_eq!(codes(&imported), ["crlf_normalised"]);
    let tree = bench.store.tree(&imported.digest).unwrap();
    assert_eq!(fs::read_to_string(tree.path().join("bad.sh")).unwrap(), "#!/bin/sh\necho hi\n");
    assert_eq!(fs::read_to_string(tree.path().join("text.txt")).unwrap(), "a\r\nb\r\n");
    assert_eq!(fs::read_to_string(bench.source.join("bad.sh")).unwrap(), "#!/bin/sh\r\necho hi\r\n");
    assert!(
        bench.import_with(&options).unwrap().cached,
        "the source is compared with itself, not with the copy"
    );
}

#[test]
fn f034_the_ignore_file_is_obeyed_and_never_takes_the_manifest() {
    let bench = Bench::new();
    bench.file(".skillignore", "# notes\ntests/\n*.bak\nSKILL.md\n!keep.bak\n/only-here\n", 0o644);
    bench.file("tests/a.py", "", 0o644);
    bench.file("deep/tests/a.py", "", 0o644);
    bench.file("old.bak", "", 0o644);
    bench.file("keep.bak", "", 0o644);
    bench.file("only-here", "", 0o644);
    bench.file("deep/only-here", "", 0o644);
    let imported = bench.import();
    assert_eq!(bench.stored(&imported), ["SKILL.md", "deep/", "deep/only-here", "keep.bak"]);
    assert_eq!(codes(&imported), ["skill_md_kept"]);
}

#[test]
fn f062_junk_is_left_out() {
    let bench = Bench::new();
    for path in
        [".git/config", "lib/__pycache__/x.txt", "lib/x.pyc", ".DS_Store", "node_modules/a/b.js", ".env"]
    {
        bench.file(path, "x", 0o644);
    }
    let imported = bench.import();
    assert_eq!(
        bench.stored(&imported),
        [".env", "SKILL.md", "lib/", "node_modules/", "node_modules/a/", "node_modules/a/b.js"]
    );
}

#[test]
fn links_are_kept_inside_and_never_followed_out() {
    let bench = Bench::new();
    bench.file("a/b/c.txt", "x", 0o644);
    let links = [
        ("a/b/up", "../../SKILL.md"),
        ("a/dir", "b"),
        ("dangling", "nowhere"),
        ("self", "."),
        ("abs", "/etc/passwd"),
        ("a/out", "../../secret"),
        ("a/trick", "dir/../../../x"),
        ("top", ".."),
    ];
    for (name, target) in links {
        symlink(target, bench.source.join(name)).unwrap();
    }
    let imported = bench.import();
    let stored = bench.stored(&imported);
    let kept: Vec<_> = stored.iter().filter(|line| line.contains("->")).collect();
    assert_eq!(kept, ["a/b/up -> ../../SKILL.md", "a/dir -> b", "dangling -> nowhere", "self -> ."]);
    assert_eq!(codes(&imported), ["link_skipped"; 4]);
    assert_eq!(imported.files, 2);
}

#[test]
fn special_files_are_skipped_and_do_not_block() {
    let bench = Bench::new();
    let fifo = bench.source.join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.source.join("socket")).unwrap();
    let imported = bench.import();
    assert_eq!(bench.stored(&imported), ["SKILL.md"]);
    assert_eq!(codes(&imported), ["special_file_skipped"; 2]);
}

#[test]
fn each_limit_has_its_own_error() {
    let bench = Bench::new();
    bench.file("a/b/c/long-name.txt", vec![b'x'; 1000], 0o644);
    let default = ImportOptions::default;
    let error = |options: ImportOptions| bench.import_with(&options).unwrap_err();
    assert!(matches!(
        error(ImportOptions { max_files: 4, ..default() }),
        StoreError::TooManyFiles { limit: 4, .. }
    ));
    assert!(matches!(
        error(ImportOptions { max_bytes: 1000, ..default() }),
        StoreError::TooManyBytes { limit: 1000, .. }
    ));
    assert!(matches!(
        error(ImportOptions { max_depth: 2, ..default() }),
        StoreError::TooDeep { limit: 2, .. }
    ));
    let path = error(ImportOptions { max_path_bytes: 18, ..default() });
    assert!(matches!(&path, StoreError::PathTooLong { limit: 18, .. }), "{path}");
    assert!(bench.import_with(&ImportOptions { max_files: 5, max_depth: 3, ..default() }).is_ok());
    // Nothing half-made is left.
    assert_eq!(fs::read_dir(bench.store.root().join("v1/tmp")).unwrap().count(), 0);
}

#[test]
fn a_missing_source_is_named() {
    let bench = Bench::new();
    let missing = bench.source.join("nowhere");
    let error = bench.store.import(&missing, &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    let file = bench.source.join("SKILL.md");
    assert!(matches!(bench.store.import(&file, &ImportOptions::default()), Err(StoreError::Source { .. })));
}

#[test]
fn the_source_is_left_as_it_is() {
    let bench = Bench::new();
    bench.file("run.sh", "#!/bin/sh\n", 0o600);
    let before = fs::symlink_metadata(bench.source.join("run.sh")).unwrap();
    bench.import();
    let after = fs::symlink_metadata(bench.source.join("run.sh")).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    assert_eq!(mode_of(&bench.source.join("run.sh")), 0o600);
    assert_eq!(fs::read_dir(&bench.source).unwrap().count(), 2);
}

#[test]
fn f029_an_unchanged_source_is_cached_and_any_change_is_seen() {
    let bench = Bench::new();
    bench.file("a.txt", "one", 0o644);
    let first = bench.import();
    assert!(!first.cached);
    let again = bench.import();
    assert!(again.cached);
    assert_eq!((&again.digest, &again.warnings), (&first.digest, &first.warnings));
    // The same size, at once, and with the old times put back: only the kernel's ctime or the content tells.
    let times = fs::metadata(bench.source.join("a.txt")).unwrap();
    fs::write(bench.source.join("a.txt"), "two").unwrap();
    let set = fs::FileTimes::new().set_modified(times.modified().unwrap());
    fs::File::options().write(true).open(bench.source.join("a.txt")).unwrap().set_times(set).unwrap();
    let changed = bench.import();
    assert!(!changed.cached);
    assert_ne!(changed.digest, first.digest);
    // A new file, a mode, a removal, a rename.
    bench.file("b.txt", "", 0o644);
    let added = bench.import();
    bench.file("b.txt", "", 0o755);
    let executable = bench.import();
    fs::remove_file(bench.source.join("b.txt")).unwrap();
    let removed = bench.import();
    fs::rename(bench.source.join("a.txt"), bench.source.join("c.txt")).unwrap();
    let renamed = bench.import();
    assert_ne!(added.digest, changed.digest);
    assert_ne!(executable.digest, added.digest);
    assert_eq!(removed.digest, changed.digest);
    assert_ne!(renamed.digest, removed.digest);
}

#[test]
fn what_is_known_of_a_source_survives_the_process() {
    let bench = Bench::new();
    bench.file("tests/log.txt", "1", 0o644);
    bench.file(".skillignore", "tests/\n", 0o644);
    let first = bench.import();
    let reopened = Store::open(bench.store.root()).unwrap();
    let again = reopened.import(&bench.source, &ImportOptions::default()).unwrap();
    assert!(again.cached);
    assert_eq!(again.digest, first.digest);
    // What is ignored may change freely.
    bench.file("tests/log.txt", "22", 0o644);
    assert!(reopened.import(&bench.source, &ImportOptions::default()).unwrap().cached);
    // The ignore file itself may not.
    bench.file(".skillignore", "nothing/\n", 0o644);
    let changed = reopened.import(&bench.source, &ImportOptions::default()).unwrap();
    assert!(!changed.cached);
    assert_ne!(changed.digest, first.digest);
}

#[test]
fn trust_is_only_given_for_the_time_that_was_asked() {
    let bench = Bench::new();
    let first = bench.import();
    bench.file("a.txt", "new", 0o644);
    let trusting =
        ImportOptions { trust_for: std::time::Duration::from_hours(1), ..ImportOptions::default() };
    assert_eq!(bench.import_with(&trusting).unwrap().digest, first.digest);
    assert_ne!(bench.import().digest, first.digest);
    // A tree that is gone is imported whatever was trusted.
    bench.store.discard(&bench.import().digest).unwrap();
    assert!(!bench.import_with(&trusting).unwrap().cached);
}

#[test]
fn other_options_are_another_import() {
    let bench = Bench::new();
    bench.file("a.txt", "four", 0o644);
    bench.import();
    let options = ImportOptions { max_bytes: 2, ..ImportOptions::default() };
    assert!(matches!(bench.import_with(&options), Err(StoreError::TooManyBytes { .. })));
}

#[test]
fn child_with_umask_077() {
    let Some(folder) = crate::child::folder() else { return };
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let store = Store::open(&folder.join("store")).unwrap();
    let imported = store.import(&folder.join("skill"), &ImportOptions::default()).unwrap();
    let tree = store.tree(&imported.digest).unwrap();
    for (path, mode) in [("SKILL.md", 0o644), ("scripts", 0o755), ("scripts/run.sh", 0o755), ("", 0o755)] {
        assert_eq!(mode_of(&tree.path().join(path)), mode, "{path}");
    }
    store.verify(&imported.digest).unwrap();
    let dir = skillbox_fs::ConfinedDir::open(&folder).unwrap();
    let staging = dir.create_dir_all("staging", 0o700, None).unwrap();
    let skills = dir.create_dir_all("ws/skills", 0o755, None).unwrap();
    skillbox_fs::copy_tree(&tree, &staging, &skills, "skill", None).unwrap();
    skills.write_file("note.txt", &mut &b"x"[..], &skillbox_fs::WriteOptions::default()).unwrap();
    for (path, mode) in
        [("skill", 0o755), ("skill/scripts/run.sh", 0o755), ("skill/SKILL.md", 0o644), ("note.txt", 0o644)]
    {
        assert_eq!(mode_of(&folder.join("ws/skills").join(path)), mode, "{path}");
    }
    assert_eq!(mode_of(&folder.join("ws")), 0o755);
    assert_eq!(mode_of(&folder.join("store")), 0o700);
}

#[test]
fn f036_modes_do_not_depend_on_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("skill");
    fs::create_dir_all(source.join("scripts")).unwrap();
    fs::write(source.join("SKILL.md"), "x").unwrap();
    fs::write(source.join("scripts/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(source.join("scripts/run.sh"), Permissions::from_mode(0o700)).unwrap();
    crate::child::run(crate::child::command("import::child_with_umask_077", folder.path()));
}

/// A tree to be made: path components, and what is at the end.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    File(Vec<u8>, bool),
    Folder,
    Link(String),
}

fn any_tree() -> impl Strategy<Value = std::collections::BTreeMap<String, Node>> {
    let node = prop_oneof![
        (prop::collection::vec(any::<u8>(), 0..4), any::<bool>())
            .prop_map(|(content, x)| Node::File(content, x)),
        Just(Node::Folder),
        "[ab]".prop_map(Node::Link),
    ];
    prop::collection::btree_map("[abé ]", node, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn digests_are_equal_exactly_for_equal_folders(a in any_tree(), b in any_tree()) {
        let bench = Bench::new();
        let import = |name: &str, tree: &std::collections::BTreeMap<String, Node>| {
            let root = bench.source.join(name);
            fs::create_dir(&root).unwrap();
            // One file with the bit: otherwise shebangs would be looked at.
            fs::write(root.join("x"), "").unwrap();
            fs::set_permissions(root.join("x"), Permissions::from_mode(0o755)).unwrap();
            for (path, node) in tree {
                let path = root.join(path);
                match node {
                    Node::File(content, executable) => {
                        fs::write(&path, content).unwrap();
                        fs::set_permissions(&path, Permissions::from_mode(if *executable { 0o755 } else { 0o644 })).unwrap();
                    }
                    Node::Folder => fs::create_dir(&path).unwrap(),
                    Node::Link(target) => symlink(target, &path).unwrap(),
                }
            }
            bench.store.import(&root, &ImportOptions::default()).unwrap().digest
        };
        let (first, second) = (import("first", &a), import("second", &b));
        bench.store.verify(&first).unwrap();
        prop_assert_eq!(first == second, a == b);
        prop_assert_eq!(import("third", &a), first);
    }
}
