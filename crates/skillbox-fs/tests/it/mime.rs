//! Types by extension first, then by content.

use skillbox_fs::mime::{is_text, mime_type};

#[test]
fn f127_extensions_decide_in_any_case() {
    let expected = [
        ("md", "text/markdown", true),
        ("csv", "text/csv", true),
        ("tsv", "text/tab-separated-values", true),
        ("json", "application/json", true),
        ("jsonl", "application/jsonl", true),
        ("ndjson", "application/x-ndjson", true),
        ("yaml", "application/yaml", true),
        ("yml", "application/yaml", true),
        ("toml", "application/toml", true),
        ("svg", "image/svg+xml", true),
        ("html", "text/html", true),
        ("py", "text/x-python", true),
        ("js", "text/javascript", true),
        ("ts", "text/typescript", true),
        ("tsx", "text/tsx", true),
        ("rs", "text/x-rust", true),
        ("go", "text/x-go", true),
        ("sh", "text/x-shellscript", true),
        ("sql", "application/sql", true),
        ("ipynb", "application/x-ipynb+json", true),
        ("log", "text/plain", true),
        ("txt", "text/plain", true),
        ("parquet", "application/vnd.apache.parquet", false),
        ("npy", "application/x-npy", false),
        ("sqlite", "application/vnd.sqlite3", false),
        ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false),
        ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false),
        ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", false),
        ("wasm", "application/wasm", false),
        ("png", "image/png", false),
        ("pdf", "application/pdf", false),
        ("webp", "image/webp", false),
    ];
    for (extension, kind, text) in expected {
        for name in [format!("out/f.{extension}"), format!("out/F.{}", extension.to_uppercase())] {
            assert_eq!(mime_type(name.as_bytes(), b"hello"), kind, "{name}");
            assert_eq!(is_text(name.as_bytes(), b"hello"), text, "{name}");
        }
    }
}

#[test]
fn f128_content_never_overrides_a_known_extension() {
    for (name, kind) in [
        ("t.csv", "text/csv"),
        ("t.js", "text/javascript"),
        ("t.txt", "text/plain"),
        ("t.md", "text/markdown"),
    ] {
        for content in
            [&b"<svg></svg>"[..], b"<!DOCTYPE html><html>", b"%PDF-1.7", b"BM", b"\x89PNG\r\n\x1a\n"]
        {
            assert_eq!(mime_type(name.as_bytes(), content), kind, "{name}");
        }
    }
}

#[test]
fn f130_without_extension_the_content_decides() {
    let utf16: Vec<u8> =
        [0xFF, 0xFE].into_iter().chain("hé".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(64, 0);
    let mut docx = b"PK\x03\x04\x14\0\0\0\0\0".to_vec();
    docx.resize(30, 0);
    let cases: [(&[u8], &str, bool); 12] = [
        (&elf, "application/x-executable", false),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png", false),
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf", false),
        (b"%PDF-1.7\n", "application/pdf", false),
        (b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip", false),
        ("gr\u{fc}n\n".as_bytes(), "text/plain", true),
        ("\u{feff}mark\n".as_bytes(), "text/plain", true),
        (&utf16, "text/plain", true),
        (b"", "text/plain", true),
        (b"#!/usr/bin/env python3\nprint()\n", "text/plain", true),
        (b"BMW is a car\n", "text/plain", true),
        (b"\x00\x01\x02\x03\xff\xfe\xfd", "application/octet-stream", false),
    ];
    for (content, kind, text) in cases {
        assert_eq!(mime_type(b"out/file", content), kind, "{content:?}");
        assert_eq!(is_text(b"out/file", content), text, "{content:?}");
    }
    assert_eq!(mime_type(b"out/archive", &docx), "application/zip");
    assert_eq!(mime_type(b"out/.bashrc", b"alias l=ls\n"), "text/plain");
    assert_eq!(mime_type(b"out/\xff.csv", b""), "text/csv");
    assert_eq!(mime_type(b"out/a.b/Makefile", b"all:\n"), "text/plain");
}

#[test]
fn text_is_judged_apart_from_the_type() {
    assert!(!is_text(b"a.txt", b"a\0b"));
    assert!(is_text(b"a.csv", b"caf\xe9;1\n"), "Latin-1 in a text format is shown lossily");
    assert!(!is_text(b"a", b"caf\xe9;1\n"));
    assert!(!is_text(b"a.png", b"not really"));
    let mut head = "é".repeat(100).into_bytes();
    head.pop();
    assert!(is_text(b"a", &head), "the head of a longer file may end within a character");
}
