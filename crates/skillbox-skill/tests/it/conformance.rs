//! The 40 cases of the reference validator's own suite, numbered as there: parser, prompt, validator.

use std::path::Path;

use serde_json::json;
use skillbox_skill::{Code, Severity, read_properties, to_prompt, validate};

use crate::support::{Skills, codes, good, load, read};

fn message(text: &str) -> String {
    let (manifest, diagnostics) = read(text);
    assert_eq!(manifest, None);
    diagnostics.into_iter().find(|d| d.severity == Severity::Error).unwrap().message
}

/// The strict verdict's messages on `text` in `folder`.
fn strict(folder: &str, text: &str) -> Vec<String> {
    let skills = Skills::new();
    let validation = validate(&skills.skill(folder, text), true);
    let messages: Vec<String> = validation.errors().map(|error| error.message.clone()).collect();
    assert_eq!(validation.valid, messages.is_empty());
    messages
}

fn named(name: &str) -> String {
    good(name)
}

#[test]
fn case_01_good_front_matter_gives_fields_and_body() {
    let skills = Skills::new();
    skills.skill(
        "my-skill",
        "---\nname: my-skill\ndescription: A test skill\n---\n# My Skill\n\nInstructions here.\n",
    );
    let repository = skills.scan();
    let skill = repository.lookup("my-skill").unwrap();
    assert_eq!(skill.description(), "A test skill");
    assert_eq!(skill.read_body().unwrap(), "# My Skill\n\nInstructions here.\n");
}

#[test]
fn case_02_text_without_fence() {
    assert!(message("# No frontmatter here").contains("must start with YAML frontmatter"));
}

#[test]
fn case_03_fence_without_closing() {
    assert!(message("---\nname: my-skill\ndescription: A test skill\n").contains("not properly closed"));
}

#[test]
fn case_04_broken_yaml() {
    assert!(message("---\nname: [invalid\ndescription: broken\n---\nBody\n").contains("Invalid YAML"));
}

#[test]
fn case_05_front_matter_is_a_list() {
    assert!(message("---\n- just\n- a\n- list\n---\nBody\n").contains("must be a YAML mapping"));
}

#[test]
fn case_06_license_is_read() {
    let skills = Skills::new();
    let dir = skills.skill("s", "---\nname: s\ndescription: d\nlicense: MIT\n---\nx");
    assert_eq!(read_properties(&dir).unwrap(), json!({"name": "s", "description": "d", "license": "MIT"}));
}

#[test]
fn case_07_metadata_version_stays_the_string() {
    let skills = Skills::new();
    let dir =
        skills.skill("s", "---\nname: s\ndescription: d\nmetadata:\n  author: me\n  version: 1.0\n---\nx");
    assert_eq!(read_properties(&dir).unwrap()["metadata"], json!({"author": "me", "version": "1.0"}));
}

#[test]
fn case_08_folder_without_skill_md() {
    let skills = Skills::new();
    let error = read_properties(skills.path()).unwrap_err();
    assert_eq!(error.to_string(), format!("SKILL.md not found in {}", skills.path().display()));
}

#[test]
fn case_09_missing_name() {
    let skills = Skills::new();
    let dir = skills.skill("s", "---\ndescription: d\n---\nx");
    assert_eq!(read_properties(&dir).unwrap_err().to_string(), "Missing required field in frontmatter: name");
    assert_eq!(validate(&dir, true).diagnostics[0].code, Code::MissingName);
}

#[test]
fn case_10_missing_description() {
    let skills = Skills::new();
    let dir = skills.skill("s", "---\nname: s\n---\nx");
    let wanted = "Missing required field in frontmatter: description";
    assert_eq!(read_properties(&dir).unwrap_err().to_string(), wanted);
    assert_eq!(validate(&dir, true).diagnostics[0].message, wanted);
}

#[test]
fn case_11_upper_case_wins() {
    let skills = Skills::new();
    let dir = skills.good("s", "upper");
    skills.file("s/skill.md", good("lower"));
    assert_eq!(read_properties(&dir).unwrap()["name"], "upper");
}

#[test]
fn case_12_and_14_lower_case_alone_is_accepted() {
    let skills = Skills::new();
    skills.file("s/skill.md", good("s"));
    let dir = skills.path().join("s");
    assert_eq!(read_properties(&dir).unwrap()["name"], "s");
    let validation = validate(&dir, true);
    assert!(validation.valid);
    assert_eq!(codes(&validation.diagnostics), [Code::LowerCaseFileName]);
}

