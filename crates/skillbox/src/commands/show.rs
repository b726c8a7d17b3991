//! `skillbox show`.

use std::os::unix::ffi::OsStrExt as _;

use serde::Serialize;
use skillbox_fs::{EntryKind, ImportOptions, Store};
use skillbox_skill::{Repository, Root, ScanOptions, Skill};
use skillbox_types::{FileName, OutputFile, SkillDigest, Warning};

use crate::args::ShowArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::output::{
    Columns, Talk, clean, clean_prose, human_size, plain_table, print_json, print_line, printable,
};
use crate::selection;

/// What `show --json` prints.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    skill: &'a Skill,
    /// Whether it keeps every rule of the specification.
    strict: bool,
    digest: SkillDigest,
    bytes: u64,
    files: Vec<ShownFile>,
    /// What importing it gave occasion to say.
    warnings: Vec<Warning>,
}

#[derive(Debug, Serialize)]
struct ShownFile {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    #[serde(flatten)]
    kind: ShownKind,
    #[serde(skip)]
    exact: FileName,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ShownKind {
    File { size_bytes: u64, executable: bool },
    Link { target: String },
}

pub(super) fn show(args: &ShowArgs, environment: &Environment, talk: &Talk) -> Result<u8, Failure> {
    let selected = selection::select(&args.skill, &args.roots, environment)?;
    let roots: Vec<Root> = selected.roots.into_iter().map(Root::from).collect();
    let repository = Repository::scan(&roots, &ScanOptions::default());
    let skill = selection::lookup(&repository, &selected.name)?;
    let shown = read(skill)?;
    if args.json {
        print_json(&shown)?;
    } else {
        print(&shown, talk)?;
    }
    Ok(0)
}

/// Imports the skill into a store that is thrown away: what a run would see, and nothing kept.
fn read(skill: &Skill) -> Result<Shown<'_>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("the files of the skill cannot be read: {error}"))
    };
    let temporary = tempfile::tempdir().map_err(|error| failed(&error))?;
    let store = Store::open(&temporary.path().join("store")).map_err(|error| failed(&error))?;
    let imported = store.import(&skill.dir, &ImportOptions::default()).map_err(|error| failed(&error))?;
    let entries =
        store.tree(&imported.digest).and_then(|tree| tree.entries()).map_err(|error| failed(&error))?;
    let files = entries.into_iter().filter_map(|entry| {
        let exact = FileName::from_bytes(entry.path);
        let kind = match entry.kind {
            EntryKind::File { size, executable, .. } => ShownKind::File { size_bytes: size, executable },
            EntryKind::Symlink { target } => {
                ShownKind::Link { target: String::from_utf8_lossy(&target).into_owned() }
            }
            EntryKind::Directory => return None,
        };
        let (path, path_base64) = OutputFile::name_fields(&exact);
        Some(ShownFile { path, path_base64, kind, exact })
    });
    Ok(Shown {
        skill,
        strict: skill.is_strict(),
        digest: imported.digest,
        bytes: imported.bytes,
        files: files.collect(),
        warnings: imported.warnings,
    })
}

fn print(shown: &Shown<'_>, talk: &Talk) -> Result<(), Failure> {
    let manifest = &shown.skill.manifest;
    let field = |name: &str, value: &str| {
        print_line(&format!("{name:<14} {}", clean_prose(value).replace('\n', "\n               ")))
    };
    field("name", manifest.display_name())?;
    field("description", &manifest.description)?;
    for (name, value) in [
        ("license", &manifest.license),
        ("compatibility", &manifest.compatibility),
        ("allowed-tools", &manifest.allowed_tools),
    ] {
        if let Some(value) = value {
            field(name, value)?;
        }
    }
    for (name, value) in manifest.metadata() {
        field(
            "metadata",
            &format!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        )?;
    }
    for (name, value) in manifest.extra() {
        field(&clean(&name), &value.as_str().map_or_else(|| value.to_string(), str::to_owned))?;
    }
    field("folder", &printable(shown.skill.dir.as_os_str().as_bytes()))?;
    field("digest", shown.digest.as_str())?;
    field("specification", if shown.strict { "kept" } else { "not kept; see the warnings" })?;
    let rows = shown.files.iter().map(|file| {
        let (size, kind) = match &file.kind {
            ShownKind::File { size_bytes, executable } => {
                (human_size(*size_bytes), if *executable { "executable" } else { "" }.to_owned())
            }
            ShownKind::Link { target } => {
                (String::new(), format!("link to {}", printable(target.as_bytes())))
            }
        };
        vec![printable(file.exact.as_bytes()), size, kind]
    });
    print_line(&format!("\n{}", plain_table(&["FILE", "SIZE", ""], rows, Columns::Free)))?;
    for diagnostic in &shown.skill.diagnostics {
        match diagnostic.severity {
            skillbox_skill::Severity::Lint => talk.note(&diagnostic.to_string()),
            _ => talk.warning(&diagnostic.to_string()),
        }
    }
    shown.warnings.iter().for_each(|warning| talk.warning(&warning.message));
    Ok(())
}
