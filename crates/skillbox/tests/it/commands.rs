//! The commands beside `run`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::lab::{Lab, examples};

#[test]
fn list_shows_what_loads_what_does_not_and_what_is_hidden() {
    let lab = Lab::new();
    lab.skill("good", "run.sh", "#!/bin/sh\n", 0o755);
    lab.write("skills/bad/SKILL.md", "---\nname: bad\n---\n", 0o644);
    lab.write("other/good/SKILL.md", "---\nname: good\ndescription: Hidden.\n---\n", 0o644);
    let args = ["list", "--skills", "skills", "--skills", "other", "--skills", "/nowhere"];
    let answer = lab.skillbox(args).expect(0);
    let row = answer.stdout.lines().find(|line| line.trim_start().starts_with("good")).unwrap();
    assert!(row.contains("A skill of a test.") && row.contains("skills/good"), "{answer:#?}");
    assert!(
        answer.stdout.contains("not loadable:\nbad") && answer.stdout.contains("description"),
        "{answer:#?}"
    );
    assert!(answer.stderr.contains("other/good") && answer.stderr.contains("/nowhere"), "{answer:#?}");

    let json = lab.skillbox(args.into_iter().chain(["--json"])).expect(0).json();
    let counts = |root: usize| {
        ["exists", "seen", "loaded", "rejected", "shadowed"].map(|key| json["roots"][root][key].clone())
    };
    assert_eq!(counts(0), [true.into(), 2.into(), 1.into(), 1.into(), 0.into()] as [serde_json::Value; 5]);
    assert_eq!(counts(1), [true.into(), 1.into(), 1.into(), 0.into(), 1.into()] as [serde_json::Value; 5]);
    assert_eq!(counts(2)[0], false);
    assert_eq!(json["skills"][0]["name"], "good");
    assert_eq!(json["rejected"][0]["name"], "bad");
    assert_eq!(json["rejected"][0]["diagnostics"][0]["code"], "missing_description");
    assert!(json["shadowed"][0]["dir"].as_str().unwrap().ends_with("other/good"));
}

#[test]
fn a_skill_md_that_leads_out_of_its_skill_is_shown_by_no_command() {
    let lab = Lab::new();
    let secret = lab.write("private", "---\nname: evil\ndescription: Secret.\n---\nSecret.\n", 0o600);
    fs::create_dir(lab.path("skills/evil")).unwrap();
    std::os::unix::fs::symlink(secret, lab.path("skills/evil/SKILL.md")).unwrap();
    let commands: [(&[&str], i32); 8] = [
        (&["list"], 0),
        (&["list", "--json"], 0),
        (&["show", "evil"], 1),
        (&["show", "skills/evil"], 1),
        (&["validate", "skills/evil"], 1),
        (&["read-properties", "skills/evil"], 1),
        (&["to-prompt", "skills/evil"], 1),
        (&["run", "evil", "--", "cat", "SKILL.md"], 125),
    ];
    for (args, code) in commands {
        let answer = lab.skillbox(args).expect(code);
        assert!(!format!("{answer:?}").contains("Secret"), "{answer:#?}");
        let said = answer.stdout + &answer.stderr;
        assert!(said.contains("leads out of the skill's folder"), "{args:?}: {said}");
    }
}

#[test]
fn list_without_skills_says_where_it_looked() {
    let lab = Lab::new();
    let answer = lab.skillbox(["list"]).expect(0);
    assert!(answer.stderr.contains("no skills found") && answer.stderr.contains("searched"), "{answer:#?}");
    assert_eq!(answer.stdout, "");
}

#[test]
fn show_gives_manifest_files_and_digest() {
    let lab = Lab::new();
    let args = ["show", "--skills", &examples(), "hello"];
    let answer = lab.skillbox(args).expect(0);
    for text in ["hello", "MIT OR Apache-2.0", "sha256:", "scripts/hello.sh", "executable"] {
        assert!(answer.stdout.contains(text), "{text}: {answer:#?}");
    }
    let json = lab.skillbox(args.into_iter().chain(["--json"])).expect(0).json();
    assert_eq!(json["manifest"]["name"], "hello");
    assert_eq!(json["strict"], true);
    let run =
        lab.skillbox(["run", "--json", "--skills", &examples(), "hello", "--", "true"]).expect(0).json();
    assert_eq!(json["digest"], run["skill"]["digest"], "what is shown is what runs");
    lab.skillbox(["show", "--skills", &examples(), "helo"]).refused(1, &["did you mean 'hello'?"]);
    lab.assert_nothing_left();
}

#[test]
fn validate_answers_as_the_reference_does() {
    let lab = Lab::new();
    lab.skill("good", "run.sh", "", 0o644);
    let answer = lab.skillbox(["validate", "--strict", "skills/good"]).expect(0);
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("Valid skill: skills/good\n", ""));
    lab.write("skills/Bad_Name/SKILL.md", "---\nname: Bad_Name\ndescription: x\ncolour: red\n---\n", 0o644);
    let strict = lab.skillbox(["validate", "--strict", "skills/good", "skills/Bad_Name/SKILL.md"]).expect(1);
    let mut lines = strict.stderr.lines();
    assert_eq!(lines.next(), Some("Validation failed for skills/Bad_Name:"));
    let faults: Vec<&str> = lines.filter(|line| line.starts_with("  - ")).collect();
    assert!(faults.contains(&"  - Skill name 'Bad_Name' must be lowercase"), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.contains("colour")), "{faults:?}");
    assert_eq!(strict.stdout, "Valid skill: skills/good\n");

    let lenient = lab.skillbox(["validate", "skills/Bad_Name"]).expect(0);
    assert!(lenient.stderr.contains("warning: "), "{lenient:#?}");
    lab.write("skills/broken/SKILL.md", "no front matter", 0o644);
    let broken = lab.skillbox(["validate", "skills/broken"]).expect(1);
    assert!(broken.stderr.contains("  - SKILL.md must start with YAML frontmatter"), "{broken:#?}");
    lab.skillbox(["validate", "nowhere"]).expect(1);

    let json =
        lab.skillbox(["validate", "--json", "--strict", "skills/good", "skills/Bad_Name"]).expect(1).json();
    assert_eq!(
        (&json[0]["valid"], &json[1]["valid"], &json[1]["loadable"]),
        (&true.into(), &false.into(), &true.into())
    );
}

