//! A SKILL.md that is a link must not show files of the host that the skill's author could not read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use skillbox_skill::{BodyError, Code, ReadOptions, read_properties, read_skill, to_prompt, validate};

use crate::support::{Skills, codes, good};

const SECRET: &str = "the-secret-of-the-host";

/// A file outside every skill that reads as a skill, the secret in each part.
fn secret_file(outside: &Skills) -> std::path::PathBuf {
    let text = format!("---\nname: {SECRET}\ndescription: {SECRET}\n---\n{SECRET}\n");
    outside.file("private.md", text);
    outside.path().join("private.md")
}

/// Every way to write a link that leads out of the skill `ROOT/evil`.
fn ways_out(root: &Path, secret: &Path) -> Vec<std::path::PathBuf> {
    let up = "../".repeat(64);
    vec![
        secret.to_path_buf(),
        format!("{up}{}", secret.display().to_string().trim_start_matches('/')).into(),
        format!("/proc/self/root{}", secret.display()).into(),
        "../neighbour/SKILL.md".into(),
        "../evil/inner.md".into(),
        root.join("evil/inner.md"),
        "chain.md".into(),
        "folder/private.md".into(),
        "/dev/zero".into(),
        "/etc/passwd".into(),
        "/nowhere/at/all".into(),
    ]
}

#[test]
fn a_skill_md_that_leads_out_of_its_skill_is_rejected_and_nothing_of_it_is_shown() {
    let (skills, outside) = (Skills::new(), Skills::new());
    let secret = secret_file(&outside);
    skills.good("neighbour", "neighbour");
    skills.file("evil/inner.md", good("evil"));
    symlink(&secret, skills.path().join("evil/chain.md")).unwrap();
    symlink(outside.path(), skills.path().join("evil/folder")).unwrap();
    let (dir, file) = (skills.path().join("evil"), skills.path().join("evil/SKILL.md"));
    for target in ways_out(skills.path(), &secret) {
        symlink(&target, &file).unwrap();
        let repository = skills.scan();
        let [rejected] = repository.rejected() else { panic!("{target:?}: {:?}", repository.rejected()) };
        let fault = rejected.fault().unwrap();
        assert_eq!(fault.code, Code::LinkLeadsOut, "{target:?}");
        assert!(fault.message.contains("leads out of the skill's folder"), "{fault}");
        assert_eq!(
            (fault.code.as_str(), &rejected.name, &fault.file),
            ("link_leads_out", &"evil".to_owned(), &file)
        );

        let checked = validate(&file, false);
        assert!(!checked.valid && codes(&checked.diagnostics) == [Code::LinkLeadsOut], "{checked:?}");
        let read = read_skill(&dir, ReadOptions::default()).unwrap_err();
        assert_eq!(codes(&read), [Code::LinkLeadsOut]);
        let said = [
            format!("{repository:?}"),
            format!("{checked:?}"),
            format!("{:?}", read_properties(&dir).unwrap_err()),
            format!("{:?}", to_prompt([&dir])),
        ];
        assert!(said.iter().all(|text| !text.contains(SECRET)), "{target:?}: {said:?}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_skill_md_that_links_within_its_skill_is_read() {
    let skills = Skills::new();
    skills.file("s/docs/deep/text.md", good("s"));
    symlink("deep", skills.path().join("s/docs/alias")).unwrap();
    symlink("alias/../alias/text.md", skills.path().join("s/docs/SKILL.md")).unwrap();
    symlink("docs/SKILL.md", skills.path().join("s/SKILL.md")).unwrap();
    let repository = skills.scan();
    let skill = repository.lookup("s").unwrap();
    assert_eq!(skill.read_body().unwrap(), "# Body\n");
    assert!(validate(&skill.dir, true).valid);
    assert_eq!(read_properties(&skill.file()).unwrap()["name"], "s");
    // A change behind the link is seen.
    skills.file("s/docs/deep/text.md", good("s").replace("test", "best"));
    assert_eq!(repository.rescan().lookup("s").unwrap().description(), "A best skill.");
}

#[test]
fn f023_a_skill_folder_that_is_a_link_may_hold_links_of_its_own_but_none_that_lead_out() {
    let (skills, shared) = (Skills::new(), Skills::new());
    let secret = secret_file(&shared);
    shared.file("fine/text.md", good("fine"));
    symlink("text.md", shared.path().join("fine/SKILL.md")).unwrap();
    shared.file("evil/text.md", good("evil"));
    symlink("../private.md", shared.path().join("evil/SKILL.md")).unwrap();
    assert!(secret.exists());
    for name in ["fine", "evil"] {
        symlink(shared.path().join(name), skills.path().join(name)).unwrap();
    }
    let repository = skills.scan();
    assert_eq!(repository.lookup("fine").unwrap().dir, skills.path().join("fine"));
    assert_eq!(repository.rejected()[0].fault().unwrap().code, Code::LinkLeadsOut);
    // A root that is a skill, and a link, is no different.
    assert!(validate(&skills.path().join("fine"), false).valid);
    assert!(!validate(&skills.path().join("evil"), false).valid);
}

#[test]
fn a_skill_md_that_is_turned_into_a_link_after_the_scan_gives_no_body() {
    let (skills, outside) = (Skills::new(), Skills::new());
    let dir = skills.good("s", "s");
    let repository = skills.scan();
    fs::remove_file(dir.join("SKILL.md")).unwrap();
    symlink(secret_file(&outside), dir.join("SKILL.md")).unwrap();
    let body = repository.lookup("s").unwrap().read_body();
    assert!(matches!(body, Err(BodyError::LeadsOut(_))), "{body:?}");
    assert_eq!(repository.rescan().rejected()[0].fault().unwrap().code, Code::LinkLeadsOut);
}

#[test]
fn links_without_an_end_and_to_pipes_are_no_skills() {
    let skills = Skills::new();
    skills.file("loop/x", "");
    symlink("SKILL.md", skills.path().join("loop/SKILL.md")).unwrap();
    skills.file("pipe/x", "");
    let pipe = skills.path().join("pipe/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink("fifo", skills.path().join("pipe/SKILL.md")).unwrap();
    let repository = skills.scan();
    let faults: Vec<Code> =
        repository.rejected().iter().map(|rejected| rejected.fault().unwrap().code).collect();
    assert_eq!(faults, [Code::Unreadable, Code::NotAFile]);
}
