//! The folders of a session.
//!
//! ```text
//! <state>/sessions/<id>/       closed to everyone but the engine
//!     lock                     held as long as an engine has the session open
//!     ws/                      /workspace of the sandbox, owned by its user
//!         skills/ work/inputs/ out/ runs/
//!     home/                    the sandbox's home
//!     layers/<skill>-<digest>/ a session's changes to a skill: upper/ and work/
//!     spare/                   mount points and layers made ahead, so that loading a skill only renames them
//!     staging/                 copies in the making
//! <state>/trash/               sessions that are being removed
//! ```

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use skillbox_fs::{ConfinedDir, FileKind, FsError, Owner, remove_tree};
use skillbox_types::SessionId;

use crate::EngineError;

/// The workspace as every sandbox sees it.
pub(crate) const WORKSPACE: &str = "/workspace";
/// The home folder as every sandbox sees it.
pub(crate) const HOME: &str = "/home/skillbox";

/// The links inside a skill's folder, and where they lead.
pub(crate) const SKILL_LINKS: [(&str, &str); 3] =
    [("out", "../../out"), ("work", "../../work"), ("inputs", "../../work/inputs")];

/// A session's folders, locked.
#[derive(Debug)]
pub(crate) struct SessionDirs {
    pub(crate) root: PathBuf,
    pub(crate) dir: ConfinedDir,
    state: PathBuf,
    name: String,
    lock: File,
}

/// How often a folder is made anew that another engine took away while it was in the making.
const ATTEMPTS: u32 = 100;
/// Skills that can be loaded without a folder having to be made.
const SPARE: usize = 2;

impl SessionDirs {
    /// Makes the folders of a new session.
    pub(crate) fn create(state: &Path, id: &SessionId) -> Result<Self, EngineError> {
        let dirs = Self::lock(state, id)?;
        dirs.make_workspace(None)?;
        Ok(dirs)
    }

    /// Makes what loading skills needs, so that loading the first ones only renames it.
    pub(crate) fn make_spare(&self) -> Result<(), EngineError> {
        self.dir.create_dir_all("layers", 0o755, None)?;
        for index in 0..SPARE {
            make_layers(&self.dir, &format!("spare/layers{index}"), None)?;
            self.dir.create_dir_all(format!("spare/mount{index}").as_str(), 0o755, None)?;
        }
        Ok(())
    }

