//! Scanning 10,000 skills, as ratios to the simplest loop that opens each SKILL.md and reads its front matter.
//!
//! Prints `ratio NAME VALUE BOUND   (OURS / LOOP)`, with `-` for a bound where nothing is promised. The loop and the measured code
//! take turns, so that a busy machine slows both.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]
#![allow(clippy::disallowed_methods, reason = "the baseline is what anybody would write with std::fs")]
#![allow(missing_docs, clippy::cast_precision_loss, reason = "a measuring program")]

use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use skillbox_skill::{Repository, Root, ScanOptions};

const SKILLS: usize = 10_000;
const RUNS: usize = 15;

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if !chosen.is_empty() && !chosen.iter().any(|part| "rescan_10000".contains(part.as_str())) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("skills");
    for number in 0..SKILLS {
        let dir = root.join(format!("skill-{number:05}"));
        fs::create_dir_all(&dir).unwrap();
        let text = format!(
            "---\nname: skill-{number:05}\ndescription: Converts reports of kind {number} to tables and charts. Use it \
             when the user asks for a summary of such a report, or for a chart of its numbers.\nlicense: MIT\n\
             metadata:\n  author: example\n  version: \"1.0\"\n---\n\n# Skill {number}\n\n{}",
            "Run the script and read its output.\n".repeat(60)
        );
        fs::write(dir.join("SKILL.md"), text).unwrap();
    }
    // Past the two seconds within which a file counts as still changing.
    std::thread::sleep(Duration::from_millis(3_200));

    let roots = [Root::new(&root)];
    let default = ScanOptions::default();
    let mut one_thread = ScanOptions::default();
    one_thread.threads = 1;
    let known = Repository::scan(&roots, &default);
    assert_eq!(known.len(), SKILLS);
    let known_alone = Repository::scan(&roots, &one_thread);

    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..RUNS {
        times[0].push(time(|| simplest_loop(&root)));
        times[1].push(time(|| Repository::scan(&roots, &default).len()));
        times[2].push(time(|| known.rescan().len()));
        times[3].push(time(|| Repository::scan(&roots, &one_thread).len()));
        times[4].push(time(|| known_alone.rescan().len()));
    }
    for times in &mut times {
        times.sort();
    }
    let measured = [
        ("scan_10000", "1.5"),
        ("rescan_10000", "0.5"),
        ("scan_10000_one_thread", "-"),
        ("rescan_10000_one_thread", "-"),
    ];
    for ((name, bound), taken) in measured.iter().zip(&times[1..]) {
        for (quantile, index) in [("p10", RUNS / 10), ("median", RUNS / 2)] {
            let (ours, base) = (taken[index], times[0][index]);
            let ratio = ours.as_secs_f64() / base.as_secs_f64();
            println!(
                "ratio {name}_{quantile} {ratio:.2} {bound}   ({} us / {} us)",
                ours.as_micros(),
                base.as_micros()
            );
        }
    }
}

fn simplest_loop(root: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(root).unwrap() {
        let Ok(file) = fs::File::open(entry.unwrap().path().join("SKILL.md")) else { continue };
        let mut lines = BufReader::new(file).lines();
        let mut front_matter = String::new();
        if lines.next().unwrap().unwrap() != "---" {
            continue;
        }
        for line in lines {
            let line = line.unwrap();
            if line == "---" {
                break;
            }
            front_matter.push_str(&line);
            front_matter.push('\n');
        }
        count += usize::from(!black_box(front_matter).is_empty());
    }
    count
}

fn time(run: impl FnOnce() -> usize) -> Duration {
    let start = Instant::now();
    assert_eq!(run(), SKILLS);
    start.elapsed()
}
