//! Every test and measurement that SPECIFICATION.md names exists.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "reads the checkout's own sources")]

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn specification_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let specification = fs::read_to_string(root.join("SPECIFICATION.md")).unwrap();
    let sources = sources(&root.join("crates"));
    let names = names_held_by(&specification);
    assert!(names.len() > 100, "only {} names were found: has the form of the tables changed?", names.len());
    let missing: Vec<_> = names
        .iter()
        .filter(|name| {
            let (test, measurement) = (format!("fn {name}("), format!("\"{name}\""));
            !sources.iter().any(|(is_bench, text)| {
                text.contains(if *is_bench { measurement.as_str() } else { test.as_str() })
            })
        })
        .collect();
    assert!(
        missing.is_empty(),
        "SPECIFICATION.md names tests or measurements that do not exist: {missing:?}"
    );
}

/// The names in backticks in the last column of every table that ends with the column "Held by".
fn names_held_by(specification: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut within = false;
    for line in specification.lines() {
        let last = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')).map(last_cell);
        within = match last {
            Some("Held by") => true,
            Some(_) => within,
            None => false,
        };
        if let Some(cell) = last.filter(|_| within) {
            let quoted = cell.split('`').skip(1).step_by(2);
            names.extend(quoted.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')));
        }
    }
    names
}

fn last_cell(row: &str) -> &str {
    row.rsplit(" | ").next().unwrap_or(row).trim()
}

/// The text of every Rust source below `dir`, and whether it is a bench's.
fn sources(dir: &Path) -> Vec<(bool, String)> {
    let mut folders: Vec<PathBuf> = vec![dir.to_owned()];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let is_bench = path.components().any(|part| part.as_os_str() == "benches");
                texts.push((is_bench, fs::read_to_string(path).unwrap()));
            }
        }
    }
    texts
}

#[test]
fn names_are_taken_from_the_last_column_alone() {
    let text =
        "| a | Held by |\n|---|---|\n| `not_this` | `this_one`, *contract* `and_this` |\n\n`nor_this`\n";
    assert_eq!(names_held_by(text), ["this_one", "and_this"]);
}
