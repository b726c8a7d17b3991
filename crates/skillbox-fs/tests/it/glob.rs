//! The dialect: `docs/globs.md` is the test, and globset the oracle where the two agree by design.

use std::collections::BTreeSet;

use proptest::prelude::*;
use skillbox_fs::glob::{Pattern, PatternSet};

const PAGE: &str = include_str!("../../../../docs/globs.md");

/// The rows of the table under the heading `## name`, without its head.
fn table(name: &str) -> Vec<Vec<String>> {
    let section = PAGE.split(&format!("## {name}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn code(cell: &str) -> &str {
    cell.strip_prefix('`').unwrap().strip_suffix('`').unwrap()
}

fn numbers(cell: &str) -> BTreeSet<usize> {
    let words = cell.split_whitespace().filter(|word| *word != "-");
    words
        .flat_map(|word| match word.split_once('-') {
            Some((low, high)) => low.parse().unwrap()..=high.parse().unwrap(),
            None => word.parse().unwrap()..=word.parse().unwrap(),
        })
        .collect()
}

#[test]
fn f125_the_documented_table_holds() {
    let paths: Vec<String> = table("Paths").iter().map(|row| code(&row[1]).to_owned()).collect();
    let rows = table("Patterns");
    assert!(paths.len() >= 25 && rows.len() >= 25, "{} paths, {} patterns", paths.len(), rows.len());
    for row in rows {
        let text = code(&row[0]);
        let pattern = Pattern::parse(text).unwrap();
        let matched: BTreeSet<usize> =
            (0..paths.len()).filter(|i| pattern.is_match(paths[*i].as_bytes())).map(|i| i + 1).collect();
        assert_eq!(matched, numbers(&row[1]), "pattern {text}");
        for number in matched {
            let path = paths[number - 1].as_bytes();
            for (at, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
                assert!(pattern.could_match_below(&path[..at]), "{text} prunes {}", paths[number - 1]);
            }
        }
    }
}

#[test]
fn the_documented_errors_hold() {
    for row in table("Errors") {
        let text = code(&row[0]);
        let error = Pattern::parse(text).unwrap_err();
        assert_eq!(error.kind().as_str(), row[1].trim_end_matches('|').trim(), "pattern {text}");
        assert_eq!(error.pattern(), text);
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn f123_spaces_and_escapes_are_part_of_one_pattern() {
    let set = PatternSet::parse(["\\{rule\\}*.md", "*deep research*"]).unwrap();
    let mut indices = Vec::new();
    set.matching(b"{rule} a.md", &mut indices);
    assert_eq!(indices, [0]);
    set.matching(b"deep research.md", &mut indices);
    assert_eq!(indices, [1]);
}

#[test]
fn f132_default_exclusions_yield_to_a_pattern_that_names_the_folder() {
    let names = |text: &str, folder: &[u8]| Pattern::parse(text).unwrap().names_folder(folder);
    assert!(!names("**", b"work/inputs"));
    assert!(!names("work/**", b"work/inputs"));
    assert!(names("work/inputs/*.csv", b"work/inputs"));
    assert!(names("$WORK_DIR/inputs/", b"work/inputs"));
    assert!(names("$SKILLS_DIR/**/*.csv", b"skills"));
    assert!(!names("*/hello/*", b"skills"));
}

#[test]
fn variables_of_the_caller_are_taken_literally() {
    let variables = [("SKILL_DIR", "skills/a[1]*")];
    let pattern = Pattern::parse_with("$SKILL_DIR/*.csv", &variables).unwrap();
    assert!(pattern.is_match(b"skills/a[1]*/x.csv"));
    assert!(!pattern.is_match(b"skills/a1z/x.csv"));
}

#[test]
fn bytes_that_are_not_text_match() {
    let pattern = Pattern::parse("out/*.bin").unwrap();
    assert!(pattern.is_match(b"out/\xff\xfe.bin"));
    assert!(Pattern::parse("out/??.bin").unwrap().is_match(b"out/\xff\xfe.bin"));
    assert!(Pattern::parse("out/[!a]?.bin").unwrap().is_match(b"out/\xff\xfe.bin"));
    assert!(!Pattern::parse("out/[a-z]?.bin").unwrap().is_match(b"out/\xff\xfe.bin"));
}

#[test]
fn hostile_patterns_cost_little() {
    let many = format!("{}b", "*a".repeat(1500));
    let path = vec![b'a'; 4000];
    assert!(!Pattern::parse(&many).unwrap().is_match(&path));
    let deep = format!("{}b", "**/a/".repeat(700));
    assert!(!Pattern::parse(&deep).unwrap().is_match(&b"a/".repeat(2000)[..3999]));
    let kind = |text: &str| Pattern::parse(text).unwrap_err().kind().as_str();
    assert_eq!(kind(&"{a,b}".repeat(64)), "too_many_alternatives");
    assert_eq!(kind(&format!("{}a{}", "{".repeat(2000), "}".repeat(2000))), "too_many_alternatives");
    assert_eq!(kind(&"a".repeat(5000)), "too_long");
    assert_eq!(kind("a\0"), "nul");
}

#[test]
fn an_empty_part_of_braces_is_not_the_root() {
    let pattern = Pattern::parse("{,a}").unwrap();
    assert!(pattern.is_match(b"a") && !pattern.is_match(b"b"));
}

proptest! {
    /// globset means the same for what both understand: no class corner cases, no `**` within a component, no folders.
    #[test]
    fn agrees_with_globset(
        parts in prop::collection::vec("(\\*\\*|([ab?]|[ab*?][ab.?]{1,3}|[ab?]{1,2}[*.][ab]?)|\\{[ab],[ab][*ab]?\\}|\\[!?a-b\\][ab*]?)", 1..4),
        paths in prop::collection::vec("[abc][abc.]{0,2}(/[abc][abc.]{0,2}){0,3}", 1..8),
    ) {
        // A file behind the last component: a plain name would also mean the folder.
        let text = format!("{}/*c", parts.join("/"));
        let ours = Pattern::parse(&text).unwrap();
        let oracle = globset::GlobBuilder::new(&text)
            .literal_separator(true).empty_alternates(true).backslash_escape(true).build().unwrap().compile_matcher();
        for path in &paths {
            prop_assert_eq!(ours.is_match(path.as_bytes()), oracle.is_match(path), "{} on {}", text, path);
        }
    }

    #[test]
    fn parsing_and_matching_never_panic(text in "[a*?{},\\[\\]!^\\\\/.$é-]{0,24}", path in prop::collection::vec(any::<u8>(), 0..24)) {
        if let Ok(pattern) = Pattern::parse(&text) {
            let matches = pattern.is_match(&path);
            let folder = path.iter().position(|b| *b == b'/');
            if let (true, Some(at)) = (matches, folder) {
                prop_assert!(pattern.could_match_below(&path[..at]));
            }
        }
    }

    #[test]
    fn an_escaped_name_matches_itself_alone(name in "[a*?{},\\[\\]!^\\\\ é-]{1,12}", other in "[a*?]{1,4}") {
        let escaped: String = name.chars().flat_map(|c| ['\\', c]).collect();
        let pattern = Pattern::parse(&format!("out/{escaped}")).unwrap();
        let path = format!("out/{name}");
        let matches = pattern.is_match(path.as_bytes());
        let matches_other = pattern.is_match(format!("out/{other}").as_bytes());
        prop_assert!(matches);
        prop_assert!(!matches_other || name == other);
    }

    #[test]
    fn the_same_place_written_differently_is_the_same(rest in "[ab*]{1,3}(/[ab*]{1,3}){0,2}", path in "out/[ab]{1,3}(/[ab]{1,3}){0,2}") {
        let plain = Pattern::parse(&format!("out/{rest}")).unwrap().is_match(path.as_bytes());
        for front in ["./out/", "/workspace/out/", "$OUTPUT_DIR/", "${OUTPUT_DIR}/", "out//", "out/./", "$WORKSPACE_DIR/out/"] {
            prop_assert_eq!(Pattern::parse(&format!("{front}{rest}")).unwrap().is_match(path.as_bytes()), plain, "{}", front);
        }
    }
}
