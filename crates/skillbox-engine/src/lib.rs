//! Sessions, workspaces and skills: the façade [`Engine`].
//!
//! A reader follows a request through these modules in their order; none calls back into an earlier one:
//!
//! ```text
//! ExecRequest ─▶ admit     validate, fill in defaults            ─▶ ExecPlan
//!             ─▶ session   find the sandbox, or open one
//!             ─▶ load      skills into the workspace
//!             ─▶ run       inputs, then the command                ─▶ ExecOutcome
//!             ─▶ collect   files by glob, with their types        ─▶ ExecResult
//! ```
//!
//! The engine reads nothing from its environment and prints nothing; executors are handed to it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use skillbox_engine::{Engine, SessionOptions};
//! use skillbox_types::{CommandLine, ExecRequest};
//! # use skillbox_sandbox::{LocalConfig, LocalExecutor};
//! # let local = LocalConfig::new("/var/lib/skillbox", Engine::store_dir("/var/lib/skillbox".as_ref()));
//! # let executor = std::sync::Arc::new(LocalExecutor::new(local)?);
//!
//! let engine = Engine::builder("/var/lib/skillbox", executor).skills(["./skills"]).build().await?;
//! let session = engine.open_session(SessionOptions::default()).await?;
//! let skill = session.load("hello").await?;
//! let mut request = ExecRequest::new(CommandLine::Argv(vec!["scripts/hello.py".into()]));
//! request.skill = Some(skill.name);
//! request.outputs.globs = vec!["out/**".into()];
//! let result = session.run(request).await?;
//! println!("{:?}, {} files", result.end, result.output_files.len());
//! session.close().await?;
//! # Ok(())
//! # }
//! ```

mod admit;
mod builder;
mod changes;
mod collect;
mod engine;
mod error;
mod files;
mod load;
mod record;
mod run;
mod session;
mod warm;
mod workspace;

pub use builder::EngineBuilder;
pub use collect::Collected;
pub use engine::Engine;
pub use error::{EngineError, ErrorKind};
pub use load::{Loaded, OnConflict};
pub use run::Execution;
pub use session::{Session, SessionOptions};
pub use skillbox_executor::{ExecEvent, Stream};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
