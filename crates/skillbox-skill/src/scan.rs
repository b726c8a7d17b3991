//! Looking for skills under a root, with as few system calls as it takes.
//!
//! One `openat` of `<folder>/SKILL.md` tells a skill from a group of skills; the kind of an entry comes with the
//! listing; a re-scan asks only for the identity of each SKILL.md.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic, Note};
use crate::io::{self, Dir, Entry, Identity, Kind, Listing, NodeId, Target};
use crate::repository::{Root, RootReport, ScanOptions};
use crate::skill::{Item, Place, read_manifest};

/// Folders with fewer entries are not worth a second thread.
const WORTH_A_THREAD: usize = 256;

/// A SKILL.md, as a re-scan needs to know it.
#[derive(Debug)]
pub(crate) struct Found {
    /// The skill's folder, relative to its root.
    relative: Box<[u8]>,
    /// The skill's folder itself.
    pub(crate) node: NodeId,
    /// Absent where the file must be read again in any case.
    identity: Option<Identity>,
    pub(crate) item: Item,
}

impl Found {
    /// The skill's folder, as reached from its root.
    pub(crate) fn dir(&self) -> &Path {
        match &self.item {
            Item::Loaded(skill) => &skill.dir,
            Item::Rejected(rejected) => &rejected.dir,
        }
    }
}

/// What was found under one root, in the order of the paths.
#[derive(Debug, Default)]
pub(crate) struct RootScan {
    pub(crate) found: Vec<Arc<Found>>,
    pub(crate) notices: Vec<Diagnostic>,
    pub(crate) report: RootReport,
    /// Whether a link was followed, so that a folder may have been reached twice.
    pub(crate) links: bool,
    pub(crate) listings: Listings,
}

/// What the folders that were gone through held, by their relative paths: a folder in which nothing came or went
/// since need not be listed again.
pub(crate) type Listings = HashMap<Box<[u8]>, (Identity, Arc<Listing>)>;

/// What the last scan of a root knew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) found: &'a [Arc<Found>],
    pub(crate) listings: &'a Listings,
}

/// Scans `root`. `visited` holds the groups that earlier roots went through.
pub(crate) fn scan_root(
    index: usize,
    root: &Root,
    options: &ScanOptions,
    visited: &mut HashSet<NodeId>,
    previous: Option<Known<'_>>,
) -> RootScan {
    let mut result = RootScan { report: RootReport::new(&root.path), ..RootScan::default() };
    let dir = match io::open_root(&root.path) {
        Ok(dir) => dir,
        Err(error) => {
            result.report.exists = io::path_kind(&root.path) != io::PathKind::Absent;
            if result.report.exists {
                result.report.error = Some(format!("the root cannot be opened: {error}"));
            }
            return result;
        }
    };
    result.report.exists = true;
    if !visited.insert(dir.id) {
        result.report.duplicate = true;
        return result;
    }
    let mut scanner = Scanner {
        shared: Shared {
            root: index,
            label: root.label.as_deref(),
            options,
            now: io::now_seconds(),
            previous: previous.map(|known| by_parent(known.found)).unwrap_or_default(),
            listings: previous.map(|known| known.listings),
        },
        visited,
        directories: 0,
        result,
    };
    scanner.root(&dir, &root.path);
    scanner.result
}

/// The name of a skill's folder and what was found there.
type Named<'a> = (&'a [u8], &'a Arc<Found>);

/// What was found, by the parent's relative path; sorted by name.
type ByParent<'a> = HashMap<&'a [u8], Vec<Named<'a>>>;

/// What the threads share.
struct Shared<'a> {
    root: usize,
    label: Option<&'a str>,
    options: &'a ScanOptions,
    now: i64,
    /// What the last scan found.
    previous: ByParent<'a>,
    listings: Option<&'a Listings>,
}

fn by_parent(found: &[Arc<Found>]) -> ByParent<'_> {
    let mut groups = ByParent::new();
    for found in found {
        let path = &*found.relative;
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        groups.entry(parent).or_default().push((name, found));
    }
    groups
}

/// What an entry of a folder turned out to be.
enum Probe {
    Skill(Arc<Found>),
    Group,
    Nothing,
    Notice(Note),
}

/// A folder that is gone through.
#[derive(Clone, Copy)]
struct Folder<'a> {
    dir: &'a Dir,
    path: &'a Path,
    relative: &'a [u8],
}

/// A SKILL.md that may be there.
struct Candidate<'a> {
    /// Its path under the folder that is gone through.
    path: &'a CStr,
    /// The name of the skill's folder under that one; empty for the root itself.
    name: &'a OsStr,
    /// The name of the skill's folder, for the specification.
    folder: &'a OsStr,
    node: NodeId,
    known: Option<&'a Arc<Found>>,
}

