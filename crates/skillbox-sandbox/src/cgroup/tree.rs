//! Finding a usable place, and the engine's own directory in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    CgroupError, CgroupLimits, CgroupUnavailable, SessionCgroup, Step, files,
    host::{self, Controller, Hierarchy},
    stale::{self, Owner},
    unified,
};

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupConfig {
    /// The engine's membership, by default `/proc/self/cgroup`.
    pub cgroup_file: PathBuf,
    /// What is mounted, by default `/proc/self/mountinfo`.
    pub mountinfo_file: PathBuf,
    /// On hybrid hosts, whether to use the v2 hierarchy beside v1's controllers, for `cgroup.kill`. On by default.
    pub use_unified: bool,
    /// On v2, whether the engine may move itself into a leaf of its own cgroup where it is alone there, and controllers cannot be enabled otherwise.
    /// On by default; undone when the tree is dropped.
    pub may_move_engine: bool,
}

impl Default for CgroupConfig {
    fn default() -> Self {
        Self {
            cgroup_file: "/proc/self/cgroup".into(),
            mountinfo_file: "/proc/self/mountinfo".into(),
            use_unified: true,
            may_move_engine: true,
        }
    }
}

/// What carries a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// A controller with a hierarchy of its own.
    V1,
    /// The unified hierarchy.
    V2,
}

/// Which limits are enforced, and by what; `None` is by nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Controllers {
    /// The total of memory.
    pub memory: Option<Provider>,
    /// Whether swap counts with it; false also where the kernel has no swap accounting.
    pub swap: bool,
    /// The number of processes.
    pub pids: Option<Provider>,
    /// A quota of CPU time.
    pub cpu: Option<Provider>,
    /// Whether a tree is ended by one write to `cgroup.kill`, instead of process by process.
    pub kill: bool,
}

/// The engine's directory in every hierarchy that is used. Removed, with all in it, when it and its sessions are dropped.
#[derive(Debug, Clone)]
pub struct CgroupTree {
    inner: Arc<TreeInner>,
}

#[derive(Debug)]
pub(super) struct TreeInner {
    /// The first one is the one whose lists of processes count.
    pub(super) places: Vec<Place>,
    controllers: Controllers,
    reclaimed: Vec<PathBuf>,
    sessions: AtomicU64,
}

/// The engine's directory in one hierarchy.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) unified: bool,
    pub(super) dir: PathBuf,
    pub(super) controllers: Vec<Controller>,
    /// v2: the engine's former cgroup and the leaf that it was moved to.
    moved: Option<(PathBuf, PathBuf)>,
}

impl CgroupTree {
    /// Finds a writable place by making one, with limits, and removes what dead engines left there.
    ///
    /// Succeeds when the number of processes or the total of memory can be limited; [`CgroupTree::controllers`] says which.
    pub fn probe(config: &CgroupConfig) -> Result<Self, CgroupUnavailable> {
        let read = |path: &Path| {
            fs::read_to_string(path)
                .map_err(|source| CgroupUnavailable::new(Step::FindHierarchies, path, source))
        };
        let mut hierarchies = host::hierarchies(&read(&config.cgroup_file)?, &read(&config.mountinfo_file)?);
        // Everything is ended through the first one: by `cgroup.kill`, else where forks can be forbidden meanwhile.
        hierarchies.sort_by_key(|each| (!each.unified, !each.controllers.contains(&Controller::Pids)));
        let none = |step, path: &Path| {
            CgroupUnavailable::new(step, path, io::Error::from_raw_os_error(libc::ENOENT))
        };
        if hierarchies.is_empty() {
            return Err(none(Step::FindHierarchies, &config.mountinfo_file));
        }
        let owner = Owner::this()
            .map_err(|source| CgroupUnavailable::new(Step::FindHierarchies, "/proc/self".as_ref(), source))?;
        let name = owner.directory();
        let mut tree = TreeInner {
            places: Vec::new(),
            controllers: Controllers::default(),
            reclaimed: Vec::new(),
            sessions: AtomicU64::new(1),
        };
        let mut refused = None;
        for hierarchy in &hierarchies {
            // A place that fails is left out; the rest may still do.
            if let Err(error) = tree.add(hierarchy, (owner, &name), config) {
                refused.get_or_insert(error);
            }
        }
        if !tree.limits_something() {
            let nowhere = || none(Step::FindControllers, &config.cgroup_file);
            return Err(refused.unwrap_or_else(nowhere));
        }
        let tree = Self { inner: Arc::new(tree) };
        let controllers = tree.try_out()?;
        let mut inner = tree.inner;
        if let Some(inner) = Arc::get_mut(&mut inner) {
            inner.controllers = controllers;
        }
        Ok(Self { inner })
    }

