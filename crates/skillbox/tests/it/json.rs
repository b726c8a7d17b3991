//! `run --json` and `schema`.

use insta::assert_json_snapshot;

use crate::lab::{Answer, Lab, examples};

fn json_of(lab: &Lab, options: &[&str], script: &str) -> Answer {
    let skills = examples();
    let args = ["run", "--json", "--skills", &skills].into_iter().chain(options.iter().copied());
    lab.skillbox(args.chain(["--shell", "hello", "--", script]))
}

#[test]
fn one_object_says_everything() {
    let lab = Lab::new();
    let script =
        "echo to stdout; echo to stderr >&2; echo '{}' > out/a.json; printf '\\000\\001' > out/b.bin; exit 3";
    let answer = json_of(&lab, &[], script).expect(3);
    assert_eq!(answer.stderr, "");
    let json = answer.json();
    assert!(json["timing_ms"]["total"].as_u64().unwrap() < 60_000);
    assert!(json["isolation"]["mechanisms"].as_array().unwrap().len() > 5);
    assert!(json["skill"]["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_json_snapshot!(json, {
        ".timing_ms.open" => "[ms]",
        ".timing_ms.materialize" => "[ms]",
        ".timing_ms.execute" => "[ms]",
        ".timing_ms.collect" => "[ms]",
        ".timing_ms.total" => "[ms]",
        ".usage.wall_ms" => "[ms]",
        ".usage.cpu_ms" => "[ms]",
        ".usage.peak_memory_bytes" => "[bytes]",
        ".isolation.level" => "[level]",
        ".isolation.mechanisms" => "[mechanisms]",
        ".skill.digest" => "[digest]",
        ".skill.method" => "[method]",
    });
    lab.assert_nothing_left();
}

#[test]
fn every_end_keeps_to_the_schema() {
    let lab = Lab::new();
    let schema = lab.skillbox(["schema"]).expect(0).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let cases: [(&[&str], &str, &str, i32); 5] = [
        (&[], "echo x > out/x", "exited", 0),
        (&[], "kill -KILL $$", "signaled", 137),
        (&["--timeout", "200ms"], "sleep 3600", "timed_out", 124),
        (
            &["--limit", "file_size=4KiB"],
            "exec dd if=/dev/zero of=out/x bs=64K count=1",
            "limit_exceeded",
            153,
        ),
        (&["--limit", "output=64"], "yes | head -c 10000", "exited", 0),
    ];
    for (options, script, reason, code) in cases {
        let json = json_of(&lab, options, script).expect(code).json();
        assert_eq!(json["end"]["reason"], reason, "{json:#}");
        let faults: Vec<String> = validator.iter_errors(&json).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?}: {json:#}");
    }
    let failed = lab
        .skillbox(["run", "--json", "--skills", &examples(), "hello", "--", "no-such-program"])
        .expect(127);
    assert_eq!(failed.json()["end"]["reason"], "spawn_failed");
    assert!(validator.is_valid(&failed.json()), "{failed:?}");
    assert!(
        !validator.is_valid(&serde_json::json!({ "end": { "reason": "unheard of" } })),
        "the schema refuses something"
    );
}

#[test]
fn the_schema_of_a_request_takes_a_request() {
    let lab = Lab::new();
    let schema = lab.skillbox(["schema", "request"]).expect(0).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&serde_json::json!({ "command": { "argv": ["true"] }, "skill": "hello" })));
    assert!(!validator.is_valid(&serde_json::json!({ "command": "true", "unknown": 1 })));
}

#[test]
fn f077_much_output_is_cut_in_the_middle_and_counted() {
    let lab = Lab::new();
    let json = json_of(&lab, &["--limit", "output=1KiB"], "seq 1 100000; echo the end").expect(0).json();
    let text = json["stdout"]["text"].as_str().unwrap();
    assert!(
        text.starts_with("1\n2\n") && text.ends_with("\nthe end\n") && text.contains("bytes left out"),
        "{text}"
    );
    assert_eq!(json["stdout"]["total_bytes"], 588_903);
    assert_eq!(json["stdout"]["truncated"], true);
}

#[test]
fn exact_bytes_come_in_base64_where_asked() {
    let lab = Lab::new();
    let script = r"printf '\377\000' > out/b.bin; printf '\377'";
    let json = json_of(&lab, &["--base64"], script).expect(0).json();
    assert_eq!(json["stdout"]["base64"], "/w==");
    assert_eq!(json["stdout"]["lossy"], true);
    assert_eq!(json["output_files"][0]["content_base64"], "/wA=");
    let plain = json_of(&lab, &[], script).expect(0).json();
    assert!(
        plain["stdout"].get("base64").is_none() && plain["output_files"][0].get("content_base64").is_none()
    );
    lab.skillbox(["run", "--base64", "hello", "--", "true"]).refused(2, &["--json"]);
}

#[test]
fn nothing_in_the_json_acts_on_a_terminal() {
    let lab = Lab::new();
    let answer = json_of(&lab, &[], r"printf '\302\233\033[2J\342\200\256\177'").expect(0);
    assert_eq!(answer.json()["stdout"]["text"], "\u{9b}\u{1b}[2J\u{202e}\u{7f}");
    assert!(answer.stdout.contains(r#""\u009b\u001b[2J\u202e\u007f""#), "{answer:?}");
}

#[test]
fn saved_files_say_where() {
    let lab = Lab::new();
    let json = json_of(&lab, &["--save-to", "kept"], "echo 1 > out/a.txt").expect(0).json();
    let saved_to = json["output_files"][0]["saved_to"].as_str().unwrap();
    assert_eq!(std::fs::read(saved_to).unwrap(), b"1\n");
}

#[test]
fn an_engine_that_cannot_run_it_prints_no_object() {
    let lab = Lab::new();
    let answer = lab.skillbox(["run", "--json", "missing", "--", "true"]).refused(125, &["missing"]);
    assert_eq!(answer.stdout, "");
}
