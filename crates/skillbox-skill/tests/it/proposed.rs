//! What the reference validator does with odd inputs is no model; these are the better outcomes, one test a row.

use serde_json::json;
use skillbox_skill::{Code, Severity};

use crate::support::{Skills, codes, fault, good, load, read, strict_codes, with};

#[test]
fn three_hyphens_in_a_description_do_not_close_it() {
    let (manifest, diagnostics) = load("---\nname: s\ndescription: before --- after\n---\nx");
    assert_eq!(manifest.description, "before --- after");
    assert_eq!(codes(&diagnostics), []);
}

#[test]
fn a_fence_is_a_whole_line() {
    assert_eq!(fault("---\nname: s\ndescription: d\n---foo\n"), Code::UnterminatedFrontMatter);
    assert_eq!(fault("---foo\nname: s\n---\n"), Code::NoFrontMatter);
}

#[test]
fn blanks_after_the_closing_fence_are_tolerated() {
    let (manifest, _) = load("---\nname: s\ndescription: d\n--- \t\nx");
    assert_eq!(manifest.description, "d");
}

#[test]
fn byte_order_mark_and_blank_line_warn() {
    let (_, diagnostics) = load(format!("\u{feff}\n{}", good("s")));
    assert_eq!(codes(&diagnostics), [Code::ByteOrderMark, Code::LeadingBlankLines]);
    assert_eq!(strict_codes(&diagnostics).len(), 2);
}

#[test]
fn crlf_is_accepted() {
    assert_eq!(codes(&load(good("s").replace('\n', "\r\n")).1), []);
}

#[test]
fn invalid_utf8_is_a_diagnostic_with_its_place() {
    let (manifest, diagnostics) = read(b"---\nname: s\ndescription: caf\xe9\n---\nx");
    assert_eq!(manifest, None);
    assert_eq!(diagnostics[0].code, Code::NotUtf8);
    assert_eq!((diagnostics[0].line, diagnostics[0].column), (Some(3), Some(17)));
    assert_eq!(fault(b"\xff\xfe-\0-\0-\0\n\0"), Code::NotUtf8);
}

#[test]
fn flow_collections_anchors_and_tags_load_with_a_lint() {
    for field in
        ["metadata: {a: b}", "x: [1, 2]", "x: &a y", "metadata: {\"a\": \"b\"}", "license: !!str 1.0"]
    {
        let (_, diagnostics) = load(with(field));
        assert!(codes(&diagnostics).contains(&Code::YamlNotPortable), "{field}");
    }
    assert_eq!(load(with("license: !!str 1.0")).0.license.as_deref(), Some("1.0"));
}

#[test]
fn aliases_are_refused() {
    assert_eq!(fault(with("a: &x y\nb: *x")), Code::YamlAlias);
}

#[test]
fn an_alias_bomb_is_refused_at_once() {
    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (previous, next) in "abcdefghi".chars().zip("bcdefghij".chars()) {
        let aliases = vec![format!("*{previous}"); 9].join(",");
        bomb = format!("{bomb}{next}: &{next} [{aliases}]\n");
    }
    let start = std::time::Instant::now();
    assert_eq!(fault(with(&bomb)), Code::YamlAlias);
    assert!(start.elapsed() < std::time::Duration::from_secs(1));
}

#[test]
fn deep_and_wide_yaml_is_refused() {
    assert_eq!(fault(with(&format!("x: {}{}", "[".repeat(40), "]".repeat(40)))), Code::YamlLimit);
    assert_eq!(fault(with(&format!("x: [{}]", "1,".repeat(5000)))), Code::YamlLimit);
}

#[test]
fn a_duplicate_key_warns_and_the_last_wins() {
    let (manifest, diagnostics) = load("---\nname: s\ndescription: one\ndescription: two\n---\nx");
    assert_eq!(manifest.description, "two");
    assert_eq!(strict_codes(&diagnostics), [Code::DuplicateKey]);
    assert_eq!(diagnostics[0].line, Some(4));
}

