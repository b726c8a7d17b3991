//! Many roots, one set of skills.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::diagnostic::{Code, Diagnostic, Note};
use crate::io::{self, NodeId};
use crate::manifest::ReadOptions;
use crate::name;
use crate::scan::{Found, Known, Listings, scan_root};
use crate::skill::{Item, Rejected, Skill};

/// A folder that holds skills, or is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The folder.
    pub path: PathBuf,
    /// A prefix for the [ids](Skill::id) of its skills.
    pub label: Option<String>,
}

impl Root {
    /// A root without a label.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), label: None }
    }

    /// The same root with a label.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

impl<P: Into<PathBuf>> From<P> for Root {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

/// How roots are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanOptions {
    /// How each skill is read.
    pub read: ReadOptions,
    /// How deep below a root a skill's folder may be; 1 is a folder right in the root.
    pub max_depth: usize,
    /// How many folders that are no skills are searched under one root.
    pub max_directories: usize,
    /// Whether folders inside a skill are searched for further skills.
    pub nested_skills: bool,
    /// How many threads read the skills of a large folder.
    pub threads: usize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(4));
        Self {
            read: ReadOptions::default(),
            max_depth: 6,
            max_directories: 2000,
            nested_skills: false,
            threads,
        }
    }
}

/// What the scan found under one root.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RootReport {
    /// The root as it was given.
    pub path: PathBuf,
    /// Whether there is anything at that path.
    pub exists: bool,
    /// Whether it is the same folder as an earlier root, or was searched as a part of one.
    pub duplicate: bool,
    /// Whether a limit on depth or on folders cut the search.
    pub truncated: bool,
    /// Why the root could not be searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// SKILL.md files seen: `loaded` and `rejected`.
    pub seen: usize,
    /// Skills that can be loaded, shadowed ones included.
    pub loaded: usize,
    /// Skills that cannot.
    pub rejected: usize,
    /// Of the loaded ones, those that another skill of the same name hides.
    pub shadowed: usize,
}

impl RootReport {
    /// Whether all but the counts is the same.
    fn is_like(&self, other: &Self) -> bool {
        (self.exists, self.duplicate, self.truncated, &self.error)
            == (other.exists, other.duplicate, other.truncated, &other.error)
    }

    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), ..Self::default() }
    }
}

/// A skill that another one of the same name hides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shadowed {
    /// The name that both have.
    pub name: String,
    /// The folder of the skill that is listed, loaded and run under the name.
    pub winner: PathBuf,
    /// The folder of the hidden one.
    pub dir: PathBuf,
    /// The index of the hidden one's root.
    pub root: usize,
}

/// Why a name does not lead to a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// No skill of that name was seen.
    #[error("there is no skill named '{name}'{}", hint(.nearest))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// Names that are spelled alike, the nearest first.
        nearest: Vec<String>,
    },
    /// The skill is there, but cannot be loaded.
    #[error("the skill '{name}' cannot be loaded: {}", reason(.rejected))]
    Rejected {
        /// The name that was asked for.
        name: String,
        /// The skill and its faults.
        rejected: Arc<Rejected>,
    },
    /// An earlier scan knew the skill, the last one did not find it.
    #[error("the skill '{name}' is no longer available: it was removed from {}", .dir.display())]
    NoLongerAvailable {
        /// The name that was asked for.
        name: String,
        /// Where it was.
        dir: PathBuf,
    },
}

fn hint(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean '{}'?", nearest.join("', '")) }
}

fn reason(rejected: &Rejected) -> String {
    rejected.fault().map_or_else(|| rejected.dir.display().to_string(), ToString::to_string)
}

/// The skills of several roots at one moment; never changes.
///
/// Roots come in the order of their precedence; within one, skills come in the order of their paths. Of two skills
/// with one name the first wins and the other is [shadowed](Self::shadowed). Cloning is cheap.
///
/// ```
/// use skillbox_skill::{Repository, Root, ScanOptions};
///
/// let repository = Repository::scan(&[Root::new("skills")], &ScanOptions::default());
/// for skill in repository.skills() {
///     println!("{}: {}", skill.name(), skill.manifest.listing_description());
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Repository {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    roots: Vec<Root>,
    options: ScanOptions,
    reports: Vec<RootReport>,
    /// All that was found under each root.
    found: Vec<Vec<Arc<Found>>>,
    listings: Vec<Listings>,
    skills: Vec<Arc<Skill>>,
    rejected: Vec<Arc<Rejected>>,
    shadowed: Vec<Shadowed>,
    notices: Vec<Diagnostic>,
    /// From a name's key to the first skill with it.
    index: HashMap<String, usize>,
    /// For each skill the next one with the same key and another spelling.
    next: Vec<Option<usize>>,
    /// Names that an earlier scan had, and where.
    gone: HashMap<String, PathBuf>,
}

