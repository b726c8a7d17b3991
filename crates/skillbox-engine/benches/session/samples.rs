//! Times of a baseline and of what is measured, and what is printed of them.

use std::time::Duration;

/// Times of both, taken by turns.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) base: Vec<Duration>,
    pub(crate) ours: Vec<Duration>,
}

impl Samples {
    /// Prints the tenth percentile and the median, each as a ratio of ours to the baseline's.
    pub(crate) fn report(self, name: &str, p10: Option<f64>, median: Option<f64>) {
        self.report_on(name, &[("p10", 10, p10), ("median", 50, median)]);
    }

    /// Prints the median alone, for what takes too long to be done often.
    pub(crate) fn report_median(self, name: &str, bound: Option<f64>) {
        self.report_on(name, &[("median", 50, bound)]);
    }

    fn report_on(mut self, name: &str, quantiles: &[(&str, usize, Option<f64>)]) {
        self.base.sort();
        self.ours.sort();
        for (quantile, percent, bound) in quantiles {
            let (ours, base) = (at(&self.ours, *percent), at(&self.base, *percent));
            let details = format!("{} us / {} us", ours.as_micros(), base.as_micros());
            let ratio = ours.as_secs_f64() / base.as_secs_f64();
            print(&format!("{name}_{quantile}"), ratio, *bound, &details);
        }
    }
}

/// The given percentile of sorted times.
fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted[sorted.len() * percent / 100]
}

/// One line for `scripts/bench`.
pub(crate) fn print(name: &str, value: f64, bound: Option<f64>, details: &str) {
    let bound = bound.map_or("-".to_owned(), |bound| bound.to_string());
    let digits = if value < 0.1 { 4 } else { 2 };
    println!("ratio {name} {value:.digits$} {bound}   ({details})");
}
