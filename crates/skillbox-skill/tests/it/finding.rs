//! Field reports on finding skills, and what a repository promises.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use skillbox_skill::{
    Code, LookupError, Repository, Root, ScanOptions, conventional_roots, skills_to_prompt,
};

use crate::support::{Skills, codes, good};

fn names(repository: &Repository) -> Vec<String> {
    repository.skills().map(|skill| skill.name().to_string()).collect()
}

#[test]
fn f023_links_to_folders_are_followed_and_other_links_reported() {
    let skills = Skills::new();
    let shared = Skills::new();
    let target = shared.good("linked", "linked");
    symlink(&target, skills.path().join("linked")).unwrap();
    symlink("nowhere", skills.path().join("dangling")).unwrap();
    skills.file("some.txt", "x");
    symlink("some.txt", skills.path().join("file")).unwrap();
    let repository = skills.scan();
    assert_eq!(names(&repository), ["linked"]);
    assert_eq!(repository.lookup("linked").unwrap().dir, skills.path().join("linked"));
    assert_eq!(codes(repository.notices()), [Code::DanglingLink, Code::LinkToFile]);
    assert_eq!(repository.notices()[0].file, skills.path().join("dangling"));
}

#[test]
fn f023_loops_of_links_end() {
    let skills = Skills::new();
    skills.good("group/inner", "inner");
    symlink("..", skills.path().join("group/up")).unwrap();
    symlink(".", skills.path().join("group/self")).unwrap();
    symlink("loop", skills.path().join("loop")).unwrap();
    let repository = skills.scan();
    assert_eq!(names(&repository), ["inner"]);
    assert_eq!(codes(repository.notices()), [Code::AlreadyScanned, Code::AlreadyScanned, Code::DanglingLink]);
}

#[test]
fn f023_one_folder_on_two_ways_counts_once() {
    let skills = Skills::new();
    skills.good("zeta", "zeta");
    symlink("zeta", skills.path().join("alias")).unwrap();
    let repository = skills.scan();
    assert_eq!(repository.roots()[0].seen, 1);
    assert!(repository.shadowed().is_empty());
    assert_eq!(codes(repository.notices()), [Code::AlreadyScanned]);
}

#[test]
fn f025_no_skills_inside_skills() {
    let skills = Skills::new();
    skills.good("n", "n");
    skills.good("n/vendor/other", "other");
    assert_eq!(names(&skills.scan()), ["n"]);
    let mut options = ScanOptions::default();
    options.nested_skills = true;
    assert_eq!(names(&Repository::scan(&[Root::new(skills.path())], &options)), ["n", "other"]);
}

#[test]
fn f027_root_order_then_sorted_path_decides() {
    let (first, second) = (Skills::new(), Skills::new());
    second.good("a", "same");
    first.good("z", "same");
    first.good("m/x", "same");
    let roots = [Root::new(first.path()), Root::new(second.path())];
    for _ in 0..20 {
        let repository = Repository::scan(&roots, &ScanOptions::default());
        assert_eq!(repository.lookup("same").unwrap().dir, first.path().join("m/x"));
        let shadowed: Vec<&Path> = repository.shadowed().iter().map(|shadowed| &*shadowed.dir).collect();
        assert_eq!(shadowed, [first.path().join("z"), second.path().join("a")]);
        assert!(repository.shadowed().iter().all(|shadowed| shadowed.winner == first.path().join("m/x")));
        assert_eq!((repository.roots()[0].loaded, repository.roots()[0].shadowed), (2, 1));
    }
}

#[test]
fn f028_listing_and_lookup_give_the_same_skill() {
    let skills = Skills::new();
    skills.good("one", "same");
    skills.good("two", "same");
    let repository = skills.scan();
    let listed = repository.skills().next().unwrap();
    assert_eq!(repository.len(), 1);
    assert!(Arc::ptr_eq(listed, repository.lookup("SAME").unwrap()));
}

