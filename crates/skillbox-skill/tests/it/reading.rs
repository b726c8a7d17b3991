//! Field reports on reading SKILL.md.

use serde_json::json;
use skillbox_skill::{
    Code, LookupError, MAX_FRONT_MATTER_BYTES, ReadOptions, Repository, Root, ScanOptions, read_properties,
    validate,
};

use crate::support::{Skills, codes, fault, good, load, read, read_with, strict_codes, with};

#[test]
fn f001_an_unquoted_colon_loads_with_a_warning_that_names_the_place() {
    let skills = Skills::new();
    skills.skill("alpha", "---\nname: alpha\ndescription: Build reports: weekly and monthly\n---\n");
    skills.good("beta", "beta");
    let repository = skills.scan();
    assert_eq!(repository.len(), 2);
    let alpha = repository.lookup("alpha").unwrap();
    assert_eq!(alpha.description(), "Build reports: weekly and monthly");
    let [warning] = alpha.diagnostics.as_slice() else { panic!("{:?}", alpha.diagnostics) };
    assert_eq!(warning.code, Code::UnquotedColon);
    assert_eq!((warning.line, warning.column), (Some(3), Some(27)));
    assert_eq!(warning.file, skills.path().join("alpha/SKILL.md"));
    assert!(warning.message.contains("'description'") && warning.message.contains("quotes"));
    assert!(!alpha.is_strict());
}

#[test]
fn f001_a_hopeless_one_is_listed_with_its_reason() {
    let skills = Skills::new();
    skills.skill("bad", "---\nname: bad\ndescription: [a: b\n---\n");
    let repository = skills.scan();
    assert_eq!(repository.rejected()[0].name, "bad");
    assert_eq!(repository.rejected()[0].fault().unwrap().code, Code::YamlSyntax);
}

#[test]
fn f002_counts_and_the_fault_of_a_rejected_skill() {
    let skills = Skills::new();
    for name in ["a", "b", "c"] {
        skills.good(name, name);
    }
    skills.skill("broken-one", "no front matter");
    skills.skill("broken-two", "---\nname: two\n---\n");
    let repository = skills.scan();
    let report = &repository.roots()[0];
    assert_eq!((report.seen, report.loaded, report.rejected), (5, 3, 2));
    let Err(LookupError::Rejected { rejected, .. }) = repository.lookup("broken-one") else { panic!() };
    assert_eq!(rejected.fault().unwrap().code, Code::NoFrontMatter);
    // By its folder and by the name in its front matter.
    for name in ["broken-two", "two"] {
        let error = repository.lookup(name).unwrap_err();
        assert!(error.to_string().contains("Missing required field in frontmatter: description"), "{error}");
    }
}

#[test]
fn f004_recovery_leaves_everything_else_alone() {
    assert_eq!(load("---\nname: s\ndescription: b: c\n---\n").0.description, "b: c");
    // Each is broken by the last line, which recovery could mend if it wrongly touched the other.
    for value in ["[x: y", "\"x: y", "{x: y", "'x: y"] {
        assert_eq!(fault(format!("---\nname: s\ndescription: {value}\n---\n")), Code::YamlSyntax, "{value}");
    }
    for value in ["&n x: y", "!t x: y", "foo: bar # note"] {
        assert_eq!(fault(format!("---\nname: s\ndescription: {value}\n---\n")), Code::YamlSyntax, "{value}");
    }
    assert!(matches!(fault("---\nname: s\ndescription: *n x: y\n---\n"), Code::YamlAlias | Code::YamlSyntax));
    for (value, wanted) in [("[x: y]", json!([{"x": "y"}])), ("\"x: y\"", json!("x: y"))] {
        let (manifest, diagnostics) = load(format!("---\nname: s\ndescription: a: b\nother: {value}\n---\n"));
        assert_eq!(manifest.raw.get("other").unwrap(), wanted, "{value}");
        assert_eq!(diagnostics.iter().filter(|d| d.code == Code::UnquotedColon).count(), 1);
    }
}

