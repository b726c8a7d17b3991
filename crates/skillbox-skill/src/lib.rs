//! SKILL.md: parsing, validation and the repository over many roots.
//!
//! One parser stands behind every entry point. It gives each skill two verdicts: *strict*, whether the skill keeps
//! every rule of the [Agent Skills specification](https://agentskills.io/specification), and *loadable*, whether
//! skillbox can use it anyway. Every deviation is a [`Diagnostic`] with a stable [`Code`]; nothing is dropped in
//! silence.
//!
//! - [`Repository::scan`] finds the skills of several roots; [`Repository::lookup`] gives one by its name.
//! - [`validate`], [`read_properties`] and [`to_prompt`] answer as the reference tool `skills-ref` does.
//! - [`new_skill`] makes the files of a fresh skill.
//!
//! Listing reads no bodies: a SKILL.md is read to its closing fence, and never beyond
//! [`MAX_FRONT_MATTER_BYTES`]. Everything in a skill is hostile text.

mod diagnostic;
mod front_matter;
mod io;
mod manifest;
mod name;
mod recover;
mod reference;
mod repository;
mod scan;
mod simple;
mod skill;
mod split;
mod template;
mod yaml;

pub use diagnostic::{Code, Diagnostic, Severity};
pub use front_matter::FrontMatter;
pub use manifest::{MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, Manifest, ReadOptions};
pub use name::MAX_NAME_CHARS;
pub use reference::{
    PropertiesError, Validation, Verdict, format_properties, read_properties, read_skill, skills_to_prompt,
    to_prompt, validate,
};
pub use repository::{LookupError, Repository, Root, RootReport, ScanOptions, Shadowed, conventional_roots};
pub use skill::{BodyError, MAX_SKILL_MD_BYTES, Rejected, Skill, TextReport, read_text};
pub use split::MAX_FRONT_MATTER_BYTES;
pub use template::{TemplateError, TemplateFile, new_skill};