impl Repository {
    /// Searches `roots`. Nothing found there makes this fail: what is wrong is in the reports and diagnostics.
    pub fn scan(roots: &[Root], options: &ScanOptions) -> Self {
        Self::build(roots.to_vec(), options.clone(), None)
    }

    /// Searches the same roots again; a SKILL.md that did not change is not read again.
    ///
    /// Unchanged means: the same inode, size, modification and change time, and neither time within two seconds of
    /// the scan that read it, so that a change within the clock's grain is not missed. The same holds for folders and
    /// their listings.
    #[must_use]
    pub fn rescan(&self) -> Self {
        Self::build(self.inner.roots.clone(), self.inner.options.clone(), Some(self))
    }

    fn build(roots: Vec<Root>, options: ScanOptions, previous: Option<&Self>) -> Self {
        let mut visited = HashSet::new();
        let mut links = false;
        let mut notices = Vec::new();
        let mut reports = Vec::with_capacity(roots.len());
        let mut found = Vec::with_capacity(roots.len());
        let mut listings = Vec::with_capacity(roots.len());
        for (index, root) in roots.iter().enumerate() {
            let known = previous.and_then(|previous| {
                let (found, listings) =
                    (previous.inner.found.get(index)?, previous.inner.listings.get(index)?);
                Some(Known { found, listings })
            });
            let scan = scan_root(index, root, &options, &mut visited, known);
            links |= scan.links;
            notices.extend(scan.notices);
            reports.push(scan.report);
            found.push(scan.found);
            listings.push(scan.listings);
        }
        if links || roots.len() > 1 {
            drop_repeated(&mut found, &mut notices);
        }
        if let Some(previous) = previous
            && previous.inner.notices == notices
            && reports.iter().zip(&previous.inner.reports).all(|(now, then)| now.is_like(then))
            && same(&previous.inner.found, &found)
        {
            return previous.clone();
        }
        let gone = previous.map(Self::names).unwrap_or_default();
        let mut inner = Inner {
            roots,
            options,
            reports,
            skills: Vec::new(),
            rejected: Vec::new(),
            shadowed: Vec::new(),
            notices,
            index: HashMap::new(),
            next: Vec::new(),
            found,
            listings,
            gone,
        };
        inner.resolve();
        Self { inner: Arc::new(inner) }
    }

    /// The skills, in the order of roots and paths; no name twice.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Arc<Skill>> {
        self.inner.skills.iter()
    }

    /// How many skills there are.
    pub fn len(&self) -> usize {
        self.inner.skills.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inner.skills.is_empty()
    }

    /// The skills that cannot be loaded, with their faults.
    pub fn rejected(&self) -> &[Arc<Rejected>] {
        &self.inner.rejected
    }

    /// The skills that others of the same name hide.
    pub fn shadowed(&self) -> &[Shadowed] {
        &self.inner.shadowed
    }

    /// The roots with their counts, in the order in which they were given.
    pub fn roots(&self) -> &[RootReport] {
        &self.inner.reports
    }

    /// What is to be said about the roots and folders: links that lead nowhere, limits that were hit.
    pub fn notices(&self) -> &[Diagnostic] {
        &self.inner.notices
    }

    /// The skill of a name: as its author spells it, else without regard to case and to `_` or `-`.
    pub fn lookup(&self, name: &str) -> Result<&Arc<Skill>, LookupError> {
        let inner = &*self.inner;
        let key = name::lookup_key(name.trim());
        if let Some(&first) = inner.index.get(&key) {
            let exact = inner
                .find(first, |skill| skill.name().as_str() == name || skill.manifest.display_name() == name);
            return Ok(&inner.skills[exact.unwrap_or(first)]);
        }
        let fits = |other: &str| name::lookup_key(other) == key;
        if let Some(rejected) =
            inner.rejected.iter().find(|rejected| fits(&rejected.name) || fits(&rejected.folder))
        {
            return Err(LookupError::Rejected { name: name.to_owned(), rejected: Arc::clone(rejected) });
        }
        if let Some(dir) = inner.gone.get(&key) {
            return Err(LookupError::NoLongerAvailable { name: name.to_owned(), dir: dir.clone() });
        }
        Err(LookupError::Unknown { name: name.to_owned(), nearest: self.nearest(&key) })
    }

    fn nearest(&self, key: &str) -> Vec<String> {
        const ALIKE: f64 = 0.8;
        const MOST: usize = 3;
        let mut ranked: Vec<(f64, &str)> = self
            .inner
            .skills
            .iter()
            .map(|skill| {
                let name = skill.name().as_str();
                (strsim::jaro_winkler(key, &name::lookup_key(name)), name)
            })
            .filter(|(score, _)| *score >= ALIKE)
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        ranked.into_iter().take(MOST).map(|(_, name)| name.to_owned()).collect()
    }

    fn names(&self) -> HashMap<String, PathBuf> {
        let mut names = self.inner.gone.clone();
        for skill in &self.inner.skills {
            names.insert(name::lookup_key(skill.name().as_str()), skill.dir.clone());
        }
        names
    }
}

