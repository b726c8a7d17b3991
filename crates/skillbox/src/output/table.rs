//! Tables for people.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

/// How wide a table may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// As wide as its content.
    Free,
    /// As wide as the terminal, each row one line.
    Terminal,
}

/// Terminals that say they are narrower, such as those that do not know their width and say 0, get tables of any width.
const NARROWEST: u16 = 40;

/// A table without lines around it; the first row holds the headings.
pub(crate) fn plain_table(
    headings: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    columns: Columns,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty().set_header(headings.iter().copied());
    if columns == Columns::Terminal {
        // `force_no_tty` keeps comfy-table from styling, and from asking for the width.
        if let Some(width) = Table::new().width().filter(|width| *width >= NARROWEST) {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
    }
    for row in rows {
        let mut row = comfy_table::Row::from(row);
        if columns == Columns::Terminal {
            row.max_height(1);
        }
        table.add_row(row);
    }
    if let Some(first) = table.column_mut(0) {
        // Names are for copying: they are never cut.
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// A size for people.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(human_size(0), "0 B");
        assert_eq!(human_size(1023), "1023 B");
        assert_eq!(human_size(1024), "1.0 KiB");
        assert_eq!(human_size(1_572_864), "1.5 MiB");
        assert_eq!(human_size(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn tables_have_no_spaces_at_their_ends() {
        let table = plain_table(&["a", "b"], [vec!["x".to_owned(), "yy".to_owned()]], Columns::Free);
        assert!(table.lines().all(|line| !line.ends_with(' ')), "{table:?}");
    }
}
