//! The dialect: `docs/globs.md` is the test; properties hold for what is not globset's.

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
    let many = format!("{}b", "*a".repeat(500));
    assert!(!Pattern::parse(&many).unwrap().is_match(&[b'a'; 1000]));
    let deep = format!("{}b", "**/a/".repeat(300));
    assert!(!Pattern::parse(&deep).unwrap().is_match(&b"a/".repeat(500)[..999]));
    let kind = |text: &str| Pattern::parse(text).unwrap_err().kind().as_str();
    assert_eq!(kind(&format!("{}a{}", "{".repeat(17), "}".repeat(17))), "too_nested");
    assert_eq!(kind(&"*".repeat(1025)), "too_complex");
    assert_eq!(kind(&"a".repeat(10_000)), "too_long");
    assert_eq!(kind("a\0"), "nul");
}

#[test]
fn sets_are_bounded() {
    let kind = |texts: Vec<String>| PatternSet::parse(texts).map_err(|error| error.kind().as_str());
    let numbered = |count: usize, text: &str| (0..count).map(|i| format!("{i}{text}")).collect::<Vec<_>>();
    assert!(kind(numbered(256, ".csv")).is_ok());
    assert_eq!(kind(numbered(257, ".csv")).unwrap_err(), "too_many_patterns");
    assert_eq!(kind(numbered(17, &"a".repeat(4000))).unwrap_err(), "too_many_patterns");
    assert_eq!(kind(numbered(5, &"*".repeat(250))).unwrap_err(), "too_complex");
    let error = PatternSet::parse(numbered(257, ".csv")).unwrap_err();
    assert_eq!(error.pattern(), "256.csv");
}

#[test]
fn the_largest_patterns_compile() {
    for text in [
        "[!a]".repeat(1024),
        "{*,a}".repeat(512),
        "**/a/".repeat(512),
        format!("{}{}", "{*,a".repeat(16), "}".repeat(16)).repeat(32),
    ] {
        assert!(PatternSet::parse([&text]).is_ok(), "{text}");
    }
}

#[test]
fn folders_are_entered_only_where_something_can_match() {
    let enters = |text: &str, dir: &str| Pattern::parse(text).unwrap().could_match_below(dir.as_bytes());
    assert!(enters("out/*.csv", "out") && !enters("out/*.csv", "out/sub") && !enters("out/*.csv", "output"));
    assert!(enters("*/*.csv", "work") && !enters("*/*.csv", "work/sub"));
    assert!(enters("out/**", "out/a/b/c") && !enters("out/**", "work"));
    assert!(enters("{out,work}/*.csv", "work") && enters("out/{a,b/c}.csv", "out/b"));
    assert!(enters("out/a\\[1\\]/*.csv", "out/a[1]") && !enters("out/a\\[1\\]/*.csv", "out/a1"));
    assert!(enters("out", "out/a/b") && !enters("out", "work"));
}

#[test]
fn an_empty_part_of_braces_is_not_the_root() {
    let pattern = Pattern::parse("{,a}").unwrap();
    assert!(pattern.is_match(b"a") && !pattern.is_match(b"b"));
}

proptest! {
    #[test]
    fn a_folder_with_a_match_is_entered(
        components in prop::collection::vec("\\*\\*|\\*|[ab]{1,2}|[ab]\\*|\\?|\\[!?ab\\]|\\{[ab*/]{0,3},[ab*/]{0,3}\\}|\\\\[ab]|x?\\{\\*\\*/a,b\\}", 1..4),
        end in "/?",
        paths in prop::collection::vec("[ab]{1,2}(/[ab]{1,2}){0,3}", 1..16),
    ) {
        let text = components.join("/") + &end;
        let pattern = Pattern::parse(&text).unwrap();
        let set = PatternSet::new(vec![pattern.clone()]).unwrap();
        for path in paths.iter().map(String::as_bytes) {
            prop_assert_eq!(pattern.is_match(path), set.is_match(path));
            for (at, _) in path.iter().enumerate().filter(|(_, b)| pattern.is_match(path) && **b == b'/') {
                prop_assert!(pattern.could_match_below(&path[..at]), "{} prunes {:?}", text, path);
            }
        }
    }

    #[test]
    fn a_literal_name_matches_itself_and_what_is_below(
        text in "[ab*?{},\\[\\]!^\\\\ é-]{1,8}(/[ab*?{},\\[\\]!^\\\\ é-]{1,8}){0,2}",
    ) {
        if let Ok(pattern) = Pattern::parse(&text) {
            prop_assert_eq!(pattern.literal(), text.as_bytes());
            prop_assert!(pattern.is_match(text.as_bytes()));
            let below = format!("{text}/x/y");
            prop_assert!(pattern.is_match(below.as_bytes()));
            prop_assert!(pattern.could_match_below(text.as_bytes()));
        }
    }

    #[test]
    fn a_set_answers_what_its_patterns_do(
        texts in prop::collection::vec("[ab*?]{1,3}(/[ab*?]{1,3}){0,2}/?", 0..5),
        path in "[ab]{1,3}(/[ab]{1,3}){0,2}",
    ) {
        let set = PatternSet::parse(&texts).unwrap();
        let mut matching = Vec::new();
        set.matching(path.as_bytes(), &mut matching);
        let each = set.patterns().iter().enumerate().filter(|(_, pattern)| pattern.is_match(path.as_bytes()));
        prop_assert_eq!(&matching, &each.map(|(index, _)| index).collect::<Vec<_>>());
        prop_assert_eq!(set.is_match(path.as_bytes()), !matching.is_empty());
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