#[test]
fn f030_a_body_edit_leaves_the_listing_alone_and_a_removed_skill_says_so() {
    let skills = Skills::new();
    let dir = skills.good("s", "s");
    let first = skills.scan();
    let listing = |repository: &Repository| skills_to_prompt(repository.skills().map(|skill| &**skill));
    fs::write(dir.join("SKILL.md"), good("s") + "more text\n").unwrap();
    let second = first.rescan();
    assert_eq!(listing(&first), listing(&second));
    assert!(second.lookup("s").unwrap().read_body().unwrap().contains("more text"));
    fs::remove_dir_all(&dir).unwrap();
    let third = second.rescan();
    assert_eq!(
        third.lookup("S"),
        Err(LookupError::NoLongerAvailable { name: "S".to_owned(), dir: dir.clone() })
    );
}

#[test]
fn a_rescan_sees_every_change_at_once() {
    let skills = Skills::new();
    let dir = skills.good("a", "a");
    skills.good("b", "b");
    let repository = skills.scan();
    // The same size, within the clock's grain.
    fs::write(dir.join("SKILL.md"), good("a").replace("test", "best")).unwrap();
    let repository = repository.rescan();
    assert_eq!(repository.lookup("a").unwrap().description(), "A best skill.");
    skills.good("c", "c");
    skills.good("group/d", "d");
    fs::remove_file(skills.path().join("b/SKILL.md")).unwrap();
    let repository = repository.rescan();
    assert_eq!(names(&repository), ["a", "c", "d"]);
    skills.skill("c", "broken");
    let repository = repository.rescan();
    assert!(matches!(repository.lookup("c"), Err(LookupError::Rejected { .. })));
}

#[test]
fn a_rescan_of_unchanged_skills_reads_none() {
    let skills = Skills::new();
    let dir = skills.good("a", "a");
    // Two seconds after its last change a file is settled.
    let settled = || {
        let modified = fs::metadata(dir.join("SKILL.md")).unwrap().modified().unwrap();
        modified.elapsed().is_ok_and(|age| age.as_secs() >= 4)
    };
    while !settled() {
        std::thread::yield_now();
    }
    let first = skills.scan();
    let second = first.rescan();
    assert!(Arc::ptr_eq(first.lookup("a").unwrap(), second.lookup("a").unwrap()));
    // What was settled and changes then is seen all the same.
    skills.good("b", "b");
    skills.good("group/c", "c");
    let third = second.rescan();
    assert_eq!(names(&third), ["a", "b", "c"]);
    assert!(Arc::ptr_eq(first.lookup("a").unwrap(), third.lookup("a").unwrap()));
    fs::write(dir.join("SKILL.md"), good("a").replace("test", "best")).unwrap();
    fs::remove_dir_all(skills.path().join("b")).unwrap();
    let fourth = third.rescan();
    assert_eq!(names(&fourth), ["a", "c"]);
    assert_eq!(fourth.lookup("a").unwrap().description(), "A best skill.");
}

#[test]
fn a_rescan_sees_a_root_appear_and_vanish() {
    let skills = Skills::new();
    let root = skills.path().join("later");
    let repository = Repository::scan(&[Root::new(&root)], &ScanOptions::default());
    assert!(!repository.roots()[0].exists);
    fs::create_dir(&root).unwrap();
    let repository = repository.rescan();
    assert!(repository.roots()[0].exists && repository.is_empty());
    skills.good("later/s", "s");
    assert_eq!(names(&repository.rescan()), ["s"]);
    fs::remove_dir_all(&root).unwrap();
    assert!(!repository.rescan().roots()[0].exists);
}

#[test]
fn a_link_that_is_turned_elsewhere_is_noticed() {
    let skills = Skills::new();
    let (one, two) = (Skills::new(), Skills::new());
    symlink(one.good("s", "one"), skills.path().join("s")).unwrap();
    let repository = skills.scan();
    fs::remove_file(skills.path().join("s")).unwrap();
    symlink(two.good("s", "two"), skills.path().join("s")).unwrap();
    assert_eq!(names(&repository.rescan()), ["two"]);
}

#[test]
fn groups_nest_and_git_and_node_modules_are_skipped() {
    let skills = Skills::new();
    skills.good("x/y/z", "z");
    skills.good(".git/hooked", "hooked");
    skills.good("x/node_modules/dep", "dep");
    skills.good(".system/hidden", "hidden");
    assert_eq!(names(&skills.scan()), ["hidden", "z"]);
}

