//! What is printed: results on stdout, talk on stderr, and a program's output as it comes.

mod harmless;
mod live;
mod table;
mod talk;
mod terminal;

pub(crate) use harmless::{clean, clean_prose, printable, warning};
pub(crate) use live::{Live, LiveOptions};
pub(crate) use table::{Columns, human_size, plain_table};
pub(crate) use talk::{Talk, print_json, print_line};
pub(crate) use terminal::TerminalFilter;
