//! Media types of files, and whether they are text.
//!
//! One function for every surface. A known extension decides, first by a table of our own, since general tables lack
//! what data work makes (`.jsonl`, `.ipynb`, `.npy`) or mean something else (`.ts` as video). Content is looked at only where the
//! extension says nothing, so a CSV that mentions `<svg>` stays a CSV.

/// Extension, media type, whether it is text. Types are those registered with IANA where there is one.
const OVERRIDES: &[(&str, &str, bool)] = &[
    ("bash", "text/x-shellscript", true),
    ("bat", "text/plain", true),
    ("bmp", "image/bmp", false),
    ("c", "text/x-c", true),
    ("cfg", "text/plain", true),
    ("conf", "text/plain", true),
    ("cpp", "text/x-c++", true),
    ("css", "text/css", true),
    ("csv", "text/csv", true),
    ("diff", "text/x-diff", true),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false),
    ("env", "text/plain", true),
    ("geojson", "application/geo+json", true),
    ("go", "text/x-go", true),
    ("h", "text/x-c", true),
    ("htm", "text/html", true),
    ("html", "text/html", true),
    ("ini", "text/plain", true),
    ("ipynb", "application/x-ipynb+json", true),
    ("java", "text/x-java", true),
    ("js", "text/javascript", true),
    ("json", "application/json", true),
    ("jsonl", "application/jsonl", true),
    ("jsx", "text/jsx", true),
    ("log", "text/plain", true),
    ("markdown", "text/markdown", true),
    ("md", "text/markdown", true),
    ("mjs", "text/javascript", true),
    ("ndjson", "application/x-ndjson", true),
    ("npy", "application/x-npy", false),
    ("npz", "application/x-npz", false),
    ("parquet", "application/vnd.apache.parquet", false),
    ("patch", "text/x-diff", true),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", false),
    ("py", "text/x-python", true),
    ("r", "text/x-r", true),
    ("rb", "text/x-ruby", true),
    ("rs", "text/x-rust", true),
    ("rst", "text/x-rst", true),
    ("sh", "text/x-shellscript", true),
    ("sql", "application/sql", true),
    ("sqlite", "application/vnd.sqlite3", false),
    ("svg", "image/svg+xml", true),
    ("tex", "application/x-tex", true),
    ("text", "text/plain", true),
    ("toml", "application/toml", true),
    ("ts", "text/typescript", true),
    ("tsv", "text/tab-separated-values", true),
    ("tsx", "text/tsx", true),
    ("txt", "text/plain", true),
    ("wasm", "application/wasm", false),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false),
    ("xml", "application/xml", true),
    ("yaml", "application/yaml", true),
    ("yml", "application/yaml", true),
];

const UNKNOWN: &str = "application/octet-stream";
const PLAIN: &str = "text/plain";

/// Bytes of a file's beginning that are enough for [`mime_type`] and [`is_text`].
pub const HEAD_BYTES: usize = 8192;

/// The media type of the file at `path` that begins with `head`: the first [`HEAD_BYTES`], or all of a shorter file.
///
/// ```
/// use skillbox_fs::mime::mime_type;
/// assert_eq!(mime_type(b"out/REPORT.MD", b"# Report"), "text/markdown");
/// assert_eq!(mime_type(b"out/t.csv", b"<svg></svg>"), "text/csv");
/// assert_eq!(mime_type(b"out/chart", b"\x89PNG\r\n\x1a\n\0\0"), "image/png");
/// ```
pub fn mime_type(path: &[u8], head: &[u8]) -> &'static str {
    by_extension(path).unwrap_or_else(|| by_content(head))
}

/// Whether the content can be shown as text: UTF-8, UTF-16 with its mark, or, where the extension is that of a text
/// format, anything without NUL bytes.
pub fn is_text(path: &[u8], head: &[u8]) -> bool {
    if has_utf16_mark(head) {
        return true;
    }
    if head.contains(&0) {
        return false;
    }
    if let Some((_, _, text)) = extension(path).and_then(|extension| overridden(&extension)) {
        return *text;
    }
    match by_extension(path) {
        Some(kind) if kind.starts_with("text/") => true,
        Some(kind) if is_binary_family(kind) => false,
        _ => by_content(head) != "application/pdf" && looks_like_text(head),
    }
}

fn is_binary_family(kind: &str) -> bool {
    ["image/", "audio/", "video/", "font/", "application/vnd.openxmlformats"]
        .iter()
        .any(|family| kind.starts_with(family))
        && !kind.ends_with("+xml")
        || matches!(kind, "application/pdf" | "application/zip" | "application/gzip")
}

/// The extension in lower case; a name that only begins with a dot has none.
fn extension(path: &[u8]) -> Option<String> {
    let name = path.rsplit(|b| *b == b'/').next()?;
    let dot = name.iter().rposition(|b| *b == b'.').filter(|at| *at > 0)?;
    std::str::from_utf8(&name[dot + 1..]).ok().filter(|text| !text.is_empty()).map(str::to_ascii_lowercase)
}

fn overridden(extension: &str) -> Option<&'static (&'static str, &'static str, bool)> {
    OVERRIDES.binary_search_by(|(name, ..)| (*name).cmp(extension)).ok().map(|index| &OVERRIDES[index])
}

fn by_extension(path: &[u8]) -> Option<&'static str> {
    let extension = extension(path)?;
    match overridden(&extension) {
        Some((_, kind, _)) => Some(kind),
        None => mime_guess::from_ext(&extension).first_raw(),
    }
}

fn by_content(head: &[u8]) -> &'static str {
    if head.is_empty() || has_utf16_mark(head) {
        return PLAIN;
    }
    let found = infer::get(head).map(|kind| kind.mime_type());
    if looks_like_text(head) {
        // Two letters are magic enough for some formats ("BM" is a bitmap), so text is believed first.
        return match found {
            Some(
                kind @ ("application/pdf"
                | "application/rtf"
                | "application/postscript"
                | "text/html"
                | "text/xml"),
            ) => kind,
            _ => PLAIN,
        };
    }
    found.unwrap_or(UNKNOWN)
}

fn has_utf16_mark(head: &[u8]) -> bool {
    // FF FE 00 00 is UTF-32, which nothing here can show.
    (head.starts_with(&[0xFF, 0xFE]) && !head.starts_with(&[0xFF, 0xFE, 0, 0]))
        || head.starts_with(&[0xFE, 0xFF])
}

/// UTF-8 without control characters other than those of plain and coloured terminal output.
fn looks_like_text(head: &[u8]) -> bool {
    let valid = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The head of a longer file may end within a character.
        Err(error) => error.error_len().is_none() && head.len() >= 64,
    };
    valid
        && !head.iter().any(|b| *b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0B | 0x0C | 0x08 | 0x1B))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_is_sorted_for_the_search() {
        assert!(super::OVERRIDES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