impl Shared<'_> {
    /// Reads a SKILL.md, unless it is known and unchanged.
    fn read(&self, at: Folder<'_>, candidate: &Candidate<'_>, buffer: &mut Vec<u8>) -> Option<Arc<Found>> {
        let Candidate { path, name, folder, node, known } = *candidate;
        if let Some(known) = known
            && known.node == node
            && known.identity.is_some()
            && io::identity(&at.dir.fd, path) == known.identity
        {
            return Some(Arc::clone(known));
        }
        let opened = io::open_file(&at.dir.fd, path).transpose()?;
        // A link within the skill: its identity is known only now.
        if let (Some(known), Ok(file)) = (known, &opened)
            && known.node == node
            && known.identity == Some(file.identity)
        {
            return Some(Arc::clone(known));
        }
        let dir = if name.is_empty() { at.path.to_path_buf() } else { at.path.join(name) };
        let place = Place { root: self.root, label: self.label, dir, file_name: "SKILL.md", folder };
        let mut identity = None;
        let item = match opened {
            Ok(file) => match read_manifest(&file, folder, self.options.read, buffer) {
                Ok(outcome) => {
                    identity = Some(file.identity).filter(|identity| !identity.is_racy(self.now));
                    place.item(outcome)
                }
                Err(error) => place.refuse(&error.into()),
            },
            Err(error) => place.refuse(&error),
        };
        Some(Arc::new(Found { relative: join(at.relative, name).into_boxed_slice(), node, identity, item }))
    }

    fn probe(
        &self,
        at: Folder<'_>,
        listing: &Listing,
        entry: &Entry,
        known: Option<&Arc<Found>>,
        buffer: &mut Vec<u8>,
    ) -> Probe {
        let name = listing.name(entry);
        let node = match entry.kind {
            Kind::Dir => (at.dir.id.0, entry.ino),
            Kind::Other => return Probe::Nothing,
            Kind::Link => match io::link_target(at.dir, name) {
                Target::Dir(node) => node,
                Target::NotADir => {
                    let message = "a link to something that is not a folder, so no skill";
                    return Probe::Notice(Note::lint(Code::LinkToFile, message));
                }
                Target::Nowhere => {
                    let message = "a link that leads nowhere; remove it or restore its target";
                    return Probe::Notice(Note {
                        strict: false,
                        ..Note::warning(Code::DanglingLink, message)
                    });
                }
            },
        };
        let candidate = Candidate { path: listing.skill_md(entry), name, folder: name, node, known };
        match self.read(at, &candidate, buffer) {
            Some(found) => Probe::Skill(found),
            None => Probe::Group,
        }
    }

    /// Probes every entry, in their order.
    fn probe_all(&self, at: Folder<'_>, listing: &Listing) -> Vec<Probe> {
        let known = self.previous.get(at.relative).map(Vec::as_slice).unwrap_or_default();
        let probe_part = |part: &[Entry]| -> Vec<Probe> {
            let mut buffer = Vec::new();
            let mut known = Search::new(known);
            part.iter()
                .map(|entry| {
                    let known = known.find(listing.name(entry).as_bytes());
                    self.probe(at, listing, entry, known, &mut buffer)
                })
                .collect()
        };
        let entries = &listing.entries;
        let threads = self.options.threads.max(1);
        if threads == 1 || entries.len() < WORTH_A_THREAD {
            return probe_part(entries);
        }
        let probe_part = &probe_part;
        let mut parts = entries.chunks(entries.len().div_ceil(threads));
        let Some(own) = parts.next() else { return Vec::new() };
        std::thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| (part, scope.spawn(move || probe_part(part)))).collect();
            let mut probes = probe_part(own);
            for (part, other) in others {
                // A thread that died of a panic: do its part here, where the panic (if it comes again) has a caller.
                probes.extend(other.join().unwrap_or_else(|_| probe_part(part)));
            }
            probes
        })
    }
}

/// Finds known skills by their names, asked for in sorted order.
struct Search<'a> {
    sorted: &'a [Named<'a>],
    next: usize,
}

impl<'a> Search<'a> {
    fn new(sorted: &'a [Named<'a>]) -> Self {
        Self { sorted, next: 0 }
    }

    fn find(&mut self, name: &[u8]) -> Option<&'a Arc<Found>> {
        // The usual case: nothing came or went since.
        let at = match self.sorted.get(self.next) {
            Some((next, _)) if *next == name => self.next,
            _ => self.sorted.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?,
        };
        self.next = at + 1;
        Some(self.sorted[at].1)
    }
}

