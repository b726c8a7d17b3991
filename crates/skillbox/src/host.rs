//! The engine that this machine and the options give.

use std::path::PathBuf;
use std::sync::Arc;

use skillbox_engine::{Engine, EngineBuilder};
use skillbox_executor::Executor;
use skillbox_sandbox::{LocalConfig, LocalExecutor};
use skillbox_types::IsolationLevel;

use crate::args::{ExecutorName, HostArgs, MinimumLevel};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host_files;

/// Where the engine keeps its files.
pub(crate) fn state_dir(given: Option<&PathBuf>, environment: &Environment) -> Result<PathBuf, Failure> {
    match given {
        Some(dir) => Ok(environment.absolute(dir)),
        None => environment.state_dir().ok_or_else(|| {
            Failure::with_hint(
                "there is no place for skillbox's own files: neither HOME nor XDG_STATE_HOME is set",
                "give --state-dir DIR, or set SKILLBOX_STATE_DIR",
            )
        }),
    }
}

/// An engine in the making.
pub(crate) fn engine(args: &HostArgs, environment: &Environment) -> Result<EngineBuilder, Failure> {
    let state_dir = state_dir(args.state_dir.as_ref(), environment)?;
    let executor: Arc<dyn Executor> = match args.executor {
        ExecutorName::Local => {
            let mut config = LocalConfig::new(&state_dir, Engine::store_dir(&state_dir));
            config.runtime_dirs.clone_from(&args.runtime_dirs);
            config.minimum = match args.minimum {
                MinimumLevel::Namespaces => IsolationLevel::Namespaces,
                MinimumLevel::Full => IsolationLevel::Full,
            };
            Arc::new(LocalExecutor::new(config)?)
        }
    };
    let bins = args.runtime_dirs.iter().map(|dir| dir.join("bin")).filter(|bin| host_files::is_dir(bin));
    let path_dirs = bins.map(|bin| bin.display().to_string());
    Ok(Engine::builder(state_dir, executor).path_dirs(path_dirs))
}