impl Inner {
    /// Sorts what was found into skills, shadowed and rejected ones.
    fn resolve(&mut self) {
        let found = std::mem::take(&mut self.found);
        let total = found.iter().map(Vec::len).sum();
        self.index.reserve(total);
        self.skills.reserve(total);
        self.next.reserve(total);
        for (root, found) in found.iter().enumerate() {
            for found in found {
                let report = &mut self.reports[root];
                report.seen += 1;
                match &found.item {
                    Item::Rejected(rejected) => {
                        report.rejected += 1;
                        self.rejected.push(Arc::clone(rejected));
                    }
                    Item::Loaded(skill) => {
                        report.loaded += 1;
                        self.add(root, skill);
                    }
                }
            }
        }
        self.found = found;
    }

    fn add(&mut self, root: usize, skill: &Arc<Skill>) {
        let index = self.skills.len();
        let key = name::lookup_key(skill.name().as_str());
        if let Some(&first) = self.index.get(&key) {
            if let Some(winner) = self.find(first, |other| other.name() == skill.name()) {
                self.reports[root].shadowed += 1;
                self.shadowed.push(Shadowed {
                    name: skill.name().to_string(),
                    winner: self.skills[winner].dir.clone(),
                    dir: skill.dir.clone(),
                    root,
                });
                return;
            }
            let mut last = first;
            while let Some(next) = self.next[last] {
                last = next;
            }
            self.next[last] = Some(index);
        } else {
            self.index.insert(key, index);
        }
        self.skills.push(Arc::clone(skill));
        self.next.push(None);
    }

    /// The first skill of a chain that fits.
    fn find(&self, first: usize, fits: impl Fn(&Skill) -> bool) -> Option<usize> {
        let mut at = Some(first);
        while let Some(index) = at {
            if fits(&self.skills[index]) {
                return Some(index);
            }
            at = self.next[index];
        }
        None
    }
}

/// Drops folders that were reached on more than one way, all but the first.
fn drop_repeated(found: &mut [Vec<Arc<Found>>], notices: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<NodeId, PathBuf> = HashMap::new();
    for found in found {
        found.retain(|found| {
            let dir = found.dir();
            let Some(earlier) = seen.get(&found.node) else {
                seen.insert(found.node, dir.to_path_buf());
                return true;
            };
            // The number in a listing is not always that of the folder (where something is mounted on it).
            if !io::same_dir(earlier, dir) {
                return true;
            }
            let message = format!("this skill was already found as {}", earlier.display());
            notices.push(Note::lint(Code::AlreadyScanned, message).in_file(dir));
            false
        });
    }
}

fn same(a: &[Vec<Arc<Found>>], b: &[Vec<Arc<Found>>]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b)))
}

/// The conventional places for skills, in the order of precedence: those of the project at `cwd`, then those of the
/// user at `home`. They need not exist.
pub fn conventional_roots(cwd: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let project = ["skills", ".agents/skills", ".claude/skills"].map(|path| cwd.join(path));
    let user = [".agents/skills", ".claude/skills", ".config/skillbox/skills"];
    project.into_iter().chain(home.into_iter().flat_map(|home| user.map(|path| home.join(path)))).collect()
}
