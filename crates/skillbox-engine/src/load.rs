//! Skills into the workspace.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;

use skillbox_executor::{ExecutorError, Sandbox, SkillMount};
use skillbox_fs::{ConfinedDir, Imported, Owner, Tree, copy_tree, remove_tree};
use skillbox_types::{MaterializeMethod, SkillDigest, SkillName, SkillUse, Warning, WorkspacePath};

use crate::changes::local_changes;
use crate::session::{SessionInner, SessionState};
use crate::workspace::{EPHEMERAL, SKILL_LINKS, SessionDirs, make_links};
use crate::{EngineError, Session, record};

/// What to do when a skill changed at its source while its copy was changed in the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// Answer [`EngineError::SkillConflict`] and change nothing.
    #[default]
    Fail,
    /// Keep the copy as it is.
    Keep,
    /// Replace it, and lose its changes.
    Discard,
}

/// A skill that is in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Its name.
    pub name: SkillName,
    /// Digest of the stored tree.
    pub digest: SkillDigest,
    /// How it was placed there.
    pub method: MaterializeMethod,
    /// Its folder, relative to the workspace.
    pub path: WorkspacePath,
    /// Its regular files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether this call changed what is in the workspace; false where the skill was there as it is.
    pub changed: bool,
    /// What its manifest and its files gave occasion to say.
    pub warnings: Vec<Warning>,
}

#[derive(Debug)]
pub(crate) struct LoadedSkill {
    pub(crate) usage: SkillUse,
    pub(crate) tree: Tree,
    /// Paths of the stored tree, read when first needed.
    entries: Option<HashSet<Vec<u8>>>,
}

impl LoadedSkill {
    /// A skill that an earlier engine put into the workspace.
    pub(crate) fn remembered(usage: SkillUse, tree: Tree) -> Self {
        Self { usage, tree, entries: None }
    }

    /// Whether the stored tree has a file at `path`, relative to the skill's folder.
    pub(crate) fn has(&mut self, path: &[u8]) -> bool {
        if self.entries.is_none() {
            let entries = self.tree.entries().unwrap_or_default();
            self.entries = Some(entries.into_iter().map(|entry| entry.path).collect());
        }
        self.entries.as_ref().is_some_and(|entries| entries.contains(path))
    }
}

impl Session {
    /// Loads a skill: a writable copy of it at `skills/<name>`. A skill that is there unchanged costs next to nothing, and
    /// keeps what the session changed in it.
    pub async fn load(&self, name: &str) -> Result<Loaded, EngineError> {
        self.load_with(name, OnConflict::Fail).await
    }

    /// As [`Session::load`], with a choice for the case of a conflict.
    pub async fn load_with(&self, name: &str, on_conflict: OnConflict) -> Result<Loaded, EngineError> {
        let began = Instant::now();
        let skill = self.inner.engine.skills().lookup(name)?.clone();
        let mut state = self.inner.state.lock().await;
        let opening = state.opening;
        let sandbox = self.inner.sandbox(&mut state).await?;
        let opened = state.opening.saturating_sub(opening);

        let (store, dir, owner) =
            (self.inner.engine.inner.store.clone(), skill.dir.clone(), self.inner.id.clone());
        let options = self.inner.engine.inner.import.clone();
        let (imported, tree) = tokio::task::spawn_blocking(move || {
            // A session that ends with its engine needs no pin: nothing is removed from the store while engines live.
            let imported = if owner.as_str().starts_with(EPHEMERAL) {
                store.import(&dir, &options)?
            } else {
                store.import_pinned(&dir, &options, owner.as_str())?.0
            };
            let tree = store.tree(&imported.digest)?;
            Ok::<_, EngineError>((imported, tree))
        })
        .await??;
        let name = skill.name().clone();
        let mut warnings: Vec<Warning> = skill
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == skillbox_skill::Severity::Warning)
            .map(|diagnostic| Warning::new(diagnostic.code.as_str(), diagnostic.to_string()))
            .collect();
        warnings.extend(imported.warnings.iter().cloned());

        let dirs = self.inner.dirs()?;
        if let Some(present) = state.loaded.get(&name) {
            let method = present.usage.method;
            let discarded = on_conflict == OnConflict::Discard && !local_changes(&dirs, present)?.is_empty();
            if present.usage.digest == imported.digest && !discarded {
                return Ok(loaded(&name, &imported, method, false, warnings));
            }
            let changes = local_changes(&dirs, present)?;
            if !changes.is_empty() {
                match on_conflict {
                    OnConflict::Fail => {
                        return Err(EngineError::SkillConflict { name, changed: changes.join(", ") });
                    }
                    OnConflict::Keep => {
                        let kept = Imported {
                            digest: present.usage.digest.clone(),
                            files: present.tree.files(),
                            bytes: present.tree.bytes(),
                            ..imported
                        };
                        return Ok(loaded(&name, &kept, method, false, warnings));
                    }
                    OnConflict::Discard => {}
                }
            }
        }
        if on_conflict == OnConflict::Discard {
            dirs.discard_layers(name.as_str(), imported.digest.hex())?;
        }
        warnings.extend(hidden_by_links(&name, &tree));
        let method = self.inner.place(&mut state, &sandbox, &dirs, &name, &tree, &mut warnings).await?;
        // What the model is told must be readable where it runs.
        let manifest = format!("skills/{name}/SKILL.md");
        if let Err(error) = sandbox.read(manifest.as_bytes(), 1, |_| Ok(())).await {
            warnings.push(Warning::new(
                "manifest_unreadable",
                format!("the session's own changes make {manifest} unreadable in its workspace: {error}"),
            ));
        }
        let usage = SkillUse { name: name.clone(), digest: imported.digest.clone(), method };
        state.loaded.insert(name.clone(), LoadedSkill { usage, tree, entries: None });
        if !self.inner.id.as_str().starts_with(EPHEMERAL) {
            record::write(&dirs.dir, state.loaded.values().map(|skill| &skill.usage))?;
        }
        state.materializing += began.elapsed().saturating_sub(opened);
        Ok(loaded(&name, &imported, method, true, warnings))
    }
}