#[test]
fn case_13_no_file_at_all() {
    let skills = Skills::new();
    assert_eq!(codes(&validate(skills.path(), false).diagnostics), [Code::MissingSkillMd]);
}

#[test]
fn case_15_allowed_tools_is_a_string_under_its_hyphenated_key() {
    let skills = Skills::new();
    let dir =
        skills.skill("s", "---\nname: s\ndescription: d\nallowed-tools: Bash(jq:*) Bash(git:*)\n---\nx");
    assert_eq!(read_properties(&dir).unwrap()["allowed-tools"], "Bash(jq:*) Bash(git:*)");
    assert!(validate(&dir, true).valid);
}

#[test]
fn case_16_empty_prompt() {
    assert_eq!(to_prompt::<&Path>([]).unwrap(), "<available_skills>\n</available_skills>");
}

#[test]
fn case_17_prompt_of_one_skill() {
    let skills = Skills::new();
    let dir = skills.skill("my-skill", "---\nname: my-skill\ndescription: A test skill\n---\nBody\n");
    let location = std::fs::canonicalize(&dir).unwrap().join("SKILL.md");
    let wanted = format!(
        "<available_skills>\n<skill>\n<name>\nmy-skill\n</name>\n<description>\nA test skill\n</description>\n\
         <location>\n{}\n</location>\n</skill>\n</available_skills>",
        location.display()
    );
    assert_eq!(to_prompt([&dir]).unwrap(), wanted);
    assert_eq!(to_prompt([dir.join("SKILL.md")]).unwrap(), wanted);
}

#[test]
fn case_18_prompt_of_two_skills_keeps_their_order() {
    let skills = Skills::new();
    let prompt = to_prompt([skills.good("b", "b"), skills.good("a", "a")]).unwrap();
    assert_eq!(prompt.matches("<skill>").count(), 2);
    assert!(prompt.find("\nb\n").unwrap() < prompt.find("\na\n").unwrap());
}

#[test]
fn case_19_prompt_escapes() {
    let skills = Skills::new();
    let dir = skills.skill("s", "---\nname: s\ndescription: Use <foo> & \"bar's\"\n---\nx");
    let prompt = to_prompt([dir]).unwrap();
    assert!(prompt.contains("\nUse &lt;foo&gt; &amp; &quot;bar&#x27;s&quot;\n"), "{prompt}");
}

#[test]
fn case_20_minimal_valid() {
    assert_eq!(strict("my-skill", &named("my-skill")), [""; 0]);
}

#[test]
fn case_21_path_does_not_exist() {
    let validation = validate(Path::new("/nonexistent/skill"), true);
    assert_eq!(validation.diagnostics[0].message, "Path does not exist: /nonexistent/skill");
    assert_eq!(validation.diagnostics[0].code, Code::PathNotFound);
}

#[test]
fn case_22_path_is_a_file() {
    let skills = Skills::new();
    skills.file("notes.txt", "x");
    let path = skills.path().join("notes.txt");
    let validation = validate(&path, true);
    assert_eq!(validation.diagnostics[0].message, format!("Not a directory: {}", path.display()));
}

#[test]
fn case_23_no_skill_md() {
    let skills = Skills::new();
    assert_eq!(validate(skills.path(), true).diagnostics[0].message, "Missing required file: SKILL.md");
}

#[test]
fn case_24_upper_case_name() {
    let messages = strict("MySkill", &named("MySkill"));
    assert_eq!(messages, ["Skill name 'MySkill' must be lowercase"]);
}

#[test]
fn case_25_long_name() {
    let name = "a".repeat(70);
    assert_eq!(
        strict(&name, &named(&name)),
        [format!("Skill name '{name}' exceeds 64 character limit (70 chars)")]
    );
}

#[test]
fn case_26_leading_hyphen() {
    assert_eq!(strict("-my-skill", &named("-my-skill")), ["Skill name cannot start or end with a hyphen"]);
}

#[test]
fn case_27_double_hyphen() {
    assert_eq!(strict("my--skill", &named("my--skill")), ["Skill name cannot contain consecutive hyphens"]);
}

#[test]
fn case_28_underscore() {
    assert_eq!(
        strict("my_skill", &named("my_skill")),
        ["Skill name 'my_skill' contains invalid characters. Only letters, digits, and hyphens are allowed."]
    );
}

#[test]
fn case_29_directory_mismatch() {
    assert_eq!(
        strict("wrong-name", &named("correct-name")),
        ["Directory name 'wrong-name' must match skill name 'correct-name'"]
    );
}

