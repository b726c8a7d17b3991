//! Commands about skills that run nothing.

use std::path::PathBuf;

use clap::Args;

/// Where skills are searched.
#[derive(Debug, Clone, Args)]
pub(crate) struct RootArgs {
    /// A folder of skills; give it again for more, the first wins
    #[arg(long = "skills", value_name = "ROOT")]
    pub(crate) skills: Vec<PathBuf>,
}

/// The arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object: the roots with their counts, and the skills loaded, rejected and shadowed
    #[arg(long)]
    pub(crate) json: bool,

    /// Where to search.
    #[command(flatten)]
    pub(crate) roots: RootArgs,
}

/// The arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The skill's name, or the path of its folder
    #[arg(value_name = "NAME")]
    pub(crate) skill: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Where to search.
    #[command(flatten)]
    pub(crate) roots: RootArgs,
}

/// The arguments of `validate`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 when every skill is good, 1 otherwise.")]
pub(crate) struct ValidateArgs {
    /// Folders of skills, or their SKILL.md files
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// Ask for every rule of the specification, not only for what keeps a skill from loading
    #[arg(long)]
    pub(crate) strict: bool,

    /// Print a JSON array with both verdicts and every diagnostic
    #[arg(long)]
    pub(crate) json: bool,
}

/// One skill by its path.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// The skill's folder, or its SKILL.md
    pub(crate) path: PathBuf,
}

/// Skills by their paths.
#[derive(Debug, Args)]
pub(crate) struct PathsArgs {
    /// The skills' folders, or their SKILL.md files
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

/// The arguments of `new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The skill's name: lower-case letters, digits and single hyphens
    pub(crate) name: String,

    /// What the skill does and when to use it
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// The folder to make the skill's folder in
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}