#[test]
fn an_empty_compatibility_is_a_strict_error() {
    let (_, diagnostics) = load(with("compatibility: ''"));
    assert_eq!(strict_codes(&diagnostics), [Code::CompatibilityEmpty]);
}

#[test]
fn allowed_tools_as_a_list_becomes_a_string() {
    let (manifest, diagnostics) = load(with("allowed-tools:\n  - Read\n  - Bash(git:*)"));
    assert_eq!(manifest.allowed_tools.as_deref(), Some("Read Bash(git:*)"));
    assert_eq!(codes(&diagnostics), [Code::AllowedToolsList]);
    assert_eq!(strict_codes(&diagnostics), []);
}

#[test]
fn metadata_as_a_scalar_is_a_strict_error() {
    let (manifest, diagnostics) = load(with("metadata: foo"));
    assert_eq!(strict_codes(&diagnostics), [Code::WrongType]);
    assert!(manifest.metadata().is_empty());
}

#[test]
fn nested_metadata_keeps_its_json() {
    let (manifest, diagnostics) = load(with(
        "metadata:\n  openclaw:\n    requires:\n      bins:\n        - jq\n    always: true\n  v: 1.10",
    ));
    assert_eq!(
        json!(manifest.metadata()),
        json!({"openclaw": {"requires": {"bins": ["jq"]}, "always": true}, "v": "1.10"})
    );
    assert_eq!(codes(&diagnostics), [Code::MetadataNested]);
}

#[test]
fn odd_names_load_with_a_lint() {
    for name in ["123", "a²", "a٣", "straße"] {
        let skills = Skills::new();
        skills.good(name, name);
        let repository = skills.scan();
        let skill = repository.lookup(name).unwrap();
        assert!(skill.is_strict(), "{name}: {:?}", skill.diagnostics);
        assert_eq!(codes(&skill.diagnostics), [Code::NameNotPortable], "{name}");
    }
}

#[test]
fn marks_and_symbols_in_names_break_the_rule_but_load() {
    for name in ["हिन्दी", "a🚀"] {
        let (_, diagnostics) = load(good(name));
        assert!(strict_codes(&diagnostics).contains(&Code::NameInvalidCharacter), "{name}");
    }
}

#[test]
fn limits_are_counted_in_characters() {
    let of = |length: usize| {
        strict_codes(&load(format!("---\nname: s\ndescription: {}\n---\n", "é".repeat(length))).1)
    };
    assert_eq!(of(1024), []);
    assert_eq!(of(1025), [Code::DescriptionTooLong]);
    for (length, wanted) in [(64, vec![]), (65, vec![Code::NameTooLong])] {
        let name = "é".repeat(length);
        let skills = Skills::new();
        skills.good(&name, &name);
        assert_eq!(strict_codes(&skills.scan().lookup(&name).unwrap().diagnostics), wanted);
    }
}

#[test]
fn known_extensions_are_named_and_kept() {
    let (manifest, diagnostics) = load(with("disable-model-invocation: true\ncontext: fork"));
    assert_eq!(strict_codes(&diagnostics), [Code::UnknownField]);
    assert_eq!(diagnostics.iter().filter(|d| d.code == Code::KnownExtension).count(), 2);
    assert!(diagnostics.iter().all(|d| d.severity == Severity::Lint));
    assert_eq!(json!(manifest.extra()), json!({"disable-model-invocation": true, "context": "fork"}));
}

#[test]
fn markup_in_a_description_is_a_lint() {
    let (_, diagnostics) = load("---\nname: s\ndescription: Reads <b> tags\n---\n");
    assert_eq!(codes(&diagnostics), [Code::DescriptionMarkup]);
    assert_eq!(strict_codes(&diagnostics), []);
}

#[test]
fn an_optional_field_left_empty_counts_as_absent() {
    let (manifest, diagnostics) = load(with("license:\nallowed-tools:\nmetadata:"));
    assert_eq!((manifest.license, manifest.allowed_tools), (None, None));
    assert_eq!(codes(&diagnostics), []);
}
