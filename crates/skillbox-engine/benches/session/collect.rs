//! Collecting many files.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use skillbox_types::OutputSpec;

use crate::lab::{Lab, bare, shell, timed};
use crate::samples::Samples;

const FILES: usize = 10_000;

/// Makes them, a hundred to a folder, below the working directory.
const MAKE: &str = "i=0; while [ $i -lt 100 ]; do mkdir -p out/many/d$i; cd out/many/d$i; \
                    for j in 0 1 2 3 4 5 6 7 8 9; do for k in 0 1 2 3 4 5 6 7 8 9; do \
                    echo \"file $i $j $k with a few words of content, as small files have\" > f$j$k.txt; \
                    done; done; cd ../../..; i=$((i+1)); done";

/// Collecting 10,000 small files, with types and digests, against `find -type f` and one read of each.
pub(crate) async fn collect_10000(lab: &Lab) {
    let session = lab.session().await;
    timed(&session, shell(MAKE)).await;
    bare("/bin/sh", &["-c", MAKE], Some(&lab.plain));
    let spec = OutputSpec {
        globs: vec!["out/many/**".to_owned()],
        max_files: 2 * FILES as u64,
        ..OutputSpec::default()
    };
    let mut samples = Samples::default();
    for _ in 0..15 {
        samples.base.push(tokio::task::block_in_place(|| find_and_read(&lab.plain.join("out/many"))));
        let began = Instant::now();
        let collected = session.collect(&spec).await.unwrap();
        samples.ours.push(began.elapsed());
        assert_eq!(collected.files.len(), FILES);
        assert!(collected.files.iter().all(|file| file.sha256.is_some()));
    }
    samples.report("collect_10000", Some(3.0), Some(3.0));
    session.close().await.unwrap();
}

fn find_and_read(dir: &Path) -> Duration {
    let began = Instant::now();
    let mut find =
        Command::new("/usr/bin/find").arg(dir).args(["-type", "f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut count = 0;
    for path in BufReader::new(find.stdout.take().unwrap()).lines() {
        assert!(!std::fs::read(path.unwrap()).unwrap().is_empty());
        count += 1;
    }
    assert!(find.wait().unwrap().success());
    assert_eq!(count, FILES);
    began.elapsed()
}