#[test]
fn depth_and_number_of_folders_are_bounded_and_said() {
    let skills = Skills::new();
    skills.good("1/2/3/4/5/six", "six");
    skills.good("1/2/3/4/5/6/seven", "seven");
    let repository = skills.scan();
    assert_eq!(names(&repository), ["six"]);
    assert!(repository.roots()[0].truncated);
    assert_eq!(codes(repository.notices()), [Code::ScanLimit]);
    let mut options = ScanOptions::default();
    options.max_directories = 2;
    let repository = Repository::scan(&[Root::new(skills.path())], &options);
    assert!(repository.roots()[0].truncated && repository.is_empty());
}

#[test]
fn a_root_may_be_a_skill_itself_and_may_be_missing_or_given_twice() {
    let skills = Skills::new();
    let dir = skills.good("s", "s");
    let missing = skills.path().join("missing");
    let file = dir.join("SKILL.md");
    let roots = [Root::new(&dir), Root::new(&missing), Root::new(&dir), Root::new(&file)];
    let repository = Repository::scan(&roots, &ScanOptions::default());
    assert_eq!(names(&repository), ["s"]);
    assert_eq!(repository.lookup("s").unwrap().dir, dir);
    let reports = repository.roots();
    assert!(reports[0].exists && !reports[1].exists && reports[2].duplicate);
    assert!(reports[3].exists && reports[3].error.is_some());
    assert_eq!(reports[2].seen, 0);
    assert_eq!(names(&repository.rescan()), ["s"]);
}

#[test]
fn unknown_names_get_the_nearest_ones() {
    let skills = Skills::new();
    for name in ["report-writer", "report-reader", "image-tool"] {
        skills.good(name, name);
    }
    let repository = skills.scan();
    let error = repository.lookup("report-writr").unwrap_err();
    let LookupError::Unknown { nearest, .. } = &error else { panic!() };
    assert_eq!(nearest[0], "report-writer");
    assert!(!nearest.contains(&"image-tool".to_owned()));
    assert_eq!(repository.lookup("zzz").unwrap_err().to_string(), "there is no skill named 'zzz'");
}

#[test]
fn what_is_no_regular_file_is_rejected_and_never_waited_for() {
    let skills = Skills::new();
    fs::create_dir_all(skills.path().join("dir/SKILL.md")).unwrap();
    fs::create_dir_all(skills.path().join("socket")).unwrap();
    let socket = skills.path().join("socket/SKILL.md");
    let _listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    fs::create_dir_all(skills.path().join("pipe")).unwrap();
    let pipe = skills.path().join("pipe/SKILL.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let repository = skills.scan();
    assert_eq!(repository.rejected().len(), 3);
    assert!(repository.rejected().iter().all(|rejected| rejected.fault().unwrap().code == Code::NotAFile));
}

#[test]
fn only_the_exact_file_name_is_found_and_others_are_pointed_out() {
    let skills = Skills::new();
    skills.file("s/skill.md", good("s"));
    let repository = skills.scan();
    assert!(repository.is_empty());
    assert_eq!(codes(repository.notices()), [Code::LowerCaseFileName]);
}

#[test]
fn many_skills_are_found_in_the_same_order_by_any_number_of_threads() {
    let skills = Skills::new();
    for number in 0..700 {
        skills.good(&format!("skill-{number}"), &format!("skill-{number}"));
    }
    let mut options = ScanOptions::default();
    options.threads = 1;
    let roots = [Root::new(skills.path())];
    let alone = names(&Repository::scan(&roots, &options));
    assert_eq!(alone.len(), 700);
    for threads in [2, 3, 8] {
        options.threads = threads;
        assert_eq!(names(&Repository::scan(&roots, &options)), alone);
    }
}

#[test]
fn the_conventional_roots() {
    let roots = conventional_roots(Path::new("/p"), Some(Path::new("/home/u")));
    let wanted = [
        "/p/skills",
        "/p/.agents/skills",
        "/p/.claude/skills",
        "/home/u/.agents/skills",
        "/home/u/.claude/skills",
        "/home/u/.config/skillbox/skills",
    ];
    assert_eq!(roots, wanted.map(std::path::PathBuf::from));
    assert_eq!(conventional_roots(Path::new("/p"), None).len(), 3);
}
