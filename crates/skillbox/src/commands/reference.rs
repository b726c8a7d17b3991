//! `skillbox read-properties` and `skillbox to-prompt`: what the reference tool `skills-ref` prints.

use std::io::IsTerminal as _;

use skillbox_skill::{PropertiesError, format_properties};

use crate::args::{PathArgs, PathsArgs};
use crate::failure::Failure;
use crate::output::{Talk, clean, clean_prose, print_line};

pub(super) fn read_properties(args: &PathArgs, talk: &Talk) -> Result<u8, Failure> {
    match skillbox_skill::read_properties(&args.path) {
        Ok(properties) => print_line(&format_properties(&properties)).map(|()| 0).map_err(Failure::from),
        Err(error) => Ok(refused(&error, talk)),
    }
}

pub(super) fn to_prompt(args: &PathsArgs, talk: &Talk) -> Result<u8, Failure> {
    match skillbox_skill::to_prompt(&args.paths) {
        Ok(prompt) => print_line(&for_reader(prompt)).map(|()| 0).map_err(Failure::from),
        Err(error) => Ok(refused(&error, talk)),
    }
}

/// Exactly the reference's text, but for a terminal, which must not obey a description.
fn for_reader(text: String) -> String {
    if std::io::stdout().is_terminal() { clean_prose(&text) } else { text }
}

/// In the reference tool's words and spelling.
fn refused(error: &PropertiesError, talk: &Talk) -> u8 {
    talk.line(&clean(&format!("Error: {error}")));
    1
}
