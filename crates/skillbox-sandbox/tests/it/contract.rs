//! The contract suite on the local executor: as it finds the host, and without cgroups.

use std::sync::Arc;

use skillbox_sandbox::{LocalConfig, LocalExecutor};
use skillbox_testkit::contract::Setup;

pub(crate) fn setup(change: impl FnOnce(&mut LocalConfig)) -> Setup {
    skillbox_testkit::init();
    let dir = tempfile::tempdir().unwrap();
    let mut config = LocalConfig::new(dir.path().join("state"), dir.path().join("store"));
    std::fs::create_dir(&config.store_dir).unwrap();
    change(&mut config);
    Setup { executor: Arc::new(LocalExecutor::new(config).unwrap()), keep: Box::new(dir) }
}

/// With everything that this host and this user offer.
pub(crate) async fn local() -> Setup {
    setup(|_| ())
}

/// Without cgroups, as where nobody delegated any: commands are tracked by subreapers, memory and processes limited by rlimits.
pub(crate) async fn without_cgroups() -> Setup {
    setup(|config| config.use_cgroups = false)
}

mod with_all {
    skillbox_testkit::executor_contract!(crate::contract::local);
}

mod no_cgroups {
    skillbox_testkit::executor_contract!(crate::contract::without_cgroups);
}

#[test]
fn as_an_ordinary_user() {
    skillbox_testkit::again_as_an_ordinary_user(&["contract::with_all", "local::"], &[]);
}
