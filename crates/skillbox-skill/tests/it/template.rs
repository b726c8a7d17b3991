//! The template of `skillbox new`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use skillbox_skill::{TemplateError, new_skill, read_properties, validate};

use crate::support::Skills;

fn make(name: &str, description: &str) -> (Skills, std::path::PathBuf) {
    let skills = Skills::new();
    let dir = skills.path().join(name);
    for file in new_skill(name, description).unwrap() {
        skills.file(&format!("{name}/{}", file.path), &file.content);
        if file.executable {
            std::fs::set_permissions(dir.join(file.path), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    (skills, dir)
}

#[test]
fn a_new_skill_is_strictly_valid_whatever_its_description() {
    for description in [
        "Plain.",
        "With: colons, \"quotes\" and 'more' # here",
        "数据\\分析 — \u{1F600}\tand\nlines",
        "- &a *b",
    ] {
        let (_skills, dir) = make("fresh-skill", description);
        let validation = validate(&dir, true);
        assert!(validation.valid, "{description}: {:?}", validation.diagnostics);
        assert_eq!(read_properties(&dir).unwrap()["description"], description);
    }
}

#[test]
fn a_new_skill_runs_and_writes_to_out() {
    let (_skills, dir) = make("fresh-skill", "Makes a report.");
    let output = Command::new("python3").arg("scripts/main.py").current_dir(&dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(dir.join("out/report.md").is_file() && dir.join("out/report.json").is_file());
}

#[test]
fn bad_names_and_descriptions_are_refused() {
    for name in ["", "My Skill", "a/b", "a_b", "-a", "a--b"] {
        assert!(matches!(new_skill(name, "d"), Err(TemplateError::Name { .. })), "{name}");
    }
    assert_eq!(new_skill("a", " "), Err(TemplateError::Description(0)));
    assert_eq!(new_skill("a", &"x".repeat(1025)), Err(TemplateError::Description(1025)));
}