fn loaded(
    name: &SkillName,
    imported: &Imported,
    method: MaterializeMethod,
    changed: bool,
    warnings: Vec<Warning>,
) -> Loaded {
    Loaded {
        name: name.clone(),
        digest: imported.digest.clone(),
        method,
        path: skill_path(name),
        files: imported.files,
        bytes: imported.bytes,
        changed,
        warnings,
    }
}

/// What a skill ships under the names of the links that every skill's folder has.
fn hidden_by_links(name: &SkillName, tree: &Tree) -> Option<Warning> {
    let root = ConfinedDir::open(tree.path()).ok()?;
    let hidden: Vec<&str> =
        SKILL_LINKS.map(|(link, _)| link).into_iter().filter(|link| root.metadata(*link).is_ok()).collect();
    (!hidden.is_empty()).then(|| {
        let text = format!(
            "skill {name} ships {}, which scripts do not see: these names lead to the workspace's own folders; rename them in the skill",
            hidden.join(", ")
        );
        Warning::new("shipped_name_hidden", text)
    })
}

/// The folder of a loaded skill.
pub(crate) fn skill_path(name: &SkillName) -> WorkspacePath {
    // A skill's name is one path component by its own rules.
    WorkspacePath::new(&format!("skills/{name}")).unwrap_or_else(|_| WorkspacePath::root())
}

impl SessionInner {
    /// Puts a stored tree at `skills/<name>`: by overlay where the executor can, else by copy.
    async fn place(
        &self,
        state: &mut SessionState,
        sandbox: &Sandbox,
        dirs: &Arc<SessionDirs>,
        name: &SkillName,
        tree: &Tree,
        warnings: &mut Vec<Warning>,
    ) -> Result<MaterializeMethod, EngineError> {
        let owner = sandbox.owner().map(|uid| Owner { uid, gid: uid });
        let copied = state.loaded.get(name).is_some_and(|old| old.usage.method != MaterializeMethod::Overlay);
        if copied {
            // The folder is full of the old copy.
            return copy(dirs.clone(), name.clone(), tree.clone(), owner).await;
        }
        match self.mount(sandbox, dirs, name, tree, owner).await {
            Ok(()) => Ok(MaterializeMethod::Overlay),
            Err(EngineError::Executor(
                error @ (ExecutorError::Setup { .. } | ExecutorError::Unsupported { .. }),
            )) => {
                warnings.push(Warning::new(
                    "overlay_unavailable",
                    format!("the skill was copied instead: {error}"),
                ));
                copy(dirs.clone(), name.clone(), tree.clone(), owner).await
            }
            Err(error) => Err(error),
        }
    }

    async fn mount(
        &self,
        sandbox: &Sandbox,
        dirs: &SessionDirs,
        name: &SkillName,
        tree: &Tree,
        owner: Option<Owner>,
    ) -> Result<(), EngineError> {
        dirs.mount_point(name.as_str(), owner)?;
        let layers = dirs.layers(name.as_str(), tree.digest().hex(), owner)?;
        let mount = SkillMount { name: name.clone(), tree: tree.path().to_owned(), layers };
        Ok(sandbox.mount_skill(mount).await?)
    }

    /// Mounts the overlays of all loaded skills again, in a sandbox that replaces another.
    pub(crate) async fn remount(
        &self,
        state: &mut SessionState,
        sandbox: &Sandbox,
        dirs: &Arc<SessionDirs>,
    ) -> Result<(), EngineError> {
        let owner = sandbox.owner().map(|uid| Owner { uid, gid: uid });
        for (name, skill) in &state.loaded {
            if skill.usage.method == MaterializeMethod::Overlay {
                self.mount(sandbox, dirs, name, &skill.tree, owner).await?;
            }
        }
        Ok(())
    }
}

async fn copy(
    dirs: Arc<SessionDirs>,
    name: SkillName,
    tree: Tree,
    owner: Option<Owner>,
) -> Result<MaterializeMethod, EngineError> {
    tokio::task::spawn_blocking(move || {
        let skills = ConfinedDir::open(&dirs.workspace())?.open_dir("skills")?;
        remove_tree(skills.as_fd(), name.as_str().as_bytes())?;
        let staging = dirs.staging()?;
        let report = copy_tree(&tree, &staging, &skills, name.as_str(), owner)?;
        make_links(&skills.open_dir(name.as_str())?, owner)?;
        Ok(report.method)
    })
    .await?
}