    /// Finds the folders of a session that was kept; `None` where there are none.
    pub(crate) fn find(state: &Path, id: &SessionId) -> Result<Option<Self>, EngineError> {
        let sessions = ConfinedDir::open(&state.join("sessions"))?;
        match sessions.open_dir(id.as_str()) {
            Ok(_) => {}
            Err(FsError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let dirs = Self::lock(state, id)?;
        let owner = crate::run::owner_of(&dirs.workspace()).map(|uid| Owner { uid, gid: uid });
        dirs.make_workspace(owner)?;
        Ok(Some(dirs))
    }

    fn lock(state: &Path, id: &SessionId) -> Result<Self, EngineError> {
        let sessions = ConfinedDir::open(&state.join("sessions"))?;
        let root = state.join("sessions").join(id.as_str());
        let path = root.join("lock");
        for _ in 0..ATTEMPTS {
            let dir = sessions.create_dir_all(id.as_str(), 0o700, None)?;
            let lock = match crate::files::lock(&path) {
                Ok(Some(lock)) => lock,
                // An engine that reclaims holds the lock of what it takes away, for a moment.
                Ok(None) if id.as_str().starts_with(EPHEMERAL) => continue,
                Ok(None) => return Err(EngineError::SessionInUse(id.clone())),
                Err(_) if !crate::files::exists(&root) => continue,
                Err(error) => return Err(error),
            };
            // It may have been taken away between its making and its locking.
            if crate::files::is_at(&lock, &path) {
                return Ok(Self { root, dir, state: state.to_owned(), name: id.as_str().to_owned(), lock });
            }
        }
        Err(EngineError::SessionInUse(id.clone()))
    }

    /// Makes the folders, and puts right what commands of a kept session did to them: a mode that closes one, something else in
    /// its place, which is moved aside.
    fn make_workspace(&self, owner: Option<Owner>) -> Result<(), EngineError> {
        for path in ["ws", "home"] {
            open_up(&self.dir, path);
            self.dir.create_dir_all(path, 0o755, None)?;
        }
        let ws = self.dir.open_dir("ws")?;
        for path in ["skills", "work", "work/inputs", "out", "runs"] {
            open_up(&ws, path);
            if ws.create_dir_all(path, 0o755, owner).is_err() {
                move_aside(&ws, path)?;
                ws.create_dir_all(path, 0o755, owner)?;
            }
        }
        Ok(())
    }

    /// Gives the session another name, which must be free.
    pub(crate) fn rename(&mut self, id: &SessionId) -> Result<(), EngineError> {
        let sessions = ConfinedDir::open(&self.state.join("sessions"))?;
        match sessions.rename(self.name.as_str(), &sessions, id.as_str()) {
            Ok(()) => {}
            Err(FsError::Exists { .. }) => return Err(EngineError::SessionInUse(id.clone())),
            Err(error) => return Err(error.into()),
        }
        self.root = self.state.join("sessions").join(id.as_str());
        id.as_str().clone_into(&mut self.name);
        Ok(())
    }

    /// Its name.
    pub(crate) fn id(&self) -> Result<SessionId, EngineError> {
        SessionId::new(self.name.clone()).map_err(|e| EngineError::Task(e.to_string()))
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.join("ws")
    }

    /// The number of the next command: after those whose folders are there.
    pub(crate) fn next_run(&self) -> u64 {
        let runs = self.dir.open_dir("ws/runs").and_then(|runs| runs.list("")).unwrap_or_default();
        let last = runs.iter().filter_map(|name| name.display().parse::<u64>().ok()).max();
        last.map_or(1, |last| last.saturating_add(1))
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Where copies are put together.
    pub(crate) fn staging(&self) -> Result<ConfinedDir, FsError> {
        self.dir.create_dir_all("staging", 0o700, None)
    }

    /// What the sandbox's user must own.
    pub(crate) fn owned(&self) -> Vec<PathBuf> {
        let mut owned = vec![self.workspace(), self.home()];
        for index in 0..SPARE {
            for path in [format!("spare/layers{index}/upper"), format!("spare/mount{index}")] {
                if self.dir.metadata(path.as_str()).is_ok() {
                    owned.push(self.root.join(path));
                }
            }
        }
        for skill in self.dir.list("layers").unwrap_or_default() {
            owned.push(self.root.join("layers").join(skill.display()).join("upper"));
        }
        owned
    }

    /// The session's changes to a skill that is mounted.
    pub(crate) fn upper(&self, skill: &str, digest_hex: &str) -> PathBuf {
        self.root.join(layers_name(skill, digest_hex)).join("upper")
    }

    /// Puts the session's changes to a skill aside, so that the next layers are new. An overlay that is mounted on them goes on.
    pub(crate) fn discard_layers(&self, skill: &str, digest_hex: &str) -> Result<(), FsError> {
        let name = layers_name(skill, digest_hex);
        if self.dir.metadata(name.as_str()).is_ok() { move_aside(&self.dir, &name) } else { Ok(()) }
    }

    /// The layers of a skill: those that the session has already, or new ones.
    pub(crate) fn layers(
        &self,
        skill: &str,
        digest_hex: &str,
        owner: Option<Owner>,
    ) -> Result<PathBuf, FsError> {
        let name = layers_name(skill, digest_hex);
        let path = self.root.join(&name);
        if self.dir.metadata(name.as_str()).is_ok() {
            // The overlay's own scratch; what an earlier sandbox left there must not be used again.
            let layers = self.dir.open_dir(name.as_str())?;
            remove_tree(layers.as_fd(), b"work")?;
            layers.create_dir("work", 0o700, None)?;
            return Ok(path);
        }
        for index in 0..SPARE {
            if self.dir.rename(format!("spare/layers{index}").as_str(), &self.dir, name.as_str()).is_ok() {
                return Ok(path);
            }
        }
        make_layers(&self.dir, &name, owner)?;
        Ok(path)
    }

    /// An empty folder `skills/<name>` of the workspace, as a place for a mount.
    pub(crate) fn mount_point(&self, skill: &str, owner: Option<Owner>) -> Result<(), FsError> {
        let skills = self.dir.open_dir("ws/skills")?;
        open_up(&skills, skill);
        if skills.metadata(skill).is_ok_and(|there| there.kind != FileKind::Directory) {
            move_aside(&skills, skill)?;
        }
        for index in 0..SPARE {
            match self.dir.rename(format!("spare/mount{index}").as_str(), &skills, skill) {
                Ok(()) => return Ok(()),
                Err(FsError::NotFound { .. }) => {}
                Err(_) => break,
            }
        }
        skills.create_dir_all(skill, 0o755, owner).map(|_| ())
    }

    /// Puts the session out of reach at once; what is returned removes its files.
    pub(crate) fn discard(self) -> Result<impl FnOnce() -> Result<(), FsError> + Send + use<>, FsError> {
        let sessions = ConfinedDir::open(&self.state.join("sessions"))?;
        let trash = ConfinedDir::open(&self.state.join("trash"))?;
        sessions.rename(self.name.as_str(), &trash, self.name.as_str())?;
        let (name, lock) = (self.name, self.lock);
        Ok(move || {
            let removed = remove_tree(trash.as_fd(), name.as_bytes()).map(|_| ());
            drop(lock);
            removed
        })
    }
}

fn layers_name(skill: &str, digest_hex: &str) -> String {
    format!("layers/{skill}-{}", &digest_hex[..16])
}

/// An overlay's layers, with the links that every skill's folder has.
fn make_layers(dir: &ConfinedDir, path: &str, owner: Option<Owner>) -> Result<(), FsError> {
    let layers = dir.create_dir_all(path, 0o700, None)?;
    layers.create_dir("work", 0o700, None)?;
    let upper = layers.create_dir("upper", 0o755, owner)?;
    make_links(&upper, owner)
}

/// Makes the links of a skill's folder; what a skill ships under their names gives way.
pub(crate) fn make_links(folder: &ConfinedDir, owner: Option<Owner>) -> Result<(), FsError> {
    for (name, target) in SKILL_LINKS {
        remove_tree(folder.as_fd(), name.as_bytes())?;
        folder.symlink(target.as_bytes(), name, owner)?;
    }
    Ok(())
}

/// The prefix of sessions that nobody named: they end with the engine that opened them.
pub(crate) const EPHEMERAL: &str = "tmp-";

/// Gives a folder the mode back that lets its owner in; anything else, a link above all, is left alone.
fn open_up(dir: &ConfinedDir, path: &str) {
    use rustix::fs::{Mode, OFlags, ResolveFlags, chmod, openat2};
    use std::os::fd::AsRawFd as _;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(folder) =
        openat2(dir, path, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    {
        // A descriptor that only names the folder takes no fchmod(2); by way of /proc it is that very folder.
        let _ = chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::from_raw_mode(0o755));
    }
}

/// Renames what stands in the place of a folder.
fn move_aside(ws: &ConfinedDir, path: &str) -> Result<(), FsError> {
    for number in 1..1000 {
        match ws.rename(path, ws, format!("{path}.moved-aside-{number}").as_str()) {
            Err(FsError::Exists { .. }) => {}
            other => return other,
        }
    }
    Err(FsError::Exists { path: path.to_owned() })
}

/// The sessions that were kept.
pub(crate) fn kept(state: &Path) -> Result<Vec<SessionId>, EngineError> {
    let names = ConfinedDir::open(&state.join("sessions"))?.list("")?;
    let kept =
        names.iter().map(skillbox_types::FileName::display).filter(|name| !name.starts_with(EPHEMERAL));
    let mut kept: Vec<SessionId> = kept.filter_map(|name| SessionId::new(name).ok()).collect();
    kept.sort();
    Ok(kept)
}

/// Removes what engines that are gone left of their unnamed sessions, and of sessions that were being removed; answers how many.
///
/// `is_alone` says that no other engine lives: then a folder without a lock is nobody's.
pub(crate) fn reclaim(state: &Path, is_alone: bool) -> Result<usize, EngineError> {
    let sessions = ConfinedDir::open(&state.join("sessions"))?;
    let trash = ConfinedDir::open(&state.join("trash"))?;
    // `None` for what is alive. The lock of what is dead is held as long as it is handled, so that nobody takes it meanwhile.
    let dead = |folder: &str, name: &str| -> Option<Option<File>> {
        let lock = state.join(folder).join(name).join("lock");
        if crate::files::exists(&lock) {
            crate::files::lock_existing(&lock).ok().flatten().map(Some)
        } else {
            is_alone.then_some(None)
        }
    };
    // Into the trash first: whoever dies in the middle of a removal leaves something that is known to be one.
    for name in sessions.list("")? {
        let text = name.display();
        if !text.starts_with(EPHEMERAL) {
            continue;
        }
        if let Some(_lock) = dead("sessions", &text) {
            match sessions.rename(&name, &trash, &name) {
                Ok(()) => {}
                Err(FsError::Exists { .. }) => drop(remove_tree(sessions.as_fd(), name.as_bytes())?),
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut count = 0;
    for name in trash.list("")? {
        if let Some(_lock) = dead("trash", &name.display()) {
            remove_tree(trash.as_fd(), name.as_bytes())?;
            count += 1;
        }
    }
    Ok(count)
}