#[test]
fn read_properties_prints_the_reference_s_json() {
    let lab = Lab::new();
    let manifest =
        "---\nname: props\ndescription: Ünïcode\nallowed-tools: Bash(x:*)\nmetadata:\n  version: 1.0\n---\n";
    lab.write("skills/props/SKILL.md", manifest, 0o644);
    let expected = r#"{
  "name": "props",
  "description": "\u00dcn\u00efcode",
  "allowed-tools": "Bash(x:*)",
  "metadata": {
    "version": "1.0"
  }
}
"#;
    for path in ["skills/props", "skills/props/SKILL.md"] {
        assert_eq!(lab.skillbox(["read-properties", path]).expect(0).stdout, expected);
    }
    fs::create_dir(lab.path("skills/empty")).unwrap();
    let refused = lab.skillbox(["read-properties", "skills/empty"]).expect(1);
    assert_eq!(
        (refused.stdout.as_str(), refused.stderr.as_str()),
        ("", "Error: SKILL.md not found in skills/empty\n")
    );
}

#[test]
fn to_prompt_prints_the_reference_s_block() {
    let lab = Lab::new();
    lab.write("skills/one/SKILL.md", "---\nname: one\ndescription: a < b & c\n---\n", 0o644);
    let dir = lab.path("skills/one").canonicalize().unwrap();
    let expected = format!(
        "<available_skills>\n<skill>\n<name>\none\n</name>\n<description>\na &lt; b &amp; c\n</description>\n\
         <location>\n{}/SKILL.md\n</location>\n</skill>\n</available_skills>\n",
        dir.display()
    );
    assert_eq!(lab.skillbox(["to-prompt", "skills/one"]).expect(0).stdout, expected);
    assert_eq!(lab.skillbox(["to-prompt"]).expect(0).stdout, "<available_skills>\n</available_skills>\n");
    lab.skillbox(["to-prompt", "skills/two"]).expect(1);
}

#[test]
fn new_makes_a_skill_that_is_valid_and_runs_needs_python() {
    let lab = Lab::new();
    let made =
        lab.skillbox(["new", "fresh", "--dir", "skills", "--description", "Does: \"things\""]).expect(0);
    assert_eq!(made.stdout.lines().next(), Some("skills/fresh/SKILL.md"));
    lab.skillbox(["validate", "--strict", "skills/fresh"]).expect(0);
    let mode = fs::metadata(lab.path("skills/fresh/scripts/main.py")).unwrap().permissions().mode();
    assert_ne!(mode & 0o100, 0);
    let ran = lab.skillbox(["run", "fresh", "--", "scripts/main.py", "--title", "T"]).expect(0);
    assert!(ran.stderr.contains("out/report.md"), "{ran:#?}");

    fs::write(lab.path("skills/fresh/SKILL.md"), "mine").unwrap();
    lab.skillbox(["new", "fresh", "--dir", "skills"])
        .refused(1, &["skills/fresh", "exists already", "hint: "]);
    assert_eq!(fs::read(lab.path("skills/fresh/SKILL.md")).unwrap(), b"mine");
    for name in ["Fresh", "a--b", "../x", ""] {
        lab.skillbox(["new", name, "--dir", "skills"]).refused(1, &[name]);
    }
    assert_eq!(fs::read_dir(lab.path("skills")).unwrap().count(), 1, "nothing half-made");
}

#[test]
fn completions_are_for_every_shell() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(lab.skillbox(["completions", shell]).expect(0).stdout.contains("read-properties"), "{shell}");
    }
    lab.skillbox(["completions", "nosuchshell"]).expect(2);
}

#[test]
fn doctor_says_what_is_enforced_and_really_runs_something() {
    let lab = Lab::new();
    let answer = lab.skillbox(["doctor"]).expect(0);
    for text in
        ["state directory: ", "isolation: ", "user_namespace", "trial run: ", "skills can be run here"]
    {
        assert!(answer.stdout.contains(text), "{text}: {answer:#?}");
    }
    let json = lab.skillbox(["doctor", "--json"]).expect(0).json();
    assert_eq!(json["ok"], true);
    assert!(json["isolation"]["mechanisms"].as_array().unwrap().iter().any(|m| m["name"] == "seccomp"));
    assert!(json["trial"]["timing_ms"]["execute"].is_u64());
    lab.assert_nothing_left();
}

#[test]
fn doctor_says_why_not_and_what_to_do() {
    let lab = Lab::new();
    lab.write("file", "", 0o644);
    let answer = lab.skillbox(["doctor", "--state-dir", "file/state"]);
    answer.refused(1, &["file/state"]);
    let json = lab.skillbox(["doctor", "--json", "--state-dir", "file/state"]).expect(1).json();
    assert_eq!(json["ok"], false);
    assert!(json["error"].as_str().unwrap().contains("file/state"));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let lab = Lab::new();
    for args in [vec!["completions", "bash"], vec!["schema"], vec!["list", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = lab.command(&args).stdout(Stdio::from(writer)).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()), "{args:?}");
    }
}