#[test]
fn f004_recovery_joins_the_lines_of_a_plain_scalar_and_keeps_apostrophes() {
    let (manifest, _) =
        load("---\nname: s\ndescription: Don't panic: it's\n  only text\n\n  here\nlicense: MIT\n---\n");
    assert_eq!(manifest.description, "Don't panic: it's only text\nhere");
    assert_eq!(manifest.license.as_deref(), Some("MIT"));
}

#[test]
fn f004_a_nested_mapping_below_is_not_swallowed() {
    assert_eq!(fault("---\nname: s\ndescription: a: b\n  c: d\n---\n"), Code::YamlSyntax);
}

#[test]
fn f006_exactly_one_byte_order_mark_is_stripped() {
    let (manifest, diagnostics) = load(format!("\u{feff}{}", good("s")));
    assert_eq!(manifest.name.as_str(), "s");
    assert_eq!(codes(&diagnostics), [Code::ByteOrderMark]);
    assert_eq!(fault(format!("\u{feff}\u{feff}{}", good("s"))), Code::NoFrontMatter);
    let (manifest, _) = load("---\nname: s\ndescription: a\u{feff}b\n---\n");
    assert_eq!(manifest.description, "a\u{feff}b");
}

#[test]
fn f007_each_fault_has_its_own_code() {
    let faults = [
        ("text".as_bytes(), Code::NoFrontMatter),
        (b"---\nname: s\n", Code::UnterminatedFrontMatter),
        (b"---\nname: \xff\n---\n", Code::NotUtf8),
        (b"---\nname: [\n---\n", Code::YamlSyntax),
        (b"---\nname: s\n---\n", Code::MissingDescription),
        (b"---\nname: s\ndescription: [a]\n---\n", Code::WrongType),
        (b"---\nname: s\ndescription: ''\n---\n", Code::DescriptionEmpty),
        (b"---\njust text\n---\n", Code::NotAMapping),
        (b"---\n---\n", Code::NotAMapping),
    ];
    for (text, code) in faults {
        assert_eq!(fault(text), code, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn f007_a_long_text_in_another_script_is_still_utf8() {
    for padding in 0..4 {
        assert_eq!(fault(format!("{}{}", "a".repeat(padding), "数".repeat(2000))), Code::NoFrontMatter);
    }
}

#[test]
fn f007_codes_are_distinct_snake_case() {
    let texts: std::collections::HashSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(texts.len(), Code::ALL.len());
    assert!(
        texts
            .iter()
            .all(|text| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'))
    );
    assert_eq!(json!(Code::YamlSyntax), "yaml_syntax");
}

#[test]
fn f008_every_entry_point_says_the_same() {
    let texts: [&[u8]; 8] = [
        b"text",
        b"---\nname: s\n",
        b"---\nname: \xff\n---\n",
        b"---\nname: [\n---\n",
        b"---\nname: s\n---\n",
        b"---\n- a\n---\n",
        b"\xef\xbb\xbf\n---\r\nname: s\r\ndescription: a: b\r\nx: [1]\r\n---",
        b"---\nname: Other_Name\ndescription: d\nname: s\n---\n",
    ];
    for text in texts {
        let skills = Skills::new();
        let dir = skills.skill("s", text);
        let (manifest, from_text) = read(text);
        let repository = skills.scan();
        let from_scan = match repository.lookup("s") {
            Ok(skill) => {
                assert_eq!(Some(&skill.manifest), manifest.as_ref());
                skill.diagnostics.clone()
            }
            Err(_) => repository.rejected()[0].diagnostics.clone(),
        };
        let strip = |diagnostics: &[skillbox_skill::Diagnostic]| {
            diagnostics.iter().map(|d| (d.code, d.message.clone(), d.line, d.column)).collect::<Vec<_>>()
        };
        assert_eq!(strip(&from_scan), strip(&from_text));
        assert_eq!(strip(&validate(&dir, false).diagnostics), strip(&from_text));
        assert_eq!(read_properties(&dir).is_ok(), manifest.is_some());
    }
}

#[test]
fn f009_every_line_ending_and_every_end_of_file() {
    for ending in ["\n", "\r\n", "\r"] {
        for rest in ["\nbody\n", "\nbody", "\n", ""] {
            let text =
                format!("---\nname: s\ndescription: d\nmetadata:\n  a: b\n---{rest}").replace('\n', ending);
            let (manifest, diagnostics) = load(&text);
            assert_eq!(manifest.description, "d", "{text:?}");
            assert_eq!(json!(manifest.metadata()), json!({"a": "b"}), "{text:?}");
            assert_eq!(codes(&diagnostics), [], "{text:?}");
            let skills = Skills::new();
            skills.skill("s", &text);
            let body = skills.scan().lookup("s").unwrap().read_body().unwrap();
            assert_eq!(body.trim(), rest.trim(), "{text:?}");
        }
    }
}

#[test]
fn f011_leading_blank_lines_warn() {
    let (_, diagnostics) = load(format!("\n\n{}", good("s")));
    assert_eq!(codes(&diagnostics), [Code::LeadingBlankLines]);
}

#[test]
fn f013_block_scalars_keep_quotes_and_make_no_keys() {
    let (manifest, diagnostics) =
        load("---\nname: s\ndescription: |-\n  \"quoted\"\nlicense: >\n  One\n  Note: see below\n---\n");
    assert_eq!(manifest.description, "\"quoted\"");
    assert_eq!(manifest.license.as_deref(), Some("One Note: see below\n"));
    assert!(manifest.extra().is_empty());
    assert_eq!(codes(&diagnostics), []);
}

#[test]
fn f014_no_front_matter_is_rejected_or_derived() {
    let text = "# Title\n\nConverts tables\nto charts.\n\nMore.";
    assert_eq!(fault(text), Code::NoFrontMatter);
    let (manifest, diagnostics) = read_with(text, ReadOptions { derive_missing: true });
    let manifest = manifest.unwrap();
    assert!(manifest.derived);
    assert_eq!((manifest.name.as_str(), &*manifest.description), ("s", "Converts tables to charts."));
    assert_eq!(codes(&diagnostics), [Code::NoFrontMatter, Code::Derived]);

    let skills = Skills::new();
    skills.skill("s", text);
    let mut options = ScanOptions::default();
    options.read.derive_missing = true;
    let repository = Repository::scan(&[Root::new(skills.path())], &options);
    let skill = repository.lookup("s").unwrap();
    assert_eq!(skill.description(), "Converts tables to charts.");
    assert_eq!(skill.read_body().unwrap(), text);
}

#[test]
fn f015_a_long_description_loads_whole_and_is_cut_in_listings() {
    for character in ["x", "数"] {
        for (length, wanted) in [(1024, vec![]), (1025, vec![Code::DescriptionTooLong])] {
            let text = format!("---\nname: s\ndescription: {}\n---\n", character.repeat(length));
            let (manifest, diagnostics) = load(text);
            assert_eq!(strict_codes(&diagnostics), wanted);
            assert_eq!(manifest.description.chars().count(), length);
            assert_eq!(manifest.listing_description().chars().count(), 1024);
            assert_eq!(manifest.listing_description().ends_with('…'), length > 1024);
        }
    }
    // The limit is on the folded text: line breaks and indentation in the source do not count.
    let line = "x".repeat(99);
    let lines = vec![format!("        {line}"); 10].join("\n");
    let (_, diagnostics) = load(format!("---\nname: s\ndescription: >-\n{lines}\n---\n"));
    assert_eq!(codes(&diagnostics), []);
}

#[test]
fn f016_a_label_does_not_count_towards_the_length_of_a_name() {
    let skills = Skills::new();
    let name = "n".repeat(40);
    skills.good(&name, &name);
    let root = Root::new(skills.path()).with_label("l".repeat(40));
    let repository = Repository::scan(&[root], &ScanOptions::default());
    let skill = repository.lookup(&name).unwrap();
    assert!(skill.is_strict());
    assert_eq!(skill.id().len(), 81);
}

#[test]
fn f018_unicode_names_are_compared_in_one_form() {
    let skills = Skills::new();
    skills.good("数据分析", "数据分析");
    skills.good("cafe\u{301}", "caf\u{e9}");
    skills.good("мой-навык", "мой-навык");
    skills.good("Th\u{e9}", "Th\u{e9}");
    let repository = skills.scan();
    for name in ["数据分析", "caf\u{e9}", "cafe\u{301}", "мой-навык"] {
        assert!(repository.lookup(name).unwrap().is_strict(), "{name}");
    }
    let upper = repository.lookup("th\u{e9}").unwrap();
    assert_eq!(strict_codes(&upper.diagnostics), [Code::NameNotLowercase]);
}

#[test]
fn f020_case_and_underscores_warn_and_are_found_either_way() {
    let skills = Skills::new();
    skills.good("my-skill", "My_Skill");
    let repository = skills.scan();
    for name in ["my_skill", "My_Skill", "my-skill", "MY-SKILL"] {
        let skill = repository.lookup(name).unwrap();
        assert_eq!(skill.manifest.display_name(), "My_Skill");
    }
    let skill = repository.lookup("my-skill").unwrap();
    assert_eq!(
        strict_codes(&skill.diagnostics),
        [Code::NameNotLowercase, Code::NameInvalidCharacter, Code::DirectoryMismatch]
    );
}

#[test]
fn f020_two_spellings_are_two_skills() {
    let skills = Skills::new();
    skills.good("a_b", "a_b");
    skills.good("a-b", "a-b");
    let repository = skills.scan();
    assert_eq!(repository.lookup("a_b").unwrap().dir, skills.path().join("a_b"));
    assert_eq!(repository.lookup("a-b").unwrap().dir, skills.path().join("a-b"));
}

#[test]
fn f021_unknown_fields_are_kept_verbatim_and_wrong_types_warn() {
    let (manifest, diagnostics) = load(with(
        "metadata: {a: [1, 2]}\nversion: 1.0\nbuild: 1.10\ntags:\n  - x\n  - 'y'\nplatform: toaster\non: yes\nnothing:",
    ));
    assert_eq!(
        json!(manifest.extra()).to_string(),
        r#"{"version":1.0,"build":"1.10","tags":["x","y"],"platform":"toaster","on":"yes","nothing":null}"#
    );
    assert_eq!(json!(manifest.metadata()), json!({"a": [1, 2]}));
    assert_eq!(strict_codes(&diagnostics), [Code::UnknownField]);
    for field in ["license: [MIT]", "compatibility: {a: b}", "allowed-tools: {a: b}", "metadata: [a]"] {
        let (_, diagnostics) = load(with(field));
        assert_eq!(strict_codes(&diagnostics), [Code::WrongType], "{field}");
    }
}

#[test]
fn f022_a_listing_reads_no_bodies() {
    let skills = Skills::new();
    for number in 0..300 {
        skills.good(&format!("skill-{number}"), &format!("skill-{number}"));
    }
    let dir = skills.good("large", "large");
    // 50 MB of body, without their place on the disk.
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("SKILL.md")).unwrap();
    file.set_len(50_000_000).unwrap();
    let read_before = read_bytes();
    assert_eq!(skills.scan().len(), 301);
    assert!(read_bytes() - read_before < 5_000_000);
}

/// What this thread and those that it started have read until now, in bytes, or zero where that is not told.
fn read_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")).map_or(0, |number| number.parse().unwrap())
}

#[test]
fn f022_without_a_closing_fence_reading_stops_at_the_cap() {
    let text = format!("---\nname: s\n{}", "# filler\n".repeat(MAX_FRONT_MATTER_BYTES / 8));
    assert_eq!(fault(&text), Code::FrontMatterTooLarge);
    let skills = Skills::new();
    skills.skill("s", &text);
    assert_eq!(skills.scan().rejected()[0].fault().unwrap().code, Code::FrontMatterTooLarge);
}

#[test]
fn a_missing_name_is_taken_from_the_folder() {
    let (manifest, diagnostics) = load("---\ndescription: d\n---\n");
    assert_eq!(manifest.name.as_str(), "s");
    assert!(manifest.derived);
    assert_eq!(strict_codes(&diagnostics), [Code::MissingName]);
}

#[test]
fn a_name_that_is_no_folder_name_gives_way_to_the_folder() {
    for name in ["../../etc", "a/b", ".hidden", "'a\tb'"] {
        let (manifest, diagnostics) = load(good(name));
        assert_eq!(manifest.name.as_str(), "s");
        assert!(strict_codes(&diagnostics).contains(&Code::NameInvalidCharacter));
    }
}
