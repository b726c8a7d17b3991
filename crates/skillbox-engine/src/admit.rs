//! From what was asked to what will be done.

use std::collections::BTreeMap;
use std::time::Duration;

use skillbox_executor::ExecPlan;
use skillbox_fs::glob::PatternSet;
use skillbox_types::{CommandLine, ExecRequest, Limits, LimitsPatch, SkillName, Stdin, WorkspacePath};

use crate::EngineError;
use crate::load::skill_path;
use crate::workspace::{HOME, WORKSPACE};

/// What a session says about every command.
pub(crate) struct Defaults<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) grace: Duration,
    pub(crate) path_dirs: &'a [String],
}

/// The variables that a working directory may begin with, and where they lead.
const FOLDERS: [(&str, &str); 4] =
    [("WORKSPACE_DIR", ""), ("SKILLS_DIR", "skills"), ("WORK_DIR", "work"), ("OUTPUT_DIR", "out")];

/// Validates a request and fills in what it leaves open.
pub(crate) fn admit(request: &ExecRequest, defaults: &Defaults<'_>) -> Result<ExecPlan, EngineError> {
    PatternSet::parse(&request.outputs.globs)?;
    let argv = match &request.command {
        CommandLine::Argv(argv) if argv.first().is_none_or(String::is_empty) => {
            return Err(EngineError::InvalidRequest("the command is empty; name a program".to_owned()));
        }
        CommandLine::Argv(argv) => argv.clone(),
        CommandLine::Shell(script) => vec!["/bin/sh".to_owned(), "-c".to_owned(), script.clone()],
    };
    if argv.iter().any(|arg| arg.contains('\0')) {
        return Err(EngineError::InvalidRequest("an argument of the command contains a NUL byte".to_owned()));
    }
    let env = environment(request, defaults)?;
    let mut limits = session_wide(&request.limits).map(|()| request.limits.apply(defaults.limits))?;
    limits.wall_time = request.timeout.resolve(limits.wall_time);
    Ok(ExecPlan {
        argv,
        env,
        cwd: cwd(request)?,
        stdin: match &request.stdin {
            Stdin::Null => None,
            Stdin::Text(text) => Some(text.clone().into_bytes()),
            Stdin::Base64(bytes) => Some(bytes.clone()),
        },
        timeout: limits.wall_time,
        grace: defaults.grace,
        limits,
    })
}

/// Limits of the whole sandbox cannot differ for one command in it.
fn session_wide(patch: &LimitsPatch) -> Result<(), EngineError> {
    let given = [
        ("memory", patch.memory_bytes),
        ("pids", patch.pids),
        ("tmp", patch.tmp_bytes),
        ("shm", patch.shm_bytes),
    ];
    match given.iter().find(|(_, value)| value.is_some()) {
        Some((name, _)) => Err(EngineError::InvalidRequest(format!(
            "the limit {name:?} belongs to the session as a whole; give it when the session is opened"
        ))),
        None => Ok(()),
    }
}

fn environment(request: &ExecRequest, defaults: &Defaults<'_>) -> Result<Vec<(String, String)>, EngineError> {
    let mut path = defaults.path_dirs.to_vec();
    path.extend(
        ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"].map(str::to_owned),
    );
    let inside = |path: &str| format!("{WORKSPACE}/{path}").trim_end_matches('/').to_owned();
    let mut env: BTreeMap<String, String> = [
        ("PATH", path.join(":").as_str()),
        ("HOME", HOME),
        ("USER", "skillbox"),
        ("LOGNAME", "skillbox"),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("TMPDIR", "/tmp"),
        ("TMP", "/tmp"),
        ("TEMP", "/tmp"),
        ("XDG_CACHE_HOME", &format!("{HOME}/.cache")),
        ("XDG_CONFIG_HOME", &format!("{HOME}/.config")),
        ("XDG_DATA_HOME", &format!("{HOME}/.local/share")),
        // Byte code beside a skill's scripts would look like files that the command made.
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for (name, folder) in FOLDERS {
        env.insert(name.to_owned(), inside(folder));
    }
    if let Some(skill) = &request.skill {
        let dir = inside(skill_path(skill).as_str());
        env.insert("SKILL_NAME".to_owned(), skill.to_string());
        env.insert("SKILL_DIR".to_owned(), dir.clone());
        env.insert("CLAUDE_SKILL_DIR".to_owned(), dir);
    }
    for (name, value) in &request.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(EngineError::InvalidRequest(format!(
                "{name:?} cannot be set in the environment: names are not empty and hold no '=', and nothing holds a NUL byte"
            )));
        }
        env.insert(name.clone(), value.clone());
    }
    Ok(env.into_iter().collect())
}

