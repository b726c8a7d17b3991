//! The files of a fresh skill.

use skillbox_types::SkillName;

use crate::manifest::MAX_DESCRIPTION_CHARS;
use crate::name;

/// A file of a new skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFile {
    /// Relative to the skill's folder, with forward slashes.
    pub path: &'static str,
    /// The whole text.
    pub content: String,
    /// Whether it gets the execute bits.
    pub executable: bool,
}

/// Why no skill can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The name breaks a rule of the specification.
    #[error("'{name}' cannot name a new skill: {reason}")]
    Name {
        /// The name that was given.
        name: String,
        /// The rule.
        reason: String,
    },
    /// The description is empty or too long.
    #[error("the description must have 1 to {MAX_DESCRIPTION_CHARS} characters, not {0}")]
    Description(usize),
}

/// The files of a new skill that passes the strict rules and runs with python3 alone.
///
/// ```
/// let files = skillbox_skill::new_skill("hello", "Greets somebody. Use it to see that all works.")?;
/// assert_eq!(files[0].path, "SKILL.md");
/// # Ok::<(), skillbox_skill::TemplateError>(())
/// ```
pub fn new_skill(name: &str, description: &str) -> Result<Vec<TemplateFile>, TemplateError> {
    let refuse = |reason: String| TemplateError::Name { name: name.to_owned(), reason };
    let mut notes = Vec::new();
    let normal = name::nfkc(name);
    SkillName::new(&*normal).map_err(|error| refuse(error.to_string()))?;
    name::check(&normal, &mut notes);
    if let Some(note) = notes.into_iter().next() {
        return Err(refuse(note.message));
    }
    let description = description.trim();
    let count = description.chars().count();
    if count == 0 || count > MAX_DESCRIPTION_CHARS {
        return Err(TemplateError::Description(count));
    }
    Ok(vec![
        TemplateFile { path: "SKILL.md", content: skill_md(&normal, description), executable: false },
        TemplateFile { path: "scripts/main.py", content: MAIN_PY.to_owned(), executable: true },
        TemplateFile { path: "references/details.md", content: DETAILS_MD.to_owned(), executable: false },
    ])
}

fn skill_md(name: &str, description: &str) -> String {
    // A JSON string is a YAML double-quoted scalar: no description needs a closer look.
    let quoted_name = serde_json::Value::from(name);
    let quoted_description = serde_json::Value::from(description);
    format!(
        "---
name: {quoted_name}
description: {quoted_description}
---

# {name}

Run the script from this folder; results appear in `out/`:

    python3 scripts/main.py --title \"My report\"

It writes `out/report.md` and `out/report.json`. `python3 scripts/main.py --help` lists the options.
Read `references/details.md` only when you need the format of the files.
"
    )
}

const MAIN_PY: &str = include_str!("../template/scripts/main.py");
const DETAILS_MD: &str = include_str!("../template/references/details.md");