    /// Makes a session with limits and a leaf as a real one, and reads back what is enforced.
    fn try_out(&self) -> Result<Controllers, CgroupUnavailable> {
        let failed = |error: CgroupError| match error {
            CgroupError::Io { action, path, source } => {
                let step = if action == "make" { Step::MakeDirectory } else { Step::WriteLimit };
                CgroupUnavailable::new(step, &path, source)
            }
            other => CgroupUnavailable::new(
                Step::WriteLimit,
                "memory".as_ref(),
                io::Error::from_raw_os_error(other.errno().unwrap_or(libc::EIO)),
            ),
        };
        let limits = CgroupLimits { memory_bytes: Some(64 << 20), pids: Some(16), cpu_millis: None };
        let session = self.session(&limits).map_err(failed)?;
        let leaf = session.exec_slot().map_err(failed)?;
        let provider = |controller| {
            let place = self.inner.places.iter().find(|place| place.controllers.contains(&controller))?;
            Some(if place.unified { Provider::V2 } else { Provider::V1 })
        };
        let accounted = |file: &str| session.dirs().iter().any(|dir| dir.join(file).exists());
        Ok(Controllers {
            memory: provider(Controller::Memory),
            swap: accounted("memory.memsw.limit_in_bytes") || accounted("memory.swap.max"),
            pids: provider(Controller::Pids),
            cpu: provider(Controller::Cpu),
            kill: leaf.dirs().any(|dir| dir.join("cgroup.kill").exists()),
        })
    }

    /// Which limits are enforced, and by what.
    pub fn controllers(&self) -> Controllers {
        self.inner.controllers
    }

    /// The directories of dead engines that were removed.
    pub fn reclaimed(&self) -> &[PathBuf] {
        &self.inner.reclaimed
    }

    /// The engine's directory in each hierarchy.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.inner.places.iter().map(|place| place.dir.as_path())
    }

    /// A cgroup for a session, with `limits` in force.
    pub fn session(&self, limits: &CgroupLimits) -> Result<SessionCgroup, CgroupError> {
        let name = format!("s{}", self.inner.sessions.fetch_add(1, Ordering::Relaxed));
        SessionCgroup::create(Arc::clone(&self.inner), name, limits)
    }
}

impl TreeInner {
    fn limits_something(&self) -> bool {
        self.places.iter().any(|place| {
            place.controllers.iter().any(|have| matches!(have, Controller::Memory | Controller::Pids))
        })
    }

    fn add(
        &mut self,
        hierarchy: &Hierarchy,
        (owner, name): (Owner, &str),
        config: &CgroupConfig,
    ) -> Result<(), CgroupUnavailable> {
        let have: Vec<_> = self.places.iter().flat_map(|place| place.controllers.clone()).collect();
        let mut parent = hierarchy.own.clone();
        let mut moved = None;
        let mut controllers = hierarchy.controllers.clone();
        if hierarchy.unified {
            controllers = unified::listed(&hierarchy.own, "cgroup.controllers")
                .iter()
                .filter_map(|name| Controller::from_name(name))
                .filter(|controller| !have.contains(controller))
                .collect();
            if controllers.is_empty() && !config.use_unified {
                return Ok(());
            }
            let wanted: Vec<_> = controllers.iter().map(|controller| controller.name()).collect();
            let leaf = config.may_move_engine.then(|| owner.directory());
            let room = leaf.as_deref().map(|leaf| (leaf, std::process::id()));
            let prepared = unified::prepare(&hierarchy.own, &hierarchy.mount, &wanted, room)
                .map_err(|source| CgroupUnavailable::new(Step::EnableControllers, &hierarchy.own, source))?;
            parent = prepared.dir;
            moved = prepared.moved_to.map(|leaf| (hierarchy.own.clone(), leaf));
        }
        self.reclaimed.extend(stale::reclaim(&parent));
        let dir = parent.join(name);
        files::make_dir(&dir).map_err(|source| CgroupUnavailable::new(Step::MakeDirectory, &dir, source))?;
        let place = Place { unified: hierarchy.unified, dir, controllers, moved };
        let enabled = place.enable_for_children(&place.dir);
        let path = place.dir.clone();
        self.places.push(place);
        enabled.map_err(|error| {
            let source = io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EIO));
            CgroupUnavailable::new(Step::EnableControllers, &path, source)
        })
    }
}

impl Drop for TreeInner {
    fn drop(&mut self) {
        for place in &self.places {
            // Nobody is left to tell; the next engine's start reclaims what stays.
            let _ = stale::remove_tree(&place.dir, Instant::now() + Duration::from_secs(1));
            if let Some((own, leaf)) = &place.moved {
                unified::move_back(own, leaf, std::process::id(), &place.names());
            }
        }
    }
}

impl Place {
    fn names(&self) -> Vec<&'static str> {
        self.controllers.iter().map(|controller| controller.name()).collect()
    }

    /// v2: lets the children of `dir` have the controllers. On v1 they have them anyway.
    pub(super) fn enable_for_children(&self, dir: &Path) -> Result<(), CgroupError> {
        if !self.unified {
            return Ok(());
        }
        unified::enable(dir, &self.names()).map_err(|source| {
            CgroupError::io("enable controllers in", &dir.join("cgroup.subtree_control"), source)
        })
    }
}
