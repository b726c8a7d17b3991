//! Waiting for what happens, with a deadline instead of a guess.

use std::time::{Duration, Instant};

/// How long something that must happen may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// From one look to the next.
const STEP: Duration = Duration::from_millis(2);

/// Looks until `holds` answers true.
///
/// # Panics
///
/// After [`PATIENCE`], saying `what` did not happen.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}: did not happen within {PATIENCE:?}");
        tokio::time::sleep(STEP).await;
    }
}

/// As [`until`], outside a runtime.
///
/// # Panics
///
/// After [`PATIENCE`], saying `what` did not happen.
pub fn until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: did not happen within {PATIENCE:?}");
        std::thread::sleep(STEP);
    }
}