/// The working directory: relative to the skill's folder where there is a skill, else to the workspace.
fn cwd(request: &ExecRequest) -> Result<WorkspacePath, EngineError> {
    let base = request.skill.as_ref().map_or_else(WorkspacePath::root, skill_path);
    let given = request.cwd.as_deref().unwrap_or_default();
    if given.is_empty() {
        return Ok(base);
    }
    let refuse = |reason: String| EngineError::Cwd { cwd: given.to_owned(), reason };
    let in_workspace = |path: &str| WorkspacePath::new(path).map_err(|e| refuse(e.to_string()));
    if let Some(path) = expand(given, request.skill.as_ref()) {
        return in_workspace(&path);
    }
    if given.starts_with('$') {
        let names = FOLDERS.map(|(name, _)| format!("${name}")).join(", ");
        return Err(refuse(format!("it may begin with {names} or, for a skill, $SKILL_DIR")));
    }
    if let Some(rest) = given.strip_prefix(WORKSPACE)
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return in_workspace(rest.trim_start_matches('/'));
    }
    if given.starts_with('/') {
        return Err(refuse(format!(
            "it is a path of the host or of the system; the sandbox's own folders are below {WORKSPACE}"
        )));
    }
    base.join(given).map_err(|e| refuse(e.to_string()))
}

/// Replaces a leading `$NAME` or `${NAME}`; `None` where there is no known one.
fn expand(text: &str, skill: Option<&SkillName>) -> Option<String> {
    let rest = text.strip_prefix('$')?;
    let (name, rest) = match rest.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => {
            rest.split_at(rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len()))
        }
    };
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let folder = match (name, skill) {
        ("SKILL_DIR" | "CLAUDE_SKILL_DIR", Some(skill)) => skill_path(skill).as_str().to_owned(),
        _ => FOLDERS.iter().find(|(known, _)| *known == name)?.1.to_owned(),
    };
    Some(format!("{folder}{rest}").trim_start_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn plan(request: &ExecRequest) -> Result<ExecPlan, EngineError> {
        let limits = Limits::default();
        admit(request, &Defaults { limits: &limits, grace: Duration::ZERO, path_dirs: &[] })
    }

    fn with_cwd(cwd: &str, skill: Option<&str>) -> Result<String, String> {
        let mut request = ExecRequest::new(CommandLine::Shell(":".to_owned()));
        request.cwd = Some(cwd.to_owned());
        request.skill = skill.map(|name| SkillName::new(name).unwrap());
        plan(&request).map(|plan| plan.cwd.as_str().to_owned()).map_err(|e| e.to_string())
    }

    #[test]
    fn f048_known_variables_in_the_working_directory() {
        assert_eq!(with_cwd("$WORK_DIR", None).unwrap(), "work");
        assert_eq!(with_cwd("${OUTPUT_DIR}/a", None).unwrap(), "out/a");
        assert_eq!(with_cwd("", None).unwrap(), "");
        assert_eq!(with_cwd(".", None).unwrap(), "");
        assert_eq!(with_cwd("/workspace/out", None).unwrap(), "out");
        assert_eq!(with_cwd("", Some("N")).unwrap(), "skills/N");
        assert_eq!(with_cwd("scripts", Some("N")).unwrap(), "skills/N/scripts");
        assert_eq!(with_cwd("$SKILL_DIR/scripts", Some("N")).unwrap(), "skills/N/scripts");
        assert!(with_cwd("/home/u/x", None).unwrap_err().contains("below /workspace"));
        assert!(with_cwd("$OUTPUT_DIRX", None).is_err());
        assert!(with_cwd("$HOME", None).unwrap_err().contains("$WORK_DIR"));
    }

    #[test]
    fn f049_a_working_directory_cannot_leave_the_workspace() {
        for cwd in ["../../..", "$WORK_DIR/../../x", "/workspace/../etc", "/workspacex", "..\\..\\.."] {
            assert!(with_cwd(cwd, None).is_err(), "{cwd}");
        }
        assert!(with_cwd("../../..", Some("N")).is_err());
        assert_eq!(with_cwd("../..", Some("N")).unwrap(), "");
    }

    #[test]
    fn f076_a_default_time_limit_always_applies() {
        let mut request = ExecRequest::new(CommandLine::Shell(":".to_owned()));
        assert_eq!(plan(&request).unwrap().timeout, Limits::default().wall_time);
        request.timeout = skillbox_types::TimeLimit::Unlimited;
        assert_eq!(plan(&request).unwrap().timeout, None);
        request.timeout = skillbox_types::TimeLimit::Ms(5);
        assert_eq!(plan(&request).unwrap().limits.wall_time, Some(Duration::from_millis(5)));
    }

    #[test]
    fn limits_of_the_session_are_refused_for_one_command() {
        let mut request = ExecRequest::new(CommandLine::Shell(":".to_owned()));
        request.limits.memory_bytes = Some(1);
        assert!(plan(&request).unwrap_err().to_string().contains("when the session is opened"));
    }

    #[test]
    fn the_environment_is_ours_and_the_caller_s() {
        let mut request = ExecRequest::new(CommandLine::Shell(":".to_owned()));
        request.env.insert("GREETING".to_owned(), "hi".to_owned());
        let env: BTreeMap<_, _> = plan(&request).unwrap().env.into_iter().collect();
        assert_eq!(env["GREETING"], "hi");
        assert_eq!(env["OUTPUT_DIR"], "/workspace/out");
        assert_eq!(env["WORKSPACE_DIR"], "/workspace");
        request.env.insert("A=B".to_owned(), String::new());
        assert!(plan(&request).is_err());
    }
}
