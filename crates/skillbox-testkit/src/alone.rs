//! Tests that look at their whole process.

/// Set in the process that a test has for itself.
const ALONE: &str = "SKILLBOX_TEST_ALONE";

/// Runs the test that calls this in a process of its own: this test binary again, with that test alone. For what other tests of the
/// process would disturb: counting descriptors, children and cgroups, or killing the launcher.
///
/// # Panics
///
/// When the test fails there, with its output.
pub async fn alone(test: impl AsyncFnOnce()) {
    let thread = std::thread::current();
    // The harness of tests runs each on a thread of its name, except where it runs one at a time.
    let name = thread.name().unwrap_or("main");
    if name == "main" || std::env::var_os(ALONE).is_some() {
        return test().await;
    }
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.starts_with("left out:")).for_each(|line| println!("{line}"));
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{name} was not found: {text}");
}
