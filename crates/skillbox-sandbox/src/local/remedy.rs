//! From a step that failed to what to do about it on this host.

use std::path::Path;

use crate::launcher::LauncherError;

/// What an operator can do so that namespaces become available.
pub(crate) fn remedy(error: &LauncherError) -> String {
    let denied = matches!(error.errno, libc::EPERM | libc::EACCES);
    if error.errno == libc::ENOSPC || error.errno == libc::EUSERS {
        return "raise the limit: sysctl user.max_user_namespaces=65536 (and user.max_mnt_namespaces, user.max_pid_namespaces)"
            .to_owned();
    }
    if error.errno == libc::ENOSYS {
        return "this kernel or a filter around this process lacks the call; Linux 5.12 or newer is needed, and in a container a \
                seccomp profile that allows it"
            .to_owned();
    }
    if error.step.contains("/proc") && denied {
        return "a whole /proc must be visible to mount a fresh one: in Docker add --security-opt systempaths=unconfined; in Kubernetes \
                set securityContext.procMount: Unmasked with hostUsers: false"
            .to_owned();
    }
    if !denied {
        return "run `skillbox doctor` on this host, and report the step and the error with its output"
            .to_owned();
    }
    let mut advice = Vec::new();
    if reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        advice.push(
            "AppArmor restricts user namespaces here (Ubuntu 23.10 and newer): install a profile for this program with the rule `userns,` \
             or set sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        );
    }
    if reads("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        advice.push(
            "user namespaces are off for ordinary users: set sysctl kernel.unprivileged_userns_clone=1",
        );
    }
    if reads("/proc/sys/user/max_user_namespaces", "0") {
        advice.push("user namespaces are off: set sysctl user.max_user_namespaces=65536");
    }
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        advice.push(
            "this is a container: start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined \
             (Kubernetes: hostUsers: false, procMount: Unmasked, and a seccomp profile that allows user namespaces)",
        );
    }
    if advice.is_empty() {
        advice.push(
            "something around this process forbids new namespaces (a container's seccomp profile, a security module): allow unshare, clone \
             and mount for it, or run the engine outside",
        );
    }
    advice.join("; ")
}

fn reads(path: &str, value: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value)
}