fn join(base: &[u8], name: &OsStr) -> Vec<u8> {
    let mut path = Vec::with_capacity(base.len() + 1 + name.len());
    if !base.is_empty() {
        path.extend_from_slice(base);
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    path
}

struct Scanner<'a> {
    shared: Shared<'a>,
    visited: &'a mut HashSet<NodeId>,
    directories: usize,
    result: RootScan,
}

impl Scanner<'_> {
    fn root(&mut self, dir: &Dir, path: &Path) {
        let at = Folder { dir, path, relative: b"" };
        // The folder's own name, also where the root was given as "." or "..".
        let resolved;
        let folder = if let Some(name) = path.file_name() {
            name
        } else {
            resolved = io::resolve(path);
            resolved.file_name().unwrap_or_default()
        };
        let known = self.shared.previous.get(&b""[..]).and_then(|known| known.first());
        let known = known.filter(|(name, _)| name.is_empty()).map(|(_, found)| *found);
        let candidate = Candidate { path: c"SKILL.md", name: OsStr::new(""), folder, node: dir.id, known };
        if let Some(found) = self.shared.read(at, &candidate, &mut Vec::new()) {
            self.result.found.push(found);
            if !self.shared.options.nested_skills {
                return;
            }
        }
        self.group(at, 1);
    }

    fn group(&mut self, at: Folder<'_>, depth: usize) {
        self.directories += 1;
        let listing = match self.list(at) {
            Ok(listing) => listing,
            Err(error) => {
                let note = Note::warning(Code::Unreadable, format!("the folder cannot be listed: {error}"));
                self.notice(Note { strict: false, ..note }, at.path);
                return;
            }
        };
        if let Some(name) = &listing.misspelt {
            let message = "only the spelling SKILL.md is recognised; rename the file";
            let note = Note { strict: false, ..Note::warning(Code::LowerCaseFileName, message) };
            self.notice(note, &at.path.join(OsStr::from_bytes(name)));
        }
        let probes = self.shared.probe_all(at, &listing);
        for (entry, probe) in listing.entries.iter().zip(probes) {
            self.result.links |= entry.kind == Kind::Link;
            match probe {
                Probe::Skill(found) => {
                    self.result.found.push(found);
                    if self.shared.options.nested_skills {
                        self.descend(at, listing.name(entry), depth);
                    }
                }
                Probe::Group => self.descend(at, listing.name(entry), depth),
                Probe::Notice(note) => self.notice(note, &at.path.join(listing.name(entry))),
                Probe::Nothing => {}
            }
        }
    }

    fn list(&mut self, at: Folder<'_>) -> std::io::Result<Arc<Listing>> {
        let identity = at.dir.identity;
        let known = self.shared.listings.and_then(|listings| listings.get(at.relative));
        let listing = match known {
            Some((then, listing)) if *then == identity => Arc::clone(listing),
            _ => Arc::new(io::list(at.dir)?),
        };
        if !identity.is_racy(self.shared.now) {
            self.result.listings.insert(at.relative.into(), (identity, Arc::clone(&listing)));
        }
        Ok(listing)
    }

    fn descend(&mut self, at: Folder<'_>, name: &OsStr, depth: usize) {
        let path: PathBuf = at.path.join(name);
        let options = self.shared.options;
        if depth >= options.max_depth {
            self.limit(&path, &format!("folders deeper than {} levels are not searched", options.max_depth));
            return;
        }
        if self.directories >= options.max_directories {
            self.limit(
                &path,
                &format!("only the first {} folders of a root are searched", options.max_directories),
            );
            return;
        }
        let dir = match io::open_dir(&at.dir.fd, name) {
            Ok(dir) => dir,
            Err(error) => {
                let note = Note::warning(Code::Unreadable, format!("the folder cannot be opened: {error}"));
                self.notice(Note { strict: false, ..note }, &path);
                return;
            }
        };
        if !self.visited.insert(dir.id) {
            let message = "this folder was already searched under another path";
            self.notice(Note::lint(Code::AlreadyScanned, message), &path);
            return;
        }
        let relative = join(at.relative, name);
        self.group(Folder { dir: &dir, path: &path, relative: &relative }, depth + 1);
    }

    /// Says once per root that the scan is not complete.
    fn limit(&mut self, path: &Path, message: &str) {
        if !self.result.report.truncated {
            self.result.report.truncated = true;
            let note =
                Note::warning(Code::ScanLimit, format!("{message}; raise the limit or give a deeper root"));
            self.notice(Note { strict: false, ..note }, path);
        }
    }

    fn notice(&mut self, note: Note, path: &Path) {
        self.result.notices.push(note.in_file(path));
    }
}