#[test]
fn case_30_unknown_field() {
    let text = "---\nname: s\ndescription: d\nunknown_field: x\nabc: y\n---\nx";
    assert_eq!(
        strict("s", text),
        ["Unexpected fields in frontmatter: abc, unknown_field. Only ['allowed-tools', 'compatibility', \
          'description', 'license', 'metadata', 'name'] are allowed."]
    );
}

#[test]
fn case_31_license_and_metadata() {
    let text = "---\nname: s\ndescription: d\nlicense: MIT\nmetadata:\n  author: Test\n---\nx";
    assert_eq!(strict("s", text), [""; 0]);
}

#[test]
fn case_32_allowed_tools() {
    assert_eq!(strict("s", "---\nname: s\ndescription: d\nallowed-tools: Bash(jq:*)\n---\nx"), [""; 0]);
}

#[test]
fn case_33_to_35_names_in_other_scripts() {
    for name in ["技能", "мой-навык", "навык"] {
        assert_eq!(strict(name, &named(name)), [""; 0], "{name}");
    }
}

#[test]
fn case_36_upper_case_in_another_script() {
    assert_eq!(strict("НАВЫК", &named("НАВЫК")), ["Skill name 'НАВЫК' must be lowercase"]);
}

#[test]
fn case_37_long_description() {
    let text = format!("---\nname: s\ndescription: {}\n---\nx", "x".repeat(1100));
    assert_eq!(strict("s", &text), ["Description exceeds 1024 character limit (1100 chars)"]);
}

#[test]
fn case_38_compatibility() {
    assert_eq!(
        strict("s", "---\nname: s\ndescription: d\ncompatibility: Requires Python 3.11+\n---\nx"),
        [""; 0]
    );
}

#[test]
fn case_39_long_compatibility() {
    let text = format!("---\nname: s\ndescription: d\ncompatibility: {}\n---\nx", "x".repeat(550));
    assert_eq!(strict("s", &text), ["Compatibility exceeds 500 character limit (550 chars)"]);
}

#[test]
fn case_40_decomposed_name_equals_composed_folder() {
    let skills = Skills::new();
    let dir = skills.good("caf\u{e9}", "cafe\u{301}");
    let validation = validate(&dir, true);
    assert!(validation.valid, "{:?}", validation.diagnostics);
    let (manifest, _) = load(named("cafe\u{301}"));
    assert_eq!(manifest.name.as_str(), "caf\u{e9}");
    assert_eq!(manifest.display_name(), "cafe\u{301}");
}

#[test]
fn a_path_to_the_file_itself_means_its_folder() {
    let skills = Skills::new();
    let dir = skills.good("s", "s");
    assert!(validate(&dir.join("SKILL.md"), true).valid);
    assert_eq!(read_properties(&dir.join("SKILL.md")).unwrap()["name"], "s");
}

#[test]
fn the_strict_verdict_lists_every_fault_of_an_unloadable_skill() {
    assert_eq!(
        strict("s", "---\nname: ''\ndescription: ''\n---\nx"),
        ["Field 'name' must be a non-empty string", "Field 'description' must be a non-empty string"]
    );
    assert_eq!(
        strict("s", "---\nname: C_Bad--x-\ndescription: d\nfoo: bar\n---\nx"),
        [
            "Unexpected fields in frontmatter: foo. Only ['allowed-tools', 'compatibility', 'description', 'license', \
             'metadata', 'name'] are allowed.",
            "Skill name 'C_Bad--x-' must be lowercase",
            "Skill name cannot start or end with a hyphen",
            "Skill name cannot contain consecutive hyphens",
            "Skill name 'C_Bad--x-' contains invalid characters. Only letters, digits, and hyphens are allowed.",
            "Directory name 's' must match skill name 'C_Bad--x-'",
        ]
    );
}

#[test]
fn properties_print_as_the_reference_prints_them() {
    let skills = Skills::new();
    let text =
        "---\nname: s\ndescription: \"  数据 — 😀 \"\nmetadata:\n  b: yes\n  a: |\n    x\n    y\n---\n";
    let properties = read_properties(&skills.skill("s", text)).unwrap();
    assert_eq!(
        skillbox_skill::format_properties(&properties),
        r#"{
  "name": "s",
  "description": "\u6570\u636e \u2014 \ud83d\ude00",
  "metadata": {
    "b": "yes",
    "a": "x\ny\n"
  }
}"#
    );
}
