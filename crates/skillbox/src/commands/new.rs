//! `skillbox new`.

use crate::args::NewArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host_files::{self, NewFile};
use crate::output::{clean, print_line};

pub(super) fn new(args: &NewArgs, environment: &Environment) -> Result<u8, Failure> {
    let description = match &args.description {
        Some(description) => description.clone(),
        None => format!("Describe here what {} does, and when to use it.", args.name),
    };
    let template = skillbox_skill::new_skill(&args.name, &description)
        .map_err(|error| Failure::new(error.to_string()))?;
    let files: Vec<NewFile<'_>> = template
        .iter()
        .map(|file| NewFile { path: file.path, content: &file.content, executable: file.executable })
        .collect();
    let shown = args.dir.join(&args.name);
    host_files::make_tree(&environment.absolute(&shown), &files)?;
    for file in &files {
        print_line(&clean(&shown.join(file.path).display().to_string()))?;
    }
    Ok(0)
}
