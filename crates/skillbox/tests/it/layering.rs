//! Dependencies point one way, as docs/architecture.md draws it.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::lab::manifest_dir;

/// What each crate may depend on, of ours: everything else is against the design.
const ALLOWED: &[(&str, &[&str])] = &[
    ("skillbox-types", &[]),
    ("skillbox-fs", &["skillbox-types"]),
    ("skillbox-skill", &["skillbox-types", "skillbox-fs"]),
    ("skillbox-init", &["skillbox-types", "skillbox-fs"]),
    ("skillbox-executor", &["skillbox-types", "skillbox-fs", "skillbox-init"]),
    ("skillbox-sandbox", &["skillbox-types", "skillbox-fs", "skillbox-init", "skillbox-executor"]),
    (
        "skillbox-engine",
        &["skillbox-types", "skillbox-fs", "skillbox-skill", "skillbox-init", "skillbox-executor"],
    ),
    (
        "skillbox-testkit",
        &[
            "skillbox-types",
            "skillbox-fs",
            "skillbox-skill",
            "skillbox-init",
            "skillbox-executor",
            "skillbox-sandbox",
            "skillbox-engine",
        ],
    ),
    (
        "skillbox",
        &[
            "skillbox-types",
            "skillbox-fs",
            "skillbox-skill",
            "skillbox-init",
            "skillbox-executor",
            "skillbox-sandbox",
            "skillbox-engine",
        ],
    ),
];

#[test]
fn dependencies_point_one_way_needs_cargo() {
    let manifest = manifest_dir().join("../../Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        seen.insert(name.to_owned());
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("{name} is not in the table of this test: give it its place"));
            continue;
        };
        for dependency in &package.dependencies {
            let on = dependency.name.as_str();
            let ours = on == "skillbox" || on.starts_with("skillbox-");
            let for_tests = dependency.kind == DependencyKind::Development;
            if ours && !for_tests && !allowed.contains(&on) {
                wrong.push(format!("{name} depends on {on}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen.contains("skillbox-engine"), "{seen:?}");
}
