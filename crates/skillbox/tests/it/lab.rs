//! A place of its own for each test: a home, a state folder, skills, and the program.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A folder with all that one test needs; removed with it.
#[derive(Debug)]
pub(crate) struct Lab {
    dir: tempfile::TempDir,
}

/// What the program answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["home", "tmp", "skills"] {
            fs::create_dir(lab.path(folder)).unwrap();
        }
        lab
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.path("state/sessions")
    }

    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Makes a skill with one script.
    pub(crate) fn skill(&self, name: &str, script: &str, content: &str, mode: u32) {
        let manifest = format!("---\nname: {name}\ndescription: A skill of a test.\n---\nBody.\n");
        self.write(&format!("skills/{name}/SKILL.md"), manifest, 0o644);
        self.write(&format!("skills/{name}/{script}"), content, mode);
    }

    /// The program in an environment of its own, in the lab's folder, which makes `./skills` the lab's.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program());
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("SKILLBOX_STATE_DIR", self.path("state"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn skillbox<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Answer {
        answer(&self.command(args).output().unwrap())
    }

    /// Runs a script in the example skill `hello`.
    pub(crate) fn shell(&self, script: &str) -> Answer {
        self.skillbox(["run", "--skills", &examples(), "--shell", "hello", "--", script])
    }

    /// Nothing of a session is left, and nothing runs.
    pub(crate) fn assert_nothing_left(&self) {
        let left: Vec<_> = match fs::read_dir(self.sessions()) {
            Ok(entries) => entries.map(|entry| entry.unwrap().file_name()).collect(),
            Err(_) => Vec::new(),
        };
        assert!(left.is_empty(), "sessions were left: {left:?}");
        assert!(fs::read_dir(self.path("tmp")).unwrap().next().is_none(), "temporary files were left");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Overlays leave folders of mode 0 in sessions that are kept, which an ordinary user cannot remove as they are.
        let _ =
            Command::new("chmod").args(["-R", "u+rwx"]).arg(self.dir.path()).stderr(Stdio::null()).status();
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// The exit code, and everything that stderr has to say.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, says: &[&str]) -> Self {
        let this = self.expect(code);
        assert!(this.stderr.contains("error: "), "{this:#?}");
        for text in says {
            assert!(this.stderr.contains(text), "{text:?} is not said: {this:#?}");
        }
        this
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

pub(crate) fn answer(output: &Output) -> Answer {
    use std::os::unix::process::ExitStatusExt as _;
    Answer {
        code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The program under test. Run-time variables go first: the tests may run elsewhere than they were built.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_skillbox")
        .map_or_else(|| env!("CARGO_BIN_EXE_skillbox").into(), PathBuf::from)
}

pub(crate) fn manifest_dir() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// The example skills of the project.
pub(crate) fn examples() -> String {
    manifest_dir().join("../../skills").canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Processes whose command line holds `text`, other than this one.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let own = std::process::id();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        })
        .collect()
}
